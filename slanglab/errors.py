"""The errors that SlangLab raises: what happened, where, and what to do.

Every error is written for the person at the keyboard. `message` is one sentence, `hint` says what to do,
`details` holds what is too long to show at once (slangpy's own text), which views fold.
"""

from __future__ import annotations

__all__ = ["ArgumentError", "CallError", "DeviceError", "SlangLabError"]


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

    def _render_traceback_(self) -> list[str]:
        """Tell IPython to show the message alone: the frames below it are SlangLab's, not the user's."""
        first = self.message.splitlines()[0] if self.message else ""
        return [f"{type(self).__name__}: {first if self.shown else self}"]


class DeviceError(SlangLabError):
    """No device, a device that cannot do what was asked, or a tensor of another device."""


class CallError(SlangLabError):
    """A call was refused.

    Attributes
    ----------
    function : str
        The function, as the user wrote it (`poly.f`).
    argument : str or None
        The parameter at fault, where one is.
    expected, given : str or None
        What the parameter takes and what it got, type and shape.
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

    def __str__(self) -> str:
        lines = [self.message]
        if self.expected is not None:
            lines.append(f"  expected: {self.expected}")
        if self.given is not None:
            lines.append(f"  given: {self.given}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class ArgumentError(CallError):
    """One argument of a call cannot be used; `argument`, `expected` and `given` say why."""
