"""From the text of a `--torch` cell to functions that Python can call: Slang's texts first, then the build where it can be had."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from slanglab import children, progress
from slanglab.cells.compiler import defines, without_version
from slanglab.cells.resolve import MAIN
from slanglab.cells.versions import CompileError, Unit
from slanglab.text import diagnostics
from slanglab.text.diagnostics import Diagnostic, SourceText
from slanglab.text.imports import rewrite_imports
from slanglab.text.outline import Outline
from slanglab.text.symbols import outline
from slanglab.torch.entry_points import machine, store, worker
from slanglab.torch.entry_points.generated import Generated
from slanglab.torch.entry_points.machine import Missing
from slanglab.torch.entry_points.messages import build_messages
from slanglab.torch.entry_points.signatures import Callable_, Pair, callables, pairs
from slanglab.torch.entry_points.writes import Use

__all__ = ["TorchCompiler", "TorchProgram"]

_WORKER = "slanglab.torch.entry_points.worker"
_ASCII = re.compile(r"[^A-Za-z0-9_]")
_NUMBERED = re.compile(r"^cell_\d+$")
_KERNEL_ARGUMENT = "no_diff vector<uint,3>"


@dataclass(frozen=True)
class TorchProgram:
    """One compiled version of a `--torch` cell.

    Attributes
    ----------
    outline : Outline
        Of the cell's own text.
    sources : tuple of (str, Outline)
        The texts that it is made of: its own, and what it imports.
    generated : Generated
    callables : mapping of str to Callable_
        What Python can call.
    pairs : mapping of str to Pair
        What is offered as a function with its gradient.
    unpaired : mapping of str to str
        Why two functions that are named like a pair are none.
    library : Any
        slangtorch's module; None where it could not be built.
    missing : tuple of Missing
        What the build lacked.
    uses : dict of str to dict of str to Use
        What kernels do with their tensors, as far as it was asked.
    """

    outline: Outline
    sources: tuple[tuple[str, Outline], ...]
    generated: Generated
    callables: Mapping[str, Callable_]
    pairs: Mapping[str, Pair]
    unpaired: Mapping[str, str]
    library: Any = None
    missing: tuple[Missing, ...] = ()
    uses: dict[str, dict[str, Use]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Source:
    """A unit as a file beside those that it imports."""

    stem: str
    files: Mapping[str, str]
    texts: tuple[tuple[str, Outline], ...] = field(default=())


class TorchCompiler:
    """Compiles units for PyTorch; a `slanglab.cells.versions.Compiler`.

    Lines of messages count from 1 in every cell; the session moves them.
    """

    def __init__(self) -> None:
        self._made: dict[str, _Source] = {}
        self._shown: dict[str, SourceText] = {}

    def compile(
        self, internal: str, unit: Unit, renames: Mapping[str, str]
    ) -> tuple[TorchProgram, tuple[Diagnostic, ...]]:
        """Compile `unit` under the name `internal`; see `slanglab.cells.versions.Compiler`."""
        source = self._source(internal, unit, renames)
        lacking = machine.missing()
        try:
            entry = store.entry(f"{source.stem}.slang", source.files, machine.versions())
        except OSError as error:
            raise CompileError(
                unit.label, [Diagnostic("error", "", f"its files cannot be written: {error}")]
            ) from error
        with progress.work(f"compiling {unit.label} to CUDA"):
            texts = entry.texts()
            if texts is None:
                texts = _child("texts", entry.file, unit.label)
                if not texts["failed"]:
                    entry.keep_texts(texts)
        found = [_helped(d) for d in diagnostics.parse(texts["messages"], self._shown.get, without_version)]
        if texts.get("failed"):
            raise CompileError(unit.label, found or [Diagnostic("error", "", "Slang refuses this text")])
        library = None if lacking else self._library(entry, unit)
        parsed = [o for _, o in source.texts]
        generated = Generated(texts["cuda"], texts["host"], unit.label)
        # The outlines hold every branch of an `#if`; Slang has seen the one that counts.
        called = {n: c for n, c in callables(parsed).items() if n in generated.offered}
        matched, unmatched = pairs(called, parsed)
        program = TorchProgram(
            parsed[0],
            source.texts,
            generated,
            called,
            matched,
            unmatched,
            library,
            lacking,
        )
        return program, tuple(found)

    def _source(self, internal: str, unit: Unit, renames: Mapping[str, str]) -> _Source:
        """Make a unit's file, and note its text for messages."""
        # What has no name of its own is numbered in each session, which its content is not to depend on.
        stem = _stem(_NUMBERED.sub("cell", without_version(internal)))
        imported = {written: self._made[renames[key]] for written, key in unit.imports if key in renames}
        text = rewrite_imports(unit.text, {w: s.stem for w, s in imported.items()}).text
        self._shown[stem] = SourceText(unit.label, tuple(unit.shown.split("\n")))
        text = text.replace(f'"{MAIN}"', f'"{stem}"')
        for token, path, included in unit.included:
            name = f"{stem}_{token.rpartition('__')[2]}"
            text = text.replace(f'"{token}"', f'"{name}"')
            self._shown[name] = SourceText(path, tuple(included.split("\n")))
        files = {name: content for s in imported.values() for name, content in s.files.items()}
        files[f"{stem}.slang"] = f'{defines(unit.macros)}#line 1 "{stem}"\n{text}'
        texts = [(unit.text, outline(unit.text))]
        for other in imported.values():
            texts += [t for t in other.texts if t not in texts]
        made = _Source(stem, files, tuple(texts))
        self._made[internal] = made
        return made

    def _library(self, entry: store.Entry, unit: Unit) -> Any:
        """Return slangtorch's module for a content, built if need be.

        Raises
        ------
        CompileError
        """
        if entry.is_built:
            try:
                return _load(entry.file)
            except Exception:  # a binary that was cut off, or of another machine: it is made anew
                entry.forget_build()
        with progress.work(f"building {unit.label} for CUDA (nvcc)"):
            error = _child("build", entry.file, unit.label)["error"]
            if error:
                raise CompileError(unit.label, build_messages(error, self._shown.get))
            entry.built()
        try:
            return _load(entry.file)
        except Exception as problem:
            said = f"{type(problem).__name__}: {problem}"
            entry.forget_build()
            raise CompileError(unit.label, build_messages(said, self._shown.get)) from problem


def _load(file: Path) -> Any:
    """Load what was built; slangtorch finds it beside its source."""
    import slangtorch

    return slangtorch.loadModule(str(file), skipNinjaCheck=True)


def _stem(name: str) -> str:
    """Return the name of a cell as that of a file and of a Python module of C."""
    plain = _ASCII.sub("_", name)
    return plain if plain == name else f"{plain}_{sha256(name.encode()).hexdigest()[:8]}"


def _helped(diagnostic: Diagnostic) -> Diagnostic:
    """Say what to do about a message of Slang's that does not say so itself."""
    if _KERNEL_ARGUMENT in diagnostic.text:
        return diagnostic.with_hint(
            "give the sizes of a launch names: `let blockCount = uint3(1);` in a line before, and `blockCount` in `__dispatch_kernel`"
        )
    return diagnostic


def _child(job: str, file: Path, label: str) -> dict[str, Any]:
    """Run a job of the worker and return its answer.

    Raises
    ------
    CompileError
        When the worker ends without one.
    KeyboardInterrupt
        After the worker was ended.
    """
    options = {"job": job, "file": str(file), "environment": dict(worker.environment())}
    try:
        child = children.start(_WORKER, options)
    except OSError as error:
        why = f"no process can be started to compile it: {error}"
        raise CompileError(label, [Diagnostic("error", "", why)]) from error
    answer = bytearray()
    ended = threading.Event()

    def read() -> None:
        while part := child.read(1 << 16):
            answer.extend(part)
        ended.set()

    threading.Thread(target=read, name="slanglab torch build", daemon=True).start()
    try:
        while not ended.wait(0.05):
            pass
        status = child.wait(5.0)
    finally:
        child.kill()
    try:
        found: dict[str, Any] = json.loads(answer)
    except ValueError:
        how = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
        what = "Slang" if job == "texts" else "the build"
        raise CompileError(
            label,
            [
                Diagnostic(
                    "error", "", f"{what} ended without an answer", f"{what} ended with {how} at this text"
                )
            ],
        ) from None
    return found
