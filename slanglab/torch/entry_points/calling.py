"""Calls of functions of `--torch` cells: arguments by position or name, tensors as slangtorch takes them, launches."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from slanglab.errors import ArgumentError, SlangLabError
from slanglab.text.outline import Parameter
from slanglab.torch.entry_points import autograd, staging
from slanglab.torch.entry_points.compiler import TorchProgram
from slanglab.torch.entry_points.signatures import Callable_
from slanglab.torch.entry_points.writes import Use, uses

__all__ = ["Launch", "NoGradientWarning", "call", "kernel_call"]

MOST_THREADS = 1024
"""Threads of a block, on every CUDA device."""
_LARGEST_GRID = (2**31 - 1, 65535, 65535)


class NoGradientWarning(UserWarning):
    """A function that takes no part in autograd was called with a tensor that asks for a gradient."""


def call(shown: str, name: str, program: TorchProgram, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call an entry point or a pair.

    Raises
    ------
    ArgumentError
        For arguments that it does not take, and tensors on several devices.
    SlangLabError
        For what slangtorch or CUDA refuses.
    """
    pair = program.pairs.get(name)
    if pair is not None:
        values = _bound(shown, pair.inputs, args, kwargs)
        return autograd.apply_pair(
            shown,
            pair,
            _guarded(shown, getattr(program.library, pair.forward)),
            _guarded(shown, getattr(program.library, pair.backward)),
            list(values.values()),
        )
    function = program.callables[name]
    values = _bound(shown, function.parameters, args, kwargs)
    _warn(shown, name, program, values)
    device = staging.place(list(values.items()), shown)
    staged = staging.Staged(device, shown)
    given = [staged.take(p.name, values[p.name], p.type) for p in function.parameters]
    run = _guarded(shown, getattr(program.library, name))
    with torch.no_grad(), staging.on(device):
        result = run(*given)
    staged.finish()
    return result


def _warn(shown: str, name: str, program: TorchProgram, values: Mapping[str, Any]) -> None:
    if not torch.is_grad_enabled() or name.endswith("_bwd"):
        return
    asking = [n for n, v in values.items() for t in staging.tensors_of(v) if t.requires_grad]
    if not asking:
        return
    pair = next((p for p in program.pairs.values() if p.forward == name), None)
    how = (
        f"call {shown.removesuffix(name)}{pair.name}, which has one"
        if pair is not None
        else "or pass `.detach()`; a pair X_fwd, X_bwd would be offered as X, with its gradient"
    )
    warnings.warn(f"{shown} gives no gradient to `{asking[0]}`: {how}", NoGradientWarning, stacklevel=4)


def _bound(
    shown: str, parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments by name, in the order of the parameters."""
    names = [p.name for p in parameters]
    if len(args) == len(names) and not kwargs:
        return dict(zip(names, args, strict=True))
    takes = ", ".join(f"{p.type} {p.name}" for p in parameters) or "nothing"
    if len(args) > len(names):
        raise ArgumentError(
            f"{shown} takes {len(names)} arguments, and got {len(args)}", hint=f"it takes {takes}"
        )
    found = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise ArgumentError(f"{shown} has no parameter `{name}`", hint=f"it takes {takes}")
        if name in found:
            raise ArgumentError(
                f"{shown} got `{name}` twice, by position and by name", hint=f"it takes {takes}"
            )
        found[name] = value
    if lacking := [n for n in names if n not in found]:
        raise ArgumentError(f"{shown} lacks {', '.join(f'`{n}`' for n in lacking)}", hint=f"it takes {takes}")
    return {n: found[n] for n in names}


# ----- kernels -----


def kernel_call(
    shown: str,
    name: str,
    program: TorchProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    mode: str = "",
) -> Launch:
    """Prepare a launch of an `[AutoPyBindCUDA]` kernel, or with `mode` "fwd" or "bwd" of its derivative.

    Raises
    ------
    ArgumentError
    SlangLabError
        When it has no such derivative.
    """
    function = program.callables[name]
    wrapped = getattr(program.library, name)
    if mode and getattr(wrapped, f"{mode}_wrapped_fn", None) is None:
        raise SlangLabError(
            f"{shown} has no .{mode}",
            hint="write [Differentiable] above the kernel, and DiffTensorView for its tensors",
        )
    return Launch(
        shown if not mode else f"{shown}.{mode}",
        function,
        getattr(wrapped, mode) if mode else wrapped,
        None if mode else getattr(wrapped, "bwd_wrapped_fn", None),
        _bound(shown, function.parameters, args, kwargs),
        lambda: _uses(name, program),
    )


def _uses(name: str, program: TorchProgram) -> dict[str, Use]:
    """Return what a kernel does with its tensors, read from its text once."""
    found = program.uses.get(name)
    if found is None:
        found = program.uses[name] = uses(program.sources, program.callables[name].function)
    return found


class Launch:
    """A kernel with its arguments, to be launched.

    A tensor that the kernel writes joins the autograd graph, where a tensor that it reads asks for a gradient and the kernel is
    differentiable: `m.square(input=x, output=y).launchRaw(…)` makes `y` the square of `x` for autograd too.
    """

    def __init__(
        self,
        shown: str,
        function: Callable_,
        run: Callable[..., Any],
        run_backward: Callable[..., Any] | None,
        values: dict[str, Any],
        found: Callable[[], dict[str, Use]],
    ) -> None:
        self._shown = shown
        self._function = function
        self._run = run
        self._run_backward = run_backward
        self._values = values
        self._uses = found
        self._launched = False

    def launchRaw(  # noqa: N802 - slangtorch's name
        self,
        blockSize: Sequence[int],  # noqa: N803 - slangtorch's names
        gridSize: Sequence[int],  # noqa: N803
    ) -> None:
        """Launch the kernel.

        Parameters
        ----------
        blockSize, gridSize : tuple of int
            Threads of a block, and blocks, over x, y and z.

        Raises
        ------
        ArgumentError
            For sizes that CUDA does not take.
        SlangLabError
        """
        self._launched = True
        block, grid = _sizes(self._shown, blockSize, gridSize)
        device = staging.place(list(self._values.items()), self._shown)

        def through(run: Callable[..., Any]) -> Callable[[dict[str, Any]], None]:
            def go(values: dict[str, Any]) -> None:
                _guarded(self._shown, lambda: run(**values).launchRaw(block, grid))()

            return go

        if self._is_followed():
            self._launch_followed(through(self._run), through(self._run_backward or self._run), device)
            return
        staged = staging.Staged(device, self._shown)
        kinds = {p.name: p.type for p in self._function.parameters}
        given = {n: staged.take(n, v, kinds[n]) for n, v in self._values.items()}
        with torch.no_grad(), staging.on(device):
            through(self._run)(given)
        staged.finish()
        self._mark()

    def _mark(self) -> None:
        """Tell autograd which tensors were changed, where it would not know."""
        for name, use in self._uses().items():
            if use.writes or not use.known:
                for tensor in staging.tensors_of(self._values[name]):
                    if tensor.is_inference():
                        continue  # autograd does not follow those
                    torch.autograd.graph.increment_version(tensor)

    def _is_followed(self) -> bool:
        """Tell whether autograd is to follow the launch: a differentiable tensor asks for a gradient."""
        return (
            self._run_backward is not None
            and torch.is_grad_enabled()
            and any(self._values[n].requires_grad for n in self._differentiable())
        )

    def _differentiable(self) -> list[str]:
        """Return the `DiffTensorView`s that were given as tensors; one given with its gradient is the user's own affair."""
        return [
            p.name
            for p in self._function.parameters
            if p.type.startswith("DiffTensorView") and isinstance(self._values[p.name], torch.Tensor)
        ]

    def _launch_followed(
        self,
        run: Callable[[dict[str, Any]], None],
        run_backward: Callable[[dict[str, Any]], None],
        device: torch.device,
    ) -> None:
        found = self._uses()
        names = self._differentiable()
        for name in names:
            use = found[name]
            if not use.known or (use.reads and use.writes):
                what = "reads and overwrites" if use.known else "may write"
                raise SlangLabError(
                    f"{self._shown}: the kernel {what} `{name}`, so that its gradient cannot be computed behind the launch",
                    hint=f"pass `{name}.detach()` and call `.bwd` yourself, or write into another tensor",
                )
        writes = tuple(n for n in names if found[n].writes)
        reads = tuple(n for n in names if not found[n].writes)
        kinds = {p.name: p.type for p in self._function.parameters}
        staged = staging.Staged(device, self._shown)
        others = {n: staged.take(n, v, kinds[n]) for n, v in self._values.items() if n not in names}
        given = {n: staging.fitted(self._values[n], "float", device) for n in names}
        launched = autograd.Launched(self._shown, reads, writes, run, run_backward, others, device)
        results = autograd.launch(launched, [given[n] for n in (*reads, *writes)])
        staged.finish()
        for name, result in zip(writes, results, strict=True):
            target = self._values[name]
            if result is not target:
                target.copy_(result)

    def __repr__(self) -> str:
        return f"<{self._shown} with its arguments, to be launched: .launchRaw(blockSize=(x, y, z), gridSize=(x, y, z))>"

    def __del__(self) -> None:
        if not self._launched and not sys.is_finalizing():
            warnings.warn(
                f"{self._shown} was called and not launched: .launchRaw(blockSize=…, gridSize=…) runs it",
                stacklevel=2,
            )


def _sizes(shown: str, block: Sequence[int], grid: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found = []
    for name, size in (("blockSize", block), ("gridSize", grid)):
        try:
            three = tuple(int(n) for n in size)
            whole = all(a == b for a, b in zip(three, size, strict=True))
        except (TypeError, ValueError):
            three, whole = (), False
        if len(three) != 3 or not whole or min(three) < 1:
            raise ArgumentError(
                f"{shown}: {name} is {size!r}", hint=f"three whole numbers from 1 on: {name}=(256, 1, 1)"
            )
        found.append(three)
    threads = found[0][0] * found[0][1] * found[0][2]
    if threads > MOST_THREADS or found[0][2] > 64:
        raise ArgumentError(
            f"{shown}: a block of {found[0]} has {threads} threads; CUDA takes {MOST_THREADS} at most, 64 of them over z",
            hint="smaller blocks, and more of them: blockSize=(32, 32, 1)",
        )
    if any(n > most for n, most in zip(found[1], _LARGEST_GRID, strict=True)):
        raise ArgumentError(
            f"{shown}: a grid of {found[1]} blocks is larger than CUDA takes: {_LARGEST_GRID}"
        )
    return found[0], found[1]


# ----- what CUDA and slangtorch refuse -----

_REASONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile("CUDA error: invalid (?:configuration )?argument"),
        f"a block takes 1 to {MOST_THREADS} threads, and a launch one block at least: in `__dispatch_kernel(kernel, blocks, threads)` "
        "cover larger tensors with more blocks, `uint3((n + 255) / 256, 1, 1)` of `uint3(256, 1, 1)`",
    ),
    (re.compile("no kernel image"), "the binary is for another GPU: run the cell again"),
    (re.compile("broadcasted dimensions"), "pass `.contiguous()`"),
    (
        re.compile("incompatible function arguments"),
        "pass what the signature says: tensors, numbers, tuples for vectors and structs",
    ),
    (
        re.compile("illegal memory access|device-side assert triggered"),
        "a kernel read or wrote outside a tensor; CUDA needs a new process now: restart the kernel",
    ),
)


def _guarded(shown: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose errors say which function they are about and what to do."""

    def run(*args: Any) -> Any:
        try:
            return function(*args)
        except SlangLabError:
            raise
        except Exception as error:
            text = str(error).strip()
            hint = next((h for pattern, h in _REASONS if pattern.search(text)), None)
            first = next((line for line in text.split("\n") if line.strip()), type(error).__name__)
            raise SlangLabError(f"{shown}: {first[:400]}", hint=hint) from error

    return run
