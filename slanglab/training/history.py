"""What happened in a run, step by step, as numpy arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slanglab.errors import SlangLabError
from slanglab.training.measuring import Measure
from slanglab.training.series import Column

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["History"]


class History:
    """Columns that grow while a run goes on.

    Attributes
    ----------
    loss : Column
        One number a step; NaN where the loop said none.
    time : Column
        Seconds from the start of the run to the end of each step, pauses included.
    rate : Column
        Learning rates; empty without an optimizer.
    measured : Column
        The steps at which parameters were measured.
    gradients, updates : dict of str to Column
        By parameter: norms of gradients, ratios of updates, one for each measured step; NaN where there is none.
    spreads : list of ndarray
        For each measured step the shares of `measuring.spread`.
    scalars : dict of str to (Column, Column)
        What else the loop logged: steps and numbers.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.loss = Column()
        self.time = Column()
        self.rate = Column()
        self.measured = Column()
        self.gradients = {name: Column() for name in names}
        self.updates = {name: Column() for name in names}
        self.spreads: list[NDArray[np.float64]] = []
        self.scalars: dict[str, tuple[Column, Column]] = {}

    def measure(self, step: int, measures: dict[str, Measure], spread: NDArray[np.float64]) -> None:
        """Note what was measured in a step."""
        for name, measure in measures.items():
            self.gradients[name].append(math.nan if measure.gradient is None else measure.gradient)
            self.updates[name].append(math.nan if measure.update is None else measure.update)
        self.spreads.append(spread)
        # Last: who reads at the same time counts these.
        self.measured.append(step)

    def scalar(self, name: str, step: int, x: float) -> None:
        """Note another number of a step."""
        if name not in self.scalars:
            self.scalars[name] = Column(), Column()
        steps, values = self.scalars[name]
        values.append(x)
        steps.append(step)

    def as_dict(self) -> dict[str, NDArray[Any]]:
        """Return copies of all columns.

        Returns
        -------
        dict of str to ndarray
            `step`, `loss`, `time` and `learning_rate` have one element a step. `measured_step`, `gradient_norm/NAME` and
            `update_ratio/NAME` have one for each measured step. What was logged besides is `NAME/step` and `NAME`.
        """
        loss = self.loss.view().copy()
        found: dict[str, NDArray[Any]] = {
            "step": np.arange(len(loss)),
            "loss": loss,
            "time": self.time.view()[: len(loss)].copy(),
        }
        if self.rate.count:
            found["learning_rate"] = self.rate.view()[: len(loss)].copy()
        measured = self.measured.view()
        found["measured_step"] = measured.astype(np.int64)
        for prefix, columns in (("gradient_norm", self.gradients), ("update_ratio", self.updates)):
            for name, column in columns.items():
                found[f"{prefix}/{name}"] = column.view()[: len(measured)].copy()
        for name, (steps, values) in self.scalars.items():
            found[f"{name}/step"] = steps.view().astype(np.int64)
            found[name] = values.view()[: steps.count].copy()
        return found

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row a step; what was not measured at a step is NaN there.

        Raises
        ------
        SlangLabError
            Where pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise SlangLabError(
                "to_pandas needs pandas, which is not installed.", hint="pip install pandas"
            ) from None
        columns = self.as_dict()
        frame = pd.DataFrame({k: columns[k] for k in ("loss", "time", "learning_rate") if k in columns})
        frame.index.name = "step"
        for name, values in columns.items():
            if "/" in name and name.split("/")[0] in ("gradient_norm", "update_ratio"):
                frame[name] = pd.Series(values, index=columns["measured_step"]).reindex(frame.index)
            elif name in self.scalars:
                steps = columns[f"{name}/step"]
                # Logged twice in a step: the later one counts.
                last = pd.Series(values, index=steps).groupby(level=0).last()
                frame[name] = last.reindex(frame.index)
        return frame
