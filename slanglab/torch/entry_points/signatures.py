"""Which functions of a `--torch` cell Python can call, and which two of them are one function with its gradient."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from slanglab.text.outline import Function, Outline, Parameter, Struct

__all__ = ["Callable_", "Pair", "callables", "pairs", "tensors_in"]

_TENSOR = re.compile(r"Torch(?:Tensor)<\s*([\w:]+)\s*>")
_VIEW = re.compile(r"(?:Diff)?TensorView(?:<.*>)?")
_ARRAY = re.compile(r"(.+)\[(\d+)\]")
_GRADIENTS = frozenset(("float", "half", "double"))
_DEEPEST = 8


def _attributes(function: Function) -> frozenset[str]:
    return frozenset(a.partition("(")[0].strip().lower() for a in function.attributes)


@dataclass(frozen=True)
class Callable_:  # noqa: N801 - `Callable` is typing's
    """A function that Python can call.

    Attributes
    ----------
    name : str
    kind : {"entry point", "kernel"}
        `[TorchEntryPoint]`, called with arguments; `[AutoPyBindCUDA]`, called with arguments and launched.
    function : Function
    """

    name: str
    kind: Literal["entry point", "kernel"]
    function: Function

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its parameters."""
        return self.function.parameters


def callables(outlines: Iterable[Outline]) -> dict[str, Callable_]:
    """Return what Python can call of a text and of those that it imports, in their order, the text's own first."""
    found: dict[str, Callable_] = {}
    for outline in outlines:
        for function in outline.functions:
            attributes = _attributes(function)
            if function.name in found or function.in_struct or not function.has_body:
                continue
            if "torchentrypoint" in attributes:
                found[function.name] = Callable_(function.name, "entry point", function)
            elif "autopybindcuda" in attributes:
                found[function.name] = Callable_(function.name, "kernel", function)
    return found


def tensors_in(kind: str, structs: Mapping[str, Struct], depth: int = 0) -> tuple[str, ...] | None:
    """Return the element types of the tensors that a value of a type holds; None where it holds anything else too.

    Parameters
    ----------
    kind : str
        As written: `TorchTensor<float>`, a struct, an array.
    structs : mapping of str to Struct
    depth : int
        Of structs in structs.
    """
    kind = kind.strip()
    if (tensor := _TENSOR.fullmatch(kind)) is not None:
        return (tensor[1],)
    if (array := _ARRAY.fullmatch(kind)) is not None:
        inner = tensors_in(array[1], structs, depth)
        return None if inner is None else inner * int(array[2])
    struct = structs.get(kind)
    if struct is None or depth > _DEEPEST or not struct.fields:
        return None
    parts = [tensors_in(f.type, structs, depth + 1) for f in struct.fields]
    return None if any(p is None for p in parts) else tuple(t for p in parts for t in p or ())


@dataclass(frozen=True)
class Pair:
    """`X_fwd` and `X_bwd`, which are one function `X` with its gradient.

    Attributes
    ----------
    name : str
        X.
    forward, backward : str
    inputs : tuple of Parameter
    differentiable : tuple of int
        The inputs that the backward function returns a gradient for, in this order.
    elements : tuple of (str or None)
        For each input the element type of its tensor, None for a number.
    outputs : tuple of str
        The element types of the results.
    takes_outputs : bool
        Whether the backward function takes the results between the inputs and their gradients.
    """

    name: str
    forward: str
    backward: str
    inputs: tuple[Parameter, ...]
    differentiable: tuple[int, ...]
    elements: tuple[str | None, ...]
    outputs: tuple[str, ...]
    takes_outputs: bool


def pairs(
    found: Mapping[str, Callable_], outlines: Iterable[Outline]
) -> tuple[dict[str, Pair], dict[str, str]]:
    """Match `X_fwd` with `X_bwd`.

    `X_bwd` takes the inputs of `X_fwd` and one gradient for each of its results, perhaps with the results in between, and returns one
    gradient for each input that is a tensor, or for each that is one of real numbers.

    Parameters
    ----------
    found : mapping of str to Callable_
    outlines : iterable of Outline
        Where structs are declared.

    Returns
    -------
    pairs : dict of str to Pair
        By X.
    refused : dict of str to str
        For each X of which both functions are there and do not match, why.
    """
    structs = {s.name: s for outline in outlines for s in outline.structs if s.kind == "struct"}
    matched: dict[str, Pair] = {}
    refused: dict[str, str] = {}
    for name, forward in found.items():
        stem = name.removesuffix("_fwd")
        backward = found.get(f"{stem}_bwd")
        if stem == name or not stem or backward is None:
            continue
        if stem in found:
            refused[stem] = f"`{stem}` is itself a function that Python calls"
            continue
        pair = _match(stem, forward, backward, structs)
        if isinstance(pair, Pair):
            matched[stem] = pair
        else:
            refused[stem] = pair
    return matched, refused


def _match(stem: str, forward: Callable_, backward: Callable_, structs: Mapping[str, Struct]) -> Pair | str:
    """Return the pair, or why the two are none."""
    for one in (forward, backward):
        if one.kind != "entry point":
            return f"`{one.name}` is a kernel; both have to be `[TorchEntryPoint]`"
    outputs = tensors_in(forward.function.result, structs)
    gradients = tensors_in(backward.function.result, structs)
    if not outputs:
        return f"`{forward.name}` returns `{forward.function.result or 'void'}`, which is not made of `TorchTensor`s alone"
    if not gradients:
        return f"`{backward.name}` returns `{backward.function.result or 'void'}`, which is not made of `TorchTensor`s alone"
    inputs, taken = forward.parameters, backward.parameters
    elements: list[str | None] = []
    for at, parameter in enumerate(inputs):
        tensor = _TENSOR.fullmatch(parameter.type)
        elements.append(tensor[1] if tensor is not None else None)
        if tensor is None and tensors_in(parameter.type, structs):
            return f"`{forward.name}` takes tensors in a `{parameter.type}`; write them as parameters"
        if at >= len(taken) or taken[at].type != parameter.type:
            got = f"`{taken[at].type} {taken[at].name}`" if at < len(taken) else "nothing"
            return (
                f"parameter {at + 1} of `{backward.name}` is {got}; it has to be `{parameter.type} {parameter.name}`, "
                f"as in `{forward.name}`"
            )
    rest = [t for p in taken[len(inputs) :] for t in tensors_in(p.type, structs) or ("?",)]
    if rest not in (list(outputs), [*outputs, *outputs]):
        return (
            f"behind the {_count(len(inputs), 'input')} `{backward.name}` takes {_count(len(rest), 'more parameter')}; it has to be one "
            f"`TorchTensor<{outputs[0]}>` for each of the {_count(len(outputs), 'result')} of `{forward.name}`, or the results and these"
        )
    tensors = [i for i, e in enumerate(elements) if e is not None]
    real = [i for i in tensors if elements[i] in _GRADIENTS]
    for candidates in (real, tensors):
        if [elements[i] for i in candidates] == list(gradients):
            chosen = tuple(i for i in candidates if elements[i] in _GRADIENTS)
            if len(chosen) != len(candidates):
                break
            return Pair(
                stem,
                forward.name,
                backward.name,
                inputs,
                chosen,
                tuple(elements),
                outputs,
                len(rest) == 2 * len(outputs),
            )
    return (
        f"`{backward.name}` returns {_count(len(gradients), 'tensor')} ({', '.join(gradients)}); it has to return one for each input of "
        f"real numbers: {', '.join(f'{elements[i]} for {inputs[i].name}' for i in real) or 'there are none'}"
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def is_view(kind: str) -> bool:
    """Tell whether a type is a kernel's view of a tensor: `TensorView<T>`, `DiffTensorView`."""
    return _VIEW.fullmatch(kind.strip()) is not None


@lru_cache(maxsize=1024)
def element(kind: str) -> str | None:
    """Return the element type of a tensor parameter, None for another parameter; `DiffTensorView` alone is of float."""
    kind = kind.strip()
    if (tensor := _TENSOR.fullmatch(kind)) is not None:
        return tensor[1]
    if not is_view(kind):
        return None
    _, _, rest = kind.partition("<")
    return rest.rstrip(">").split(",")[0].strip() or "float"
