"""What the reader of declarations collects while it stands inside a namespace or a type."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from slanglab.text.outline import Field, Function, Struct

__all__ = ["Lead", "Listed", "Scope", "distinct", "with_custom_derivatives"]

_DERIVATIVE = re.compile(r"(?:Backward|Forward)Derivative\s*\(")
_DERIVATIVE_OF = re.compile(r"(?:Backward|Forward)DerivativeOf\s*\(\s*([^()]*?)\s*\)")
_DIFFERENTIABLE = re.compile(r"(?:Backward|Forward)?Differentiable\b")


@dataclass
class Lead:
    """What stands before a declaration proper."""

    start: int
    attributes: list[str] = field(default_factory=list)
    modifiers: list[str] = field(default_factory=list)
    generics: tuple[str, ...] = ()
    doc: list[str] = field(default_factory=list)

    @property
    def custom(self) -> bool:
        """An attribute names the derivative."""
        return any(_DERIVATIVE.match(a) for a in self.attributes)

    @property
    def differentiable(self) -> bool:
        """An attribute makes the function differentiable."""
        return self.custom or any(_DIFFERENTIABLE.match(a) for a in self.attributes)

    def has(self, attribute: str) -> bool:
        """Tell whether an attribute of that name is there, with or without arguments."""
        return any(re.match(rf"{attribute}\b", a) for a in self.attributes)


@dataclass
class Scope:
    """One open namespace, type or `cbuffer`.

    Attributes
    ----------
    kind : str
        "namespace", "cbuffer" or a `StructKind`; "file" for the outermost.
    opener : int
        Index of the `{`, -1 for the file.
    closed : bool
        False where the text lacks the `}`.
    column : int
        Of the declaration: where the `}` is missing, what stands on a new line at this column or before ends the scope.
    """

    kind: str
    name: str = ""
    opener: int = -1
    closed: bool = True
    column: int = 0
    struct: Struct | None = None
    fields: list[Field] = field(default_factory=list)
    properties: list[Field] = field(default_factory=list)
    methods: list[Listed] = field(default_factory=list)
    end_line: int = 0

    def finished(self, kept: Collection[int]) -> Struct:
        """Return the type that was collected, with those of its methods whose `id` is among `kept`."""
        assert self.struct is not None
        methods = tuple(m.function for m in self.methods if id(m) in kept)
        return replace(
            self.struct,
            fields=tuple(self.fields),
            properties=tuple(self.properties),
            methods=methods,
            end_line=self.end_line,
        )


@dataclass
class Listed:
    """A function on its way into the outline."""

    function: Function


def distinct(functions: list[Listed]) -> list[Listed]:
    """Leave out what declares the same function again.

    That is a declaration whose definition is there, and a definition in another branch of an `#if`. A function defined twice
    where the compiler sees both stays: it is an error, and the compiler says so.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Listed]] = {}
    for listed in functions:
        groups.setdefault(_identity(listed.function), []).append(listed)
    dropped: set[int] = set()
    for group in groups.values():
        if len(group) == 1:
            continue
        kept: list[Listed] = []
        for listed in sorted(group, key=lambda g: not g.function.has_body):
            again = (
                not listed.function.has_body or kept[0].function.excludes(listed.function) if kept else False
            )
            if again:
                dropped.add(id(listed))
            else:
                kept.append(listed)
    return [listed for listed in functions if id(listed) not in dropped]


def _identity(function: Function) -> tuple[str, tuple[str, ...]]:
    return function.qualified, (*function.generics, *(p.type for p in function.parameters))


def with_custom_derivatives(functions: list[Listed]) -> None:
    """Mark the functions whose derivative is declared elsewhere, by `[BackwardDerivativeOf(f)]` on another function."""
    targets: set[str] = set()
    for listed in functions:
        scope = listed.function.qualified.rpartition("::")[0]
        for attribute in listed.function.attributes:
            if match := _DERIVATIVE_OF.match(attribute):
                name = match[1].replace(".", "::").split("<")[0]
                targets |= {name, f"{scope}::{name}" if scope else name}
    for listed in functions:
        if listed.function.qualified in targets:
            listed.function = replace(listed.function, differentiable=True, custom_derivative=True)
