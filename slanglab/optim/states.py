"""The state of an optimizer as numbers and arrays: checked, written to a file, read from one."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.errors import ArgumentError

__all__ = ["Found", "checked", "like", "load", "save"]

Shapes = Mapping[str, Mapping[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Found:
    """A state that was checked.

    Attributes
    ----------
    steps, skipped : int
    hyper : dict
        Numbers by name.
    arrays : dict
        By parameter and name.
    """

    steps: int
    skipped: int
    hyper: dict[str, Any]
    arrays: dict[str, dict[str, NDArray[Any]]]


def _wrong(said: str, hint: str = "load what `state_dict()` of such an optimizer returned") -> ArgumentError:
    return ArgumentError(f"This state does not fit: {said}.", argument="state", hint=hint)


def checked(state: Any, hyper: Mapping[str, Any], shapes: Shapes) -> Found:
    """Return a state if it is one of these hyper-parameters, and of arrays of these shapes.

    Raises
    ------
    ArgumentError
        Which says what differs.
    """
    if not isinstance(state, Mapping):
        raise _wrong(f"it is no dict but {type(state).__name__}")
    missing = {"steps", "skipped", "hyper", "state"} - set(state)
    if missing:
        raise _wrong(f"{_listed(missing)} missing")
    given, arrays = state["hyper"], state["state"]
    if not isinstance(given, Mapping) or not isinstance(arrays, Mapping):
        raise _wrong("'hyper' and 'state' are no dicts")
    lacking = set(hyper) - {"lr"} - set(given)
    more = set(given) - set(hyper) - {"lr"}
    if lacking or more:
        said = f"{_listed(lacking)} missing" if lacking else f"it has {', '.join(sorted(map(repr, more)))}"
        raise _wrong(f"its hyper-parameters are of another optimizer ({said})")
    if set(arrays) != set(shapes):
        raise _wrong(
            f"it is for parameters {', '.join(map(repr, arrays))}, and these are {', '.join(map(repr, shapes))}",
            "load it with parameters of the same names; in a list they are called '0', '1', …",
        )
    return Found(
        _count(state["steps"], "steps"),
        _count(state["skipped"], "skipped"),
        {name: given[name] for name in given},
        {name: _arrays(name, arrays[name], own) for name, own in shapes.items()},
    )


def _arrays(name: str, given: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    if not isinstance(given, Mapping) or set(given) != set(shapes):
        has = ", ".join(map(repr, given)) if isinstance(given, Mapping) and given else "nothing"
        wants = ", ".join(map(repr, shapes)) or "nothing"
        raise _wrong(f"for the parameter {name!r} it has {has}, and this optimizer keeps {wants}")
    found = {}
    for key, shape in shapes.items():
        array = np.asarray(given[key])
        if array.dtype.kind not in "fiu":
            raise _wrong(f"{key!r} of the parameter {name!r} holds no numbers but {array.dtype}")
        if array.shape != shape:
            raise _wrong(
                f"{key!r} of the parameter {name!r} has shape {array.shape}, and it should be {shape}"
            )
        found[key] = array
    return found


def _listed(names: set[str]) -> str:
    return f"{', '.join(sorted(map(repr, names)))} {'is' if len(names) == 1 else 'are'}"


def _count(value: Any, name: str) -> int:
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "iu" or array < 0:
        raise _wrong(f"{name!r} is {value!r} and no count")
    return int(array)


def like(old: Any, new: Any, name: str) -> Any:
    """Return a hyper-parameter in the form of the one that it replaces."""
    array = np.asarray(new)
    if old is None or new is None or array.dtype.kind not in "fiub":
        return new if array.dtype.kind in "US" else None if array.dtype.kind == "O" else array.item()
    if array.shape != np.asarray(old).shape:
        raise _wrong(f"{name!r} is {new!r}, and it should be like {old!r}")
    if isinstance(old, tuple):
        return tuple(float(x) for x in array)
    return type(old)(array.item())


def _ended(path: str | Path) -> Path:
    found = Path(path)
    return found if found.suffix else found.with_suffix(".npz")


def save(path: str | Path, state: Mapping[str, Any]) -> None:
    """Write a state to an `.npz` file; the names in it are those of the state, one after another."""
    flat: dict[str, Any] = {}

    def walk(value: Any, *keys: str) -> None:
        if isinstance(value, Mapping):
            if not value:
                flat["/".join((*map(_quoted, keys), ""))] = np.zeros(0)
            for key, inner in value.items():
                walk(inner, *keys, key)
        elif value is not None:
            flat["/".join(map(_quoted, keys))] = np.asarray(value)

    walk(state)
    with _ended(path).open("wb") as file:
        np.savez(file, **flat)


def load(path: str | Path) -> dict[str, Any]:
    """Return the state in a file that `save` wrote.

    Raises
    ------
    ArgumentError
        If it is no such file.
    """
    file = _ended(path)
    state: dict[str, Any] = {}
    try:
        with np.load(file, allow_pickle=False) as held:
            for name in held.files:
                *above, last = map(_unquoted, name.split("/"))
                inner = state
                for key in above:
                    inner = inner.setdefault(key, {})
                if last:
                    array = held[name]
                    inner[last] = array[()] if array.shape == () else array
    except (OSError, ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ArgumentError(
            f"{file.name} holds no state of an optimizer.",
            argument="path",
            hint="load a file that `save` wrote",
            details=str(error),
        ) from error
    return state


def _quoted(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F") or "%00"


def _unquoted(name: str) -> str:
    return "" if name == "%00" else name.replace("%2F", "/").replace("%25", "%")
