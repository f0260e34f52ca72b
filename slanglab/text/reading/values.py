"""The types of values, as far as indices need them: integers, vectors of them, arrays, and slangpy's tensors."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "TENSORS",
    "TensorType",
    "array_element",
    "counted",
    "is_integer",
    "is_scalar",
    "is_whole_number",
    "literal",
    "plain",
    "promoted",
    "tensor_type",
    "vector",
    "with_size",
]

_SPELLINGS = {
    "int32_t": "int",
    "uint32_t": "uint",
    "unsigned": "uint",
    "unsigned int": "uint",
    "signed": "int",
    "signed int": "int",
    "short": "int16_t",
    "long": "int64_t",
    "size_t": "uint64_t",
    "usize_t": "uint64_t",
    "uintptr_t": "uint64_t",
    "intptr_t": "int64_t",
    "float32_t": "float",
    "float64_t": "double",
    "float16_t": "half",
}
_RANKS = (
    "bool",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int",
    "uint",
    "int64_t",
    "uint64_t",
    "half",
    "float",
    "double",
)
"""The scalar types in the order of conversion: arithmetic on two of them gives the later one."""
_RANK = {name: i for i, name in enumerate(_RANKS)}
_VECTOR = re.compile(r"([a-z]+(?:\d+_t)?)([1-4])")
_GENERIC_VECTOR = re.compile(r"vector<([^<>,]+), *([1-4])>")
_ARRAY = re.compile(r"(.*)\[[^\[\]]*\]", re.DOTALL)
_TENSOR = re.compile(r"(?:slangpy::|slangpy\.)?(\w+)<(.*)>", re.DOTALL)

TENSORS = frozenset(
    (
        *(f"{access}{kind}Tensor" for access in ("", "W", "RW") for kind in ("", "Diff", "Primal")),
        *(f"I{access}{kind}Tensor" for access in ("", "W", "RW") for kind in ("", "Diff")),
        "AtomicTensor",
    )
)
"""slangpy's tensor types."""


@dataclass(frozen=True)
class TensorType:
    """A tensor's type.

    Attributes
    ----------
    name : str
        `IDiffTensor`.
    element : str
        The type of its elements, as written.
    rank : int or None
        The number of its dimensions; None where the text does not say it as a number.
    generic : bool
        True where it is the constraint of a generic parameter: the type itself is known only where the function is called.
    """

    name: str
    element: str
    rank: int | None
    generic: bool = False

    @property
    def dynamic(self) -> bool:
        """True for the differentiable interfaces, whose methods the compiler looks up late."""
        return self.name in ("IDiffTensor", "IWDiffTensor", "IRWDiffTensor") and not self.generic


def plain(written: str) -> str:
    """Return a type without `const`, in its shortest spelling: `int` for `int32_t`, `uint3` for `vector<uint, 3>`."""
    name = written.strip()
    while name.startswith(("const ", "static ")):
        name = name.partition(" ")[2].strip()
    if match := _GENERIC_VECTOR.fullmatch(name):
        return f"{plain(match[1])}{match[2]}"
    return _SPELLINGS.get(name, name)


def is_integer(name: str) -> bool:
    """Tell whether a plain type is an integer scalar."""
    return "int" in name and name in _RANK


def is_scalar(name: str) -> bool:
    """Tell whether a plain type is one of Slang's own scalars."""
    return name in _RANK


def is_whole_number(name: str) -> bool:
    """Tell whether a plain type is an integer, a bool, or a vector of such."""
    found = vector(name)
    scalar = found[0] if found is not None else name
    return scalar == "bool" or is_integer(scalar)


def counted(name: str) -> str:
    """Return the type of arithmetic on a value: bools count as int."""
    found = vector(name) or (name, 0)
    return with_size("int", found[1]) if found[0] == "bool" else name


def vector(name: str) -> tuple[str, int] | None:
    """Return the scalar type and the size of a vector, or None for what is none."""
    match = _VECTOR.fullmatch(plain(name))
    if match is None:
        return None
    scalar = _SPELLINGS.get(match[1], match[1])
    return (scalar, int(match[2])) if scalar in _RANK else None


def with_size(scalar: str, size: int) -> str:
    """Return the vector of `size` of a scalar type; the scalar itself for size 0."""
    return f"{scalar}{size}" if size else scalar


def array_element(name: str) -> str | None:
    """Return the type of an array's elements, or None for what is none: `float[3]` for `float[3][2]`, two arrays of three."""
    match = _ARRAY.fullmatch(name)
    return match[1].strip() if match is not None else None


def promoted(one: str, other: str) -> str:
    """Return the type of arithmetic on two values; empty where it is not known."""
    first, second = vector(one) or (one, 0), vector(other) or (other, 0)
    if first[0] not in _RANK or second[0] not in _RANK:
        return ""
    if first[1] and second[1] and first[1] != second[1]:
        return ""
    return with_size(max(first[0], second[0], key=_RANK.__getitem__), max(first[1], second[1]))


def literal(word: str) -> str:
    """Return the type of a number as written in the text."""
    text = word.lower().replace("'", "").replace("_", "")
    hexadecimal = text.startswith("0x")
    if not hexadecimal and re.search(r"[.ef]|h$", text):
        return "half" if text.endswith("h") else "double" if text.endswith("l") else "float"
    digits = text.rstrip("ulz")
    suffix = text[len(digits) :]
    try:
        value = int(digits, 0 if re.match(r"0[xbo]", digits) else 10)
    except ValueError:
        return ""
    if "u" in suffix:
        return "uint64_t" if "l" in suffix or value >= 2**32 else "uint"
    if "ll" in suffix or value >= 2 ** (32 if hexadecimal else 31):
        return "int64_t"
    return "uint" if value >= 2**31 else "int"


def tensor_type(name: str) -> TensorType | None:
    """Return what a type says if it is one of slangpy's tensors, or None."""
    match = _TENSOR.fullmatch(plain(name))
    if match is None or match[1] not in TENSORS:
        return None
    arguments = _split(match[2])
    if len(arguments) != 2:
        return None
    rank = arguments[1].strip()
    return TensorType(match[1], arguments[0].strip(), int(rank) if rank.isdigit() else None)


def _split(text: str) -> list[str]:
    """Split generic arguments at the commas that are not inside brackets."""
    parts, depth, begin = [], 0, 0
    for i, character in enumerate(text):
        if character in "<([":
            depth += 1
        elif character in ">)]":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[begin:i])
            begin = i + 1
    return [*parts, text[begin:]]
