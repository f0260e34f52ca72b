"""Statistics and histograms of a view: passes over its elements, and what they found put together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.device import is_software
from slanglab.tensors import division, kernels
from slanglab.tensors.binning import Edges, keys_to_values
from slanglab.tensors.kernels import Format
from slanglab.tensors.launch import (
    brought,
    flat_in_all,
    lent,
    merged_together,
    placed,
    returned,
    uploaded,
)
from slanglab.tensors.layout import View
from slanglab.tensors.records import Statistics

__all__ = [
    "WORDS",
    "Counted",
    "Told",
    "combined",
    "counter_sets",
    "gathered",
    "histogram",
    "record_histogram",
    "record_statistics",
    "statistics",
    "tell",
    "tell_histogram",
]

WORDS = 17
"""Of a group's partial result in statistics."""

_OWN = 256  # bins for which each thread of a software device has counters of its own
_COUNTERS = 4096  # of a group on other devices
_COPIES = 32  # sets of counters at most
_SETS = 8  # sets that a GPU's groups add their counts to, so that they don't queue at one counter
_GATHERED = 512  # counters in all of these, where one set has no more


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
        return self.groups * WORDS

    def made(self, words: NDArray[np.uint32]) -> Statistics:
        """Combine the groups' partial results, brought by other ways."""
        if self.found is None:
            return _NOTHING
        return combined(words.reshape(WORDS, -1).T, self.form, self.count, self.times)


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
        return 0 if self.found is None else self.head + self.used * counter_sets(self.found.device, self.used)

    def made(self, words: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the counts."""
        counts = np.zeros(self.bins, np.int64)
        if self.found is not None:
            counts[: self.used] = gathered(words[self.head :], self.used) * self.times
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
    plan = division.planned(device, view, axes, flat, over is None)
    found = lent(device, plan.groups * WORDS)
    if over is None:
        record_statistics(device, view, plan, found, command_encoder=encoder)
        return Told(form, axes.count, times, plan.groups, found)
    program = kernels.kernel(device, "statistics", "statistics", form, **plan.macros, RATIO=1)
    given = plan.given | {"second": placed(device, second, flat), "over": over.storage}
    program.dispatch(
        plan.threads,
        way=plan.way,
        zero=0,
        groups=plan.groups,
        clear=0,
        cleared=0,
        **given,
        partials=found,
        command_encoder=encoder,
    )
    form = kernels.FORMATS["float32"] if form.bits == 16 else form
    return Told(form, axes.count, times, plan.groups, found)


def record_statistics(
    device: Any,
    view: View,
    plan: division.Plan,
    found: Any,
    cleared: tuple[int, int] = (0, 0),
    **encoder: Any,
) -> None:
    """Record the pass that makes statistics; it clears `cleared[1]` words from `cleared[0]` on, for a histogram that follows."""
    kernels.kernel(device, "statistics", "statistics", view.form, **plan.macros).dispatch(
        plan.threads,
        way=plan.way,
        zero=0,
        groups=plan.groups,
        clear=cleared[0],
        cleared=cleared[1],
        **plan.given,
        partials=found,
        **encoder,
    )


def combined(partials: NDArray[np.uint32], form: Format, count: int, times: int) -> Statistics:
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
    found = uploaded(device, np.concatenate([head, np.zeros(used * counter_sets(device, used), np.uint32)]))
    plan = division.planned(device, view, axes, flat_in_all(axes))
    record_histogram(
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


def counter_sets(device: Any, bins: int) -> int:
    """Return the sets of `bins` counters that `record_histogram` adds to, one after another."""
    return 1 if is_software(device) else min(_SETS, max(1, _GATHERED // bins))


def gathered(counters: NDArray[np.uint32], bins: int) -> NDArray[np.int64]:
    """Add up sets of counters."""
    total: NDArray[np.int64] = counters.reshape(-1, bins).sum(axis=0, dtype=np.int64)
    return total


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


def record_histogram(
    device: Any,
    view: View,
    plan: division.Plan,
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
        way=plan.way,
        zero=0,
        bins=used,
        open=int(unbounded),
        at=at,
        sets=counter_sets(device, used),
        **({"groups": groups} if groups else {}),
        **plan.given,
        found=found,
        **encoder,
    )
