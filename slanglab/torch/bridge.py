"""Calls with torch tensors: as slangpy tensors they go through the engine's own call, and the results come back as torch tensors.

What a call needs is looked at here: which of its tensors carry a gradient, and whether torch is to be told of it. `slanglab.torch.autograd`
makes it a node of torch's graph; without gradients it is made as it is.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from slanglab.device import check_process
from slanglab.engine.dispatch import Said
from slanglab.engine.target import Target
from slanglab.errors import CallError
from slanglab.torch import autograd, leaves
from slanglab.torch.exchange import choose
from slanglab.torch.single import Single

__all__ = ["call", "warn"]

_transforms = getattr(torch._C, "_are_functorch_transforms_active", None)
_OURS = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))


def call(target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function with torch tensors among its arguments.

    Returns
    -------
    torch.Tensor, dict or None
        What the function returns, on the device of the tensors, in the dtype of the function's result and in the autograd graph; of a
        function that returns a struct a dict of tensors, one for each field. What was given as `_result` where something was.

    Raises
    ------
    CallError
        When the call cannot be made.
    """
    check_process()
    if target.backward:
        raise CallError(
            f"{target.name}.bwds got a torch tensor; with torch tensors the backward call is `result.backward()`",
            function=f"{target.name}.bwds",
            hint=f"call `{target.name}(…)` with tensors that require a gradient, then `.backward()` of what it returns; or pass "
            "slangpy tensors: `slanglab.tensor(t.detach(), grad=True)`",
        )
    if _transforms is not None and _transforms():
        raise CallError(
            f"{target.name} was called within a transform of torch.func (vmap, grad, jvp, …), which a Slang function cannot take part in",
            function=target.name,
            hint="a call is vectorised by itself: pass the whole batch; for gradients use `torch.autograd.grad`",
        )
    found = leaves.collect(target, args, kwargs)
    one = Single(target, found, choose(target.name, target.device, found.leaves))
    said: list[Said] = []
    if one.carries_gradient(said):
        outputs = autograd.through(one, said, warn)
    else:
        with torch.no_grad():
            outputs = one.forward(said)
        one.finish()
    warn(said)
    return one.answer(outputs)


def warn(said: Sequence[Said]) -> None:
    """Give warnings at the line of the user's that called, or that called `backward`."""
    if not said:
        return
    level = 1
    frame = sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
        level += 1
    for category, text in said:
        warnings.warn(text, category, stacklevel=level)
