"""What is done with an exception of a cell before IPython shows it.

Code written for older versions of slangpy gets the line to write today. An interrupt is shown up to the user's line: laying out the frames
below it, for which IPython reads and parses their files, takes half a second, in which there is no prompt. And an interrupt that comes
while Python finalizes something, which drops it, comes again.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from slanglab.errors import is_library, is_ours
from slanglab.messages.hints_python import python_hint

__all__ = ["Raised"]

_TYPES = (AttributeError, TypeError, ValueError, RuntimeError, KeyboardInterrupt)


class Raised:
    """Looks at the exceptions of cells in one shell.

    Parameters
    ----------
    shell : InteractiveShell
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._before: tuple[Any, Any] | None = None
        self._hook: Any = None
        self._own_hook: Any = None

    def install(self) -> None:
        """Look at exceptions before IPython shows them; a handler that was there keeps its turn."""
        types = self._shell.custom_exceptions
        handler = self._shell.CustomTB
        self._before = (types, handler)
        self._shell.set_custom_exc((*types, *_TYPES), self._handler(types, handler))
        self._hook = sys.unraisablehook
        self._own_hook = sys.unraisablehook = _again(self._hook)

    def remove(self) -> None:
        """Put back the handler that was there."""
        if self._before is not None:
            self._shell.custom_exceptions, self._shell.CustomTB = self._before
            self._before = None
        if self._own_hook is not None and sys.unraisablehook is self._own_hook:
            sys.unraisablehook = self._hook
        self._own_hook = None

    @staticmethod
    def _handler(types: Any, before: Any) -> Callable[..., Any]:
        def handle(
            shell: Any, etype: type, value: BaseException, tb: Any, tb_offset: int | None = None
        ) -> Any:
            if isinstance(value, KeyboardInterrupt):
                _cut(tb)
            else:
                hint = python_hint(value)
                if hint is not None and hint not in getattr(value, "__notes__", ()):
                    value.add_note(f"hint: {hint}")
            if types and isinstance(value, types):
                return before(etype, value, tb, tb_offset=tb_offset)
            shell.showtraceback((etype, value, tb), tb_offset=tb_offset)
            return None

        return handle


_MOMENT = 5e-3  # seconds: by then Python has left the finalizer, and what comes from there is dropped no more


def _again(before: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a hook for exceptions that nobody can catch, which has an interrupt among them come again."""

    def hook(unraisable: Any) -> None:
        kind = unraisable.exc_type
        if not (isinstance(kind, type) and issubclass(kind, KeyboardInterrupt)):
            before(unraisable)
            return
        while True:
            # On a busy machine the moment may be over in here, and Python drops what a hook raises. The start is the last call:
            # between it and the end of the hook no interrupt is looked for.
            try:
                timer = threading.Timer(_MOMENT, _thread.interrupt_main)
                timer.daemon = True
                timer.start()
                return
            except KeyboardInterrupt:
                continue

    return hook


def _cut(traceback: TracebackType | None) -> None:
    """End a traceback at the last line of the user's, where SlangLab's frames come after it."""
    users: TracebackType | None = None
    ours = False
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if not is_library(filename):
            users, ours = traceback, False
        ours = ours or is_ours(filename)
        traceback = traceback.tb_next
    if users is not None and ours:
        users.tb_next = None
