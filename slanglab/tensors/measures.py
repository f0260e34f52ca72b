"""Statistics and histograms of a view: passes over its elements, and what they found put together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.device import is_software
from slanglab.tensors import kernels
from slanglab.tensors.binning import Edges, edges, keys_to_values
from slanglab.tensors.kernels import Format
from slanglab.tensors.launch import (
    brought,
    flat_in_all,
    lent,
    merged_together,
    placed,
    returned,
    runs,
    uploaded,
)
from slanglab.tensors.layout import Axes, View
from slanglab.tensors.records import BINS_MOST, Statistics

__all__ = [
    "Counted",
    "Described",
    "Told",
    "both",
    "describe",
    "described",
    "histogram",
    "parts",
    "statistics",
    "tell",
    "tell_histogram",
]

# On a GPU: threads of a group, groups at most, and elements that a thread reads at a time where it can read several at once.
# What the groups found of statistics comes back in one small read.
_STATISTICS = (256, 528, 16)
_HISTOGRAM = (256, 660, 16)
_WORDS = 17  # of a group's partial result
_OWN = 256  # bins for which each thread of a software device has counters of its own
_COUNTERS = 4096  # of a group on other devices
_COPIES = 32  # sets of counters at most


@dataclass(frozen=True)
class _Plan:
    """How a pass over one view is divided, and how its elements are read."""

    axes: Axes
    groups: int
    group: int
    steps: dict[str, int]
    macros: dict[str, int]
    given: dict[str, Any]

    @property
    def threads(self) -> list[int]:
        return [self.groups * self.group, 1, 1]


def _plan(
    device: Any, view: View, axes: Axes, flat: int, way: tuple[int, int, int], quads: bool = True
) -> _Plan:
    quads = quads and bool(flat) and _in_quads(device, view, axes)
    software = is_software(device)
    group, most, block = way
    block = (16 if software else block) if quads else 8
    groups, group, run = runs(device, axes.count, 0 if software else group, block, most)
    given = {"layout": placed(device, axes, flat), "elements": view.storage}
    if quads:
        given["quads"] = view.storage
    tiles = run // (group * block)
    # What a GPU reads at one time lies together; a processor's threads go on where they were.
    steps = {"tiles": tiles, "apart": tiles if software else 1, "step": 1 if software else groups}
    return _Plan(
        axes, groups, group, steps, {"GROUP": group, "BLOCK": block, "FLAT": flat, "QUADS": int(quads)}, given
    )


def _in_quads(device: Any, view: View, axes: Axes) -> bool:
    """Whether the elements can be read sixteen bytes at a time."""
    # Direct3D gives a buffer's elements the size that it was made with.
    return (
        view.form.name == "float32"
        and axes.strides in ((1,), ())
        and axes.base % 4 == 0
        and device.info.type.name != "d3d12"
    )


@dataclass(frozen=True, eq=False)
class Told:
    """Statistics being made: what was recorded, until `read` brings it back."""

    form: Format
    count: int
    times: int
    groups: int
    found: Any

    def read(self) -> Statistics:
        """Wait for the groups' partial results, and combine them; once, since the buffer is used again."""
        if self.found is None:
            return _NOTHING
        return self.made(returned(self.found, self.words))

    @property
    def words(self) -> int:
        """Words of `found` that are results."""
        return self.groups * _WORDS

    def made(self, words: NDArray[np.uint32]) -> Statistics:
        """Combine the groups' partial results, brought by other ways."""
        if self.found is None:
            return _NOTHING
        return _combined(words.reshape(-1, _WORDS), self.form, self.count, self.times)


_NOTHING = Statistics(0, 0, 0, 0, 0, 0, None, None, None, None)


@dataclass(frozen=True, eq=False)
class Counted:
    """A histogram being made: what was recorded, until its words are brought."""

    bins: int
    used: int
    times: int
    head: int
    found: Any

    @property
    def words(self) -> int:
        """Words of `found`, results at their end; 0 where nothing had to be recorded."""
        return 0 if self.found is None else self.head + self.used

    def made(self, words: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the counts."""
        counts = np.zeros(self.bins, np.int64)
        if self.found is not None:
            counts[: self.used] = words[self.head : self.head + self.used].astype(np.int64) * self.times
        return counts


def statistics(device: Any, view: View, over: View | None = None) -> Statistics:
    """Return the statistics of a view, or of |over| / |view| (of floating-point types, and of one shape)."""
    return tell(device, view, over, None).read()


def tell(device: Any, view: View, over: View | None, encoder: Any) -> Told:
    """Record what makes the statistics of a view, or of |over| / |view|; without an encoder it is submitted at once."""
    times = 1
    if over is None:
        axes, times = view.all.unordered()
        second = axes
    else:
        axes, second = merged_together(view.all, over.all)
    form = view.form
    if axes.count == 0 or times == 0:
        return Told(form, 0, times, 0, None)
    flat = flat_in_all(axes, second)
    plan = _plan(device, view, axes, flat, _STATISTICS, over is None)
    found = lent(device, plan.groups * _WORDS)
    if over is None:
        _tell(device, view, plan, found, command_encoder=encoder)
        return Told(form, axes.count, times, plan.groups, found)
    program = kernels.kernel(device, "statistics", "statistics", form, **plan.macros, RATIO=1)
    given = plan.given | {"second": placed(device, second, flat), "over": over.storage}
    program.dispatch(
        plan.threads,
        count=axes.count,
        **plan.steps,
        zero=0,
        clear=0,
        cleared=0,
        **given,
        partials=found,
        command_encoder=encoder,
    )
    form = kernels.FORMATS["float32"] if form.bits == 16 else form
    return Told(form, axes.count, times, plan.groups, found)


def _tell(
    device: Any, view: View, plan: _Plan, found: Any, cleared: tuple[int, int] = (0, 0), **encoder: Any
) -> None:
    kernels.kernel(device, "statistics", "statistics", view.form, **plan.macros).dispatch(
        plan.threads,
        count=plan.axes.count,
        **plan.steps,
        zero=0,
        clear=cleared[0],
        cleared=cleared[1],
        **plan.given,
        partials=found,
        **encoder,
    )


def _combined(partials: NDArray[np.uint32], form: Format, count: int, times: int) -> Statistics:
    """Combine the groups' partial results in double precision."""
    finite, zeros, nan, positive, negative = (
        int(n) * times for n in partials[:, :5].sum(axis=0, dtype=np.int64)
    )
    some = partials[partials[:, 0] > 0]
    if not len(some):
        return Statistics(count * times, 0, zeros, nan, positive, negative, None, None, None, None)
    pairs = some[:, 5:17].astype(np.uint64).reshape(-1, 6, 2)
    words = pairs[:, :, 0] | pairs[:, :, 1] << np.uint64(32)
    least, most = keys_to_values(np.array([words[:, 0].min(), words[:, 1].max()]), form).tolist()
    reals = np.ascontiguousarray(words[:, 2:])
    scale, shift, rest, square = (
        reals.view(np.float64) if form.wide else reals.astype(np.uint32).view(np.float32).astype(np.float64)
    ).T
    # All groups to the smallest scale, a power of two that keeps every square finite.
    common = scale.min()
    by = common / scale
    shift, rest, square = shift * by, rest * by, square * by * by
    weight = some[:, 0] / some[:, 0].sum(dtype=np.int64)
    # From one group's shift, so that means that differ in their last digits keep the difference.
    apart = (shift - shift[0]) + rest
    beside = float(np.sum(weight * apart))
    variance = float(square.sum() / some[:, 0].sum(dtype=np.int64) + np.sum(weight * (apart - beside) ** 2))
    mean = float(shift[0] / common + beside / common)
    # A mean lies between the extremes; rounding may put it outside by its last digit.
    mean = min(max(mean, float(least)), float(most))
    return Statistics(
        count * times,
        finite,
        zeros,
        nan,
        positive,
        negative,
        least,
        most,
        mean,
        math.sqrt(variance) / float(common),
    )


def histogram(device: Any, view: View, bins: Edges) -> NDArray[np.int64]:
    """Return how many elements of a view lie in each bin."""
    told = tell_histogram(device, view, bins, None)
    return told.made(np.zeros(0, np.uint32) if told.found is None else brought(told.found, np.uint32))


def tell_histogram(device: Any, view: View, bins: Edges, encoder: Any) -> Counted:
    """Record what counts a view's elements in bins; without an encoder it is submitted at once."""
    axes, times = view.all.unordered()
    keys, unbounded = bins.keys(view.form)
    used = len(keys) - 1
    if axes.count == 0 or times == 0 or used == 0:
        return Counted(bins.bins, 0, 0, 0, None)
    real = np.float64 if view.form.wide else np.float32
    head = np.concatenate([keys.view(np.uint32), np.array(_proposal(bins, view.form), real).view(np.uint32)])
    found = uploaded(device, np.concatenate([head, np.zeros(used, np.uint32)]))
    plan = _plan(device, view, axes, flat_in_all(axes), _HISTOGRAM)
    _count(
        device,
        view,
        plan,
        found,
        used,
        unbounded,
        bins.scale == "symlog",
        0,
        **({} if encoder is None else {"command_encoder": encoder}),
    )
    return Counted(bins.bins, used, times, len(head), found)


def _proposal(bins: Edges, form: Format) -> tuple[float, float, float, float]:
    """Return half the start, the slope, the reciprocal threshold and the margin by which arithmetic proposes a bin."""
    span = bins.stop / 2 - bins.start / 2
    unit, least, large = (2.0**-52, 1e-290, 1e290) if form.wide else (2.0**-23, 1e-30, 1e30)
    slope = bins.bins / span if span > 0 else math.inf
    start = bins.start / 2
    if not math.isfinite(slope) or slope > large or abs(start) > large:
        return 0.0, 0.0, 0.0, 1.0
    # Several times what rounding can move the proposed bin by.
    margin = 8 * unit * bins.bins + 1e-6
    per_threshold = 0.0
    if bins.threshold is not None:
        per_threshold = min(1 / bins.threshold, large)
        # A device's logarithm is good to 1e-6 or so.
        margin += 1e-4 + (4 * unit + 1e-5) * slope * (1 + max(abs(bins.start), abs(bins.stop)))
    rounded = start if form.wide else float(np.float32(start))
    margin += 1.01 * slope * abs(start - rounded)
    # Where products may overflow or be flushed to zero the proposal is worth nothing.
    if not least < max(abs(bins.values[0]), abs(bins.values[-1])) < large:
        margin = 1.0
    return start, slope, per_threshold, min(margin, 1.0)


def _count(
    device: Any,
    view: View,
    plan: _Plan,
    found: Any,
    used: int,
    unbounded: bool,
    symlog: bool,
    at: int,
    groups: int = 0,
    **encoder: Any,
) -> None:
    """Record what counts in the bins that `found` holds from `at` on, or in those that follow from `groups` partial results."""
    room = 1 << max(6, (used - 1).bit_length())
    own = is_software(device) and used <= _OWN
    copies = plan.group if own else min(_COPIES, max(1, _COUNTERS // room))
    macros = plan.macros | {"OWN": int(own), "BINS": room, "COPIES": copies, "SYMLOG": int(symlog)}
    macros |= {"EDGES": int(groups > 0), "ROUNDED": int(not is_software(device) and not view.form.wide)}
    kernels.kernel(device, "histogram", "histogram", view.form, **macros).dispatch(
        plan.threads,
        total=plan.axes.count,
        **plan.steps,
        zero=0,
        bins=used,
        open=int(unbounded),
        at=at,
        **({"groups": groups} if groups else {}),
        **plan.given,
        found=found,
        **encoder,
    )


@dataclass(frozen=True, eq=False)
class Described:
    """Statistics and a linear histogram being made in one submit: what was recorded, until `read` brings it back."""

    view: View
    plan: _Plan
    counting: _Plan
    times: int
    bins: int
    found: Any

    def parts(self) -> tuple[tuple[str, Callable[[Any], None]], ...]:
        """Return what records each pass into an encoder."""
        device, view, plan, bins, found = (
            self.view.storage.device,
            self.view,
            self.plan,
            self.bins,
            self.found,
        )
        at = plan.groups * _WORDS
        cleared = at + bins + 5, bins

        def tell(encoder: Any) -> None:
            _tell(device, view, plan, found, cleared, command_encoder=encoder)

        def count(encoder: Any) -> None:
            _count(
                device,
                view,
                self.counting,
                found,
                bins,
                False,
                False,
                at,
                plan.groups,
                command_encoder=encoder,
            )

        return ("statistics", tell), ("histogram", count)

    def read(self) -> tuple[Statistics, Edges, NDArray[np.int64]]:
        """Wait for the results, and return the statistics, the edges and the counts; once, since the buffer is used again."""
        words = returned(self.found, self.plan.groups * _WORDS + 2 * self.bins + 5)
        at, form = self.plan.groups * _WORDS, self.view.form
        known = _combined(words[:at].reshape(-1, _WORDS), form, self.plan.axes.count, self.times)
        lines = _lines(known, self.bins)
        keys, _ = lines.keys(form)
        if np.array_equal(keys, words[at : at + self.bins + 1]):
            counts = words[at + self.bins + 5 : at + 2 * self.bins + 5].astype(np.int64) * self.times
        else:  # the device rounds in a way of its own
            counts = histogram(self.view.storage.device, self.view, lines)
        return known, lines, counts


def describe(device: Any, view: View, bins: int, encoder: Any) -> Described | None:
    """Record statistics and a linear histogram over the finite extremes, or return None where that takes two submits."""
    recorded = _described(device, view, bins)
    if recorded is not None:
        for _, record in recorded.parts():
            record(encoder)
    return recorded


def parts(device: Any, view: View, bins: int) -> tuple[tuple[str, Callable[[Any], None]], ...]:
    """Return the passes that `describe` records, by name, to time each; none where it takes two submits."""
    recorded = _described(device, view, bins)
    return () if recorded is None else recorded.parts()


def _described(device: Any, view: View, bins: int) -> Described | None:
    axes, times = view.all.unordered()
    if axes.count == 0 or times == 0 or view.form.name != "float32" or not 1 <= bins <= BINS_MOST:
        return None
    if not kernels.has_wide(device):
        return None
    flat = flat_in_all(axes)
    plan, counting = (_plan(device, view, axes, flat, way) for way in (_STATISTICS, _HISTOGRAM))
    return Described(view, plan, counting, times, bins, lent(device, plan.groups * _WORDS + 2 * bins + 5))


def both(
    device: Any, value: View, gradient: View, bins: int
) -> tuple[tuple[Statistics, Edges, NDArray[np.int64]], Statistics, Statistics]:
    """Return what `described` does of a value, the statistics of its gradient and those of |gradient| / |value|."""
    encoder = device.create_command_encoder()
    recorded = describe(device, value, bins, encoder)
    slope = tell(device, gradient, None, encoder)
    ratio = tell(device, value, gradient, encoder)
    device.submit_command_buffer(encoder.finish())
    known = described(device, value, bins) if recorded is None else recorded.read()
    return known, slope.read(), ratio.read()


def described(device: Any, view: View, bins: int) -> tuple[Statistics, Edges, NDArray[np.int64]]:
    """Return statistics, and the edges and counts of a linear histogram over the finite extremes."""
    encoder = device.create_command_encoder()
    recorded = describe(device, view, bins, encoder)
    if recorded is not None:
        device.submit_command_buffer(encoder.finish())
        return recorded.read()
    known = statistics(device, view)
    lines = _lines(known, bins)
    return known, lines, histogram(device, view, lines)


def _lines(known: Statistics, bins: int) -> Edges:
    return edges(None, None if known.minimum is None else (known.minimum, known.maximum), bins, "linear")
