"""One parameter after the other: what is given for it, its default or its annotation becomes a knob, an axis or a fixed argument."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.engine.parameters import Parameter
from slanglab.exploring.annotations import Annotation
from slanglab.exploring.arrangement import Argument, Arrangement
from slanglab.exploring.knobs import Axis, ExploreError, Knob, guessed, nice_step, ranged
from slanglab.text import symbols

__all__ = ["FIELD_POINTS", "Builder", "is_float"]

FIELD_POINTS = 128
"""Points on each axis of a field whose axes are given as ranges."""

_COLOR = re.compile(r"(^|_)(colou?r|albedo|tint|rgb)", re.IGNORECASE)
_MOST_KNOBS = 48
_FLOATS = ("float32", "float16", "float64")


def is_float(spec: Parameter) -> bool:
    """Tell whether numbers of a type are real."""
    return spec.dtype is not None and spec.dtype.name in _FLOATS


def _is_array(given: object) -> bool:
    return isinstance(given, (np.ndarray, spy.Tensor, list, range)) or (
        hasattr(given, "detach") and hasattr(given, "cpu")
    )


def _numbers(given: Any) -> np.ndarray[Any, Any]:
    if isinstance(given, spy.Tensor):
        given = given.to_numpy()
    elif hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    return np.asarray(given)


class Builder:
    """Makes the arguments, one parameter after the other."""

    def __init__(
        self, made: Arrangement, name: str, notes: Mapping[str, Annotation], outline: symbols.Outline
    ) -> None:
        self.made, self.name, self.notes = made, name, notes
        # The compiler's reflection gives fields in an order of its own.
        self._enums = {s.name: [f.name for f in s.fields] for s in outline.structs if s.kind == "enum"}
        self._order = {s.name: [f.name for f in s.fields] for s in outline.structs}

    def build(self, given: Mapping[str, Any], uniforms: Mapping[str, symbols.Variable]) -> None:
        """Make the arguments of every parameter, and the knobs of uniforms."""
        made = self.made
        explicit = any(self._holds_axis(value) for value in given.values())
        for spec in made.target.parameters:
            if spec.name == made.out:
                continue
            value = given.get(spec.name, _missing)
            if not explicit and spec.kind == "vector" and spec.element_shape == (2,) and _two_ranges(value):
                value = tuple(
                    np.linspace(*_ends(self.name, f"{spec.name}.{c}", v), FIELD_POINTS)
                    for c, v in zip("xy", value, strict=True)
                )
                explicit = True
            if (
                value is _missing
                and spec.kind not in ("scalar", "vector", "struct")
                and spec.name in made.target.defaults
            ):
                continue
            default = made.target.defaults.get(spec.name)
            made.arguments[spec.name] = self._argument(
                spec,
                spec.name,
                value,
                default() if default is not None and value is _missing else None,
                spec.no_diff,
            )
        for name, variable in uniforms.items():
            self._uniform(name, variable, given.get(name, _missing))
        if len(made.axes) > 2:
            raise ExploreError(
                self.name,
                f"{len(made.axes)} axes are given ({', '.join(a.path for a in made.axes)}); a picture has two",
                hint="give the others as a range, for example (lowest, highest)",
            )
        if len(made.knobs) > _MOST_KNOBS:
            raise ExploreError(
                self.name, f"it has {len(made.knobs)} numbers to turn; {_MOST_KNOBS} are shown at most"
            )

    @staticmethod
    def _holds_axis(value: Any) -> bool:
        if isinstance(value, Mapping):
            return any(Builder._holds_axis(v) for v in value.values())
        if isinstance(value, tuple):
            return any(_is_array(v) for v in value)
        return _is_array(value) and (not isinstance(value, list) or len(value) > 4)

    # ----- one parameter -----

    def _argument(self, spec: Parameter, path: str, given: Any, default: Any, no_diff: bool) -> Argument:
        if spec.kind == "struct" and spec.fields:
            return self._struct(spec, path, given, no_diff)
        if (cases := self._enums.get(spec.type)) is not None:
            words = ", ".join(f'"{case}": {i}' for i, case in enumerate(cases))
            raise ExploreError(
                self.name,
                f"{path} is the enum {spec.type}, which slangpy cannot pass from Python",
                argument=path,
                hint=f"write a function that takes an int and casts it, `({spec.type}){path}`, and give {path}={{{words}}}",
            )
        if spec.kind not in ("scalar", "vector") or spec.dtype is None:
            if given is _missing:
                raise ExploreError(
                    self.name,
                    f"{path} is {spec.type}, for which there is no control",
                    argument=path,
                    hint=f"give it as it is passed in a call: {path}=…",
                )
            return Argument(spec, fixed=given, is_fixed=True)
        differentiable = (
            self.made.differentiable and not no_diff and spec.dtype.name in ("float32", "float16")
        )
        if spec.kind == "scalar":
            return Argument(spec, [self._part(spec, path, given, default, differentiable)])
        return self._vector(spec, path, given, default, differentiable)

    def _struct(self, spec: Parameter, path: str, given: Any, no_diff: bool) -> Argument:
        if given is not _missing and not isinstance(given, Mapping):
            if _is_array(given) or isinstance(given, (int, float, tuple)):
                raise ExploreError(
                    self.name,
                    f"{path} is the struct {spec.type}",
                    argument=path,
                    hint=f"give its fields: {path}={{{', '.join(f'{n!r}: …' for n in spec.fields)}}}",
                )
            return Argument(spec, fixed=given, is_fixed=True)
        values: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        if strange := [n for n in values if n not in spec.fields]:
            raise ExploreError(
                self.name,
                f"{spec.type} has no field {strange[0]!r}",
                argument=path,
                hint=f"it has {', '.join(spec.fields)}",
            )
        off = no_diff or not spec.differentiable
        order = self._order.get(spec.type, [])
        fields = sorted(spec.fields.items(), key=lambda f: order.index(f[0]) if f[0] in order else len(order))
        return Argument(
            spec,
            fields={
                name: self._argument(
                    inner, f"{path}.{name}", values.get(name, _missing), None, off or inner.no_diff
                )
                for name, inner in fields
            },
        )

    def _vector(self, spec: Parameter, path: str, given: Any, default: Any, differentiable: bool) -> Argument:
        count = spec.element_shape[0]
        note = self.notes.get(path, Annotation())
        color = count in (3, 4) and is_float(spec) and (note.color or bool(_COLOR.search(path)))
        if isinstance(given, spy.Tensor) or (_is_array(given) and not isinstance(given, list)):
            given = _numbers(given)
            if given.ndim == 1 and given.size == count:
                given = tuple(float(v) for v in given)
        if given is _missing:
            start = note.start if len(note.start) == count else default
            if start is None and note.low is not None:
                start = [None] * count
            if start is None:
                raise self._no_value(spec, path, f"({', '.join(['0.5'] * count)})")
            values: Sequence[Any] = [
                v if v is None else float(v) for v in np.asarray(start, object).reshape(-1)
            ]
        elif isinstance(given, (int, float)) and not isinstance(given, bool):
            values = [given] * count
        elif isinstance(given, (tuple, list)) and len(given) == count:
            values = given
        else:
            raise ExploreError(
                self.name,
                f"{path} is {spec.type}: it takes {count} components, each a number, a range or an array",
                argument=path,
                hint=f"for example {path}=({', '.join(['0.5', '(0, 1)', '0.5', '1.0'][:count])})",
            )
        parts: list[Knob | Axis] = []
        for letter, value in zip("xyzw", values, strict=False):
            inner = f"{path}.{letter}"
            if value is None or (given is _missing and note.low is not None):
                self.notes = {**self.notes, inner: Annotation(note.low, note.high)}
                parts.append(self._part(spec, inner, _missing, value, differentiable, path))
            elif color and isinstance(value, (int, float)) and 0 <= value <= 1:
                parts.append(self._part(spec, inner, (0.0, 1.0, value), None, differentiable, path))
            else:
                parts.append(self._part(spec, inner, value, None, differentiable, path))
        knobs = [p for p in parts if isinstance(p, Knob)]
        if color and len(knobs) == count and all(k.low >= 0 and k.high <= 1 for k in knobs):
            for knob in knobs:
                knob.color = True
        return Argument(spec, parts)

    def _part(
        self, spec: Parameter, path: str, given: Any, default: Any, differentiable: bool, group: str = ""
    ) -> Knob | Axis:
        """Return the knob or the axis of one number."""
        assert spec.dtype is not None
        whole = spec.dtype.kind in "iu"
        if given is _missing:
            note = self.notes.get(path, Annotation())
            if note.low is not None and note.high is not None:
                start = note.start or (() if default is None else (float(default),))
                given = (note.low, note.high, *start)
            elif default is not None:
                given = default
            else:
                raise self._no_value(spec, path, "(0, 10)" if whole else "(-1, 1)")
        if isinstance(given, np.ndarray) and given.ndim == 0:
            given = given.item()
        if _is_array(given):
            return self._axis(spec, path, given, differentiable)
        knob = Knob(path, group=group, differentiable=differentiable and not whole)
        self._set_up(knob, spec, given, whole)
        knob.value = knob.start
        self.made.knobs[path] = knob
        return knob

    def _set_up(self, knob: Knob, spec: Parameter, given: Any, whole: bool) -> None:
        path = knob.path
        if isinstance(given, type) and issubclass(given, enum.Enum):
            given = {member.name: member.value for member in given}
        if isinstance(given, Mapping):
            if not given:
                raise ExploreError(self.name, f"{path}={{}} has nothing to choose from", argument=path)
            knob.kind, knob.differentiable = "choice", False
            knob.choices = tuple((str(word), value) for word, value in given.items())
            knob.low, knob.high, knob.step, knob.start = 0.0, len(given) - 1.0, 1.0, 0.0
        elif spec.dtype is not None and spec.dtype.kind == "b":
            knob.kind, knob.differentiable = "bool", False
            knob.low, knob.high, knob.step = 0.0, 1.0, 1.0
            knob.start = float(bool(given)) if not isinstance(given, tuple) else 0.0
        elif isinstance(given, tuple):
            knob.kind = "int" if whole else "float"
            knob.low, knob.high, knob.start, knob.step = ranged(self.name, path, given, whole)
        elif isinstance(given, (int, float, np.number)):
            value = float(given)
            if not np.isfinite(value):
                raise ExploreError(
                    self.name,
                    f"{path}={value} cannot be turned",
                    argument=path,
                    hint=f"give a finite start or a range, {path}=(-1, 1)",
                )
            knob.kind = "int" if whole else "float"
            knob.low, knob.high = guessed(value, whole)
            knob.start, knob.step = value, 1.0 if whole else nice_step(knob.high - knob.low)
        else:
            raise ExploreError(
                self.name,
                f"{path} is given {type(given).__name__}, of which no control can be made",
                argument=path,
                hint="give a number, a range (lowest, highest), a 1-D array, or a dict of words and numbers",
            )

    def _axis(self, spec: Parameter, path: str, given: Any, differentiable: bool) -> Axis:
        try:
            points = _numbers(given)
            stored = points.astype(spec.dtype).astype(np.float64)
        except (TypeError, ValueError):
            raise ExploreError(
                self.name, f"{path} is given something that is no array of numbers", argument=path
            ) from None
        if stored.ndim == 2 and 1 in stored.shape:
            stored = stored.reshape(-1)
        if stored.ndim != 1:
            raise ExploreError(
                self.name,
                f"{path} has shape {stored.shape}; an axis has one dimension",
                argument=path,
                hint="give the numbers along the axis, for example np.linspace(-3, 3, 400); two parameters with arrays make a plane",
            )
        if len(stored) < 2:
            raise ExploreError(
                self.name, f"{path} holds {len(stored)} points; an axis needs two", argument=path
            )
        if not np.isfinite(stored).all():
            raise ExploreError(
                self.name, f"{path} holds NaN or an infinity, which has no place on an axis", argument=path
            )
        if (np.diff(stored) < 0).any():
            if not (np.diff(stored) <= 0).all():
                raise ExploreError(
                    self.name,
                    f"the points of {path} go up and down",
                    argument=path,
                    hint=f"sort them: np.sort({path})",
                )
            stored = stored[::-1]
        axis = Axis(
            path,
            stored,
            differentiable and is_float(spec),
            _written(path, stored),
            round(0.6 * (len(stored) - 1)),
        )
        self.made.axes.append(axis)
        return axis

    def _uniform(self, name: str, variable: symbols.Variable, given: Any) -> None:
        """Make a knob of a global of the module, where the source or the user gives it a range."""
        note = self.notes.get(name)
        if given is _missing and note is None:
            return
        found = re.fullmatch(r"(float|int|uint|bool)([234])?", variable.type)
        if found is None:
            raise ExploreError(
                self.name,
                f"the uniform {name} is {variable.type}, for which there is no control",
                argument=name,
            )
        dtype = np.dtype({"float": "float32", "int": "int32", "uint": "uint32", "bool": "bool"}[found[1]])
        shape = (int(found[2]),) if found[2] else ()
        spec = Parameter(name, variable.type, "vector" if shape else "scalar", dtype, shape)
        before = set(self.made.knobs), len(self.made.axes)
        self._argument(spec, name, given, None, True)
        if len(self.made.axes) != before[1]:
            raise ExploreError(
                self.name, f"{name} is a uniform: one number for the whole call, no axis", argument=name
            )
        for path in set(self.made.knobs) - before[0]:
            self.made.knobs[path].uniform = True

    def _no_value(self, spec: Parameter, path: str, example: str) -> ExploreError:
        return ExploreError(
            self.name,
            f"{path} ({spec.type}) is neither given nor has a default",
            argument=path,
            hint=f"give a range, {path.partition('.')[0]}={example}, an axis, {path.partition('.')[0]}=np.linspace(-3, 3, 400), "
            f"or write `// @slider(min, max, start)` behind it in the source",
        )


class _Missing:
    """Stands for an argument that was not given."""


_missing = _Missing()


def _two_ranges(value: Any) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(isinstance(v, (tuple, list)) and len(v) == 2 for v in value)
    )


def _ends(function: str, path: str, value: Sequence[Any]) -> tuple[float, float]:
    low, high, _, _ = ranged(function, path, tuple(value))
    return low, high


def _written(path: str, points: np.ndarray[Any, Any]) -> str:
    """Return code that makes the points, where they are evenly spaced; else the name alone."""
    low, high, count = float(points[0]), float(points[-1]), len(points)
    even = np.linspace(low, high, count)
    size = max(abs(low), abs(high))
    if np.abs(even - points).max() <= 1e-6 * size:
        return f"np.linspace({_short(low)}, {_short(high)}, {count})"
    return path.rpartition(".")[2]


def _short(x: float) -> str:
    """Write a float32 so that it reads back as the same."""
    text = f"{x:g}"
    return text if np.float32(text) == np.float32(x) else repr(float(str(np.float32(x))))
