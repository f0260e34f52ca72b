"""Which Python names a cell binds, and which it leaves alone."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from slanglab.cells.module import SlangModule, cell_of
from slanglab.cells.session import Ran
from slanglab.remote.cells import RemoteRan
from slanglab.remote.proxies import RemoteModule
from slanglab.remote.proxies import cell_of as remote_cell_of
from slanglab.text.source import python_name
from slanglab.torch.entry_points.proxies import TorchModule
from slanglab.torch.entry_points.proxies import cell_of as torch_cell_of
from slanglab.torch.entry_points.session import TorchRan

__all__ = ["Bound", "bind"]

_Ran = Ran | RemoteRan | TorchRan


@dataclass(frozen=True)
class Bound:
    """The names that now hold something of the cell, and those that were not overwritten, with the reason."""

    names: tuple[str, ...]
    left_alone: tuple[tuple[str, str], ...]


def bind(namespace: MutableMapping[str, Any], ran: _Ran, name: str | None) -> Bound:
    """Bind a module to `name`, or without one each function and struct of the cell to its own name.

    A Python object that did not come from a Slang cell is never overwritten.
    """
    if name is not None:
        wanted: dict[str, Any] = {name: ran.module}
    else:
        wanted = {python_name(n): ran.access.own(n) for n in ran.access.names()}
        _remove_old(namespace, ran, wanted)
    bound: list[str] = []
    alone: list[tuple[str, str]] = []
    for key, value in wanted.items():
        if value is None:
            continue
        if key in namespace and _cell_of(namespace[key]) is None:
            alone.append((key, _reason(key, namespace[key], ran, name)))
        else:
            namespace[key] = value
            bound.append(key)
    return Bound(tuple(bound), tuple(alone))


def _cell_of(value: object) -> object:
    return cell_of(value) or remote_cell_of(value) or torch_cell_of(value)


def _remove_old(namespace: MutableMapping[str, Any], ran: _Ran, wanted: dict[str, Any]) -> None:
    """Remove names that an earlier version of the cell bound and this one does not declare."""
    for key, value in list(namespace.items()):
        if (
            key not in wanted
            and type(value) not in (SlangModule, RemoteModule, TorchModule)
            and _cell_of(value) is ran.access.cell
        ):
            del namespace[key]


def _reason(key: str, value: object, ran: _Ran, name: str | None) -> str:
    kind = "function" if callable(value) and not isinstance(value, type) else type(value).__name__
    article = "an" if kind[0] in "aeiou" else "a"
    way = (
        f"`del {key}` and run the cell again, or give the cell another name"
        if name is not None
        else "give the cell a name to reach it: `%%slang NAME`"
    )
    return f"is {article} Python {kind} of yours; {way}"
