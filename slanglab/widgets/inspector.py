"""The tensor inspector: what a `slangpy.Tensor` shows as the last line of a cell.

Kernels reduce the tensor on the device; the browser gets statistics and pictures of at most 256 x 256 texels, asks for
a finer picture of the window it zooms into, and for single exact elements under the pointer.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import traitlets
from numpy.typing import NDArray

from slanglab import elsewhere, look
from slanglab.errors import SlangLabError
from slanglab.tensors import summary as summaries
from slanglab.tensors.frames import Choice, choose
from slanglab.tensors.records import Picture, Summary
from slanglab.widgets import wire
from slanglab.widgets.static import SCALE, dtype_name, gradient_limit, is_image, tensor_png, tensor_text
from slanglab.widgets.transport import SlangWidget

__all__ = ["TensorInspector", "inspect"]

_VERSION = 1
"""Of the `info` trait; `VERSION` in js/src/inspector/data.ts says the same."""

_TEXELS = 256
_POINTS = 1024
_BINS = 96
_FEW = 64
"""Elements that the text twin writes out."""

_FOUND = 1000
"""Elements that are not finite, of value and gradient each, among which the next one is looked for."""

_COMPONENTS = 16
"""Numbers of one element that the card shows at most."""

_FLOATS = re.compile(r"(float|half|double)(\d(x\d)?)?$")
_SINGLE = {"float", "half", "bool", "int8_t", "uint8_t", "int16_t", "uint16_t"}
"""Scalar types whose every value is a float32: an exact picture of them holds the elements themselves."""


class TensorInspector(SlangWidget):
    """A view of a tensor and its gradient, with a PNG and text for where no widget runs.

    Parameters
    ----------
    tensor : slangpy.Tensor or ndarray
        Kept alive until `close`.
    name : str, optional
        The variable's name, shown and used in the code line.

    Attributes
    ----------
    info : dict
        What the browser is told about the tensor, as JSON; no elements.
    summary : Summary
        Statistics and histograms, as of the last `refresh`.

    Raises
    ------
    ArgumentError
        If the elements are no numbers.
    """

    _bundle = "inspector"
    _requests: Mapping[str, str] = {
        "slice": "_serve_slice",
        "element": "_serve_element",
        "find": "_serve_find",
    }

    info = traitlets.Dict().tag(sync=True)

    def __init__(self, tensor: Any, name: str | None = None) -> None:
        self._tensor: Any = tensor
        self._name = name or ""
        self._read()
        super().__init__(info=self._describe())

    # ----- reading -----

    def _read(self) -> None:
        """Summarise the tensor and take the pictures that a view begins with."""
        self.summary: Summary = summaries.summary(self._tensor, bins=_BINS)
        shape = self.summary.shape
        count = math.prod(shape)
        value = self.summary.value
        self._components = value.count // count if value is not None and count else 1
        self._choice: Choice = choose(shape, self._components > 1, (), _TEXELS, _TEXELS, None)
        if self._choice.channel is not None:
            self._components = shape[self._choice.channel]
        self._index = (0,) * len(shape)
        self._form = self._choose_form(count)
        self._pictures: tuple[Picture, Picture | None] | None = None
        if self._form in ("picture", "line"):
            self._pictures = self._take_pictures(self._index, None)
        self.__dict__.pop("png", None)
        self.__dict__.pop("text", None)

    def _choose_form(self, count: int) -> str:
        if count == 0:
            return "empty"
        if self.summary.value is None:
            return "other"
        if self._choice.row is not None:
            return "picture"
        if self._choice.column is not None:
            return "line"
        return "scalar" if self._components == 1 else "other"

    def _take_pictures(
        self, index: tuple[int, ...], window: tuple[int, int, int, int] | None
    ) -> tuple[Picture, Picture | None]:
        rows, columns = (1, _POINTS) if self._form == "line" else (_TEXELS, _TEXELS)
        at = self._free(index)

        def take(gradient: bool) -> Picture:
            return summaries.picture(self._tensor, rows, columns, index=at, window=window, gradient=gradient)

        return take(False), take(True) if self.summary.gradient is not None else None

    def _free(self, index: tuple[int, ...]) -> tuple[int | None, ...]:
        """Return an index whose drawn axes are free."""
        drawn = (self._choice.row, self._choice.column, self._choice.channel)
        return tuple(None if axis in drawn else at for axis, at in enumerate(index))

    def refresh(self) -> None:
        """Read the tensor again and show what it holds now."""
        if self._tensor is None:
            raise SlangLabError("This inspector is closed.", hint="inspect(tensor) opens another")
        self._read()
        self.info = self._describe()
        self._ready()

    # ----- saying -----

    def _describe(self) -> dict[str, Any]:
        summary, choice = self.summary, self._choice
        image = self._pictures is not None and is_image(summary, self._pictures[0])
        note, code = self._note()
        return {
            "version": _VERSION,
            "name": self._name,
            "shape": list(summary.shape),
            "dtype": dtype_name(summary.dtype),
            "device": summary.device.partition(", ")[0],
            "adapter": summary.device,
            "bytes": summary.bytes,
            "form": self._form,
            "axes": {"row": choice.row, "col": choice.column, "channel": choice.channel},
            "components": self._components,
            "image": image,
            "single": summary.dtype in _SINGLE,
            "value": wire.statistics(summary.value),
            "gradient": wire.statistics(summary.gradient),
            "limit": gradient_limit(summary),
            "note": note,
            "note_code": code,
            "fields": [
                {"name": path, "dtype": dtype_name(part.dtype), "statistics": wire.statistics(part.value)}
                for path, part in summary.fields.items()
            ],
        }

    def _note(self) -> tuple[str, str]:
        """Return a sentence for under the head, and the code that changes what it says."""
        summary = self.summary
        if summary.notes:
            return " ".join(summary.notes), ""
        if summary.value is None or self._form == "empty":
            return "", ""
        if summary.dtype == "bool":
            count = summary.value.count
            return f"{look.count(count - summary.value.zeros)} of {look.count(count)} are true.", ""
        # slangpy gives no gradient to tensors without axes.
        if summary.gradient is None and _FLOATS.match(summary.dtype) and summary.shape:
            name = self._name or "t"
            return "No gradient attached; this gives it one:", f"{name} = {name}.with_grads()"
        return "", ""

    @cached_property
    def text(self) -> str:
        """The plain-text twin."""
        values: list[NDArray[Any] | None] = [None, None]
        value = self.summary.value
        if value is not None and 0 < value.count <= _FEW and not self.summary.notes:
            values = [self._all(False), self._all(True) if self.summary.gradient is not None else None]
        return tensor_text(self.summary, self._name, *values)

    def _all(self, gradient: bool) -> NDArray[Any]:
        """Return all elements, for a small tensor: slice by slice, as the views see them."""
        shape = self.summary.shape
        drawn = (self._choice.row, self._choice.column, self._choice.channel)
        lead = [n for axis, n in enumerate(shape) if axis not in drawn]
        parts = []
        for at in np.ndindex(*lead):
            position = iter(at)
            index = tuple(None if axis in drawn else next(position) for axis in range(len(shape)))
            parts.append(summaries.elements(self._tensor, index=index, gradient=gradient))
        whole = np.stack(parts)
        inner = whole.size // math.prod(shape)
        return whole.reshape(shape if inner == 1 else (*shape, inner))

    @cached_property
    def png(self) -> bytes | None:
        """The PNG twin of the first slice; None where there is no picture to draw."""
        if self._pictures is None:
            return None
        return tensor_png(self.summary, *self._pictures)

    def __repr__(self) -> str:
        return f"TensorInspector({self.text.splitlines()[0]})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget with its twins. No text/html: JupyterLab would prefer it to the PNG in a saved notebook."""
        data: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        if self.interactive:
            found: Any = super()._repr_mimebundle_(**kwargs) or {}
            given, more = found if isinstance(found, tuple) else (found, {})
            data.update(given)
            metadata.update(more)
        data.pop("text/html", None)
        data["text/plain"] = self.text
        if (image := self.png) is not None:
            data["image/png"] = base64.b64encode(image).decode("ascii")
            width, height = (int.from_bytes(image[at : at + 4], "big") // SCALE for at in (16, 20))
            metadata["image/png"] = {"width": width, "height": height}
        return data, metadata

    # ----- the browser's requests -----

    def _ready(self) -> None:
        if self._pictures is not None:
            meta, arrays = self._frame(self._index, *self._pictures)
            for kind, histogram in (
                ("value", self.summary.histogram),
                ("gradient", self.summary.gradient_histogram),
            ):
                if histogram is not None:
                    arrays[f"{kind}.edges"] = histogram.edges.astype(np.float64)
                    arrays[f"{kind}.counts"] = histogram.counts.astype(np.float64)
            self.push("picture", meta, arrays)

    def _frame(
        self, index: tuple[int, ...], value: Picture, gradient: Picture | None
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta: dict[str, Any] = {"index": list(index)}
        arrays: dict[str, NDArray[Any]] = {}
        for kind, picture in (("value", value), ("gradient", gradient)):
            if picture is None:
                continue
            row0, row1, column0, column1 = picture.window
            meta[kind] = {
                "block": list(picture.block),
                "window": [row0, column0, row1 - row0, column1 - column0],
            }
            arrays[f"{kind}.mean"] = picture.mean
            arrays[f"{kind}.flags"] = picture.flags
            # Of single elements the range is the mean.
            if not picture.exact or self._components > 1:
                arrays[f"{kind}.minimum"] = picture.minimum
                arrays[f"{kind}.maximum"] = picture.maximum
            if kind == "value" and picture.colors is not None and self.info["image"]:
                arrays["value.colors"] = picture.colors
        return meta, arrays

    def _serve_slice(self, content: Mapping[str, Any]) -> None:
        """Show the slice at `index`, or a window of it in finer texels."""
        index = wire.naturals(content.get("index"), len(self.summary.shape))
        if self._pictures is None or index is None or not self._inside(index):
            return
        window = None
        if (asked := content.get("window")) is not None:
            numbers = wire.naturals(asked, 4)
            if numbers is None:
                return
            row, column, rows, columns = numbers
            window = (row, row + rows, column, column + columns)
        try:
            pictures = self._take_pictures(index, window)
        except Exception as error:
            self._trouble(error)
            return
        if window is None:
            # The slice that a view opened later begins with.
            self._index, self._pictures = index, pictures
            self._ready()
        elif pictures[0].mean.size:
            self.push("picture", *self._frame(index, *pictures))

    def _serve_element(self, content: Mapping[str, Any]) -> None:
        """Answer with the exact numbers of one element."""
        place = self._place(content)
        if place is None:
            return
        try:
            answer = {
                "place": list(place),
                "value": self._element(place, False),
                "gradient": self._element(place, True) if self.summary.gradient is not None else None,
            }
        except Exception as error:
            self._trouble(error)
            return
        self.tell("element", answer)

    def _element(self, place: tuple[int, ...], gradient: bool) -> list[Any]:
        found = summaries.elements(self._tensor, index=place, gradient=gradient)
        return [wire.exact(x) for x in found.ravel()[:_COMPONENTS].tolist()]

    def _serve_find(self, content: Mapping[str, Any]) -> None:
        """Answer with the next element in index order that is NaN or infinite, in value or gradient."""
        place = self._place(content)
        if place is None:
            return
        found: set[tuple[int, ...]] = set()
        try:
            for gradient in (False, True)[: 1 + (self.summary.gradient is not None)]:
                listed = summaries.nonfinite(self._tensor, _FOUND, gradient=gradient)
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
        rest = (0,) * (len(self.summary.shape) - len(place))
        self.tell("found", {"place": None if following is None else [*following, *rest]})

    def _place(self, content: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Return the element a request names, without an index on the axis of the channels; None where it is none."""
        axes = len(self.summary.shape) - (self._choice.channel is not None)
        place = wire.naturals(content.get("index"), axes)
        return place if self._pictures is not None and place is not None and self._inside(place) else None

    def _inside(self, index: tuple[int, ...]) -> bool:
        return all(at < n for at, n in zip(index, self.summary.shape, strict=False))

    def _trouble(self, error: Exception) -> None:
        """Say in the view why the tensor cannot be read: its device may be gone."""
        said = str(error) if isinstance(error, SlangLabError) else str(error).strip().partition("\n")[0]
        self.tell("trouble", {"text": f"The tensor could not be read: {said}"})

    def close(self) -> None:
        """Take the view away and let go of the tensor."""
        super().close()
        self._tensor = None
        self._pictures = None


@elsewhere.by_value
def inspect(tensor: Any, name: str | None = None) -> TensorInspector:
    """Open a view of a tensor and its gradient.

    Parameters
    ----------
    tensor : slangpy.Tensor or ndarray
    name : str, optional
        The variable's name, for the head and the code line.

    Returns
    -------
    TensorInspector
        Shown when it is the last line of a cell. `close()` lets go of the tensor.
    """
    return TensorInspector(tensor, name)
