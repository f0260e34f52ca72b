"""What a cell's imports and includes mean: another cell, a file in an allowed folder, or a library.

A `.slang` file that a cell imports becomes a node of the cell graph like any cell: it is read each time an importer is run, so
an edited file is compiled again. `#include` is done here, not by the compiler, because the compiler reads any file of the machine
and prints lines of it in its messages, and because what was included must be part of the cell's content.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.source import clean
from slanglab.text.symbols import Import, Include, Outline, outline

__all__ = ["MAIN", "FileModule", "Resolution", "Resolver", "SourceFile", "file_key"]

_DEEPEST_INCLUDE = 32
_LARGEST_FILE = 4 * 1024 * 1024  # bytes of one included or imported file


@dataclass(frozen=True)
class SourceFile:
    """A file whose text has become part of a cell, with the name that stands for it in `#line`."""

    token: str
    path: Path
    text: str


@dataclass(frozen=True)
class FileModule:
    """A `.slang` file that a cell imports: a node of the graph, named by its content's place."""

    key: str
    path: Path


@dataclass
class Resolution:
    """What the imports and includes of one text come to.

    Attributes
    ----------
    text : str
        The text with its includes in place, between `#line` markers.
    imports : dict of str to str
        For each import that is a cell or a file, the name as written and the key in the graph.
    files : list of FileModule
        The imports that are files.
    included : list of SourceFile
    diagnostics : list of Diagnostic
        What cannot be resolved; errors.
    """

    text: str
    imports: dict[str, str] = field(default_factory=dict)
    files: list[FileModule] = field(default_factory=list)
    included: list[SourceFile] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


@dataclass(frozen=True)
class Resolver:
    """Resolves imports and includes.

    Parameters
    ----------
    roots : sequence of Path
        Folders that files may come from, the first one first; real paths decide, so a link cannot lead out of them.
    cells : callable
        Return the keys of the cells that can be imported now.
    is_library : callable
        Tell whether the compiler itself knows a module of this name (`slangpy`, `sgl.device.print`).
    """

    roots: tuple[Path, ...]
    cells: Callable[[], Collection[str]]
    is_library: Callable[[str], bool]

    def resolve(
        self,
        key: str,
        text: str,
        parsed: Outline,
        *,
        first_line: int = 1,
        base: Path | None = None,
        extra: Iterable[Path] = (),
    ) -> Resolution:
        """Resolve the imports and includes of `text`, which is cell `key`.

        Parameters
        ----------
        key : str
        text : str
            The cleaned text.
        parsed : Outline
            Of the same text.
        first_line : int
            The number of the first line of `text`, for what stands behind an include.
        base : Path, optional
            The folder that relative names start from first: that of the file itself, for a file.
        extra : iterable of Path
            Folders named by `--include`; searched before the roots, and allowed only inside them.
        """
        result = Resolution(text)
        folders = self._folders(base, extra, result)
        cells = self.cells()
        imports: Iterable[Import] = parsed.imports
        if parsed.includes:
            result.text = self._inline(key, text, parsed.includes, folders, result, first_line)
            # Included text may import too; its lines are not the cell's, so only the cell's own imports keep their place.
            own = {i.name: i for i in parsed.imports}
            imports = [own.get(i.name, replace(i, line=0)) for i in outline(result.text).imports]
        for imported in imports:
            self._resolve_import(imported, cells, folders, result)
        return result

    def _folders(self, base: Path | None, extra: Iterable[Path], result: Resolution) -> list[Path]:
        folders = [base] if base is not None else []
        for folder in extra:
            if self._allowed(folder):
                folders.append(folder)
            else:
                result.diagnostics.append(
                    Diagnostic(
                        "error",
                        "include-folder",
                        f"the folder {str(folder)!r} lies outside the folders that cells may read",
                        hint=self._how_to_open(),
                    )
                )
        return [*folders, *self.roots]

    def _allowed(self, path: Path) -> bool:
        try:
            real = path.resolve()
        except (OSError, RuntimeError):  # a loop of links
            return False
        return any(real.is_relative_to(root.resolve()) for root in self.roots)

    def _how_to_open(self) -> str:
        folders = ", ".join(str(root) for root in self.roots)
        return f"cells read files in {folders}; `%slang config include FOLDER` adds one"

    def _find(self, relative: str, folders: Iterable[Path]) -> Path | None:
        for folder in folders:
            candidate = folder / relative
            try:
                if candidate.is_file():
                    return candidate
            except (OSError, ValueError):  # a name too long, or with a NUL
                return None
        return None

    # ----- imports -----

    def _resolve_import(
        self, imported: Import, cells: Collection[str], folders: list[Path], result: Resolution
    ) -> None:
        name = imported.name
        if name in cells:
            result.imports[name] = name
            return
        if not _looks_like_a_path(name) and self.is_library(name):
            return
        if _leaves(name):
            result.diagnostics.append(_unreadable(imported, name, self._how_to_open()))
            return
        path = self._find_module(name, folders)
        if path is None:
            result.diagnostics.append(self._unknown(imported, cells))
        elif not self._allowed(path):
            result.diagnostics.append(_unreadable(imported, name, self._how_to_open()))
        else:
            module = FileModule(file_key(path), path.resolve())
            result.imports[name] = module.key
            result.files.append(module)

    def _find_module(self, name: str, folders: list[Path]) -> Path | None:
        """Find the file of a module as Slang does: dots are folders, and `_` also stands for `-`."""
        stem = name if "/" in name or name.endswith(".slang") else name.replace(".", "/")
        stem = stem.removesuffix(".slang")
        for spelling in dict.fromkeys((stem, stem.replace("_", "-"))):
            if found := self._find(f"{spelling}.slang", folders):
                return found
        return None

    def _unknown(self, imported: Import, cells: Collection[str]) -> Diagnostic:
        near = difflib.get_close_matches(imported.name, list(cells), n=1)
        if near:
            hint = f"did you mean `import {near[0]};`?"
        elif imported.quoted or _looks_like_a_path(imported.name):
            hint = f"no such file; {self._how_to_open()}"
        else:
            hint = f"run the cell that starts with `%%slang {imported.name}` first"
        return Diagnostic(
            "error",
            "unknown-import",
            "unknown import",
            f"no cell, file or library is called {imported.name!r}",
            line=imported.line,
            column=imported.column,
            end_column=imported.column + max(1, len(imported.name)),
            hint=hint,
        )

    # ----- includes -----

    def _inline(
        self,
        key: str,
        text: str,
        includes: Iterable[Include],
        folders: list[Path],
        result: Resolution,
        first_line: int,
        depth: int = 0,
        once: set[Path] | None = None,
        token: str = "",
    ) -> str:
        """Return `text` with each `#include` line replaced by the file's text and markers that keep line numbers."""
        once = set() if once is None else once
        lines = text.split("\n")
        for include in includes:
            where = None if token else include  # a message about a nested include points at the outer one
            path = self._find(include.path, folders) if not _leaves(include.path) else None
            if path is None or not self._allowed(path):
                outside = _leaves(include.path) or path is not None
                result.diagnostics.append(_no_include(include, where, outside, self._how_to_open()))
                lines[include.line - 1] = ""
                continue
            real = path.resolve()
            body = "" if real in once else self._read(real, include, where, result)
            if _PRAGMA_ONCE.search(body):
                once.add(real)
                body = _PRAGMA_ONCE.sub("", body)
            if depth >= _DEEPEST_INCLUDE:
                result.diagnostics.append(
                    Diagnostic(
                        "error",
                        "include-depth",
                        f"{include.path!r} includes itself, or files are included more than {_DEEPEST_INCLUDE} deep",
                        hint="write `#pragma once` in its first line",
                    )
                )
                body = ""
            inner = f"{key}__file{len(result.included)}"
            result.included.append(SourceFile(inner, real, body))
            if nested := outline(body).includes:
                body = self._inline(
                    key, body, nested, [real.parent, *folders], result, 1, depth + 1, once, token=inner
                )
            back = f'#line {include.line + first_line} "{token or MAIN}"'
            lines[include.line - 1] = f'#line 1 "{inner}"\n{body}\n{back}'
        return "\n".join(lines)

    def _read(self, path: Path, include: Include, where: Include | None, result: Resolution) -> str:
        try:
            if path.stat().st_size > _LARGEST_FILE:
                raise OSError(f"larger than {_LARGEST_FILE // 2**20} MB")
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            result.diagnostics.append(
                Diagnostic(
                    "error",
                    "include",
                    f"{include.path!r} cannot be read: {error}",
                    line=where.line if where else 0,
                    column=where.column if where else 0,
                    end_column=where.column + 1 if where else 0,
                )
            )
            return ""
        cleaned, problems = clean(text)
        result.diagnostics.extend(problems)
        return cleaned


MAIN = "@main"
"""Stands in `#line` for the cell's own text; the compiler room puts the version's internal name in its place."""
_PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[ \t]*$", re.MULTILINE)


def file_key(path: Path) -> str:
    """Return the graph key of a file: readable, usable after `import`, and different for files of the same name."""
    stem = re.sub(r"\W", "_", path.stem)
    return f"{stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"


def _looks_like_a_path(name: str) -> bool:
    return "/" in name or "\\" in name or name.endswith(".slang")


def _leaves(name: str) -> bool:
    """Tell whether a name climbs out of its folder, is absolute, or is a URL or share."""
    parts = re.split(r"[/\\]", name)
    return ".." in parts or name.startswith(("/", "\\", "~")) or ":" in name


def _unreadable(imported: Import, name: str, hint: str) -> Diagnostic:
    return Diagnostic(
        "error",
        "import-outside",
        "this import lies outside the folders that cells may read",
        f"{name!r} is outside the allowed folders",
        line=imported.line,
        column=imported.column,
        end_column=imported.column + max(1, len(name)),
        hint=hint,
    )


def _no_include(include: Include, where: Include | None, outside: bool, hint: str) -> Diagnostic:
    text = "is outside the folders that cells may read" if outside else "was not found"
    return Diagnostic(
        "error",
        "include-outside" if outside else "include-not-found",
        "this include lies outside the folders that cells may read" if outside else "include file not found",
        f"{include.path!r} {text}",
        line=where.line if where else 0,
        column=where.column if where else 0,
        end_column=where.column + len(include.path) if where else 0,
        hint=hint,
    )
