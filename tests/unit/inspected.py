"""A value and a gradient as arrays, which the inspector reads through the summaries' own functions for arrays."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slanglab.tensors import summary as summaries


@dataclasses.dataclass
class Pair:
    """Stands in for a tensor with a gradient: the numbers are on the host, all else is as it runs."""

    value: NDArray[Any]
    gradient: NDArray[Any] | None = None


def use_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the functions of `slanglab.tensors.summary` take a `Pair`."""
    real = {name: getattr(summaries, name) for name in ("summary", "picture", "elements", "nonfinite")}

    def side(pair: Any, gradient: bool) -> Any:
        if not isinstance(pair, Pair):
            assert not gradient
            return pair
        return pair.gradient if gradient else pair.value

    def summary(pair: Any, *, bins: int = 64) -> Any:
        found = real["summary"](side(pair, False), bins=bins)
        if not isinstance(pair, Pair) or pair.gradient is None:
            return found
        most = float(np.max(np.abs(pair.gradient[np.isfinite(pair.gradient)]), initial=0.0))
        return dataclasses.replace(
            found,
            gradient=summaries.statistics(pair.gradient),
            gradient_histogram=summaries.histogram(
                pair.gradient, bins, (-most, most) if most else None, "symlog"
            ),
        )

    def reading(name: str) -> Any:
        def read(pair: Any, *args: Any, gradient: bool = False, **options: Any) -> Any:
            return real[name](side(pair, gradient), *args, **options)

        return read

    monkeypatch.setattr(summaries, "summary", summary)
    for name in ("picture", "elements", "nonfinite"):
        monkeypatch.setattr(summaries, name, reading(name))
