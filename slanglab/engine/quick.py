"""A plan written out as one Python function: the comparisons of its key, one after the other, and the call."""

from __future__ import annotations

import keyword
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import slangpy as spy
from slangpy.core.native import NativeCallRuntimeOptions, get_value_signature

from slanglab.engine.fences import one_way
from slanglab.machine import contexts

if TYPE_CHECKING:
    from slanglab.engine.plans import Plan

__all__ = ["FIXED", "LARGEST", "MISSED", "Grid", "Quick", "is_flat", "never", "write_out"]

MISSED: Final = object()
"""What a written-out plan returns for a call of another kind."""

Quick = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]

LARGEST = float(np.finfo(np.float32).max)
Grid = type(spy.grid((1,)))
FIXED = frozenset(type(v) for v in (spy.call_id(), spy.thread_id(), spy.wang_hash(), spy.rand_float())) | {
    spy.float2, spy.float3, spy.float4, spy.int2, spy.int3, spy.int4, spy.uint2, spy.uint3, spy.uint4,
}  # fmt: skip
"""Values that are passed on as they are, whatever they hold."""

_Tensor = spy.Tensor

_MOST_HELD = 4096
"""Elements of a tensor at most that a plan keeps alive."""


@cache
def is_flat(signature: str) -> bool:
    """Tell from slangpy's signature of a tensor (name, then element type, rank and usage) whether it has one axis."""
    return ",1," in signature


def never(_args: tuple[Any, ...], _kwargs: Mapping[str, Any]) -> Any:
    """Miss every call."""
    return MISSED


def write_out(
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    device: spy.Device,
    binds_gradients: bool,
    limit: int,
    ones: bool = True,
) -> Quick | None:
    """Return the function for calls of a plan.

    Parameters
    ----------
    plan : Plan
    args, kwargs
        The arguments of a call that it is for.
    device : slangpy.Device
    binds_gradients : bool
        True where a kernel depends on which tensors carry gradients.
    limit : int
        Elements of an array from which a call is a large one.
    ones : bool
        Whether the limit holds for a tensor of one element among larger ones too.

    Returns
    -------
    callable or None
        None where the names of arguments cannot be written.
    """
    if not all(n.isidentifier() and not keyword.iskeyword(n) for n in kwargs):
        return None
    positional, named = plan.converted(args, kwargs)
    node = plan.node
    if plan.reads:
        # The result by its type is another node's, which slangpy would look up at each call.
        node, named = node.return_type(_Tensor), {k: v for k, v in named.items() if k != "_result"}
    inside = plan.fence is not None and plan.trace.backward and one_way(positional, named)
    call, options = (None, None) if plan.route is not None else _kernel_of(node, positional, named, inside)
    scope: dict[str, Any] = {
        "Tensor": _Tensor,
        "array": np.ndarray,
        "device": device,
        "signature": get_value_signature,
        "largest": LARGEST,
        "prod": prod,
        "MISSED": MISSED,
        "control": plan.control,
        "trace": plan.trace,
        "call": call,
        "options": options,
        "clock": time.perf_counter,
        "entered": contexts.entered,
        "run": plan.run,
        "wait": plan.wait,
        "fence": plan.fence,
    }
    names = [f"a{i}" for i in range(len(args))]
    lines = [
        *(["entered()"] if device.info.type == spy.DeviceType.cuda else []),
        f"if not control.plain or len(args) != {len(args)} or len(kwargs) != {len(kwargs)}: return MISSED",
    ]
    if names:
        lines.append(f"{', '.join(names)}, = args")
    for i, name in enumerate(kwargs):
        lines.append(f"k{i} = kwargs.get({name!r})")
        names.append(f"k{i}")
    tensors = _Held()
    scope["remember"] = tensors.remember
    conditions = []
    for name, value in zip(names, (*args, *kwargs.values()), strict=True):
        most = 2**63 if plan.route else limit
        conditions.extend(_conditions(name, value, scope, binds_gradients, 0 if ones else 1, most))
    if plan.route is not None:
        sizes = [s for n, v in zip(names, (*args, *kwargs.values()), strict=True) if (s := _size_of(n, v))]
        conditions.append(f"({' or '.join(f'{s} >= {limit}' for s in sizes)})")
    lines.append(f"if not ({' and '.join(conditions) or 'True'}): return MISSED")
    given = [*([] if options is None else ["options"]), *(["encoder"] if inside else [])]
    given += [f"float({n})" if i in plan.whole else n for i, n in enumerate(names[: len(args)])]
    for name, held in zip(kwargs, names[len(args) :], strict=True):
        if plan.reads and name == "_result":
            continue
        given.append(f"{name}=float({held})" if name in plan.whole else f"{name}={held}")
    if inside:
        made = ["encoder = fence.begin()", f"result = call({', '.join(given)})", "fence.end(encoder)"]
    else:
        made = [f"result = call({', '.join(given)})", *(["fence.after()"] if plan.fence is not None else [])]
    lines += (
        ["return run(args, kwargs)"]
        if call is None
        else [
            *(["wait()"] if plan.uploads else []),
            "started = clock()",
            *made,
            "control.last = trace, clock() - started, args, kwargs",
            "return result.to_numpy()" if plan.reads else "return result",
        ]
    )
    # The text holds names of this function's own and, checked or quoted, those of the arguments; values are in the scope.
    exec("def quick(args, kwargs):\n " + "\n ".join(lines), scope)  # noqa: S102
    tensors.scope = scope
    return scope["quick"]  # type: ignore[no-any-return]


def _kernel_of(
    node: Any, args: Sequence[Any], kwargs: Mapping[str, Any], append: bool = False
) -> tuple[Any, Any]:
    """Return what makes the calls of a plan, or appends them to an encoder, and the options that it is to be given first, None for none.

    A node writes the signature of each call and looks its kernel up by that. The key of a plan tells at least as much, so that its kernel
    is known: calling that spares a tenth of the time. `.set` and `.cuda_stream` give options of each call, and a result by its name is
    another node's; there the node is called.
    """
    alone = node.append_to if append else node
    if any(isinstance(v, (str, type)) for v in kwargs.values()):
        return alone, None
    options = NativeCallRuntimeOptions()
    node.gather_runtime_options(options)
    if options.uniforms or options.cuda_stream.value:
        return alone, None
    data = node.debug_build_call_data(*args, **kwargs)
    return (data.append_to if append else data.call), options


class _Held:
    """The small tensors that a plan was called with last, and their gradients: what was compared of them need not be again."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}

    def remember(self, name: str, tensor: Any) -> bool:
        """Remember a tensor if it is small; return True."""
        if tensor.element_count <= _MOST_HELD:
            self.scope[f"held_{name}"] = tensor
            self.scope[f"seed_{name}"], self.scope[f"gradient_{name}"] = tensor.grad_in, tensor.grad_out
        return True


def _size_of(name: str, value: Any) -> str:
    """Return the text for the number of an argument's elements; empty for one that has none."""
    kind = type(value)
    if kind is _Tensor:
        return f"{name}.element_count"
    if kind is Grid:
        return f"prod({name}.shape.as_tuple())"
    return f"{name}.size" if kind is np.ndarray else ""


def _conditions(
    name: str, value: Any, scope: dict[str, Any], binds_gradients: bool, above: int, limit: int
) -> list[str]:
    kind = type(value)
    if kind is _Tensor:
        scope[f"is_{name}"], scope[f"held_{name}"] = get_value_signature(value), None
        scope[f"seed_{name}"] = scope[f"gradient_{name}"] = None
        same = [
            f"type({name}) is Tensor",
            f"{name}.device is device",
            f"{above} < {name}.element_count < {limit}",
            f"signature({name}) == is_{name}",
        ]
        flat = is_flat(scope[f"is_{name}"])
        if not flat:
            shape = value.shape.as_tuple()
            scope[f"last_{name}"] = shape[-2:]
            same.append(f"(shape_{name} := {name}.shape.as_tuple())[-2:] == last_{name}")
            if 1 not in shape:
                same.append(f"1 not in shape_{name}")
        held = [f"{name} is held_{name}"]
        if binds_gradients:
            held += [f"{name}.grad_in is seed_{name}", f"{name}.grad_out is gradient_{name}"]
            for which in ("grad_in", "grad_out"):
                size = "element_count" if flat else "shape"
                here = getattr(value, which) is not None
                same.append(
                    f"{name}.{which} is not None and {name}.{which}.{size} == {name}.{size}"
                    if here
                    else f"{name}.{which} is None"
                )
        return [f"({' and '.join(held)} or {' and '.join(same)} and remember({name!r}, {name}))"]
    if kind is float:
        return [f"type({name}) is float", f"-largest <= {name} <= largest"]
    if kind is int:
        limits = f"0 <= {name} < {2**31}" if value >= 0 else f"{-(2**31)} <= {name} < 0"
        return [f"type({name}) is int", limits]
    if kind is np.ndarray:
        scope[f"dtype_{name}"], scope[f"shape_{name}"] = value.dtype, value.shape
        return [
            f"type({name}) is array",
            f"{name}.shape == shape_{name}",
            f"{name}.dtype == dtype_{name}",
            f"{name}.flags.carray",
        ]
    scope[f"is_{name}"] = value if kind is str else kind
    if kind is Grid:
        rank = len(value.shape.as_tuple())
        return [
            f"type({name}) is is_{name}",
            f"len({name}.shape) == {rank}",
            f"prod({name}.shape.as_tuple()) < {limit}",
            *([f"1 not in {name}.shape.as_tuple()"] if rank > 1 and 1 not in value.shape.as_tuple() else []),
        ]
    return [f"{name} == is_{name}" if kind is str else f"type({name}) is is_{name}"]
