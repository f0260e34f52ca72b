"""A view that changes: it follows what calls write, and compares its tensor with another or with a copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slanglab.errors import ArgumentError, SlangLabError
from slanglab.tensors import difference
from slanglab.tensors import spread as spreads
from slanglab.tensors.frames import choose
from slanglab.widgets import vector, wire
from slanglab.widgets.serving import Serving
from slanglab.widgets.shown import Shown, as_numpy

__all__ = ["Comparing"]

_LIVE = 0.025
"""Seconds from one look at a tensor that calls write to the next, at least; and most of the time is the calls'."""

_WHOLE = 0.25
"""Seconds from one look at all of it, with statistics and histograms, to the next, while pictures alone follow what calls write."""


class Comparing(Serving):
    """What a view of a tensor does beyond showing it; `TensorInspector` reads and describes."""

    _requests: Mapping[str, str] = {
        **Serving._requests,
        "show": "_serve_show",
        "pin": "_serve_pin",
        "save": "_serve_save",
        "axes": "_serve_axes",
    }

    _tensor: Any
    _other: Any
    """What it is compared with; None where it is with nothing."""
    _other_name: str
    _what: str
    """Which is shown: 'tensor', 'other' or 'difference'."""
    _name: str
    _stale: bool
    """Whether the tensor may hold something else than what is shown."""
    _seen: float
    """When the next look may be."""
    _owing: bool
    """Whether what is shown lacks the ranges of its blocks, and maybe a histogram."""
    _due: bool
    """Whether the loop is to catch up."""
    _show_pictures: Callable[..., int]
    _send_rest: Callable[[], None]
    _summed: float
    """When the next look may be one at all of it."""
    png: Any
    _reread: Callable[..., None]

    def refresh(self) -> None:
        """Read the tensor again and show what it holds now."""
        if self._tensor is None:
            raise SlangLabError("This inspector is closed.", hint="inspect(tensor) opens another")
        self._read_anew(ranges=True)

    def _read_anew(self, *, ranges: bool) -> None:
        started = time.monotonic()
        self._stale = False
        self._reread(ranges=ranges)
        taken = self._pause(started)
        self._summed = started + taken + max(_WHOLE, 6 * taken)

    def _pause(self, started: float) -> float:
        """Leave the calls most of the time after a look that began at `started`; return how long it took."""
        ended = time.monotonic()
        taken = ended - started
        self._seen = ended + max(_LIVE - taken, min(1.5 * taken, taken + _LIVE))
        return taken

    def _glance(self) -> None:
        """Show the picture on the screen as it is now, without its statistics: these follow when calls have ended, or later."""
        started = time.monotonic()
        shown = self._shown
        window = shown.window if self._form == "picture" else None
        self._show_pictures(shown, self._take_pictures(shown, window), {"live": True})
        self._pause(started)

    def _written(self) -> None:
        """Look again, after a call that may have written the tensor: now, or soon if the last look was just now."""
        if self._tensor is None:
            return
        now = time.monotonic()
        # A view that has not drawn the last frame yet would not show this one.
        looked = self._seen <= now and self._gate.open
        if looked and (now >= self._summed or self._pictures is None or self._what == "difference"):
            # More calls may follow, and with them other ranges.
            self._look_again(ranges=not self._loops)
        else:
            if looked:
                self._try(self._glance)
            self._stale = True
        self._soon(now)

    @property
    def _loops(self) -> bool:
        """Whether there is a loop that gets to what is put off."""
        return self._loop is not None and not self._loop.is_closed()

    def _soon(self, now: float) -> None:
        """Catch up when the cell has ended: the last state is always shown, with its statistics and ranges."""
        if self._due or self._loop is None or not self._loops:
            return
        self._due = True
        self._loop.call_soon_threadsafe(self._loop.call_later, max(self._summed - now, _LIVE), self._catch_up)

    def _catch_up(self) -> None:
        self._due = False
        if self._tensor is None:
            return
        now = time.monotonic()
        if self._stale and now < self._summed - _LIVE:
            self._soon(now)  # somebody has looked at all of it meanwhile, and then there were calls again
        elif self._stale:
            self._look_again(ranges=True)
        elif self._owing:
            self._send_rest()

    def _look_again(self, *, ranges: bool) -> None:
        try:
            self._read_anew(ranges=ranges)
        except Exception as error:
            self._trouble(error)

    # ----- axes -----

    @property
    def axes(self) -> tuple[int | None, int | None]:
        """The axes that are drawn down and across; None where there is none. Assign a pair to choose others."""
        return self._choice.row, self._choice.column

    @axes.setter
    def axes(self, axes: tuple[int, int]) -> None:
        shape = self._summary.shape
        down, across = axes
        chosen = int(down) % max(len(shape), 1), int(across) % max(len(shape), 1)
        # Says what cannot be drawn before anything is changed.
        choose(shape, False, (), 1, 1, None, (), chosen)
        self._axes = chosen
        index = tuple(0 if axis in chosen else at for axis, at in enumerate(self._shown.index))
        self._shown = Shown(index, choices=self._shown.choices)
        self.refresh()

    def _serve_axes(self, content: Mapping[str, Any]) -> None:
        """Draw other axes, or the same ones the other way round."""
        axes = wire.naturals(content.get("axes"), 2)
        if axes is not None and axes[0] != axes[1] and max(axes) < len(self._summary.shape):
            self._try(lambda: setattr(self, "axes", axes))

    # ----- comparing -----

    def pin(self) -> Any:
        """Keep a copy of what the tensor holds now, and compare with it from here on.

        Returns
        -------
        slangpy.Tensor or Arrays
            The copy.
        """
        kept = difference.copy(self._tensor)
        self.compare(kept, "pinned", show="tensor")
        return kept

    def compare(self, other: Any, name: str = "other", *, show: str = "difference") -> None:
        """Compare with another tensor of the same shape; None ends it.

        Parameters
        ----------
        other : slangpy.Tensor, ndarray, torch.Tensor or None
        name : str
            What the view calls it.
        show : {'difference', 'tensor', 'other'}
            What is shown first.

        Raises
        ------
        ArgumentError
            If the shapes differ.
        """
        if other is not None:
            difference.difference(self._tensor, other)
        self._other, self._other_name = other, name
        self.show("tensor" if other is None else show)

    def show(self, what: str) -> None:
        """Show the tensor, what it is compared with, or the difference.

        Parameters
        ----------
        what : {'tensor', 'other', 'difference'}
        """
        if what not in ("tensor", "other", "difference"):
            raise ArgumentError(
                f"There is no {what!r} to show.", expected="'tensor', 'other' or 'difference'"
            )
        if what != "tensor" and self._other is None:
            raise ArgumentError(
                "This view compares nothing.",
                hint="w.pin() keeps a copy, w.compare(other) takes another tensor",
            )
        self._what = what
        self.refresh()

    def _centred(self, kind: str) -> bool:
        return kind == "gradient" or self._what == "difference"

    # ----- what is on the screen -----

    @property
    def code(self) -> str:
        """What is on the screen, as Python: `t[3, :, 10:40]`."""
        base, suffix = self._expression()
        choice = self._choice
        return self._shown.code(base, suffix, choice.row, choice.column, choice.channel)

    def _expression(self) -> tuple[str, str]:
        """Return what is sliced, as Python, and what has to stand behind it to make a NumPy array."""
        name, to_numpy = self._name or "t", as_numpy(self._tensor)
        if self._other is None or self._what == "tensor":
            return name, to_numpy
        other, other_to_numpy = self._other_name, as_numpy(self._other)
        if self._what == "other":
            return other, other_to_numpy
        return f"({name}{to_numpy} - {other}{other_to_numpy})", ""

    def svg(self, overlaid: bool = False) -> str:
        """Return what is on the screen as SVG: pictures with their axes, marks and colour bars, and the statistics.

        Parameters
        ----------
        overlaid : bool
            Lay the gradient over the value, which is grey then, where both are pictures.
        """
        if self._pictures is None:
            raise SlangLabError("There is no picture to save.", hint="this tensor is shown as text: w.text")
        pictures = self._pictures
        if self._shown.window is not None and self._form == "picture":
            pictures = self._take_pictures(self._shown, self._shown.window)
        found: dict[str, spreads.Spread | None] = {}
        for kind, choice in self._shown.choices.items():
            if choice.scale == "rank" or choice.range in ("99", "99.9"):
                found[kind] = spreads.spread(
                    self._read_from, gradient=kind == "gradient", magnitude=self._centred(kind)
                )
        return vector.tensor_svg(
            self._summary,
            self.code if self._name else "",
            *pictures,
            choices=self._shown.choices,
            spreads=found,
            signed=self._what == "difference",
            by=self._shown.by,
            overlaid=overlaid,
        )

    def save(self, path: str | Path, overlaid: bool = False) -> None:
        """Write what is on the screen to a file.

        Parameters
        ----------
        path : str or Path
            Ends in `.svg`, or in `.png` for the picture without axes.
        overlaid : bool
            As for `svg`, for such a file.
        """
        path = Path(path)
        if path.suffix == ".svg":
            path.write_text(self.svg(overlaid), encoding="utf-8")
        elif path.suffix == ".png" and self.png is not None:
            path.write_bytes(self.png)
        else:
            raise ArgumentError(
                f"A view is saved as .png or .svg, not as {path.suffix!r}"
                + (", and this tensor has no picture." if path.suffix == ".png" else "."),
                argument="path",
            )

    # ----- the browser's requests -----

    def _serve_show(self, content: Mapping[str, Any]) -> None:
        """Show the tensor, what it is compared with, or the difference."""
        what = content.get("what")
        if what is None:
            self._try(lambda: self.compare(None))
        elif what in ("tensor", "other", "difference"):
            self._try(lambda: self.show(what))

    def _serve_pin(self, _content: Mapping[str, Any]) -> None:
        self._try(self.pin)

    def _serve_save(self, content: Mapping[str, Any]) -> None:
        """Answer with the picture on the screen as SVG, of which the browser makes a PNG too."""
        self._try(lambda: self.tell("saved", {"svg": self.svg(content.get("overlaid") is True)}))
