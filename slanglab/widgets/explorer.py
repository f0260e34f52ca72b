"""The explorer: a function's knobs, its value and its gradients, live.

A change in the browser is a request; it is answered with one frame on the thread that made the explorer, the latest request only. The
kernel's work for it is one forward and one backward call with everything prepared.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from IPython.core.getipython import get_ipython
from numpy.typing import NDArray

from slanglab.cells.function import SlangFunction
from slanglab.exploring.descent import OPTIMIZERS
from slanglab.exploring.exploration import Exploration
from slanglab.exploring.knobs import ExploreError
from slanglab.widgets import outputs
from slanglab.widgets.explorer_serving import ServedExplorer, turning
from slanglab.widgets.explorer_static import explorer_png, explorer_text

__all__ = ["Explorer", "explore"]


class Explorer(ServedExplorer):
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

    def __init__(
        self,
        function: SlangFunction,
        given: Mapping[str, Any],
        compared: Sequence[SlangFunction] = (),
        differences: bool = False,
    ) -> None:
        explored = Exploration(function, given, compared)
        explored.differences = differences
        explored.names = _variables(given)
        super().__init__(explored)

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
        with turning:
            self._keep_up()
            return self._looked.value.astype(self._explored.made.result.dtype)

    @property
    def grads(self) -> dict[str, NDArray[Any]]:
        """The gradients by name, each element's own: over the axes where they were taken there, else at the point that is looked at."""
        with turning:
            self._keep_up()
            found = {**self._looked.here.gradients, **self._looked.gradients}
        return {path: gradient.astype(np.float32) for path, gradient in found.items()}

    @property
    def checks(self) -> dict[str, str]:
        """By name whether the gradient agrees with central differences; empty while these are off."""
        with turning:
            self._keep_up()
            return {path: q.verdict for path, q in self._looked.quotients.items()}

    def set(self, **values: Any) -> None:
        """Turn knobs: `e.set(a=1.5)`; a component of a vector is `e.set(**{"p.x": 0.5})`.

        Raises
        ------
        ExploreError
            For a name that there is not, or a value that a knob cannot take.
        """
        with turning:
            self._keep_up()
            self._behind = True
            for path, value in values.items():
                self._set(path, value)
            self._again(None, raises=True)

    def _set(self, path: str, value: Any) -> None:
        """Set one name, or the components of one."""
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

    def reset(self) -> None:
        """Turn every knob back to where it started."""
        with turning:
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
        with turning:
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
        return self.with_twins(self.text, self.png, **kwargs)


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
