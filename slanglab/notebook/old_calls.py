"""Code written for older versions of slangpy: the error carries the line to write today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slanglab.messages.hints_python import python_hint

__all__ = ["OldCalls"]

_TYPES = (AttributeError, TypeError, ValueError, RuntimeError)


class OldCalls:
    """Adds a note to the exceptions that slangpy's dropped names and signatures raise in a cell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._before: tuple[Any, Any] | None = None

    def install(self) -> None:
        """Look at exceptions before IPython shows them; a handler that was there keeps its turn."""
        types = self._shell.custom_exceptions
        handler = self._shell.CustomTB
        self._before = (types, handler)
        self._shell.set_custom_exc((*types, *_TYPES), self._handler(types, handler))

    def remove(self) -> None:
        """Put back the handler that was there."""
        if self._before is not None:
            self._shell.custom_exceptions, self._shell.CustomTB = self._before
            self._before = None

    @staticmethod
    def _handler(types: Any, before: Any) -> Callable[..., Any]:
        def handle(
            shell: Any, etype: type, value: BaseException, tb: Any, tb_offset: int | None = None
        ) -> Any:
            hint = python_hint(value)
            if hint is not None and hint not in getattr(value, "__notes__", ()):
                value.add_note(f"hint: {hint}")
            if types and isinstance(value, types):
                return before(etype, value, tb, tb_offset=tb_offset)
            shell.showtraceback((etype, value, tb), tb_offset=tb_offset)
            return None

        return handle
