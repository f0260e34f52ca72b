"""A pytest plugin: slangpy's own tests, with every function reached through SlangLab's proxies.

The tests make their modules with `slangpy.Module(...)`, directly or through `Module.load_from_source`, `load_from_file` and slangpy's
test helpers. With `--through=slanglab` that constructor compiles the same text as a cell on the same device and answers with the
cell's names; what else a slangpy module has (`layout`, `device`, `find_function`) comes from the cell's own slangpy module. With
`--through=slangpy` nothing is replaced. Either way each call that slangpy receives is counted, and whether it came from a proxy.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import slangpy as spy
from slangpy.core.function import FunctionNode
from slangpy.core.module import Module

from slanglab.cells.function import SlangFunction
from slanglab.cells.module import SlangModule
from slanglab.cells.session import CellSession, Ran, Request
from slanglab.engine import printing
from slanglab.engine.control import Control
from slanglab.errors import NameNotFoundError, SlangLabError
from slanglab.log import LogCapture

_TESTS = Path(spy.__file__).parent / "tests" / "slangpy_tests"


class _Calls:
    """Counts what slangpy's functions are called with, and from where."""

    def __init__(self) -> None:
        self.depth = 0
        self.counts: Counter[str] = Counter()

    @contextmanager
    def inside(self):
        """Mark the calls made meanwhile as a proxy's."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def count(self) -> None:
        self.counts["proxied" if self.depth else "direct"] += 1


_calls = _Calls()


def _count_calls() -> None:
    """Count every call at slangpy's function and mark those that a proxy makes."""

    def counted(name: str) -> Any:
        original = getattr(FunctionNode, name)

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            _calls.count()
            return original(self, *args, **kwargs)

        return method

    def marked(name: str) -> Any:
        original = getattr(SlangFunction, name)

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            with _calls.inside():
                return original(self, *args, **kwargs)

        return method

    for name in ("__call__", "append_to", "dispatch", "debug_build_call_data"):
        setattr(FunctionNode, name, counted(name))
        setattr(SlangFunction, name, marked(name))


class _Cells:
    """One session of cells for each device that a test opens."""

    def __init__(self) -> None:
        self._sessions: dict[int, CellSession] = {}
        self._serial = itertools.count(1)
        self.log = LogCapture()

    def run(self, device: spy.Device, text: str, name: str) -> Ran:
        key = id(device)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = CellSession(
                lambda: device,
                lambda: device.info.adapter_name,
                self.log,
                lambda: [_TESTS],
                lambda program: printing.flush(device, self.log),
                Control(),
                lambda: None,
            )
            device.register_device_close_callback(lambda _: self._sessions.pop(key, None))
        # A cell of its own for each module: slangpy.Module starts without kernels too.
        return session.run(Request(text, label=name, identity=f"{name} {next(self._serial)}"))


_cells = _Cells()
_texts: dict[tuple[int, str], str] = {}
"""The text of each module that a test has loaded from a string, by device and name."""


class CellOfModule:
    """What the tests get for a `slangpy.Module`: the names of a cell, then what else its slangpy module has."""

    def __init__(self, ran: Ran, options: dict[str, Any]) -> None:
        plain = ran.access.version().program.module
        plain.options = options
        object.__setattr__(self, "_names", ran.module)
        object.__setattr__(self, "_plain", plain)

    __class__ = Module  # type: ignore[assignment]  # for isinstance

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._names, name)
        except NameNotFoundError:
            if hasattr(type(self._plain), name) or name in vars(self._plain):
                return getattr(self._plain, name)
            raise

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._plain, name, value)

    def __getitem__(self, name: str) -> Any:
        return self._names[name]

    def _found(self, name: str) -> Any:
        names: SlangModule = self._names
        try:
            return names[name]
        except NameNotFoundError:
            return None

    def find_function(self, name: str) -> Any:
        found = self._found(name)
        return found if isinstance(found, SlangFunction | FunctionNode) else None

    def find_struct(self, name: str) -> Any:
        found = self._found(name)
        return found if isinstance(found, spy.Struct) else None

    def require_function(self, name: str) -> Any:
        found = self.find_function(name)
        if found is None:
            raise ValueError(f"no function {name}")
        return found

    def require_struct(self, name: str) -> Any:
        found = self.find_struct(name)
        if found is None:
            raise ValueError(f"no struct {name}")
        return found

    def find_function_in_struct(self, struct: Any, name: str) -> Any:
        owner = self.find_struct(struct) if isinstance(struct, str) else struct
        child = owner.try_get_child(name) if owner is not None else None
        return None if child is None else child.as_func()


def _text_of(module: spy.SlangModule) -> str:
    text = _texts.get((id(module.session.device), module.name))
    return module.path.read_text(encoding="utf-8") if text is None else text


def _replace_modules() -> None:
    """Make `slangpy.Module(...)` answer with a cell, and remember the text of what is loaded from a string."""
    load = spy.Device.load_module_from_source

    def remembered(self: spy.Device, name: str, source: str, *args: Any, **kwargs: Any) -> Any:
        _texts[(id(self), name)] = source
        return load(self, name, source, *args, **kwargs)

    spy.Device.load_module_from_source = remembered

    def new(cls: type, device_module: Any = None, options: Any = None, link: Any = ()) -> Any:
        if cls is not Module:
            return super(Module, cls).__new__(cls)
        if link:
            pytest.skip("SlangLab's cells import each other; there is no list of modules to link")
        ran = _cells.run(device_module.session.device, _text_of(device_module), device_module.name)
        return CellOfModule(ran, dict(options or {}))

    Module.__new__ = new  # an answer of another type is not initialised: `Module.__init__` does not run


def _read_details() -> None:
    """Let `pytest.raises(match=...)` read the whole of a refusal: SlangLab keeps slangpy's own long text in `details`."""
    plain = pytest.raises

    @contextmanager
    def raises(expected: Any, match: str | None = None):
        with plain(expected) as caught:
            yield caught
        if match is not None:
            error = caught.value
            said = str(error)
            if isinstance(error, SlangLabError) and error.details:
                said = f"{said}\n{error.details}"
            assert re.search(match, said), f"{match!r} is not in:\n{said}"

    pytest.raises = raises


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("peer")
    group.addoption("--through", choices=("slangpy", "slanglab"), default="slangpy")
    group.addoption("--outcomes", help="file to write the outcomes to, as JSON")


class _Recorder:
    def __init__(self, path: str) -> None:
        self._path = path
        self._tests: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any):
        _calls.counts.clear()
        yield
        one = self._tests.setdefault(item.nodeid, {})
        one.update(
            file=Path(item.path).name,
            name=item.name,
            proxied=_calls.counts["proxied"],
            direct=_calls.counts["direct"],
        )

    def pytest_runtest_logreport(self, report: Any) -> None:
        one = self._tests.setdefault(report.nodeid, {"outcome": "passed", "text": ""})
        if report.outcome != "passed":
            one["outcome"] = report.outcome
            one["text"] = report.longreprtext[-4000:]

    def pytest_sessionfinish(self) -> None:
        text = json.dumps(list(self._tests.values()), indent=1)
        Path(self._path).write_text(text, encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    _count_calls()
    if config.getoption("through") == "slanglab":
        _replace_modules()
        _read_details()
    if path := config.getoption("outcomes"):
        config.pluginmanager.register(_Recorder(path))
