"""One Slang session: where cells are loaded, and how all of it is let go.

A Slang session keeps every module that was ever loaded into it: some 1 MB for a cell, 2 to 4 MB for each of its kernels, whose text
is a module too. The only way to have that memory back is to end the session, so the lab starts a new one when much of what was loaded
is not needed any more, and compiles the current cells there (`CellSession`). Ending one takes care: in slangpy 0.43 a module's layout
and the functions and types looked up in it hold each other, natively, where no garbage collector sees them. Hence two things here that
slangpy's own `Module` does otherwise: the layout is that of a linked program, which the module does not hold; and at the end each layout
is pointed at another one (`on_hot_reload`, slangpy's own way to bring reflection up to date), which lets go of the old session.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import slangpy as spy
from slangpy.core.module import CallDataCache
from slangpy.native_func import BaseModule
from slangpy.reflection import SlangProgramLayout

from slanglab import guard
from slanglab.caches import settle
from slanglab.device import caches, slang_session

__all__ = ["CellModule", "Loads", "SlangSession"]

_LEFT = 16
"""Modules that nothing needs any more, of cells and of kernels, from which on a new session pays: they hold some 50 MB, it costs some
100 ms, and 50 ms for each kernel that is called again."""


class Loads:
    """How many modules a session keeps for one version of a cell: its own and those of its kernels."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 1

    def kernel(self) -> None:
        """Count one more kernel."""
        self.count += 1


class CellModule(spy.Module):  # type: ignore[misc]
    """slangpy's module, whose layout can be let go."""

    def __init__(self, loaded: spy.SlangModule, loads: Loads) -> None:
        self.loads = loads
        session = loaded.session
        functional = session.load_module("slangpy")
        composed = session.compose_modules(loaded.name, [functional, loaded])
        layout = SlangProgramLayout(session.link_program([composed], []).layout)
        BaseModule.__init__(self, composed, layout)
        # What slangpy.Module.__init__ sets, without registering for the hot reload that our devices have switched off.
        self.options: dict[str, object] = {}
        self.slangpy_device_module = functional
        self.link: list[spy.SlangModule] = []
        self.call_data_cache = CallDataCache()
        self.dispatch_data_cache: dict[str, object] = {}
        self.pipeline_cache: dict[str, object] = {}
        self.shader_table_cache: dict[str, object] = {}
        self.logger = None
        self._attr_cache: dict[str, object] = {}
        self._all_functions: weakref.WeakSet[spy.Function] = weakref.WeakSet()


@dataclass(frozen=True)
class _Held:
    """A layout that has to be let go of, and the structs that tensors may be of."""

    layout: Any
    cell: str
    structs: tuple[str, ...]


class SlangSession:
    """A session of a device.

    Parameters
    ----------
    device : slangpy.Device
    """

    def __init__(self, device: spy.Device) -> None:
        modules, _ = caches()
        self.device = device
        self.session = slang_session(device, modules)
        self._held: list[_Held] = []
        self._provided: set[str] = set()
        self._loads: list[Loads] = []
        self._collected_at = 0
        self._texts: guard.Texts | None = guard.Texts(self.session)
        # With no modules in the cache yet this session makes them first: a worker that is ended while it writes them would spoil them.
        if modules is not None and any(modules.rglob("slangpy.slang-module")):
            guard.prepare(self._texts)

    def provide(self, name: str, source: str) -> None:
        """Load a module of SlangLab's own, which cells then import; one that is there already stays."""
        if name not in self._provided:
            guard.load(self.session, name, source)
            self._provided.add(name)

    def load(self, name: str, source: str, cell: str = "", structs: Sequence[str] = ()) -> CellModule:
        """Load a module from text.

        Parameters
        ----------
        name, source : str
        cell : str
            What stays the same over the versions of a cell.
        structs : sequence of str
            The structs that the text declares.

        Raises
        ------
        slangpy.SlangCompileError
            When it does not compile.
        """
        loads = Loads()
        self._loads.append(loads)  # a text that does not compile leaves something behind too
        module = CellModule(guard.load(self.session, name, source), loads)
        if self._texts is not None:
            guard.prepare(self._texts)
        if not self._held:
            settle()  # the first load of a session may have added modules to the cache
        self._held.append(_Held(module.layout, cell, tuple(structs)))
        return module

    @property
    def loaded(self) -> int:
        """How many modules of cells and kernels the session keeps."""
        return sum(loads.count for loads in self._loads)

    def is_mostly_dead(self, used: Callable[[], list[Loads]], forgotten: Callable[[], list[Loads]]) -> bool:
        """Tell whether a new session pays: no less of what was loaded is of no use any more than is of use.

        Parameters
        ----------
        used, forgotten : callable
            Return what was loaded for programs that can still be run, and for those among them of cells that were forgotten.
        """

        def pays(count: int) -> bool:
            return self.loaded - count >= max(_LEFT, count)

        count, doubtful = _sum(used()), _sum(forgotten())
        # Functions that were called and what they ran hold on to each other: a forgotten cell looks as if somebody held it, and would be
        # compiled anew, until the collector finds it.
        if doubtful and pays(count - doubtful) and self.loaded >= self._collected_at + _LEFT:
            self._collected_at = self.loaded
            gc.collect()
            count = _sum(used())
        return pays(count)

    def end(self, successor: SlangSession, current: Mapping[str, CellModule]) -> None:
        """Let go of everything that was loaded; modules of this session must not be called any more.

        Tensors go on working: Slang's own types are found in a layout that stays, structs in that of the cell's new version. Where a
        struct is gone from its cell, the layout is left alone, and with it the session: a tensor of it must not lose its type.

        Parameters
        ----------
        successor : SlangSession
            Takes over the layouts with structs, whose next move is when it ends itself.
        current : dict of str to CellModule
            For each cell its module in the successor.
        """
        resting = _resting(self.device)
        for held in self._held:
            if not held.structs:
                held.layout.on_hot_reload(resting)
                continue
            module = current.get(held.cell)
            if module is None or any(module.layout.find_type_by_name(s) is None for s in held.structs):
                continue
            held.layout.on_hot_reload(module.layout.program_layout)
            successor._held.append(held)
        self._held = []
        self._texts = None  # the guard's worker then lets go of its session too

    def close(self) -> None:
        """Let go of everything that was loaded, with no successor: the lab goes to another device, or closes this one."""
        resting = _resting(self.device)
        for held in self._held:
            if not held.structs:  # a tensor of a struct of this device must not lose its type
                held.layout.on_hot_reload(resting)
        self._held = []
        self._texts = None


def _sum(loads: list[Loads]) -> int:
    return sum(one.count for one in loads)


def _resting(device: spy.Device) -> Any:
    """Return a layout of the device's own session, which stays as long as the device; it knows Slang's own types."""
    module = device.load_module_from_source(
        "slanglab/resting", "float slanglab_resting(float x) { return x; }"
    )
    return device.slang_session.link_program([module], []).layout
