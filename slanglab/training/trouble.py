"""What to say of a run that met a number that is not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slanglab.training.measuring import Measure, NotFinite, first_not_finite

__all__ = ["Trouble", "located"]


@dataclass(frozen=True)
class Trouble:
    """Where a run met NaN or an infinity.

    Attributes
    ----------
    step : int
        At which it was; the first one has number 0.
    what : NotFinite
        The tensor and the index.
    intact : bool
        Whether every parameter is finite: the run stopped before the update.
    kept : int or None
        The step of the last good state.
    late : int
        Steps that were done before it was noticed.
    by_loss : bool
        Whether the loss showed it.
    """

    step: int
    what: NotFinite
    intact: bool
    kept: int | None
    late: int
    by_loss: bool

    @property
    def title(self) -> str:
        """`NaN at step 812: sigma.grad[17], first of 3.`."""
        more = f", first of {self.what.count}" if self.what.count > 1 else ""
        return f"{self.what.kind} at step {self.step}: {self.what.place()}{more}."

    @property
    def text(self) -> str:
        """What that means, and what to do."""
        if self.intact:
            said = "The run stopped before the update, so every parameter is finite."
        elif self.late > 0:
            steps = "1 step" if self.late == 1 else f"{self.late} steps"
            said = f"It was noticed {steps} later, since the loss is a tensor that is read now and then."
            if not self.by_loss:
                said = f"It was noticed {steps} later; check_every=1 stops before the update."
        else:
            said = (
                "Some parameters are not finite any more; check_every=1 stops before the update that does it."
            )
        if self.what.name == "loss" and self.intact:
            said += " All gradients are finite as well: look at what the loss is computed from."
        if self.kept is not None:
            said += f" run.restore() puts back the state of step {self.kept}."
        return said

    def __str__(self) -> str:
        return f"{self.title} {self.text}"


def located(params: Mapping[str, Any], measures: Mapping[str, Measure], loss: float | None) -> NotFinite:
    """Return what is not finite first: of gradients, then of parameters, else the loss that was given."""
    found = first_not_finite(params)
    if found is not None:
        return found
    spoiled = next((n for n, m in measures.items() if m.bad or m.bad_value), None)
    if loss is None and spoiled is not None:
        # It was there when it was measured, and has been overwritten since.
        measure = measures[spoiled]
        name = f"{spoiled}.grad" if measure.bad else spoiled
        return NotFinite(name, None, measure.bad or measure.bad_value, "NaN or infinity")
    kind = "NaN" if loss is None or math.isnan(loss) else "+Inf" if loss > 0 else "-Inf"
    return NotFinite("loss", None, 1, kind)
