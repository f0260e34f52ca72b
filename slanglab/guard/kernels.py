"""The texts of the modules in a Slang session, and the kernels that are made of them."""

from __future__ import annotations

import hashlib
import itertools
import json
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import slangpy as spy

from slanglab.guard import likeness

__all__ = ["Kernel", "Texts", "load", "texts_of"]

_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary[int, Texts] = weakref.WeakValueDictionary()


class Texts:
    """What was loaded into one Slang session of the notebook, in order; for a worker to load the same.

    Lives as long as whoever made the session keeps it.

    Parameters
    ----------
    session : slangpy.SlangSession

    Attributes
    ----------
    number : int
        Of the session, never used again in this process.
    sources : dict of str to str
        The texts by module name.
    device : dict
        The device in plain values; see `slanglab.guard.likeness`.
    options : dict
        The session in plain values.
    """

    def __init__(self, session: spy.SlangSession) -> None:
        self.number = next(_numbers)
        self.session = session
        self.sources: dict[str, str] = {}
        self.device = likeness.device(session.device)
        self.options = likeness.session(session)
        _known[id(session)] = self

    def closure(self, names: Iterable[str], text: str) -> list[str]:
        """Return the modules that a text may depend on, in the order in which they were loaded.

        A module counts where its name occurs at all, so that no way to write an import is missed.
        """
        needed = set(names) & self.sources.keys()
        pending = [text, *(self.sources[n] for n in needed)]
        while pending:
            found = pending.pop()
            new = {n for n in list(self.sources) if n not in needed and n in found}
            needed |= new
            pending += [self.sources[n] for n in new]
        return [n for n in list(self.sources) if n in needed]


def texts_of(session: spy.SlangSession) -> Texts | None:
    """Return the texts of a session, or None for one that was not made by SlangLab."""
    found = _known.get(id(session))
    return found if found is not None and found.session is session else None


def load(session: spy.SlangSession, name: str, source: str) -> Any:
    """Load a module from text, and remember the text for the guard.

    Raises
    ------
    slangpy.SlangCompileError
        When it does not compile.
    """
    module = session.load_module_from_source(name, source)
    texts = texts_of(session)
    if texts is not None and name not in texts.sources:
        texts.sources[name] = source
    return module


@dataclass(frozen=True)
class Kernel:
    """What is compiled to target code.

    Attributes
    ----------
    shown : str
        The function as the user knows it, and how it is called: "poly.f backward".
    texts : Texts
        The modules of its session.
    name, source : str
        The kernel's own module.
    module : str
        The module that it is linked with; empty for none.
    parts : tuple of str
        The modules that this one is composed of; empty for a single one.
    programs : tuple of tuple of (str, str)
        For each program its entry points: "kernel" or "module", and the name.
    conformances : tuple of (str, str, int)
        Interface, type and number.
    """

    shown: str
    texts: Texts
    name: str
    source: str
    module: str
    parts: tuple[str, ...]
    programs: tuple[tuple[tuple[str, str], ...], ...]
    conformances: tuple[tuple[str, str, int], ...] = ()

    @classmethod
    def of(
        cls,
        shown: str,
        name: str,
        source: str,
        module: Any,
        programs: Sequence[Sequence[tuple[str, str]]],
        conformances: Iterable[Any] = (),
    ) -> Kernel | None:
        """Describe a kernel; None when a text that it needs is not known, so that no worker could compile the same.

        Parameters
        ----------
        shown, name, source : str
        module : slangpy.SlangModule
            What it is linked with.
        programs : sequence of sequence of (str, str)
        conformances : iterable of slangpy.TypeConformance
        """
        texts = texts_of(module.session)
        if texts is None:
            return None
        # slangpy's own module calls itself by its file's name.
        parts = (
            tuple(m.name.removesuffix(".slang") for m in module.source_modules) if module.is_composed else ()
        )
        if any(p != "slangpy" and p not in texts.sources for p in parts or (module.name,)):
            return None
        return cls(
            shown,
            texts,
            name,
            source,
            module.name,
            parts,
            tuple(tuple(p) for p in programs),
            tuple((str(c.interface_name), str(c.type_name), int(c.id)) for c in conformances),
        )

    @classmethod
    def alone(cls, shown: str, texts: Texts, name: str, source: str, entry: str) -> Kernel:
        """Describe a kernel that is linked with nothing else."""
        return cls(shown, texts, name, source, "", (), ((("kernel", entry),),))

    @cached_property
    def needed(self) -> list[str]:
        """The modules that it depends on, in the order in which they were loaded."""
        return self.texts.closure(self.parts or (self.module,) * bool(self.module), self.source)

    @cached_property
    def key(self) -> str:
        """A hash of everything that decides what it compiles to."""
        described = [
            likeness.version(),
            self.texts.device,
            self.texts.options,
            [(n, self.texts.sources[n]) for n in self.needed],
            self.name,
            self.source,
            self.module,
            self.parts,
            self.programs,
            self.conformances,
        ]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()
