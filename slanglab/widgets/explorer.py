"""The explorer: a function's knobs, its value and its gradients, live.

A change in the browser is a request; it is answered with one frame on the thread that made the explorer, the latest request only. The
kernel's work for it is one forward and one backward call with everything prepared.
"""

from __future__ import annotations

import base64
import logging
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import traitlets
from IPython.core.getipython import get_ipython
from numpy.typing import NDArray

from slanglab.cells import following
from slanglab.cells.function import SlangFunction, source_of
from slanglab.errors import SlangLabError
from slanglab.exploring.descent import OPTIMIZERS
from slanglab.exploring.exploration import Exploration
from slanglab.exploring.knobs import ExploreError
from slanglab.exploring.saying import number
from slanglab.widgets import explorer_frames, outputs
from slanglab.widgets.explorer_static import explorer_png, explorer_text
from slanglab.widgets.raster import SCALE
from slanglab.widgets.transport import SlangWidget

__all__ = ["Explorer", "explore"]

_log = logging.getLogger(__name__)
_views: weakref.WeakSet[Explorer] = weakref.WeakSet()
_MOST_STEPS = 100_000


class Explorer(SlangWidget):
    """A view of a Slang function at every setting of its parameters; `slanglab.explore` makes it.

    Attributes
    ----------
    info : dict
        What the browser is told about the function, as JSON.

    Notes
    -----
    The cell of the function may be edited and run again: the explorer follows, with its settings. Where the new code does not fit what
    was given, it says so and keeps the last picture.
    """

    _bundle = "explorer"
    _requests: Mapping[str, str] = {
        "set": "_serve_set",
        "point": "_serve_point",
        "choose": "_serve_choose",
        "descend": "_serve_descend",
    }

    info = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        function: SlangFunction,
        given: Mapping[str, Any],
        compared: Sequence[SlangFunction] = (),
        differences: bool = False,
    ) -> None:
        self._explored = Exploration(function, given, compared)
        self._explored.differences = differences
        self._explored.names = _variables(given)
        self._links: list[tuple[weakref.ref[Explorer], str, str]] = []
        self._trouble = ""
        self._notes: list[str] = []
        self._looked = self._explored.look()
        self._notes = list(self._looked.notes)
        outputs.sweep(_views)
        super().__init__(info=explorer_frames.describe(self._explored))
        _views.add(self)
        following.follow(self._cell_was_run)

    # ----- what it shows -----

    @property
    def values(self) -> dict[str, Any]:
        """The settings by name, `p.x` for a component: where the knobs stand, and of an axis the point that is looked at."""
        return self._explored.values

    @property
    def code(self) -> str:
        """Python that gives `result`."""
        return self._explored.code

    @property
    def result(self) -> NDArray[Any]:
        """The value over the axes; for two axes the second runs down. A function without axes gives one element."""
        self._keep_up()
        return self._looked.value.astype(self._explored.made.result.dtype)

    @property
    def grads(self) -> dict[str, NDArray[Any]]:
        """The gradients by name, each element's own: over the axes where they were taken there, else at the point that is looked at."""
        self._keep_up()
        found = {**self._looked.here.gradients, **self._looked.gradients}
        return {path: gradient.astype(np.float32) for path, gradient in found.items()}

    @property
    def checks(self) -> dict[str, str]:
        """By name whether the gradient agrees with central differences; empty while these are off."""
        self._keep_up()
        return {path: q.verdict for path, q in self._looked.quotients.items()}

    def set(self, **values: Any) -> None:
        """Turn knobs: `e.set(a=1.5)`; a component of a vector is `e.set(**{"p.x": 0.5})`.

        Raises
        ------
        ExploreError
            For a name that there is not, or a value that a knob cannot take.
        """
        for path, value in values.items():
            parts = value if isinstance(value, (tuple, list)) else None
            wanted = (
                {f"{path}.{c}": v for c, v in zip("xyzw", parts, strict=False)}
                if parts is not None
                else {path: value}
            )
            for name, one in wanted.items():
                try:
                    self._explored.set(name, one)
                except KeyError:
                    known = ", ".join([*(a.path for a in self._explored.axes), *self._explored.knobs])
                    raise ExploreError(
                        self._explored.made.name,
                        f"nothing is called {name!r} here",
                        argument=name,
                        hint=f"there are {known}",
                    ) from None
                except (TypeError, ValueError) as error:
                    raise ExploreError(self._explored.made.name, str(error), argument=name) from None
        self._keep_up()
        self._again(None, raises=True)

    def reset(self) -> None:
        """Turn every knob back to where it started."""
        for knob in self._explored.knobs.values():
            knob.value = knob.start
        self._again(None, raises=True)

    def link(self, other: Explorer, name: str, theirs: str | None = None) -> None:
        """Turn a knob of another explorer together with this one's, both ways.

        Parameters
        ----------
        other : Explorer
        name : str
            The knob here.
        theirs : str, optional
            The knob there; by default of the same name.

        Raises
        ------
        ExploreError
            Where one of the two has no such knob.
        """
        away = theirs or name
        for one, path in ((self, name), (other, away)):
            if path not in one._explored.knobs:
                raise ExploreError(
                    one._explored.made.name,
                    f"there is no knob {path!r} to link",
                    argument=path,
                    hint=f"there are {', '.join(one._explored.knobs)}",
                )
        self._links.append((weakref.ref(other), name, away))
        other._links.append((weakref.ref(self), away, name))
        other._turned_by(self, away, self._explored.knobs[name].value)

    def descend(
        self,
        start: Sequence[float] | None = None,
        steps: int = 50,
        optimizer: str = "Adam",
        lr: float = 0.1,
    ) -> NDArray[np.float64]:
        """Walk downhill over the axes, and show the path.

        Parameters
        ----------
        start : sequence of float, optional
            One number for each axis; by default the point that is looked at.
        steps : int
        optimizer : {"Adam", "momentum", "GD"}
        lr : float
            The learning rate.

        Returns
        -------
        ndarray of float64, shape (steps + 1, axes)
            The start and the point after each step; fewer where it cannot go on.

        Raises
        ------
        ExploreError
        """
        names = {o.lower(): o for o in OPTIMIZERS}
        if optimizer.lower() not in names:
            raise ExploreError(
                self._explored.made.name,
                f"no optimizer is called {optimizer!r}",
                hint=f"there are {', '.join(OPTIMIZERS)}",
            )
        if not (np.isfinite(lr) and lr > 0):
            raise ExploreError(self._explored.made.name, f"a learning rate is above 0, not {lr}")
        self._keep_up()
        descent = self._explored.descent
        descent.optimizer, descent.rate = names[optimizer.lower()], float(lr)
        self._explored.begin_descent(start or [a.value for a in self._explored.axes])
        for _ in range(steps):
            if not descent.step():
                break
        self._forget_twins()
        self._push_path(None)
        return np.array(descent.path)

    # ----- frames -----

    def _ready(self) -> None:
        self._push(None)
        if self._explored.descent.path:
            self._push_path(None)

    def _push(self, ask: int | None) -> None:
        meta, arrays = explorer_frames.frame(self._explored, self._looked, ask)
        self.push("look", self._noted(meta), arrays)

    def _noted(self, meta: dict[str, Any]) -> dict[str, Any]:
        # The engine warns once of each kind of call; what it said stays until the code changes.
        return {**meta, "notes": self._notes}

    def _forget_twins(self) -> None:
        self.__dict__.pop("png", None)
        self.__dict__.pop("text", None)

    def _push_path(self, ask: int | None) -> None:
        self.push("path", *explorer_frames.path_frame(self._explored, ask, self._path_code()))

    def _path_code(self) -> str:
        descent = self._explored.descent
        if not descent.path:
            return ""
        start = ", ".join(number(p) for p in descent.path[0])
        rate = number(float(np.float32(descent.rate)))
        return (
            f'e.descend(({start}), steps={len(descent.path) - 1}, optimizer="{descent.optimizer}", lr={rate})'
        )

    def _again(self, ask: int | None, *, raises: bool = False, told: Explorer | None = None) -> None:
        """Run at the setting as it is, and show that."""
        try:
            self._looked = self._explored.look()
        except SlangLabError as error:
            if raises:
                raise
            self._say(f"The call was refused: {error.message}")
            self.tell("refused", {"ask": ask})
            return
        for note in self._looked.notes:
            if note not in self._notes:
                self._notes.append(note)
        self._forget_twins()
        self._shorten_path()
        if self._trouble:
            self._say("")
        self._push(ask)
        self._pass_on(told)

    def _shorten_path(self) -> None:
        """Keep of a path its start alone: where another knob stands, the steps would be others."""
        descent = self._explored.descent
        if len(descent.path) > 1:
            try:
                self._explored.begin_descent(descent.path[0])
            except SlangLabError:
                descent.path.clear()
            self._push_path(None)

    def _say(self, trouble: str) -> None:
        self._trouble = trouble
        self.info = explorer_frames.describe(self._explored, trouble)

    # ----- requests -----

    @staticmethod
    def _ask(content: Mapping[str, Any]) -> int | None:
        ask = content.get("ask")
        return ask if type(ask) is int else None

    def _serve_set(self, content: Mapping[str, Any]) -> None:
        """Turn knobs; unknown names and values that cannot be taken are left out."""
        if content.get("reset") is True:
            for knob in self._explored.knobs.values():
                knob.value = knob.start
        self._take_values(content.get("values"))
        self._keep_up()
        self._again(self._ask(content))

    def _take_values(self, values: object) -> None:
        if not isinstance(values, Mapping):
            return
        for path, value in values.items():
            try:
                self._explored.set(path, value)
            except (KeyError, TypeError, ValueError):
                _log.debug("%r cannot be set to %r", path, value)

    def _serve_point(self, content: Mapping[str, Any]) -> None:
        """Look at another point of the axes; a curve is not run again for it."""
        self._take_values(content.get("values"))
        ask = self._ask(content)
        try:
            self._explored.look_here(self._looked)
        except SlangLabError as error:
            self._say(f"The call was refused: {error.message}")
            self.tell("refused", {"ask": ask})
            return
        self._forget_twins()
        if content.get("answer") is not False:
            self.push("here", self._noted(explorer_frames.facts(self._explored, self._looked, ask)))

    def _serve_choose(self, content: Mapping[str, Any]) -> None:
        """Choose a component, or whether differences are shown."""
        component, differences = content.get("component"), content.get("differences")
        if type(component) is int and 0 <= component < self._explored.made.components:
            self._explored.component = component
        if type(differences) is bool:
            self._explored.differences = differences
        self._again(self._ask(content))

    def _serve_descend(self, content: Mapping[str, Any]) -> None:
        """Begin, go on, or choose another optimizer or rate."""
        explored, descent = self._explored, self._explored.descent
        optimizer, rate = content.get("optimizer"), content.get("rate")
        chosen = optimizer if optimizer in OPTIMIZERS else descent.optimizer
        speed = float(rate) if isinstance(rate, (int, float)) and 0 < rate < 1e6 else descent.rate
        try:
            descent.choose(chosen, speed)
            point = content.get("point")
            if isinstance(point, list) and all(isinstance(p, (int, float)) for p in point):
                explored.begin_descent(point)
            steps = content.get("steps")
            if type(steps) is int and not descent.path and steps > 0:
                explored.begin_descent([a.value for a in explored.axes])
            for _ in range(min(steps, _MOST_STEPS) if type(steps) is int else 0):
                if not descent.step():
                    break
        except SlangLabError as error:
            self._say(f"The descent stopped: {error.message}")
        self._forget_twins()
        self._push_path(self._ask(content))

    # ----- linked explorers -----

    def _pass_on(self, told: Explorer | None) -> None:
        for reference, mine, theirs in self._links:
            other = reference()
            if other is not None and other is not told and mine in self._explored.knobs:
                other._turned_by(self, theirs, self._explored.knobs[mine].value)

    def _turned_by(self, other: Explorer, path: str, value: float) -> None:
        knob = self._explored.knobs.get(path)
        if knob is None or self.comm is None:
            return
        taken = knob.taken(value)
        if taken != knob.value:
            knob.value = taken
            self._again(None, told=other)

    # ----- following the cell -----

    def _cell_was_run(self) -> None:
        """Look at the new code when the cell has ended; without a loop, when something is asked for."""
        if self.comm is None or self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._after_the_cell)

    def _after_the_cell(self) -> None:
        if self.comm is None:
            return
        if self._keep_up():
            self._push(None)
            if self._explored.descent.path:
                self._push_path(None)

    def _keep_up(self) -> bool:
        """Follow the cell where it runs another version now; tell whether anything changed that is shown."""
        explored = self._explored
        try:
            if explored.is_behind:
                explored.follow()
                self._looked = explored.look()
                self._notes = list(self._looked.notes)
                self._forget_twins()
                self._say(self._why_behind())
                return True
            if (why := self._why_behind()) != self._trouble:
                self._say(why)
        except SlangLabError as error:
            # Once is enough: nothing of it changes until the cell is run again.
            self._say(f"The new code does not fit: {error.message} The picture is that of the code before.")
        return False

    def _why_behind(self) -> str:
        """Return why the newest text is not what runs; "" where it is."""
        cell: Any = source_of(self._explored.function).cell
        if not getattr(cell, "failure", ()) or cell.standing is None:
            return ""
        return f"The cell does not compile now. This is its code of {cell.standing.description}."

    # ----- twins -----

    @cached_property
    def text(self) -> str:
        """The plain-text twin."""
        return explorer_text(self._explored, self._looked)

    @cached_property
    def png(self) -> bytes | None:
        """The PNG twin; None for a function without axes."""
        return explorer_png(self._explored, self._looked)

    def __repr__(self) -> str:
        return f"Explorer({self.code})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        outputs.show(self, get_ipython())
        data: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        if self.interactive:
            found: Any = super()._repr_mimebundle_(**kwargs) or {}
            given, more = found if isinstance(found, tuple) else (found, {})
            data.update(given)
            metadata.update(more)
        # JupyterLab would prefer it to the PNG in a saved notebook.
        data.pop("text/html", None)
        data["text/plain"] = self.text
        if (image := self.png) is not None:
            data["image/png"] = base64.b64encode(image).decode("ascii")
            width, height = (int.from_bytes(image[at : at + 4], "big") // SCALE for at in (16, 20))
            metadata["image/png"] = {"width": width, "height": height}
        return data, metadata


def _variables(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the user's variables that hold the axes, by parameter."""
    shell = get_ipython()
    if shell is None:
        return {}
    found: dict[str, str] = {}
    for path, value in given.items():
        if isinstance(value, (int, float, bool, tuple, str)):
            continue
        names = [n for n, held in list(shell.user_ns.items()) if held is value and not n.startswith("_")]
        if names:
            found[path] = names[0]
    return found


def explore(
    f: SlangFunction,
    /,
    *,
    compare: SlangFunction | Sequence[SlangFunction] | None = None,
    differences: bool = False,
    **params: Any,
) -> Explorer:
    """Turn the knobs of a Slang function, and watch its value and its gradients.

    Parameters
    ----------
    f : SlangFunction
        A function of a `%%slang` cell.
    compare : SlangFunction or sequence of them, optional
        Others with the same parameters, drawn as dashed curves; `f` itself does not count.
    differences : bool
        Begin with central differences over the gradients.
    **params
        For each parameter what it can be:

        - `a=(-5, 5)`, `(low, high, start)`, `(low, high, start, step)`: a slider
        - `a=1.0`: a slider with a range round the value; of an int a whole number, of a bool a switch
        - `mode={"fast": 0, "good": 1}`, or an `enum.Enum` class: a choice
        - `x=np.linspace(-3, 3, 400)`: an axis. One makes a curve, two a plane
        - for float2 to float4 a tuple with one of these for each component; `p=((-2, 2), (-1, 3))` of a float2 makes a plane
          where no array is given
        - for a struct a dict with one of these for each field

        What is left out begins with the default of the signature, or with `// @slider(min, max, start)` or
        `[playground::SLIDER(start, min, max)]` in the source.

    Returns
    -------
    Explorer
        Shown when it is the last line of a cell.

    Raises
    ------
    ExploreError
        For a parameter without a value, a range that is none, a function that cannot be drawn.
    """
    others: list[SlangFunction] = []
    if isinstance(compare, (list, tuple)):
        others = list(compare)
    elif compare is not None:
        others = [compare]  # type: ignore[list-item]
    return Explorer(f, params, [g for g in others if g is not f], differences)
