"""What a tensor's view asks of the kernel, and the answers. Everything a browser sends is checked: it may be anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.errors import SlangLabError
from slanglab.tensors import spread as spreads
from slanglab.tensors import summary as summaries
from slanglab.tensors.frames import Choice as Frame
from slanglab.tensors.records import Summary
from slanglab.widgets import wire
from slanglab.widgets.picture_frames import Pictures
from slanglab.widgets.shown import Shown, read_choice, read_pooled
from slanglab.widgets.transport import SlangWidget

__all__ = ["Serving"]

_FOUND = 1000
"""Elements that are not finite, of value and gradient each, among which the next one is looked for."""

_COMPONENTS = 16
"""Numbers of one element that the card shows at most."""

_BINS = 192
"""Of a histogram over a part of the range."""

_CELLS = 4096
"""Numbers that a table asks for at once."""

_EXACT = 1 << 53
"""From here on a float64 does not hold every whole number."""

Kinds = ("value", "gradient")


class Serving(SlangWidget):
    """The requests of a view of a tensor; `TensorInspector` says what is read and how it is described."""

    _requests: Mapping[str, str] = {
        "slice": "_serve_slice",
        "element": "_serve_element",
        "find": "_serve_find",
        "spread": "_serve_spread",
        "count": "_serve_count",
        "histogram": "_serve_histogram",
        "cells": "_serve_cells",
        "state": "_serve_state",
    }

    _summary: Summary
    """May lack the histogram of the value, until pictures are on a screen."""
    _read_from: Any
    """The tensor whose numbers are shown: the one looked at, a copy of it, or a difference."""
    _choice: Frame
    _axes: tuple[int, int] | None
    """The axes drawn down and across, where somebody chose them."""
    _shown: Shown
    _form: str
    _pictures: Pictures | None

    # What the subclass has.
    _take_pictures: Callable[..., Pictures]
    _show_finer: Callable[..., None]
    _centred: Callable[[str], bool]

    # ----- pictures -----

    def _serve_slice(self, content: Mapping[str, Any]) -> None:
        """Show the slice at `index`, with the axes in `pooled` reduced, or a window of it in finer texels."""
        index = wire.naturals(content.get("index"), len(self._summary.shape))
        pooled = read_pooled(content.get("pooled"), self._leading)
        if self._pictures is None or index is None or pooled is None or not self._inside(index):
            return
        window = None
        if (asked := content.get("window")) is not None:
            window = self._window(asked)
            if window is None:
                return
        shown = Shown(index, window, *pooled, self._shown.choices)
        try:
            pictures = self._take_pictures(shown, window)
        except Exception as error:
            self._trouble(error)
            return
        if window is None:
            # The slice that a view opened later begins with.
            self._shown, self._pictures = shown, pictures
            self._ready()
        elif pictures[0].mean.size:
            self._show_finer(shown, pictures)

    @property
    def _leading(self) -> tuple[int, ...]:
        """The axes that are not drawn."""
        drawn = (self._choice.row, self._choice.column, self._choice.channel)
        return tuple(axis for axis in range(len(self._summary.shape)) if axis not in drawn)

    @staticmethod
    def _window(asked: object) -> tuple[int, int, int, int] | None:
        numbers = wire.naturals(asked, 4)
        if numbers is None:
            return None
        row, column, rows, columns = numbers
        return row, row + rows, column, column + columns

    def _serve_state(self, content: Mapping[str, Any]) -> None:
        """Keep what the reader has on the screen: `code` says it, and a view that opens later begins with it."""
        window = content.get("window")
        self._shown.window = None if window is None else self._window(window)
        for kind in Kinds:
            found = read_choice(content.get(kind), self._centred(kind))
            if found is not None:
                self._shown.choices[kind] = found

    # ----- numbers -----

    def _serve_element(self, content: Mapping[str, Any]) -> None:
        """Answer with the exact numbers of one element."""
        place = self._place(content)
        if place is None:
            return
        try:
            answer = {
                "place": list(place),
                "value": self._element(place, False),
                "gradient": self._element(place, True) if self._summary.gradient is not None else None,
            }
        except Exception as error:
            self._trouble(error)
            return
        self.tell("element", answer)

    def _element(self, place: tuple[int, ...], gradient: bool) -> list[Any]:
        found = summaries.elements(self._read_from, index=place, gradient=gradient)
        return [wire.exact(x) for x in found.ravel()[:_COMPONENTS].tolist()]

    def _serve_cells(self, content: Mapping[str, Any]) -> None:
        """Answer with the exact numbers of a window of a slice, for the table."""
        index = wire.naturals(content.get("index"), len(self._summary.shape))
        pooled = read_pooled(content.get("pooled"), self._leading)
        window = self._window(content.get("window"))
        if index is None or pooled is None or window is None or not self._inside(index):
            return
        if (window[1] - window[0]) * (window[3] - window[2]) > _CELLS or self._pictures is None:
            return
        shown = Shown(index, window, *pooled)
        meta: dict[str, Any] = {"index": list(index), "window": content["window"]}
        arrays: dict[str, NDArray[Any]] = {}
        try:
            for kind in Kinds[: 1 + (self._summary.gradient is not None)]:
                found = self._cells(shown, window, kind == "gradient")
                arrays[kind] = found.astype(np.float64)
                if found.dtype.kind in "iu" and found.size and np.abs(arrays[kind]).max() >= _EXACT:
                    meta[kind] = [str(x) for x in found.ravel().tolist()]
        except Exception as error:
            self._trouble(error)
            return
        self.tell("cells", meta, arrays)

    def _cells(self, shown: Shown, window: tuple[int, int, int, int], gradient: bool) -> NDArray[Any]:
        """Return the numbers of a window as (rows, columns, components)."""
        at = self._free(shown.index)
        if shown.pooled:
            rows, columns = window[1] - window[0], window[3] - window[2]
            options: dict[str, Any] = {"window": window, "gradient": gradient, "axes": self._axes}
            found = summaries.picture(
                self._read_from, rows, columns, index=at, pooled=shown.pooled, **options
            )
            reduced = found.maximum if shown.by == "max" else found.mean
            # Blocks without a finite element have no mean.
            return reduced[..., None]
        exact = summaries.elements(
            self._read_from, index=at, window=window, gradient=gradient, axes=self._axes
        )
        return exact.reshape(*exact.shape[:2], -1)[..., :_COMPONENTS]

    def _free(self, index: tuple[int, ...]) -> tuple[int | None, ...]:
        """Return an index whose drawn axes are free."""
        drawn = (self._choice.row, self._choice.column, self._choice.channel)
        return tuple(None if axis in drawn else at for axis, at in enumerate(index))

    def _serve_find(self, content: Mapping[str, Any]) -> None:
        """Answer with the next element in index order that is NaN or infinite, in value or gradient."""
        place = self._place(content)
        if place is None:
            return
        found: set[tuple[int, ...]] = set()
        try:
            for gradient in (False, True)[: 1 + (self._summary.gradient is not None)]:
                listed = summaries.nonfinite(self._read_from, _FOUND, gradient=gradient)
                found.update(at[: len(place)] for at in listed)
        except Exception as error:
            self._trouble(error)
            return
        inclusive = content.get("inclusive") is True
        if content.get("step") == -1:
            order = sorted(found, reverse=True)
            after = [at for at in order if at < place or (inclusive and at == place)]
        else:
            order = sorted(found)
            after = [at for at in order if at > place or (inclusive and at == place)]
        # Past the last one it begins again.
        following = next(iter(after or order), None)
        rest = (0,) * (len(self._summary.shape) - len(place))
        self.tell("found", {"place": None if following is None else [*following, *rest]})

    def _serve_spread(self, content: Mapping[str, Any]) -> None:
        """Answer with the quantiles of a picture's numbers: of the magnitudes, where its colours are centred at zero."""
        kind = content.get("picture")
        if kind not in Kinds or getattr(self._summary, kind) is None:
            return
        try:
            found = spreads.spread(
                self._read_from, gradient=kind == "gradient", magnitude=self._centred(kind)
            )
        except Exception as error:
            self._trouble(error)
            return
        if found is not None:
            self.tell("spread", {"picture": kind}, {"share": found.share, "at": found.at})

    def _serve_count(self, content: Mapping[str, Any]) -> None:
        """Answer with how many elements lie in a range; an end that is None is open."""
        kind = content.get("picture")
        known = getattr(self._summary, kind) if kind in Kinds else None
        ends = [content.get(end) for end in ("lo", "hi")]
        if known is None or known.minimum is None or not all(_is_end(x) for x in ends):
            return
        low, high = (
            (known.minimum if ends[0] is None else ends[0]),
            (known.maximum if ends[1] is None else ends[1]),
        )
        low, high = max(float(low), float(known.minimum)), min(float(high), float(known.maximum))
        count = 0
        if low <= high:
            high = max(high, math.nextafter(low, math.inf))
            try:
                found = summaries.histogram(self._read_from, 1, (low, high), gradient=kind == "gradient")
            except Exception as error:
                self._trouble(error)
                return
            count = int(found.counts[0])
        self.tell("count", {"picture": kind, "lo": ends[0], "hi": ends[1], "count": count})

    def _serve_histogram(self, content: Mapping[str, Any]) -> None:
        """Answer with the histogram of a part of the range."""
        kind, name = content.get("picture"), content.get("scale")
        known = getattr(self._summary, kind) if kind in Kinds else None
        low, high = content.get("lo"), content.get("hi")
        if known is None or name not in ("linear", "symlog"):
            return
        if low is None or high is None or not (_is_end(low) and _is_end(high) and low < high):
            return
        try:
            found = summaries.histogram(
                self._read_from, _BINS, (float(low), float(high)), name, gradient=kind == "gradient"
            )
        except Exception as error:
            self._trouble(error)
            return
        arrays = {f"{kind}.edges": found.edges, f"{kind}.counts": found.counts.astype(np.float64)}
        self.tell("histogram", {"picture": kind}, arrays)

    # ----- other -----

    def _try(self, work: Any) -> None:
        try:
            work()
        except Exception as error:
            self._trouble(error)

    def _place(self, content: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Return the element a request names, without an index on the axis of the channels; None where it is none."""
        axes = len(self._summary.shape) - (self._choice.channel is not None)
        place = wire.naturals(content.get("index"), axes)
        return place if self._pictures is not None and place is not None and self._inside(place) else None

    def _inside(self, index: tuple[int, ...]) -> bool:
        return all(at < n for at, n in zip(index, self._summary.shape, strict=False))

    def _trouble(self, error: Exception) -> None:
        """Say in the view why the tensor cannot be read: its device may be gone."""
        said = str(error) if isinstance(error, SlangLabError) else str(error).strip().partition("\n")[0]
        self.tell("trouble", {"text": f"The tensor could not be read: {said}"})


def _is_end(x: object) -> bool:
    return x is None or (type(x) in (int, float) and math.isfinite(x))  # type: ignore[arg-type]
