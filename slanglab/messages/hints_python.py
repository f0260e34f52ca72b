"""What to do about Python's messages when a notebook was written for another version of slangpy, or for another library."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable

__all__ = ["closest", "python_hint"]

_DTYPES = {
    "float16": "half", "float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t", "int32": "int",
    "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint", "uint64": "uint64_t", "bool_": "bool",
}  # fmt: skip

# What slangpy does not have and SlangLab does, with an example that runs.
_CREATORS = {
    "arange": "slanglab.tensor(range(4), dtype='float')",
    "array": "slanglab.tensor([1.0, 2.0])",
    "empty": "slanglab.empty((4,), dtype='float')",
    "full": "slanglab.full((4,), 2.0)",
    "linspace": "slanglab.linspace(0.0, 1.0, 5)",
    "ones": "slanglab.ones((4,))",
    "rand": "slanglab.random((4,))",
    "random": "slanglab.random((4,))",
    "tensor": "slanglab.tensor([1.0, 2.0])",
    "zeros": "slanglab.zeros((4,))",
}

_GONE = {
    "NDBuffer": "it is called `Tensor` now: `spy.Tensor.empty(device, shape=(4,), dtype='float')`",
    "InstanceBuffer": "it is called `spy.InstanceTensor` now",
    "Grid": "write `spy.grid((4,))`",
}

_TENSOR_MEMBERS = {
    "backward": "gradients come from the function: `f.bwds(x, _result=y)`, where `y.grad` holds the gradient of the result",
    "copy": "write `slanglab.tensor(t.to_numpy())`",
    "clone": "write `slanglab.tensor(t.to_numpy())`",
    "cpu": "write `t.to_numpy()`",
    "data": "write `t.to_numpy()`",
    "element_type": "write `t.dtype`",
    "fill": "write `t.copy_from_numpy(a)` with an array of the tensor's shape and type",
    "fill_": "write `t.copy_from_numpy(a)` with an array of the tensor's shape and type",
    "item": "write `t.to_numpy().item()`",
    "ndim": "write `len(t.shape)`",
    "requires_grad": "write `t = t.with_grads()`",
    "requires_grad_": "write `t = t.with_grads()`",
    "reshape": "write `t.view((2, 2))`, with the new shape",
    "set_data": "write `t.copy_from_numpy(a)` with an array of the tensor's shape and type",
    "size": "write `t.element_count`",
    "tolist": "write `t.to_numpy().tolist()`",
    "torch": "write `t.to_torch()`",
    "zero_grad": "write `t.grad.clear()`",
    **{
        name: f"write `t.to_numpy().{name}()`"
        for name in ("sum", "mean", "min", "max", "std", "argmax", "argmin", "flatten")
    },
    "T": "write `t.to_numpy().T`",
}

_NEW_TENSOR = (
    "write `slanglab.empty((4,), dtype='float')`, or `spy.Tensor.empty(device, shape=(4,), dtype='float')`"
)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` was probably meant to be; one that differs in case only comes first."""
    names = [k for k in dict.fromkeys(known) if k != name]
    for candidate in names:
        if candidate.lower() == name.lower():
            return candidate
    near = difflib.get_close_matches(name[:200], names, n=1, cutoff=0.6)
    return near[0] if near else None


def python_hint(exception: BaseException) -> str | None:
    """Return the line to write instead of one that slangpy 0.43 refuses, or None.

    Parameters
    ----------
    exception : BaseException
        An AttributeError, TypeError, ValueError or RuntimeError of slangpy; others have no hint.
    """
    text = str(exception)
    for pattern, answer in _ANSWERS:
        if match := pattern.match(text):
            return answer if isinstance(answer, str) else answer(match, exception)
    return None


def _of_module(match: re.Match[str], exception: BaseException) -> str | None:
    name = match["name"]
    if name in _DTYPES:
        return f"types are named as in Slang: write `'{_DTYPES[name]}'`"
    if name in _CREATORS:
        return f"write `{_CREATORS[name]}`"
    if name in _GONE:
        return _GONE[name]
    found = closest(name, (k for k in dir(sys.modules.get("slangpy")) if not k.startswith("_")))
    return f"did you mean `spy.{found}`?" if found else None


def _of_tensor_type(match: re.Match[str], exception: BaseException) -> str | None:
    name = match["name"]
    return f"write `{_CREATORS[name]}`" if name in _CREATORS else None


def _of_tensor(match: re.Match[str], exception: BaseException) -> str | None:
    # Other libraries have a class of this name too; Python says which object it was.
    owner = getattr(exception, "obj", None)
    if owner is not None and not type(owner).__module__.startswith("slangpy"):
        return None
    name = match["name"]
    if name in _TENSOR_MEMBERS:
        return _TENSOR_MEMBERS[name]
    found = closest(name, (k for k in dir(owner) if not k.startswith("_"))) if owner is not None else None
    return f"did you mean `.{found}`?" if found else None


def _of_function(match: re.Match[str], exception: BaseException) -> str | None:
    name = match["name"]
    if name in ("bwd", "backward", "bwd_diff", "grad", "diff", "backwards"):
        return "the backward call is `f.bwds(x, _result=y)`"
    if name in ("fwds", "fwd_diff", "forward"):
        return (
            "call the function itself: `f(x)`; a forward derivative is written in Slang, with `fwd_diff(f)`"
        )
    return None


def _creation(match: re.Match[str], exception: BaseException) -> str | None:
    name, given = match["name"], match["given"]
    call = f"spy.Tensor.{name}(device, shape=(4,), dtype='float')"
    if "element_type" in given:
        return f"the argument is called `dtype` now: `{call}`"
    if not given.startswith("slangpy.Device"):
        return f"the device comes first: `{call}`, or `slanglab.{name}((4,), dtype='float')`"
    if re.match(r"slangpy\.Device, (?:int\b|kwargs = \{ shape: int\b)", given):
        return f"a shape is a tuple: `{call}`"
    return f"write `{call}`, or `slanglab.{name}((4,), dtype='float')`"


def _from_numpy(match: re.Match[str], exception: BaseException) -> str:
    return "the device comes first: `spy.Tensor.from_numpy(device, a)`, or `slanglab.tensor(a)`"


def _numpy(match: re.Match[str], exception: BaseException) -> str:
    return "write `t.to_numpy()`" if not match["given"].strip() else _from_numpy(match, exception)


def _dtype_class(match: re.Match[str], exception: BaseException) -> str | None:
    name = _DTYPES.get(match["name"])
    return f"types are named as in Slang: write `dtype='{name}'`" if name else None


def _resolved(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


_INVOKED = r"\(\): incompatible function arguments.*Invoked with types: ?(?P<given>.*)"

_ANSWERS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str], BaseException], str | None]], ...] = (
    (_resolved(r"module 'slangpy' has no attribute '(?P<name>\w+)'"), _of_module),
    (_resolved(r"type object '(?:[\w.]*\.)?Tensor' has no attribute '(?P<name>\w+)'"), _of_tensor_type),
    (_resolved(r"'(?:[\w.]*\.)?Tensor' object has no attribute '(?P<name>\w+)'"), _of_tensor),
    (_resolved(r"'Function' object has no attribute '(?P<name>\w+)'"), _of_function),
    (_resolved(r"__init__\(\): incompatible function arguments.*storage: slangpy\.Buffer"), _NEW_TENSOR),
    (_resolved(r"(?P<name>empty|zeros)" + _INVOKED), _creation),
    (_resolved("from_numpy" + _INVOKED), _from_numpy),
    (_resolved("numpy" + _INVOKED), _numpy),
    (
        _resolved(r"copy_from_numpy\(\): incompatible function arguments"),
        "it takes a numpy array: `t.copy_from_numpy(np.asarray(a, dtype='float32'))`",
    ),
    (
        _resolved(r"unsupported operand type\(s\) for \S+ .*'Tensor'"),
        "slangpy's tensors have no operators: write the arithmetic in Slang, or `t.to_numpy()` first",
    ),
    (_resolved(r"object of type 'Tensor' has no len\(\)"), "write `t.shape[0]`"),
    (
        _resolved(r"(?:float|int)\(\) argument must be .* not 'Tensor'"),
        "write `t.to_numpy().item()`; the tensor must hold one element",
    ),
    (_resolved(r"Unsupported type <class 'numpy\.(?P<name>\w+)'>"), _dtype_class),
    (
        _resolved(r"Element type could not be resolved"),
        "types are named as in Slang: `'float'`, `'float3'`, `'half'`, `'int'`; a struct of yours is `dtype=module.Name`",
    ),
    (_resolved(r"Tensor has no grad\."), "attach one first: `t = t.with_grads()`"),
    (
        _resolved(r"No derivative type found for"),
        "only floating-point tensors have gradients: make it with `dtype='float'`",
    ),
    (
        _resolved(r"Cannot create a tensor with zero dimensions"),
        "a single trainable number is a tensor of shape `(1,)`: `slanglab.tensor([2.0], grad=True)`",
    ),
    (_resolved(r"Unknown return type '"), "write `'numpy'`, `'tensor'` or `'texture'`"),
    (
        _resolved(r"Device does not support CUDA interop"),
        "this device shares no memory with PyTorch: `torch.from_numpy(t.to_numpy())`",
    ),
    (_resolved(r"Unsupported numpy dtype "), "convert it first: `a.astype('float32')`"),
)
