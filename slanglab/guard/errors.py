"""What the guard raises, and what it warns of."""

from __future__ import annotations

from typing import Literal

from slanglab.errors import Interrupted, SlangLabError

__all__ = ["CompileInterrupted", "GuardWarning", "KernelRefusedError"]

_HAND = "split the function into smaller ones to find the part, or write its derivative by hand with `[BackwardDerivative(…)]`"


class GuardWarning(UserWarning):
    """Kernels are compiled without the guard from now on."""


class CompileInterrupted(Interrupted):
    """Ctrl-C while a kernel was compiled."""


class KernelRefusedError(SlangLabError):
    """The Slang compiler crashes on a kernel or does not finish it; it was compiled in a process of its own, so nothing is lost.

    Parameters
    ----------
    function : str
        The function, and how it was called: "poly.f backward".
    kind : {"crash", "hang", "killed"}
        What the compiler did.
    why : str
        In words: the signal, or the time.
    cause : str
        Where the linter sees a cause, and what it is.
    rewrite : str
        What to write instead.
    again : bool
        True when the kernel was refused before, and not compiled again.

    Attributes
    ----------
    function, kind, why, again
    """

    def __init__(
        self,
        function: str,
        kind: Literal["crash", "hang", "killed"],
        why: str,
        *,
        cause: str = "",
        rewrite: str = "",
        again: bool = False,
    ) -> None:
        self.function = function
        self.kind = kind
        self.why = why
        self.again = again
        message = {
            "crash": f"the Slang compiler crashes on {function} ({why})",
            "hang": f"the Slang compiler does not finish {function}: {why}",
            "killed": f"the compile of {function} was killed twice, so the system may be short of memory",
        }[kind]
        message += (
            ", as it did before; the same kernel is not compiled again"
            if again
            else "; it ran in a process of its own, so nothing is lost"
        )
        if cause:
            message += f". A likely cause is in {cause}"
        hint = rewrite or _HAND
        if kind == "hang":
            hint += "; a kernel that only takes long compiles with `%slang config guard off`, but cannot be interrupted then"
        super().__init__(message, hint=hint)

    def because(self, function: str, cause: str = "", rewrite: str = "") -> KernelRefusedError:
        """Return the same error with what is known of the function."""
        return KernelRefusedError(
            function, self.kind, self.why, cause=cause, rewrite=rewrite, again=self.again
        )
