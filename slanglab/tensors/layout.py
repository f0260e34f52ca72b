"""Where the scalars of a tensor lie: element types taken apart, axes merged, windows cut, nothing copied."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from slanglab.errors import ArgumentError
from slanglab.tensors.kernels import FORMATS, Format

__all__ = ["Axes", "Field", "View", "fields", "view"]

_ADDRESS_MOST = 2**32


@dataclass(frozen=True)
class Axes:
    """Shape and strides (in scalars) of some elements, and where the first lies."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    base: int = 0

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        """One past the furthest scalar, counted from the start of the buffer."""
        return self.base + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + 1

    def merged(self) -> Axes:
        """Join neighbouring axes that one stride covers, and drop those of size 1; the order of elements stays."""
        shape: list[int] = []
        strides: list[int] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if shape and strides[-1] == size * stride:
                shape[-1] *= size
                strides[-1] = stride
            else:
                shape.append(size)
                strides.append(stride)
        return Axes(tuple(shape), tuple(strides), self.base)

    def unordered(self) -> tuple[Axes, int]:
        """Return the same elements in whatever order reads memory best, and how often each of them counts.

        Axes of stride 0 (a broadcast view) are dropped: their elements count as often as the axis is long.
        """
        times = math.prod(n for n, s in zip(self.shape, self.strides, strict=True) if s == 0)
        kept = sorted(
            (p for p in zip(self.shape, self.strides, strict=True) if p[1] != 0), key=lambda p: -p[1]
        )
        return Axes(tuple(n for n, _ in kept), tuple(s for _, s in kept), self.base).merged(), times


@dataclass(frozen=True)
class Field:
    """One kind of scalar inside an element: the element itself, or one field of a struct.

    Attributes
    ----------
    name : str
        Empty for an element that is no struct, else the path (`weights.bias`).
    form : Format
        Its scalar type.
    offset : int
        Bytes from the element's start to its first scalar.
    shape, strides : tuple of int
        Its components (`float3`: (3,); `float2x4`: (2, 4)), strides in bytes.
    vector : bool
        Whether it is a single vector, whose three or four components may be a colour.
    """

    name: str
    form: Format
    offset: int = 0
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    vector: bool = False


def _walk(layout: Any, part: Field) -> Iterator[Field]:
    import slangpy as spy

    kinds = spy.TypeReflection.Kind
    kind = layout.kind
    if kind == kinds.struct:
        for member in layout.fields:
            name = f"{part.name}.{member.name}" if part.name else str(member.name)
            yield from _walk(member.type_layout, replace(part, name=name, offset=part.offset + member.offset))
        return
    if kind in (kinds.array, kinds.vector, kinds.matrix):
        inner = layout.element_type_layout
        if kind == kinds.array:
            size = int(layout.type.element_count)
        else:
            size = int(layout.type.col_count if kind == kinds.vector else layout.type.row_count)
        vector = kind == kinds.vector and not part.shape
        yield from _walk(
            inner,
            replace(
                part, shape=(*part.shape, size), strides=(*part.strides, int(inner.stride)), vector=vector
            ),
        )
        return
    if kind != kinds.scalar:
        return  # pointers, textures: nothing to sum
    scalar = layout.type.scalar_type.name
    if scalar == "bool":
        yield replace(part, form=Format("bool", 8 * int(layout.size), "BOOL"))
    elif scalar in FORMATS:
        yield replace(part, form=FORMATS[scalar])


def fields(tensor: Any) -> tuple[Field, ...]:
    """Return the scalars that an element of a slangpy.Tensor holds: one `Field`, or one for each field of a struct."""
    found = tuple(_walk(tensor.dtype.buffer_layout.reflection, Field("", FORMATS["float32"])))
    if not found:
        raise ArgumentError(
            f"Elements of type {tensor.dtype.full_name} hold no numbers.", given=str(tensor.dtype.full_name)
        )
    return found


@dataclass(frozen=True)
class View:
    """One field of all elements of a tensor, as the kernels read it.

    Attributes
    ----------
    storage : slangpy.Buffer
        The tensor's memory.
    form : Format
        Type of the scalars.
    axes : Axes
        The tensor's axes, without components.
    inner : Axes
        The components' axes (base 0).
    vector : bool
        Whether an element is a vector.
    """

    storage: Any
    form: Format
    axes: Axes
    inner: Axes
    vector: bool

    @property
    def all(self) -> Axes:
        """Tensor axes, then components."""
        return Axes(
            self.axes.shape + self.inner.shape, self.axes.strides + self.inner.strides, self.axes.base
        )


def view(tensor: Any, field: Field, like: Any = None) -> View:
    """Return how one field of a tensor's elements lies in memory.

    Parameters
    ----------
    tensor : slangpy.Tensor
        The tensor, contiguous or not.
    field : Field
        One of `fields(tensor)`.
    like : slangpy.Tensor, optional
        Take shape, strides and offset from this one (a gradient that belongs to a view of its tensor).

    Raises
    ------
    ArgumentError
        If the view reaches beyond its memory, or beyond 2^32 scalars.
    """
    shaped = tensor if like is None else like
    stride = int(tensor.dtype.buffer_layout.stride)
    size = field.form.bits // 8
    # Natural alignment makes every offset and stride of a scalar a multiple of its size.
    axes = Axes(
        tuple(int(n) for n in shaped.shape.as_tuple()),
        tuple(int(s) * stride // size for s in shaped.strides.as_tuple()),
        (int(shaped.offset) * stride + field.offset) // size,
    )
    inner = Axes(field.shape, tuple(s // size for s in field.strides))
    found = View(tensor.storage, field.form, axes, inner, field.vector)
    whole = found.all
    if whole.count and whole.end * size > int(tensor.storage.size):
        raise ArgumentError(
            f"A view of shape {axes.shape} reaches beyond the memory it was made from "
            f"({whole.end * size} of {tensor.storage.size} bytes).",
            hint="make the view with a shape and strides that stay inside the tensor",
        )
    if whole.count and whole.end > _ADDRESS_MOST:
        raise ArgumentError(
            f"This tensor spans {whole.end} scalars; summaries reach {_ADDRESS_MOST}.",
            hint="look at a slice: t[:n]",
        )
    return found
