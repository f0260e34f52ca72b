"""Why slangpy refuses a call: its arguments.

One function for each kind of refusal, from slangpy's words to ours; each takes the refusal and the match of its pattern in
`call_errors`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from slanglab.errors import CallError
from slanglab.messages.hints import closest
from slanglab.messages.refusal import Refusal, first_line

# ----- arguments that do not fit the signature -----


def missing(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a parameter without a value."""
    name = match["name"]
    if name.startswith("_"):
        return reserved(refusal, match)
    if name in refusal.values:
        # Without `_result`, a backward call takes the last argument for it and then misses that one.
        return refusal.error(
            ": the result of the backward call is missing",
            "_result",
            given="nothing",
            hint="pass `_result=`, a tensor whose gradient is that of the result",
        )
    return refusal.error(f": parameter {name} is missing", name, given="nothing")


def reserved(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a parameter with the name of one of slangpy's own options."""
    name = match["name"]
    return refusal.error(
        f": slangpy keeps the name {name} for itself",
        name,
        hint=f"pass the parameter by position, or call it something else than `{name}` in the cell",
    )


def too_many(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse more arguments than parameters."""
    wanted, given = int(match["wanted"]), int(match["given"])
    names = ", ".join(refusal.signatures[0].names) if refusal.signatures else ""
    plural = "" if wanted == 1 else "s"
    return refusal.error(
        f" takes {wanted} argument{plural}, and {given} were given",
        hint=f"it takes {names}" if names else None,
    )


def unknown_name(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a name that no parameter has."""
    name = match["name"]
    names = refusal.signatures[0].names if refusal.signatures else ()
    near = closest(name, names)
    return refusal.error(
        f" has no parameter {name}",
        name,
        expected=", ".join(names) or None,
        hint=f"did you mean `{near}`?" if near else None,
    )


def twice(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse one parameter, two values."""
    return refusal.error(f" got two values for {match['name']}", match["name"])


def does_not_fit(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a value of a type that the parameter does not take."""
    name = refusal.parameter(match["position"])
    rest: dict[str, Any] = {"hint": _convert(name, refusal.values.get(name), refusal.expected(name) or "")}
    if name not in refusal.values:
        rest["given"] = _python_type(match["given"])
    return refusal.error(
        f": {name} cannot be used as {refusal.expected(name) or match['wanted']}", name, **rest
    )


def _python_type(text: str) -> str:
    """Put slangpy's name of a Python value into words."""
    if text.startswith("NativeMarshall"):
        return "a numpy array of another type"
    if value := re.fullmatch(r"Value\[dtype=(.*)\]", text):
        return "None" if value[1] == "void" else value[1]
    if tensor := re.fullmatch(r"Tensor\[dtype=([^,]*(?:<.*>)?), dims=(\d+),.*\]", text):
        return f"tensor of {tensor[1]}, {tensor[2]} axes"
    return first_line(text)


def _convert(name: str, value: Any, wanted: str) -> str | None:
    """Say how a value that does not fit becomes one that does."""
    scalar = re.match(r"(float|half|double|int|uint|bool)", wanted)
    if value is None:
        return f"pass a number, a numpy array or a tensor for `{name}`"
    if isinstance(value, np.ndarray) and scalar and value.dtype.kind in "fiub":
        wanted_dtype = {
            "float": "float32",
            "half": "float16",
            "double": "float64",
            "int": "int32",
            "uint": "uint32",
        }
        if (dtype := wanted_dtype.get(scalar[1])) and value.dtype != dtype:
            return f"write `{name}.astype('{dtype}')`"
    if "Tensor<" in wanted:
        return f"it must be a tensor: `slanglab.tensor({name})`"
    if isinstance(value, list | tuple) and scalar:
        return (
            f"write `np.array({name}, dtype='float32')`"
            if scalar[1] == "float"
            else f"write `np.array({name})`"
        )
    return None


def needs_gradient(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a tensor without a gradient for a parameter that binds one."""
    name = refusal.parameter(match["position"])
    return refusal.error(
        f": {name} is declared {match['wanted']}, which on this device needs a tensor with a gradient",
        name,
        hint=f"write `{name} = {name}.with_grads()` first",
    )


def overloads(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse several functions of one name."""
    count = len(refusal.signatures)
    library = [s for s in refusal.signatures if "T" in re.findall(r"\w+", s.text)]
    name = refusal.signatures[0].name if refusal.signatures else "the function"
    if library and count > len(library):
        return refusal.error(
            f": Slang has functions called {name} too, and slangpy cannot tell which of {count} is meant",
            hint=f"give yours another name, `my_{name}` for instance",
        )
    return refusal.error(
        f" is overloaded, and slangpy cannot tell which of {count} is meant",
        expected=" or ".join(s.text for s in refusal.signatures[:4]),
        hint="give each its own name",
    )


def generic(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a generic function whose types cannot be inferred."""
    name = refusal.signatures[0].name if refusal.signatures else "f"
    module = refusal.function.split(".", 1)[0]
    return refusal.error(
        " is generic, and slangpy cannot tell its types from the arguments",
        hint=f"name them: `{module}['{name}<float3>'](…)`",
    )


# ----- values -----


def unsupported(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a Python object that slangpy cannot turn into anything."""
    name = refusal.named(match["name"])
    reason = match["reason"].strip().split("\n")[0]
    kind = re.search(r"<class '([\w.]+)'>", reason)
    dtype = re.match(r"dtype\('([^']*)'\)", reason)
    expected = refusal.expected(name) or "a number, a list, a numpy array or a tensor"
    if double := re.match(r"Type 'RW?DiffTensor<(.*), \d+>' not found", reason):
        return refusal.error(
            f": slangpy has no gradients for a tensor of {double[1]}",
            name,
            expected=expected,
            hint="make it of `float`: `slanglab.tensor(a, grad=True, dtype='float')`",
        )
    inside = (
        isinstance(refusal.values.get(name), list | tuple | Mapping) and kind is not None and kind[1] == "str"
    )
    what = (
        kind[1].split(".")[-1] if kind else f"array of {np.dtype(dtype[1]).name}" if dtype else "what it is"
    )
    rest: dict[str, Any] = {} if name in refusal.values else {"given": what}
    if "list" in expected:
        rest["expected"] = expected
    return refusal.error(
        f": {name} holds a {what}, which cannot be passed"
        if inside
        else f": {name} cannot be passed as {what}",
        name,
        hint=None
        if inside
        else _replace_object(name, kind[1] if kind else "", np.dtype(dtype[1]) if dtype else None),
        **rest,
    )


def _replace_object(name: str, kind: str, dtype: np.dtype[Any] | None) -> str | None:
    """Say what to pass instead of a Python object that slangpy does not take."""
    if kind == "str" or kind.startswith("numpy.float"):
        return f"pass a number: `float({name})`"
    if kind.startswith(("numpy.int", "numpy.uint")):
        return f"pass a number: `int({name})`"
    if kind in ("tuple", "set"):
        return f"pass a list: `list({name})`"
    if dtype is not None and (dtype.kind == "b" or not dtype.isnative):
        return f"write `{name}.astype('float32')`"
    if dtype is not None and dtype.kind == "c":
        return f"pass its parts: `{name}.real.astype('float32')`"
    return "pass a number, a list, a numpy array or a tensor"


def bad_cast(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a value that C++ could not convert, which is all that it says."""
    for name, value in refusal.values.items():
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            return refusal.error(f": {name} is a read-only array", name, hint=f"write `{name}.copy()`")
        if isinstance(value, np.ndarray) and not value.dtype.isnative:
            hint_ = f"write `{name}.astype({name}.dtype.newbyteorder('='))`"
            return refusal.error(f": {name} has the byte order of another machine", name, hint=hint_)
        if (
            isinstance(value, int | np.integer)
            and not isinstance(value, bool)
            and not -(2**31) <= value < 2**31
        ):
            return refusal.error(f": {name} is too large for its type", name)
        if isinstance(value, int | np.integer) and value < 0:
            return refusal.error(f": {name} is negative, and its type may not be", name)
        if isinstance(value, float):
            return refusal.error(f": {name} is no whole number", name, hint=f"write `int({name})`")
    return refusal.error(": an argument has a value that its type cannot hold")


def not_contiguous(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse an array that is not laid out as slangpy copies it."""
    for name, value in refusal.values.items():
        if isinstance(value, np.ndarray) and value.ndim == 0:
            return refusal.error(f": {name} is an array without axes", name, hint=f"write `float({name})`")
        if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
            return refusal.error(
                f": {name} is not contiguous in memory", name, hint=f"write `np.ascontiguousarray({name})`"
            )
    return refusal.error(
        ": an array is not contiguous in memory, or a single number was to be returned as an array",
        hint="write `np.ascontiguousarray(a)`; for a single number leave out `_result='numpy'`",
    )


def has_no_field(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a dict with a key that the struct does not have."""
    owner, name = match["type"], match["field"]
    argument = next(
        (
            k
            for k, v in refusal.values.items()
            if isinstance(v, Mapping) and name in v and refusal.expected(k) in (None, owner)
        ),
        None,
    )
    if argument is None and refusal.signatures:
        argument = next((n for n in refusal.signatures[0].names if refusal.expected(n) == owner), None)
    rest = (
        {"given": f"dict with {', '.join(map(str, refusal.values[argument]))}"}
        if argument in refusal.values
        else {}
    )
    return refusal.error(f": {owner} has no field {name}", argument, **rest)


# ----- shapes -----


def shapes(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse shapes that do not broadcast."""
    name, value, call = match["name"], match["value"], match["call"]
    return refusal.error(
        f": the shape of {name} does not fit the other arguments",
        name,
        expected=f"shape {_tuple(call)}" + ("" if name == "_result" else ", or one that broadcasts to it"),
        given=f"shape {_tuple(value)}",
        hint="for all pairs of elements write `.map(…)`, which names the axes of each argument"
        if name != "_result"
        else None,
    )


def _tuple(text: str) -> str:
    numbers = [n.strip() for n in text.split(",") if n.strip()]
    return f"({numbers[0]},)" if len(numbers) == 1 else f"({', '.join(numbers)})"


def array_shape(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse an array whose last axes are not those of the vector or tensor."""
    axis, wanted, given = match["axis"], int(match["wanted"]), match["given"]
    if wanted < 0:
        arrays = [k for k, v in refusal.values.items() if isinstance(v, np.ndarray)]
        name = arrays[0] if len(arrays) == 1 else None
        return refusal.error(
            f": {name or 'an array'} must be a tensor",
            name,
            hint=f"write `slanglab.tensor({name or 'a'})`: this parameter takes a whole tensor, and no numpy array",
        )
    name = next(
        (
            k
            for k, v in refusal.values.items()
            if isinstance(v, np.ndarray) and v.ndim > int(axis) and str(v.shape[int(axis)]) == given
        ),
        None,
    )
    return refusal.error(
        f": axis {axis} of {name or 'an array'} has {given} elements where {wanted} are needed", name
    )


def dimensions(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a tensor with too few axes."""
    name = match["name"]
    return refusal.error(
        f": {name} has too few axes", name, hint="the parameter takes a tensor of more axes than it was given"
    )


def conversion(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a value that slangpy has no code to convert."""
    given, wanted = match["given"], match["wanted"]
    if given.startswith("GridArg"):
        name = _grid(refusal)
        return refusal.error(
            f": {name or 'a grid'} counts in whole numbers, and the parameter is {wanted}",
            name,
            hint="declare the parameter as `int`, or as `int2` for a grid of two axes",
        )
    return refusal.error(f": {given} cannot be converted to {wanted}")


def _grid(refusal: Refusal) -> str | None:
    return next((k for k, v in refusal.values.items() if "grid" in type(v).__name__.lower()), None)


def return_type(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a result type that slangpy does not know."""
    near = closest(match["name"], ("numpy", "tensor", "texture"))
    return refusal.error(
        f": there is no result type {match['name']!r}",
        "_result",
        expected="'numpy', 'tensor', 'texture', or a tensor or array to fill",
        given=repr(match["name"]),
        hint=f"did you mean `'{near}'`?" if near else None,
    )
