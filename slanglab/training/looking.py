"""A look at a step: everything that is measured of it, recorded around the update and read some steps later, so that no step waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.tensors import difference, host, launch, measures, sources
from slanglab.tensors.layout import View
from slanglab.tensors.records import Statistics
from slanglab.training.measuring import MAGNITUDES, Measure, folded, has_gradient, norm, plain
from slanglab.waiting.reads import Later

__all__ = ["Look"]


@dataclass
class _Batch:
    """Passes that are recorded for one device, and what they found, in order."""

    encoder: Any
    told: list[Any] = field(default_factory=list)


class _Passes:
    """Passes over several tensors: a submit for each device, and no wait until something is read."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[Any, _Batch]] = {}
        self._later: list[tuple[Later, list[Any]]] = []
        self._found: dict[int, Any] = {}

    def _batch(self, device: Any) -> _Batch:
        if id(device) not in self._batches:
            self._batches[id(device)] = device, _Batch(device.create_command_encoder())
        return self._batches[id(device)][1]

    def statistics(self, source: sources.Source) -> Any:
        """Record the statistics of a source; those of an array are made at once."""
        if not isinstance(source, View):
            return host.statistics(source)
        batch = self._batch(source.storage.device)
        told = measures.tell(source.storage.device, source, None, batch.encoder)
        batch.told.append(told)
        return told

    def magnitudes(self, source: sources.Source) -> Any:
        """Record how many elements there are of each magnitude."""
        if not isinstance(source, View):
            return host.histogram(source, MAGNITUDES)
        batch = self._batch(source.storage.device)
        told = measures.tell_histogram(source.storage.device, source, MAGNITUDES, batch.encoder)
        batch.told.append(told)
        return told

    def submit(self) -> None:
        """Hand over what was recorded."""
        for device, batch in self._batches.values():
            there = [told for told in batch.told if told.found is not None]
            self._later.append(
                (Later(device, batch.encoder, [(told.found, 4 * told.words) for told in there]), there)
            )
        self._batches = {}

    @property
    def waits(self) -> bool:
        """Whether something was handed over and not read."""
        return bool(self._later)

    def read(self) -> None:
        """Bring all of it."""
        for later, there in self._later:
            for told, found in zip(there, later.read(), strict=True):
                self._found[id(told)] = told.made(found.view(np.uint32))
                if isinstance(told, measures.Told):
                    launch.free(told.found, told.words)
        self._later = []

    def made(self, told: Any) -> Any:
        """Return what was read of a pass."""
        if not isinstance(told, (measures.Told, measures.Counted)):
            return told
        return told.made(np.zeros(0, np.uint32)) if told.found is None else self._found[id(told)]


class Look:
    """Measures of a step.

    Parameters
    ----------
    params : mapping of str to tensor
        With the gradients of the step; recorded here.
    before : mapping of str to tensor
        Copies of the values before the step.
    step : int
    """

    def __init__(self, params: Mapping[str, Any], before: Mapping[str, Any], step: int) -> None:
        self.step = step
        self._params = params
        self._before = before
        self._passes = passes = _Passes()
        self._values = {n: passes.statistics(sources.source(t, None, False)) for n, t in params.items()}
        slopes = {n: sources.source(t, None, True) for n, t in params.items() if has_gradient(t)}
        self._slopes = {n: passes.statistics(s) for n, s in slopes.items()}
        self._counts = {n: passes.magnitudes(s) for n, s in slopes.items()}
        self._sizes = {n: s.all.count if isinstance(s, View) else s.size for n, s in slopes.items()}
        self._olds = {n: passes.statistics(sources.source(t, None, False)) for n, t in before.items()}
        self._changes: dict[str, Any] = {}
        self._moved: dict[str, Any] = {}
        passes.submit()

    @property
    def waits(self) -> bool:
        """Whether a device is at work for it; else all is known at once."""
        return self._passes.waits

    def updated(self) -> None:
        """Record how far the update has moved the parameters."""
        if self._before:
            # The differences are held until they are read.
            self._changes = {
                n: difference.difference(plain(self._params[n]), t) for n, t in self._before.items()
            }
            self._moved = {
                n: self._passes.statistics(sources.source(t, None, False)) for n, t in self._changes.items()
            }
            self._passes.submit()

    def read(self) -> tuple[dict[str, Measure], NDArray[np.float64]]:
        """Return the measures, and the shares of `measuring.spread`; waits if the device has not come so far."""
        passes = self._passes
        passes.read()
        found = {}
        for name, told in self._values.items():
            value: Statistics = passes.made(told)
            bad_value = value.count - value.finite
            slope: Statistics | None = passes.made(self._slopes[name]) if name in self._slopes else None
            ratio = None
            if name in self._moved and (old := norm(passes.made(self._olds[name]))) > 0:
                ratio = norm(passes.made(self._moved[name])) / old
            found[name] = (
                Measure(None, ratio, 0, bad_value)
                if slope is None
                else Measure(norm(slope), ratio, slope.count - slope.finite, bad_value)
            )
        counts = [passes.made(told) for told in self._counts.values()]
        return found, folded(counts, sum(self._sizes.values()))
