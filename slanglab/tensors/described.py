"""A view's statistics and linear histogram in one submit: the edges, which follow from the extremes, are made on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.tensors import division, kernels, measures
from slanglab.tensors.binning import Edges, edges
from slanglab.tensors.launch import flat_in_all, lent, returned
from slanglab.tensors.layout import View
from slanglab.tensors.records import BINS_MOST, Statistics

__all__ = ["Described", "both", "describe", "described", "lines", "parts", "told"]


@dataclass(frozen=True, eq=False)
class Described:
    """Statistics and a linear histogram being made in one submit: what was recorded, until `read` brings it back."""

    view: View
    plan: division.Plan
    times: int
    bins: int
    words: int
    found: Any

    def parts(self) -> tuple[tuple[str, Callable[[Any], None]], ...]:
        """Return what records each pass into an encoder."""
        view, plan, bins, found = self.view, self.plan, self.bins, self.found
        device = view.storage.device
        cleared = _counts_at(plan, bins), bins * measures.counter_sets(device, bins)

        def tell(encoder: Any) -> None:
            measures.record_statistics(device, view, plan, found, cleared, command_encoder=encoder)

        def count(encoder: Any) -> None:
            measures.record_histogram(
                device,
                view,
                plan,
                found,
                bins,
                False,
                False,
                plan.groups * measures.WORDS,
                plan.groups,
                command_encoder=encoder,
            )

        return ("statistics", tell), ("histogram", count)

    def read(self) -> tuple[Statistics, Edges, NDArray[np.int64]]:
        """Wait for the results, and return the statistics, the edges and the counts; once, since the buffer is used again."""
        words = returned(self.found, self.words)
        at, form = self.plan.groups * measures.WORDS, self.view.form
        known = measures.combined(
            words[:at].reshape(measures.WORDS, -1).T, form, self.plan.axes.count, self.times
        )
        over = lines(known, self.bins)
        keys, _ = over.keys(form)
        if np.array_equal(keys, words[at : at + self.bins + 1]):
            counts = measures.gathered(words[_counts_at(self.plan, self.bins) :], self.bins) * self.times
        else:  # the device rounds in a way of its own
            counts = measures.histogram(self.view.storage.device, self.view, over)
        return known, over, counts


def _counts_at(plan: division.Plan, bins: int) -> int:
    """Return where the counts begin: partial results, edges and the proposal come before."""
    return plan.groups * measures.WORDS + (bins + 1) + 4


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
    plan = division.planned(device, view, axes, flat_in_all(axes))
    words = _counts_at(plan, bins) + bins * measures.counter_sets(device, bins)
    return Described(view, plan, times, bins, words, lent(device, words))


def both(
    device: Any, value: View, gradient: View, bins: int
) -> tuple[tuple[Statistics, Edges, NDArray[np.int64]], Statistics, Statistics]:
    """Return what `described` does of a value, the statistics of its gradient and those of |gradient| / |value|."""
    encoder = device.create_command_encoder()
    recorded = describe(device, value, bins, encoder)
    slope = measures.tell(device, gradient, None, encoder)
    ratio = measures.tell(device, value, gradient, encoder)
    device.submit_command_buffer(encoder.finish())
    known = described(device, value, bins) if recorded is None else recorded.read()
    return known, slope.read(), ratio.read()


def told(device: Any, value: View, gradient: View) -> tuple[Statistics, Statistics, Statistics]:
    """Return the statistics of a value, of its gradient and of |gradient| / |value|, in one submit."""
    encoder = device.create_command_encoder()
    known = measures.tell(device, value, None, encoder)
    slope = measures.tell(device, gradient, None, encoder)
    ratio = measures.tell(device, value, gradient, encoder)
    device.submit_command_buffer(encoder.finish())
    return known.read(), slope.read(), ratio.read()


def described(device: Any, view: View, bins: int) -> tuple[Statistics, Edges, NDArray[np.int64]]:
    """Return statistics, and the edges and counts of a linear histogram over the finite extremes."""
    encoder = device.create_command_encoder()
    recorded = describe(device, view, bins, encoder)
    if recorded is not None:
        device.submit_command_buffer(encoder.finish())
        return recorded.read()
    known = measures.statistics(device, view)
    over = lines(known, bins)
    return known, over, measures.histogram(device, view, over)


def lines(known: Statistics, bins: int) -> Edges:
    """Return the edges of a linear histogram over the finite extremes."""
    return edges(None, None if known.minimum is None else (known.minimum, known.maximum), bins, "linear")
