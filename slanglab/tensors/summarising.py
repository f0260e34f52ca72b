"""A summary put together: the statistics and histograms of a tensor and its gradient, on whichever side each lies."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.device import describe
from slanglab.errors import ArgumentError
from slanglab.scalars import type_name
from slanglab.tensors import described as submits
from slanglab.tensors import host, layout, measures, sources
from slanglab.tensors.binning import Edges, edges
from slanglab.tensors.layout import View
from slanglab.tensors.records import Histogram, Statistics, Summary
from slanglab.tensors.sources import Source

__all__ = ["begun", "finished", "histogram", "statistics", "whole"]

_SOON = 1 << 20
"""Of so many elements a histogram takes about as long as to come back for it."""


def whole(tensor: Any, *, bins: int) -> Summary:
    """Return all there is to say, with histograms of `bins` bins."""
    return _read(tensor, bins, True)


def begun(tensor: Any, *, bins: int) -> Summary:
    """Return a summary that lacks the value's histogram if the tensor is large: as costly as all the rest, it is what a view needs last."""
    return _read(tensor, bins, False)


def finished(found: Summary, tensor: Any, *, bins: int) -> Summary:
    """Return what `begun` returned with the histogram that it lacks, if it lacks one."""
    known = found.value
    if known is None or found.histogram is not None:
        return found
    source = sources.source(tensor, None, False)
    return replace(found, histogram=histogram(source, submits.lines(known, bins)))


def _read(tensor: Any, bins: int, complete: bool) -> Summary:
    if not sources.is_tensor(tensor):
        arrays = sources.arrays(tensor)
        array = arrays.value
        parts: dict[str, Source] = dict(host.fields(array))
        slopes: dict[str, Source] = {}
        if arrays.gradient is not None:
            slopes = dict(host.fields(arrays.gradient))
        strides = tuple(s // array.dtype.itemsize for s in array.strides)
        return _summary(
            array.shape,
            strides,
            arrays.device,
            parts,
            slopes,
            {name: str(a.dtype) for name, a in host.fields(array).items()},
            bins,
            complete,
        )
    found = layout.fields(tensor)
    values = {f.name: sources.part(tensor, f) for f in found}
    grads: dict[str, Source] = {}
    notes: list[str] = []
    try:
        grad = sources.gradient_of(tensor)
        if grad is not None:
            grads = {f.name: sources.part(*grad[:1], f, grad[1]) for f in layout.fields(grad[0])}
    except ArgumentError as error:
        notes.append(error.message)
    names = {f.name: f.form.name for f in found}
    if "" in names:
        names[""] = type_name(str(tensor.dtype.full_name))
    return _summary(
        tuple(tensor.shape.as_tuple()),
        tuple(tensor.strides.as_tuple()),
        describe(tensor.device),
        values,
        grads,
        names,
        bins,
        complete,
        tuple(notes),
        type_name(str(tensor.dtype.full_name)),
    )


def _summary(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: str,
    values: dict[str, Source],
    grads: dict[str, Source],
    names: dict[str, str],
    bins: int,
    complete: bool,
    notes: tuple[str, ...] = (),
    dtype: str = "struct",
) -> Summary:
    if list(values) != [""]:
        parts = {
            name: _summary(shape, strides, device, {"": source}, {}, {"": names[name]}, bins, True)
            for name, source in values.items()
        }
        return Summary(
            shape,
            dtype,
            strides,
            device,
            sum(part.bytes for part in parts.values()),
            *(None,) * 5,
            fields=parts,
            notes=notes,
        )
    value, grad = values[""], grads.get("")
    complete = complete or math.prod(shape) <= _SOON
    slope = ratio = shown = slope_histogram = None
    if isinstance(value, View) and isinstance(grad, View):
        if complete:
            (known, lines, counts), slope, ratio = submits.both(value.storage.device, value, grad, bins)
            shown = _counted(lines, counts)
        else:
            known, slope, ratio = submits.told(value.storage.device, value, grad)
    else:
        known, shown = _described(value, bins) if complete else (statistics(value), None)
        if grad is not None:
            slope, ratio = statistics(grad), _ratio(grad, value)
    if grad is not None and slope is not None:
        most = max(abs(slope.minimum or 0.0), abs(slope.maximum or 0.0))
        slope_histogram = histogram(grad, edges((-most, most) if most else None, None, bins, "symlog"))
    return Summary(
        shape,
        names[""],
        strides,
        device,
        known.count * (value.form.bits // 8 if isinstance(value, View) else value.dtype.itemsize),
        known,
        slope,
        ratio,
        shown,
        slope_histogram,
        notes=notes,
    )


def statistics(source: Source) -> Statistics:
    """Return counts, extremes, mean and standard deviation."""
    if isinstance(source, View):
        return measures.statistics(source.storage.device, source)
    return host.statistics(source)


def _described(source: Source, bins: int) -> tuple[Statistics, Histogram]:
    """Return the statistics, and a linear histogram over the finite extremes."""
    if isinstance(source, View):
        known, lines, counts = submits.described(source.storage.device, source, bins)
        return known, _counted(lines, counts)
    known = host.statistics(source)
    return known, histogram(source, submits.lines(known, bins))


def _ratio(grad: Source, value: Source) -> Statistics | None:
    if isinstance(grad, View) or isinstance(value, View):
        return None  # one of them is on the host
    return host.statistics(host.ratio(grad, value))


def histogram(source: Source, bins: Edges) -> Histogram:
    """Return how many elements lie in each bin."""
    if isinstance(source, View):
        return _counted(bins, measures.histogram(source.storage.device, source, bins))
    return _counted(bins, host.histogram(source, bins))


def _counted(bins: Edges, counts: NDArray[np.int64]) -> Histogram:
    return Histogram(bins.values, counts, bins.scale, bins.threshold)
