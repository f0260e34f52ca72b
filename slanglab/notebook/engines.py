"""Where the cells and commands of a notebook run: in its own process, or in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slanglab import commands, remote
from slanglab.cells.session import Ran, Request
from slanglab.errors import DeviceError
from slanglab.notebook.gone import names_of, variables
from slanglab.remote.cells import RemoteRan
from slanglab.settings import KEYS

if TYPE_CHECKING:
    from slanglab.lab import Lab

__all__ = ["Names", "command", "leave", "run", "start"]


class Names:
    """The user's variables, for what is said of tensors.

    Parameters
    ----------
    shell : InteractiveShell
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def variables(self) -> Mapping[str, Any]:
        """Return them, without IPython's own."""
        return variables(self._shell)

    def tensors(self) -> list[str]:
        """Return the names of the tensors that the worker has."""
        return names_of(self.variables(), _is_there)


def _is_there(value: object) -> bool:
    return type(value) is remote.RemoteTensor and not value.is_gone


def start(lab: Lab, shell: Any) -> None:
    """Turn on the engine that the settings name."""
    names = Names(shell)
    remote.RemoteTensor.namespace = staticmethod(names.variables)
    _names[0] = names
    if lab.settings["engine"] == "worker":
        try:
            _use(lab)
        except DeviceError as error:
            print(f"slanglab: {error}")


def leave() -> None:
    """Turn the worker engine off, as the extension is unloaded."""
    remote.leave()
    remote.RemoteTensor.namespace = dict
    _names[0] = None


_names: list[Names | None] = [None]


def _use(lab: Lab) -> remote.Lab:
    found = remote.use(lambda: {name: lab.settings[name] for name in KEYS if name != "engine"})
    if (names := _names[0]) is not None:
        found.engine.names = names.tensors
    return found


def run(lab: Lab, request: Request) -> Ran | RemoteRan:
    """Run a cell.

    Raises
    ------
    CompileError
    """
    if (there := remote.active()) is not None:
        return there.cells.run(request)
    ran = lab.run(request)
    return Ran(lab.cells.report(ran), ran.access, ran.module)


def command(lab: Lab, line: str) -> None:
    """Run `%slang LINE`."""
    words = line.split()
    there = remote.active()
    if words[:2] == ["config", "engine"] and len(words) == 3:
        commands.run(lab, line)
        _switch(lab)
    elif there is None or words[:1] == ["code"]:
        commands.run(lab, line)
    elif words[:1] == ["config"]:
        commands.run(lab, line)
        if len(words) > 2 and there.engine.pid is not None:
            there.configure(line)
    else:
        there.command(line)


def _switch(lab: Lab) -> None:
    """Turn on the engine that was just chosen."""
    if lab.settings["engine"] == "worker":
        if remote.active() is None:
            there = _use(lab)
            told = there.cells.add([_request(c) for c in lab.cells.cells() if c.good is not None])
            print(remote.LIMITS)
            if told:
                print(
                    f"A worker was started{told}. Names bound before belong to the notebook's own engine: run those cells again."
                )
    elif remote.active() is not None:
        remote.leave()
        print(
            "Cells run in the notebook's own process now. Run the cells again, and make the tensors again: the worker's are gone."
        )


def _request(cell: Any) -> Request:
    """Return a request for the text that a cell runs."""
    unit = cell.good.unit
    return Request(
        unit.shown,
        cell.key if cell.named else None,
        label=unit.label,
        identity="" if cell.named else cell.key,
        first_line=unit.first_line,
        macros=unit.macros,
        bounds=unit.bounds,
        check=unit.check,
    )
