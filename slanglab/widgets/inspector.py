"""The tensor inspector: what a `slangpy.Tensor` shows as the last line of a cell.

Kernels reduce the tensor on the device; the browser gets statistics and pictures of at most 256 x 256 texels, asks for
a finer picture of the window it zooms into, and for single exact elements under the pointer.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import secrets
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import traitlets
from IPython.core.getipython import get_ipython
from numpy.typing import NDArray

from slanglab import elsewhere, look
from slanglab.errors import DeviceGoneError
from slanglab.tensors import difference, small, summarising, writes
from slanglab.tensors import summary as summaries
from slanglab.tensors.frames import choose
from slanglab.tensors.records import Picture, Summary
from slanglab.tensors.wording import dtype_name, summary_text
from slanglab.widgets import outputs, picture_frames, wire
from slanglab.widgets.comparing import Comparing
from slanglab.widgets.shown import Shown
from slanglab.widgets.static import gradient_limit, is_image, tensor_png

__all__ = ["TensorInspector", "inspect", "let_go"]

_VERSION = 1
"""Of the `info` trait; `VERSION` in js/src/inspector/data.ts says the same."""

_TEXELS = 256
_POINTS = 1024
_BINS = 96
_FEW = 64
"""Elements that the text twin writes out."""

_FLOATS = re.compile(r"(float|half|double)(\d(x\d)?)?$")
_views: weakref.WeakSet[TensorInspector] = weakref.WeakSet()
"""The views that were opened, as long as they live."""

_SINGLE = {"float", "half", "bool", "int8_t", "uint8_t", "int16_t", "uint16_t"}
"""Scalar types whose every value is a float32: an exact picture of them holds the elements themselves."""


class TensorInspector(Comparing):
    """A view of a tensor and its gradient, with a PNG and text for where no widget runs.

    Parameters
    ----------
    tensor : slangpy.Tensor, ndarray or torch.Tensor
        Kept alive until `close`.
    name : str, optional
        The variable's name, shown and used in the code line.
    follow : bool
        Read the tensor again after calls that may have written it.
    axes : (int, int), optional
        The axes that are drawn down and across.

    Attributes
    ----------
    info : dict
        What the browser is told about the tensor, as JSON; no elements.

    Raises
    ------
    ArgumentError
        If the elements are no numbers.
    """

    _bundle = "inspector"
    _requests: Mapping[str, str] = {**Comparing._requests, "finish": "_serve_finish"}

    info = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        tensor: Any,
        name: str | None = None,
        *,
        follow: bool = True,
        axes: tuple[int, int] | None = None,
    ) -> None:
        self._tensor: Any = tensor
        self._name = name or ""
        self._other: Any = None
        self._other_name = ""
        self._what = "tensor"
        self._read_from: Any = tensor
        self._axes = axes
        self._shown = Shown()
        self._stale = self._owing = self._due = self._lacking = False
        self._seen = self._summed = 0.0
        self._takes, self._readings = itertools.count(), itertools.count()
        self._begun: tuple[int, picture_frames.Pictures] | None = None
        self._token, self._opened = secrets.token_hex(8), False
        self._light = False  # whether elements are shown as colours
        self._read(complete=False)
        outputs.sweep(_views)
        _views.add(self)
        super().__init__(info=self._describe())
        if follow:
            writes.watch(tensor, self._written)

    # ----- reading -----

    @property
    def summary(self) -> Summary:
        """Statistics and histograms, as of the last `refresh`."""
        self._finish()
        return self._summary

    def _finish(self) -> None:
        """Make the histogram that `_read` may have put off; a view that was closed meanwhile goes without."""
        if self._tensor is None:
            return
        self._summary = summarising.finished(self._summary, self._read_from, bins=_BINS)

    def _read(self, *, complete: bool) -> None:
        """Summarise what is shown and take the pictures that a view begins with: those of the slice that was on the screen.

        Where it need not be `complete`, the histogram of the value waits until the pictures are on a screen, or it is asked for.
        """
        if self._what == "difference":
            self._read_from = difference.difference(self._tensor, self._other)
        else:
            self._read_from = self._tensor if self._what == "tensor" else self._other
        summarise = summarising.whole if complete else summarising.begun
        self._summary = summarise(self._read_from, bins=_BINS)
        self._reading = next(self._readings)
        shape = self._summary.shape
        count = math.prod(shape)
        value = self._summary.value
        self._components = value.count // count if value is not None and count else 1
        self._choice = choose(shape, self._components > 1, (), _TEXELS, _TEXELS, None, (), self._axes)
        if self._choice.channel is not None:
            self._components = shape[self._choice.channel]
        if len(self._shown.index) != len(shape) or not self._inside(self._shown.index):
            self._shown = Shown((0,) * len(shape), choices=self._shown.choices)
        self._form = self._choose_form(count)
        self._pictures = None
        if self._form in ("picture", "line"):
            self._pictures = self._take_pictures(self._shown, None)
        self.__dict__.pop("png", None)
        self.__dict__.pop("text", None)

    def _choose_form(self, count: int) -> str:
        if count == 0:
            return "empty"
        if self._summary.value is None:
            return "other"
        if self._choice.row is not None:
            return "picture"
        if self._choice.column is not None:
            return "line"
        return "scalar" if self._components == 1 else "other"

    def _take_pictures(
        self, shown: Shown, window: tuple[int, int, int, int] | None
    ) -> picture_frames.Pictures:
        rows, columns = (1, _POINTS) if self._form == "line" else (_TEXELS, _TEXELS)
        at = self._free(shown.index)

        def take(gradient: bool) -> Picture:
            options: dict[str, Any] = {"window": window, "gradient": gradient, "axes": self._axes}
            return summaries.picture(self._read_from, rows, columns, index=at, pooled=shown.pooled, **options)

        return take(False), take(True) if self._summary.gradient is not None else None

    def _reread(self, *, ranges: bool) -> None:
        self._read(complete=True)
        self.info = self._describe()
        self._begin(ranges=ranges)

    # ----- saying -----

    def _describe(self) -> dict[str, Any]:
        summary, choice = self._summary, self._choice
        self._light = self._pictures is not None and self._image(self._pictures[0])
        base, suffix = self._expression()
        note, code = self._note()
        return {
            "version": _VERSION,
            "token": self._token,
            "name": self._name,
            "shape": list(summary.shape),
            "dtype": dtype_name(summary.dtype),
            "device": summary.device.partition(", ")[0],
            "adapter": summary.device,
            "bytes": summary.bytes,
            "form": self._form,
            "axes": {"row": choice.row, "col": choice.column, "channel": choice.channel},
            "components": self._components,
            "single": summary.dtype in _SINGLE,
            "signed": self._what == "difference",
            "code": base,
            "to_numpy": suffix,
            "compared": self._other_name if self._other is not None else "",
            "what": self._what,
            **self._facts(),
            "note": note,
            "note_code": code,
            "fields": [
                {"name": path, "dtype": dtype_name(part.dtype), "statistics": wire.statistics(part.value)}
                for path, part in summary.fields.items()
            ],
        }

    def _facts(self) -> dict[str, Any]:
        """Return what was found when the tensor was read.

        A picture brings it along: pictures wait for the browser, `info` does not.
        """
        return {
            "reading": self._reading,
            "image": self._light,
            "value": wire.statistics(self._summary.value),
            "gradient": wire.statistics(self._summary.gradient),
            "limit": gradient_limit(self._summary),
        }

    def _image(self, value: Picture) -> bool:
        """Say whether elements are shown as colours; not those of a difference, which are no light."""
        return self._what != "difference" and is_image(self._summary, value)

    def _note(self) -> tuple[str, str]:
        """Return a sentence for under the head, and the code that changes what it says."""
        summary = self._summary
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
        value = self._summary.value
        if value is not None and 0 < value.count <= _FEW and not self._summary.notes:
            # Whatever axes the reader chose: those that are drawn first keep their order.
            inner = self._choice.channel is None and self._components > 1
            kinds = (False, True) if self._summary.gradient is not None else (False,)
            for at, kind in enumerate(kinds):
                values[at] = small.everything(
                    self._read_from, self._summary.shape, inner=inner, gradient=kind
                )
        return summary_text(self._summary, self._name, *values)

    @cached_property
    def png(self) -> bytes | None:
        """The PNG twin of the first slice; None where there is no picture to draw."""
        if self._pictures is None:
            return None
        return tensor_png(self._summary, *self._pictures)

    def __repr__(self) -> str:
        return f"TensorInspector({self.text.splitlines()[0]})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        outputs.show(self, get_ipython())
        if not self._opened:
            # On its way while the page makes room for the view, which then need not ask for it: a round trip less until it is drawn.
            self._begin(ranges=False)
        return self.bundle(**kwargs)

    def bundle(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget with its twins."""
        return self.with_twins(self.text, self.png, **kwargs)

    # ----- frames -----

    def _ready(self, known: object = None) -> None:
        self._opened = True
        begun = self._begun
        if begun is not None and type(known) is int and known == begun[0]:
            self._send_rest()
        else:
            self._begin(ranges=True)

    def _begin(self, *, ranges: bool) -> None:
        """Show the pictures of the slice, with the choices made for them and the histograms."""
        pictures = self._pictures
        if pictures is None:
            return
        choices = {kind: vars(choice) for kind, choice in self._shown.choices.items()}
        meta = {"choices": choices, "facts": self._facts()}
        arrays = picture_frames.histograms(self._summary)
        self._lacking = self._summary.histogram is None  # nobody has needed it yet
        self._begun = self._show_pictures(self._shown, pictures, meta, arrays), pictures
        self._owing = True
        if ranges:
            self._send_rest()

    def _send_rest(self) -> None:
        """Send what `_begin` left out of what it showed, when that is on the screen: the ranges of the blocks, and maybe a histogram."""
        self._owing = False
        if self._begun is None:
            return
        take, pictures = self._begun
        self._push_ranges("ranges", pictures, take)
        if self._lacking:
            self._schedule("finish", {})

    def _serve_finish(self, _content: Mapping[str, Any]) -> None:
        """Make the histogram that was put off, and show it. Asked for by `_send_rest`: it takes the thread that may touch the device."""
        if self._lacking:
            self._lacking = False
            self._try(lambda: self.push("histograms", {}, picture_frames.histograms(self.summary)))

    def _show_finer(self, shown: Shown, pictures: picture_frames.Pictures) -> None:
        """Show the pictures of a window, which lie over those of the slice."""
        self._push_ranges("finer ranges", pictures, self._show_pictures(shown, pictures))

    def _show_pictures(
        self,
        shown: Shown,
        pictures: picture_frames.Pictures,
        meta: Mapping[str, Any] | None = None,
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> int:
        """Send what is drawn of pictures; return the number by which their ranges are known to belong to them."""
        take = next(self._takes)
        band = self._form == "line"
        known, found = picture_frames.drawn(shown, pictures, take, band=band, image=self._light)
        self.push("picture", {**known, **(meta or {})}, {**found, **(arrays or {})})
        return take

    def _push_ranges(self, kind: str, pictures: picture_frames.Pictures, take: int) -> None:
        if self._form != "line" and (found := picture_frames.ranges(pictures)):
            self.push(kind, {"take": take}, found)

    def let_go(self, devices: Sequence[Any]) -> None:
        """Let go of tensors on devices that are to be closed; the view goes on showing what it shows."""
        if any(getattr(self._read_from, "device", None) is closing for closing in devices):
            with contextlib.suppress(Exception):  # a device that is lost
                self._finish()
        for name in ("_tensor", "_other", "_read_from"):
            device = getattr(getattr(self, name), "device", None)
            if any(device is closing for closing in devices):
                setattr(self, name, _Gone())

    def close(self) -> None:
        """Take the view away and let go of the tensor."""
        writes.ignore(self)
        super().close()
        self._tensor = self._read_from = self._other = None
        self._pictures = self._begun = None


class _Gone:
    """In the place of a tensor whose device was closed."""

    device = None

    def __getattr__(self, name: str) -> Any:
        raise DeviceGoneError(
            "the device that this tensor was on was closed", hint="make the tensor again, and show that"
        )


def let_go(devices: Sequence[Any]) -> None:
    """Make all views let go of what is on devices that are to be closed."""
    for view in list(_views):
        view.let_go(devices)


@elsewhere.by_value
def inspect(
    tensor: Any,
    name: str | None = None,
    *,
    follow: bool = True,
    axes: tuple[int, int] | None = None,
) -> TensorInspector:
    """Open a view of a tensor and its gradient.

    Parameters
    ----------
    tensor : slangpy.Tensor, ndarray or torch.Tensor
    name : str, optional
        The variable's name, for the head and the code line.
    follow : bool
        Read the tensor again after calls that may have written it; `refresh` reads it in any case.
    axes : (int, int), optional
        The axes that are drawn down and across; else the last two, and a last one of size 3 or 4 as colours. `w.axes = ...`
        chooses others later.

    Returns
    -------
    TensorInspector
        Shown when it is the last line of a cell. `close()` lets go of the tensor.
    """
    return TensorInspector(tensor, name, follow=follow, axes=axes)
