"""What is said of each parameter while it is trained: norms, the size of an update, how gradients are spread, what is not finite.

All of it is made on the device by the passes of `slanglab.tensors`, for all parameters in one submit where they are tensors of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from slanglab.tensors import difference, host, measures, sources
from slanglab.tensors import summary as summaries
from slanglab.tensors.binning import Edges
from slanglab.tensors.layout import View
from slanglab.tensors.records import Statistics

__all__ = [
    "BINS",
    "DECADES",
    "MAGNITUDES",
    "PER_DECADE",
    "Measure",
    "NotFinite",
    "first_not_finite",
    "folded",
    "gradient",
    "has_gradient",
    "norm",
    "plain",
    "spread",
    "update",
]

DECADES = (-10, 5)
"""Powers of ten between which magnitudes of gradients are counted; what is smaller or larger counts in the bin at that end."""

PER_DECADE = 4

BINS = (DECADES[1] - DECADES[0]) * PER_DECADE


@dataclass(frozen=True)
class Measure:
    """One look at a parameter and its gradient.

    Attributes
    ----------
    gradient : float or None
        Euclidean norm of the gradient; NaN where some of it is not finite, None where there is no gradient.
    update : float or None
        Norm of the change of the step, over the norm of the parameter before it; None where it was not looked at.
    bad : int
        Elements of the gradient that are not finite.
    bad_value : int
        Elements of the parameter that are not finite.
    """

    gradient: float | None
    update: float | None = None
    bad: int = 0
    bad_value: int = 0


@dataclass(frozen=True)
class NotFinite:
    """Where the first NaN or infinity is.

    Attributes
    ----------
    name : str
        `sigma.grad` or `sigma`; "loss".
    index : tuple of int or None
    count : int
        How many there are in that tensor.
    kind : str
        "NaN", "+Inf" or "-Inf" of the first one.
    """

    name: str
    index: tuple[int, ...] | None
    count: int
    kind: str

    def place(self) -> str:
        """Return it as Python: `sigma.grad[17]`."""
        if self.index is None or self.index == ():
            return self.name
        return f"{self.name}[{', '.join(map(str, self.index))}]"


def norm(known: Statistics) -> float:
    """Return the Euclidean norm of numbers of which the statistics are known; NaN where some are not finite."""
    if known.finite != known.count:
        return math.nan
    if known.mean is None or known.std is None:
        return 0.0
    # hypot: squares of large numbers overflow.
    return math.sqrt(known.count) * math.hypot(known.mean, known.std)


def gradient(params: Mapping[str, Any]) -> dict[str, Measure]:
    """Look at all gradients and values: a read for each, behind one submit a device."""
    found = _statistics(params)
    looked = {}
    for name, (value, slope) in found.items():
        bad_value = value.count - value.finite
        if slope is None:
            looked[name] = Measure(None, None, 0, bad_value)
        else:
            looked[name] = Measure(norm(slope), None, slope.count - slope.finite, bad_value)
    return looked


def _statistics(params: Mapping[str, Any]) -> dict[str, tuple[Statistics, Statistics | None]]:
    encoders: list[tuple[Any, Any]] = []
    told: dict[str, tuple[Any, Any]] = {}

    def start(source: sources.Source) -> Any:
        if not isinstance(source, View):
            return host.statistics(source)
        device = source.storage.device
        encoder = next((e for d, e in encoders if d is device), None)
        if encoder is None:
            encoder = device.create_command_encoder()
            encoders.append((device, encoder))
        return measures.tell(device, source, None, encoder)

    for name, tensor in params.items():
        value = start(sources.source(tensor, None, False))
        slope = start(sources.source(tensor, None, True)) if has_gradient(tensor) else None
        told[name] = value, slope
    for device, encoder in encoders:
        device.submit_command_buffer(encoder.finish())
    return {
        name: (_read(value), None if slope is None else _read(slope)) for name, (value, slope) in told.items()
    }


def _read(one: Any) -> Statistics:
    return one if isinstance(one, Statistics) else cast(Statistics, one.read())


def has_gradient(tensor: Any) -> bool:
    """Tell whether a tensor or array has a gradient."""
    if sources.is_tensor(tensor):
        return sources.gradient_of(tensor) is not None
    return sources.arrays(tensor).gradient is not None


def update(before: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, float | None]:
    """Return |change| / |value before| for each parameter, from copies made before a step; None where the value was zero."""
    changes = {name: difference.difference(plain(params[name]), copy) for name, copy in before.items()}
    moved = _statistics(changes)
    olds = _statistics(before)
    ratios: dict[str, float | None] = {}
    for name in before:
        old = norm(olds[name][0])
        ratios[name] = norm(moved[name][0]) / old if old > 0 else None
    return ratios


def plain(tensor: Any) -> Any:
    """Return a tensor without its gradient: differences are of values alone."""
    if sources.is_tensor(tensor):
        return tensor.detach() if hasattr(tensor, "detach") else tensor
    return sources.Arrays(sources.arrays(tensor).value)


# ----- how gradients are spread -----


class _Magnitudes(Edges):
    """Bins of equal ratio on both sides of zero, and one around it."""

    def __init__(self) -> None:
        low, high = DECADES
        steps = 10.0 ** (np.arange((high - low) * PER_DECADE + 1) / PER_DECADE + low)
        self.values = np.concatenate([-steps[::-1], steps])
        self.bins = len(self.values) - 1
        self.scale = "linear"
        self.threshold = None
        # No formula leads to these bins: the kernel searches for the bin of each element.
        self.start = self.stop = 0.0


MAGNITUDES = _Magnitudes()
"""`BINS` bins for negative numbers, one around zero, `BINS` for positive ones."""


def spread(params: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return which share of all gradients' elements lies in each bin of magnitude.

    Returns
    -------
    ndarray of float64, shape (60,)
        From 1e-10 to 1e5, four bins a decade. Zeros and smaller numbers are in none, and neither is what is larger: shares are of all.
    """
    counts = []
    total = 0
    for tensor in params.values():
        if not has_gradient(tensor):
            continue
        source = sources.source(tensor, None, True)
        if isinstance(source, View):
            counts.append(measures.histogram(source.storage.device, source, MAGNITUDES))
            total += source.all.count
        else:
            counts.append(host.histogram(source, MAGNITUDES))
            total += source.size
    return folded(counts, total)


def folded(counts: Sequence[NDArray[np.int64]], total: int) -> NDArray[np.float64]:
    """Return the shares of magnitudes among `total` elements, from what several tensors have in `MAGNITUDES`."""
    shares = np.zeros(BINS)
    for found in counts:
        shares += found[BINS + 1 :] + found[:BINS][::-1]
    return shares / total if total else shares


# ----- what is not finite -----


def first_not_finite(params: Mapping[str, Any], values: bool = True) -> NotFinite | None:
    """Return the first element of a gradient (else, with `values`, of a parameter) that is NaN or infinite."""
    for of_gradient in (True, False)[: 1 + values]:
        for name, tensor in params.items():
            if of_gradient and not has_gradient(tensor):
                continue
            places = summaries.nonfinite(tensor, 1, gradient=of_gradient)
            if places:
                known = summaries.statistics(tensor, gradient=of_gradient)
                # Which of the three the first one is: the picture of a single element says it.
                return NotFinite(
                    f"{name}.grad" if of_gradient else name,
                    places[0],
                    known.count - known.finite,
                    _kind(tensor, places[0], of_gradient, known),
                )
    return None


def _kind(tensor: Any, place: tuple[int, ...], of_gradient: bool, known: Statistics) -> str:
    kinds = [k for k, n in (("NaN", known.nan), ("+Inf", known.posinf), ("-Inf", known.neginf)) if n]
    if len(kinds) == 1:
        return kinds[0]
    shape = (
        tuple(tensor.shape.as_tuple()) if sources.is_tensor(tensor) else sources.arrays(tensor).value.shape
    )
    element = np.asarray(summaries.elements(tensor, index=place[: len(shape)], gradient=of_gradient))
    number = float(element.reshape(-1)[-1 if element.size == 1 else _inner(place, shape, element)])
    return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"


def _inner(place: tuple[int, ...], shape: tuple[int, ...], element: NDArray[Any]) -> int:
    """Return the position of a component in an element."""
    inner = element.shape[-(len(place) - len(shape)) :]
    return int(np.ravel_multi_index(place[len(shape) :], inner))
