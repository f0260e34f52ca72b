"""The errors that SlangLab raises: what happened, where, and what to do.

Every error is written for the person at the keyboard. `message` is one sentence, `hint` says what to do,
`details` holds what is too long to show at once (slangpy's own text), which views fold.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar

__all__ = [
    "ArgumentError",
    "CallError",
    "DeviceError",
    "DeviceGoneError",
    "Interrupted",
    "NameNotFoundError",
    "SlangLabError",
    "is_library",
    "is_ours",
]


class SlangLabError(Exception):
    """Base of all of SlangLab's own errors.

    Parameters
    ----------
    message : str
        What happened, in one or two sentences.
    hint : str, optional
        What to do about it; code that can be pasted where possible.
    details : str, optional
        The long text behind it (a compiler's or slangpy's), shown folded.
    """

    def __init__(self, message: str, *, hint: str | None = None, details: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        self.shown = False
        """True once a view of this error stands in the cell, so that the traceback does not say it again."""

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    presenter: ClassVar[Callable[[SlangLabError], bool] | None] = None
    """Shows an error in the notebook and returns True, or returns False; set while the extension is loaded."""

    def _render_traceback_(self) -> list[str]:
        """Tell IPython to show the message alone: the frames below it are SlangLab's, not the user's."""
        place = _users_line(self.__traceback__)
        presenter = type(self).presenter
        if not self.shown and presenter is not None and presenter(self):
            self.shown = True
        name = type(self).__name__
        text = f"{name}: {self.message.splitlines()[0]}" if self.shown else f"{name}: {self}"
        return [*place, text]


def _users_line(traceback: TracebackType | None) -> list[str]:
    """Return the user's own line that led to an error, with its number; frames of SlangLab and of libraries do not count."""
    found: list[str] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_library(code.co_filename):
            line = linecache.getline(code.co_filename, traceback.tb_lineno).strip()
            # A magic is not Python of the user's: IPython writes its call, the whole cell in it.
            if line and not line.startswith(
                ("get_ipython().run_cell_magic(", "get_ipython().run_line_magic(")
            ):
                shown = line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
                found = [f"line {traceback.tb_lineno}: {shown}"]
        traceback = traceback.tb_next
    return found


def is_library(filename: str) -> bool:
    """Tell whether code of that file is SlangLab's, a library's or made at run time, and not the user's."""
    made = filename.startswith("<") and not filename.startswith("<ipython-input")
    return made or is_ours(filename) or "site-packages" in filename or "/lib/python" in filename


def is_ours(filename: str) -> bool:
    """Tell whether a file is one of SlangLab's."""
    return filename.startswith(_PACKAGE)


_LONGEST_LINE = 200  # characters
_PACKAGE = __file__.rpartition("errors.py")[0]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during something that can say what it was.

    Front ends, and tools that run notebooks, know an interrupt by its name, so that those derived from this one bear it too.
    """

    def __init_subclass__(cls) -> None:
        cls.__name__ = "KeyboardInterrupt"

    def _render_traceback_(self) -> list[str]:
        """Tell IPython to show the message alone: the frames are SlangLab's, and take half a second to lay out."""
        return [f"KeyboardInterrupt: {self}"]


class NameNotFoundError(SlangLabError, AttributeError, KeyError):
    """A cell has no function or type of that name."""


class DeviceError(SlangLabError):
    """No device, a device that cannot do what was asked, or a tensor of another device."""


class DeviceGoneError(DeviceError, RuntimeError):
    """What was asked for is on a device that is lost, was given up or is closed; nothing can be read from it.

    slangpy raises RuntimeError where it notices.
    """


class CallError(SlangLabError, ValueError, RuntimeError):
    """A call was refused.

    slangpy raises ValueError or RuntimeError, by where it notices; code that catches either goes on working.

    Attributes
    ----------
    function : str
        The function, as the user wrote it (`poly.f`).
    argument : str or None
        The parameter at fault, where one is.
    expected, given : str or None
        What the parameter takes and what it got, type and shape.
    slangpys : str or None
        slangpy's sentence for the same refusal, where it has one: what people search for, and what code that was written
        for slangpy looks for in the text.
    """

    def __init__(
        self,
        message: str,
        *,
        function: str = "",
        argument: str | None = None,
        expected: str | None = None,
        given: str | None = None,
        hint: str | None = None,
        details: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.function = function
        self.argument = argument
        self.expected = expected
        self.given = given
        self.slangpys: str | None = None

    def __str__(self) -> str:
        lines = [self.message]
        if self.expected is not None:
            lines.append(f"  expected: {self.expected}")
        if self.given is not None:
            lines.append(f"  given: {self.given}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.slangpys:
            lines.append(f"  slangpy: {self.slangpys}")
        return "\n".join(lines)


class ArgumentError(CallError, TypeError):
    """One argument of a call cannot be used; `argument`, `expected` and `given` say why."""
