"""A call that slangpy refused: its text taken apart, and the error that comes of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slanglab.errors import CallError
from slanglab.scalars import type_name
from slanglab.text.diagnostics import Diagnostic
from slanglab.values import describe_value

__all__ = ["KernelError", "Refusal", "Signature", "describe", "first_line", "signatures", "text_of"]


class KernelError(CallError):
    """The kernel of a call does not compile.

    Attributes
    ----------
    diagnostics : tuple of Diagnostic
        The compiler's messages, with places in the user's cells where they have one.
    """

    def __init__(self, message: str, *, diagnostics: Sequence[Diagnostic] = (), **rest: Any) -> None:
        super().__init__(message, **rest)
        self.diagnostics = tuple(diagnostics)


def describe(value: object) -> str:
    """Return a value's type, shape and dtype in words; never raises, and shows no address."""
    try:
        text = describe_value(value)
    except Exception:  # a repr of the user's may do anything
        text = type(value).__name__
    return re.sub(r"\(0x[0-9a-fA-F]+\)?|(?: at)? ?0x[0-9a-fA-F]{6,}", "", " ".join(text.split()))


def text_of(exc: BaseException) -> str:
    """Return an exception's text, or its type where it has none to give."""
    try:
        first = exc.args[0] if exc.args else None
        # What a kernel's own call raises, which a function node would turn into text.
        return str(first["message"] if isinstance(first, dict) and "message" in first else exc)
    except Exception:
        return type(exc).__name__


def first_line(text: str) -> str:
    """Return the first line that says something, without C++ places, addresses and names of generated files."""
    for line in text.splitlines():
        line = re.sub(r"\(?\s*/\S*?\.(?:cpp|h|inl)(?::\d+)?(?: in function \w+)?\)?", "", line)
        line = re.sub(r"(\w)\(0x[0-9a-fA-F]+\)|\s*(?:at )?0x[0-9a-fA-F]+", r"\1", line)
        line = re.sub(r"\b[0-9a-f]{40,64}\b", "its kernel", line).strip()
        if line and line != "For help and support: https://khr.io/slangdiscord":
            return line if len(line) <= 300 else f"{line[:300]}… ({len(line)} characters)"
    return "slangpy refused the call and gave no reason"


@dataclass(frozen=True)
class Signature:
    """A function's signature, as slangpy writes it.

    Attributes
    ----------
    name : str
    text : str
        "float f(float x, float y)", with types as people write them.
    parameters : tuple of (str, str)
        Name and type of each.
    """

    name: str
    text: str
    parameters: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(name for name, _ in self.parameters)

    def type_of(self, parameter: str) -> str | None:
        """Return the type of a parameter, or None when it has none of that name."""
        return dict(self.parameters).get(parameter)


_SIGNATURE = re.compile(r"(?P<result>\S.*?) (?P<name>[$\w]+)\((?P<parameters>.*)\)")
_HEADINGS = ("Slang function:", "Possible overloads:", "Selected overload:")


def signatures(text: str) -> list[Signature]:
    """Read the signatures that slangpy lists in its text."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip() in _HEADINGS), None)
    found = []
    for line in lines[start + 1 :] if start is not None else []:
        match = _SIGNATURE.fullmatch(line.strip())
        if match is None:
            break
        parameters = []
        for declaration in _split(match["parameters"]):
            words = re.sub(r"\b(?:nodiff|no_diff|out|inout|in)\b ", "", declaration).rsplit(" ", 1)
            parameters.append((words[-1], type_name(words[0]) if len(words) == 2 else ""))
        plain = type_name(re.sub(r"\bnodiff ", "no_diff ", line.strip()).replace("out inout ", "inout "))
        found.append(Signature(match["name"], plain, tuple(parameters)))
    return found


def _split(parameters: str) -> list[str]:
    """Split at the commas that stand in no brackets."""
    depth, start, parts = 0, 0, []
    for i, character in enumerate(parameters):
        if character in "<([":
            depth += 1
        elif character in ">)]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(parameters[start:i].strip())
            start = i + 1
    parts.append(parameters[start:].strip())
    return [p for p in parts if p]


@dataclass
class Refusal:
    """What is known about a refused call."""

    exc: BaseException
    function: str
    values: dict[str, Any]
    messages: Callable[[str], list[Diagnostic]] | None
    text: str = field(init=False)
    signatures: list[Signature] = field(init=False)
    summary: str = field(init=False)

    def __post_init__(self) -> None:
        self.text = text_of(self.exc)
        self.signatures = signatures(self.text)
        found = re.search(r"^Summary:\n(.*?)(?:\n\n|\Z)", self.text, re.DOTALL | re.MULTILINE)
        self.summary = found[1] if found else self.text

    def error(self, message: str, argument: str | None = None, **rest: Any) -> CallError:
        """Make the error; what the argument takes and got is added where it is known."""
        if argument is not None:
            rest.setdefault("expected", self.expected(argument))
            if argument in self.values:
                rest.setdefault("given", describe(self.values[argument]))
        return CallError(
            f"{self.function}{message}", function=self.function, argument=argument, details=self.text, **rest
        )

    def expected(self, argument: str) -> str | None:
        """Return the type of a parameter, where slangpy's text has the signature."""
        return self.signatures[0].type_of(argument) if len(self.signatures) == 1 else None

    def parameter(self, position: int | str) -> str:
        """Return the name of the parameter at a position; a position that is none stays as it is."""
        names = self.signatures[0].names if self.signatures else tuple(self.values)
        return names[int(position)] if int(position) < len(names) else str(position)

    def named(self, written: str) -> str:
        """Return the parameter behind slangpy's `arg0`."""
        return (
            self.parameter(written[3:])
            if re.fullmatch(r"arg\d+", written) and written not in self.values
            else written
        )
