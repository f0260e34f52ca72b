"""The error for a kernel that the compiler does not survive, with what the linter sees in the function."""

from __future__ import annotations

from slanglab.engine.plans import adds_halves
from slanglab.engine.target import Target
from slanglab.guard import KernelRefusedError

__all__ = ["explained"]


def explained(target: Target, error: KernelRefusedError) -> KernelRefusedError:
    """Return the error to raise: one that names the function as the user does, a line at fault and what to write instead.

    Parameters
    ----------
    target : Target
        What was called.
    error : KernelRefusedError
        From the guard, which knows the kernel only.
    """
    halves = [p.name for p in target.by_name.values() if p.differentiable and "half" in p.type]
    shown = f"the backward kernel of {target.name}" if target.backward else f"the kernel of {target.name}"
    if target.backward and halves and not adds_halves(target.device):
        return error.because(
            shown,
            f"the gradients of halves ({', '.join(halves)}): they are added atomically, which this driver does not take",
            "write float for half where a gradient is needed, or change to CUDA: `%slang device cuda`",
        )
    # The linter's own trouble must not hide the error.
    try:
        causes = list(target.causes()) if target.backward else []
    except Exception:
        causes = []
    if not causes:
        return error.because(shown)
    likely = causes[0]
    where = f"line {likely.line}" + (f" of {likely.cell}" if likely.cell else "")
    others = [c for c in causes[1:] if c.code != likely.code]
    more = f" (and in line {', '.join(str(c.line) for c in others[:3])})" if others else ""
    return error.because(shown, f"{where}: {likely.text or likely.title}{more}", likely.hint)
