"""The lab: the one per kernel, which owns the device, the cells and the settings."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import slangpy as spy

from slanglab import device as devices
from slanglab import elsewhere, guard, waiting
from slanglab.cells.compiler import Program
from slanglab.cells.module import SlangModule
from slanglab.cells.session import CellSession, Ran, Request
from slanglab.cells.versions import CompileError
from slanglab.engine import building, printing
from slanglab.engine.control import Control, Policy
from slanglab.engine.runs import Run
from slanglab.engine.target import Target
from slanglab.log import LogCapture
from slanglab.memory import give_back
from slanglab.settings import Settings
from slanglab.succession import Succession
from slanglab.tensors import kernels, mended
from slanglab.torch.entry_points.session import TorchCells, TorchRan, provide_cells
from slanglab.waiting import methods as blocking
from slanglab.widgets import inspector, report

__all__ = ["Lab", "compile", "current", "last_run", "sync", "timing"]


class Lab:
    """One device, one Slang session, all cells.

    Parameters
    ----------
    settings : Settings, optional
        The user's, unless given.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.log = LogCapture()
        self._device: spy.Device | None = None
        self._others: dict[str, spy.Device] = {}
        self.succession = Succession(self._suspend, self._replace)
        self.succession.holders.append(inspector.let_go)
        self.control = Control(Policy.of(self.settings))
        self.control.foreign = _with_torch
        guard.switch(self.settings["guard"] == "on")
        self.cells = CellSession(
            lambda: self.device,
            lambda: devices.describe(self.device),
            self.log,
            self.roots,
            self._finished,
            self.control,
            self.ready,
        )
        self.torch_cells = TorchCells(self.roots, self.cells.cell)
        waiting.describe_work(self._running)

    def configure(self, name: str, value: str) -> None:
        """Change a setting, for this session and later ones.

        Raises
        ------
        SettingsError
        """
        try:
            self.settings.set(name, value)
        finally:  # a value that could not be kept holds for this session
            self.control.policy = Policy.of(self.settings)
            if name == "guard":
                guard.switch(self.settings["guard"] == "on")

    # ----- the device -----

    @property
    def device(self) -> spy.Device:
        """The device; the first use opens it.

        Raises
        ------
        DeviceError
            When nothing answers, or in a forked child, where the parent's device would block for ever.
        """
        devices.check_process()
        self.ready()
        if self._device is None:
            self._open(os.environ.get("SLANGLAB_DEVICE") or self.settings["device"])
            if self.cells.is_released:
                self.cells.rebuild()
            self.succession.opened()
        assert self._device is not None
        return self._device

    def _open(self, name: str) -> None:
        self.log.install()
        self.mend()
        self._device = devices.open_device(name)
        if devices.shares_memory(self._device):
            # What it shares with CUDA has to go before it does: left to the interpreter's end, slangpy ends the process over that.
            atexit.unregister(self.close)
            atexit.register(self.close)
        self.succession.adopt(self._device)

    def ready(self) -> None:
        """See to it that the device can be used.

        A device that a wait was interrupted for is waited for, with `slanglab.waiting.PATIENCE`; one that is lost, or that does not end its
        work, is replaced by a new one, with every cell, and a message says which tensors are gone.
        """
        if not self.succession.settled:
            self.succession.settle()

    def sync(self) -> None:
        """Wait until the device has done all that was submitted, as long as it takes."""
        if self._device is not None:
            waiting.wait(self._device, forever=True)

    def _running(self) -> str:
        """Return the name of the function that was called last."""
        return self.control.last[0].function if self.control.last is not None else ""

    def _suspend(self) -> None:
        self.cells.suspend()

    def _replace(self) -> tuple[str, list[str]]:
        """Open a device in the place of one that is gone; return it in words, and the cells that do not compile there."""
        failures = self.reset()
        assert self._device is not None
        return devices.describe(self._device), [cell for cell, _ in failures]

    @staticmethod
    def mend() -> None:
        """Put SlangLab's methods in the place of slangpy's where those lose data, time or Interrupt; `unmend` takes them away."""
        mended.install()
        blocking.install()
        building.install()

    @staticmethod
    def unmend() -> None:
        """Put slangpy's own methods back."""
        mended.uninstall()
        blocking.uninstall()
        building.uninstall()

    @property
    def is_open(self) -> bool:
        """Whether a device is open."""
        return self._device is not None

    def switch_device(self, name: str) -> list[tuple[str, CompileError]]:
        """Open another device and compile every cell there.

        The old device stays open, since tensors of it may live: they can be read, and a call with one of them is refused with both devices
        named. Switching back finds it again, so that there is at most one device for each backend.

        Parameters
        ----------
        name : str
            One of `slanglab.device.BACKENDS`, or "auto".

        Returns
        -------
        list of (str, CompileError)
            Cells that do not compile there.

        Raises
        ------
        DeviceError
            When the device does not open; the current one then stays.
        """
        self.ready()
        if self._device is not None and self._device.info.type.name == name:
            return []
        if self._device is not None:
            waiting.wait(self._device)  # its modules cannot be let go of while one runs
        self.log.install()
        device = self._others.pop(name, None) or devices.open_device(name)
        if self._device is not None:
            if device.info.type == self._device.info.type:  # "auto" came to the same backend
                device.close()
                return []
            self.cells.release()
            self._others[self._device.info.type.name] = self._device
        self._device = device
        self.succession.adopt(device)
        return self._rebuild()

    def reset(self) -> list[tuple[str, CompileError]]:
        """Close the device, open it again and compile every cell there; every tensor is lost.

        A device that does not end its work in a second is given up. What was on it stays in memory then, and the processor cores or
        the GPU that it works on stay busy until the process ends.

        Returns
        -------
        list of (str, CompileError)
            Cells that do not compile any more.
        """
        name = self._device.info.type.name if self._device is not None else None
        self.close()
        if name is None:
            return []
        self._open(name)
        return self._rebuild()

    def _rebuild(self) -> list[tuple[str, CompileError]]:
        """Compile every cell for the device that was opened."""
        failures = self.cells.rebuild()
        self.succession.opened()
        return failures

    def close(self) -> None:
        """Close the device, and those switched away from; the texts of the cells stay."""
        if self._device is None:
            return
        opened = [self._device, *self._others.values()]
        for device in opened:
            self.succession.quiet(device)
        self.succession.let_go(opened)
        self.cells.release()
        self._device, self._others = None, {}
        self.succession.adopt(None)
        for device in opened:
            kernels.drop(device)
        give_back()  # a module that is still referenced keeps some 260 MB of a closed device
        for device in opened:
            self.succession.close(device)
        del opened, device
        give_back()

    # ----- cells -----

    def roots(self) -> list[Path]:
        """Return the folders that cells may read files in: the notebook's own, then those of `%slang config include`."""
        return [Path.cwd(), *self.settings.folders("include")]

    def run(self, request: Request) -> Ran:
        """Run a cell; see `CellSession.run`."""
        with _told():
            ran = self.cells.run(request)
        if request.name is not None:
            self.torch_cells.forget(request.name)  # a name means one cell
        return ran

    def run_torch(self, request: Request) -> TorchRan:
        """Run a `--torch` cell; see `TorchCells.run`."""
        with _told():
            ran = self.torch_cells.run(request)
        if request.name is not None:
            self.cells.forget(request.name)
        return ran

    def compile(
        self,
        source: str,
        name: str | None = None,
        *,
        macros: Iterable[str] = (),
        include: Iterable[Path] = (),
        bounds: bool = False,
        check: bool = False,
    ) -> SlangModule:
        """Compile Slang source; see `slanglab.compile`."""
        self.mend()
        label = name or "source"
        request = Request(
            source,
            name,
            label=label,
            macros=tuple(macros),
            include=tuple(include),
            bounds=bounds,
            check=check,
        )
        return self.run(request).module

    def _finished(self, program: Program) -> str:
        return printing.flush(program.device, self.log)


@contextmanager
def _told() -> Iterator[None]:
    """Put the report of a cell that does not compile into its exception, where a script sees the lines at fault."""
    try:
        yield
    except CompileError as error:
        if error.report is not None:
            error.details = report.text(error.report)
        raise


def _with_torch(target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Make a call with torch tensors: the first one loads what that takes."""
    from slanglab.torch import bridge

    return bridge.call(target, args, kwargs)


_lock = threading.Lock()
_current: Lab | None = None


def current() -> Lab:
    """Return the lab of this process, made at the first call."""
    global _current
    with _lock:
        if _current is None:
            _current = Lab()
        return _current


def adopt(lab: Lab) -> Lab:
    """Make a lab that of this process, which has none yet, and return it."""
    global _current
    with _lock:
        assert _current is None
        _current = lab
    return lab


devices.provide_current(lambda: current().device)
provide_cells(lambda: current().torch_cells)


@elsewhere.by_engine
def compile(
    source: str,
    name: str | None = None,
    *,
    macros: Iterable[str] = (),
    include: Iterable[Path] = (),
    bounds: bool = False,
    check: bool = False,
) -> SlangModule:
    """Compile Slang source into a module, as `%%slang` does with a cell.

    Parameters
    ----------
    source : str
        Slang text. `import NAME;` imports another source compiled under that name, a `.slang` file in the current folder, or one of
        slangpy's libraries.
    name : str, optional
        What other sources import it by. Compiling another text under the same name replaces it: everything that imports it is compiled
        again, and modules and functions that you hold already run the new code.
    macros : iterable of str
        Preprocessor definitions, "NAME" or "NAME=VALUE".
    include : iterable of Path
        Folders to search first, inside the folders that cells may read.
    bounds : bool
        Compare every index of a tensor in this source with the tensor's shape: `t[i]`, `load`, `store`, `add`, forward and backward. A
        call with an index outside raises CallError, which names the line, the index and the shape; the index itself is moved to
        the edge, so that nothing beyond the tensor is read or written, and what the call returned or wrote is not to be used.
        Results and gradients of other calls are the same as without, only slower. Imported sources are checked when they are
        compiled so themselves; what cannot be checked (a macro, a buffer indexed without a shape) is a warning.
    check : bool
        Compare the gradients of every backward call of this source's functions with difference quotients, not only those of the first
        call of each kind.

    Returns
    -------
    SlangModule
        Its attributes are the Slang names.

    Raises
    ------
    CompileError
        With `diagnostics`, and a text that shows the lines at fault.
    """
    return current().compile(source, name, macros=macros, include=include, bounds=bounds, check=check)


@elsewhere.by_engine
def last_run() -> Run | None:
    """Return what is known of the last call of a Slang function; None before the first.

    Returns
    -------
    slanglab.engine.runs.Run
        With `host_ms`, `device_ms`, `compile_ms`, `group_shape`, `path`, `bytes`, `prints`, `warnings` and `check`; as text, a table
        of them. Where the device's time was taken, it is waited for.
    """
    return current().control.report()


@elsewhere.by_engine
def sync() -> None:
    """Wait until the device has done all that was submitted.

    Calls return before their kernels end; time them with this before and behind.
    """
    current().sync()


@elsewhere.by_engine
@contextmanager
def timing() -> Iterator[None]:
    """Take the device's time of every call within a `with` block, for `last_run().device_ms`.

    Calls in the block go the long way and cost some 100 µs more each; outside of it nothing is measured and nothing is paid.
    """
    control = current().control
    before = control.policy.timing
    control.change(timing=True)
    try:
        yield
    finally:
        control.change(timing=before)
