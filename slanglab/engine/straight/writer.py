"""What the texts of all straight kernels have in common: their arguments, where values lie, the call.

Gradients of shared parameters are summed in each thread, then over the group; a second entry point adds the sums of all groups to the
gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slanglab.engine.straight.arguments import Argument
from slanglab.engine.straight.strategy import Strategy

__all__ = ["ARGUMENTS", "ENTRY", "LAST", "Kernel", "Writer", "sums_module"]

ARGUMENTS = "slanglab_arguments"
ENTRY = "slanglab_straight"
LAST = "slanglab_last_sum"

_ENTRY_BYTES = 112
"""Arguments of an entry point travel as push constants on Vulkan, of which there are at least 128 bytes; more go into a buffer."""

_SIZES = {"double": 8, "int64_t": 8, "uint64_t": 8}


@dataclass(frozen=True)
class Kernel:
    """A kernel's text and what it is to be given.

    Attributes
    ----------
    text : str
    sums : int
        How many components of shared gradients it sums.
    block : bool
        True when its arguments are a parameter block, not the entry point's.
    fields : dict of str to str
        The Slang types of its arguments, by name.
    """

    text: str
    sums: int
    block: bool
    fields: dict[str, str]


class Writer(ABC):
    """Writes the kernel for calls of a function with such arguments.

    Parameters
    ----------
    modules : sequence of str
        What to import: the function's module, and those linked with it.
    function : str
        Its name, as Slang code calls it.
    arguments : sequence of Argument
        In the order of the declaration; the result last.
    backward : bool
    strategy : Strategy
    """

    def __init__(
        self,
        modules: Sequence[str],
        function: str,
        arguments: Sequence[Argument],
        backward: bool,
        strategy: Strategy,
    ) -> None:
        self.modules = modules
        self.function = function
        self.arguments = arguments
        self.backward = backward
        self.strategy = strategy
        self.shared = self._shared()
        self.sums = sum(a.layout.count for a in self.shared)
        self.buffers = [*self._buffers()]
        self.adds = "=" if strategy.fresh else "+="

    @abstractmethod
    def _shared(self) -> list[Argument]:
        """Return the arguments whose gradients are sums over the threads."""

    def _buffers(self) -> list[tuple[str, Argument, bool]]:
        """Return the buffers: name, what lies in it, and whether it is written."""
        found = []
        for a in self.arguments:
            if a.kind in ("number", "grid") and a.role != "result":
                continue
            if not (self.backward and a.writes):
                found.append((a.key, a, a.writes))
            else:
                found.append((f"d_{a.key}", a, False))
            if a.gradient:
                found.append((f"d_{a.key}", a, True))
        return found

    def kernel(self) -> Kernel:
        """Return the text, and what goes with it."""
        fields, size = self._fields()
        block = size > _ENTRY_BYTES and not self.strategy.bare
        head = [f'import "{m}";' for m in self.modules]
        if self.backward:
            head.append(f"import {sums_module(self.strategy.group)};")
        lines = [*head, "struct SlangLabArguments", "{", *(f"    {f};" for f in fields), "};"]
        if block:
            lines.append(f"ParameterBlock<SlangLabArguments> {ARGUMENTS};")
        if self.sums:
            lines += self._module_scope()
        lines += self._entry(block)
        if self.sums:
            lines += self._last(block)
        types = {name: kind for kind, name in (f.rsplit(" ", 1) for f in fields)}
        return Kernel("\n".join(lines) + "\n", self.sums, block, types)

    def _module_scope(self) -> list[str]:
        """Return what a kernel with sums declares outside of its entry points."""
        return []

    @abstractmethod
    def _numbers(self) -> list[str]:
        """Return the declarations of what every launch is told."""

    def _fields(self) -> tuple[list[str], int]:
        """Return the arguments' declarations, and about how many bytes they take."""
        pointers = self.strategy.pointers
        fields = self._numbers()
        size = 4 * len(fields)
        for name, a, writes in self.buffers:
            access = "RW" if writes else ""
            if pointers:
                fields.append(f"{self._pointee(a)}* {name}")
                if not self.strategy.bare:
                    # Bound as well so that the buffer stays until the kernel has run, and is waited for by what reads it next.
                    fields.append(f"{access}StructuredBuffer<uint> keep_{name}")
                size += 8
            else:
                fields.append(f"{access}StructuredBuffer<{self._element(a)}> {name}")
                fields.append(f"uint at_{name}")
                size += 4
        for a in self.arguments:
            if a.kind == "number" and a.role == "in":
                fields.append(f"{a.layout.uniform} {a.key}")
                size += a.layout.count * max(4, _SIZES.get(a.layout.scalar, 4))
            elif a.kind == "grid" and a.rank > 1:
                fields.append(f"uint[{a.rank}] {a.key}")
                size += 4 * a.rank
        if self.sums:
            if pointers:
                fields.append("SlangLabPartial* cells")
                if not self.strategy.bare:
                    fields.append("RWStructuredBuffer<uint> keep_cells")
                size += 8
            else:
                fields.append("RWStructuredBuffer<SlangLabPartial> cells")
        return fields, size

    def _lanes(self, a: Argument) -> int:
        """Return how many scalars one load of a full tile takes."""
        s = self.strategy
        packed = s.pointers and s.width > 1 and (a.kind == "array" or a.role == "result")
        return self._chunk(a)[0] if packed else 1

    def _pointee(self, a: Argument) -> str:
        """Return what a pointer is declared to point at.

        A vector, where full tiles read vectors: of a pointer that is cast to one the compiler for Vulkan knows only the scalar's
        alignment, and loads scalars.
        """
        lanes = self._lanes(a)
        return f"vector<{a.layout.stored},{lanes}>" if lanes > 1 else a.layout.stored

    @staticmethod
    def _element(a: Argument) -> str:
        """Return the type of a structured buffer's elements: the tensor's own."""
        return a.layout.scalar if a.inner else a.layout.name

    def _head(self, name: str, block: bool, values: str) -> list[str]:
        uniform = "" if block else ", uniform SlangLabArguments sl"
        start = [f"    let sl = {ARGUMENTS};"] if block else []
        return [
            '[shader("compute")]',
            f"[numthreads({self.strategy.group}, 1, 1)]",
            f"void {name}({values}{uniform})",
            "{",
            *start,
        ]

    @abstractmethod
    def _entry(self, block: bool) -> list[str]:
        """Return the kernel."""

    @abstractmethod
    def _last(self, block: bool) -> list[str]:
        """Return the kernel that adds the sums of all groups to the gradients."""

    def _constant(self) -> list[str]:
        """Return the declarations of what is one value for all elements."""
        lines = []
        for a in self.arguments:
            if a.kind == "one":
                lines.append(self._declared(a, f"v_{a.key}", self._element_scalars(a, a.key, "0")))
            elif a.kind == "number" and a.role == "in":
                lines.append(f"{a.layout.name} v_{a.key} = {a.layout.from_uniform(f'sl.{a.key}')};")
        return lines

    def _total(self, which: str, index: Callable[[Argument], str]) -> list[str]:
        """Return what adds the sum over a group's `sl_sum` to value number `which` of the gradients, at the element `index` says."""
        lines = [
            "    let sl_total = slanglab_group_sum(sl_lane, sl_sum, sl.zero);",
            "    if (sl_lane != 0) return;",
            f"    switch ({which})",
            "    {",
        ]
        k = 0
        for a in self.shared:
            for place in self._places(a, f"d_{a.key}", index(a)):
                start = f"{a.layout.stored}(0)" if self.strategy.fresh else place
                value = f"slanglab_added({start}, sl_total, sl.zero)"
                lines.append(f"    case {k}: {place} = {value}; break;")
                k += 1
        return [*lines, "    }"]

    def _places(self, a: Argument, buffer: str, i: str) -> list[str]:
        """Return the scalars of one element in a buffer, as what can be read and written."""
        count = a.layout.count
        if self.strategy.pointers:
            base = f"{i} * {count}" if count > 1 else i
            pointer = f"(({a.layout.stored}*)sl.{buffer})" if self._lanes(a) > 1 else f"sl.{buffer}"
            return [f"{pointer}[{base} + {k}]" if count > 1 else f"{pointer}[{base}]" for k in range(count)]
        if not a.inner:
            return a.layout.scalars(f"sl.{buffer}[sl.at_{buffer} + {i}]")
        return [f"sl.{buffer}[sl.at_{buffer} + {i} * {count} + {k}]" for k in range(count)]

    def _element_scalars(self, a: Argument, buffer: str, i: str) -> list[str]:
        """Return the stored scalars of one element."""
        places = self._places(a, buffer, i)
        if not self.strategy.pointers and a.layout.scalar == "bool":
            return [f"({p} ? 1u : 0u)" for p in places]  # a structured buffer of bool holds no numbers
        return places

    def _declared(self, a: Argument, name: str, scalars: list[str]) -> str:
        return f"{a.layout.name} {name} = {a.layout.compose(scalars)};"

    def _to_place(self, a: Argument, value: str) -> str:
        return a.layout.to_stored(value) if self.strategy.pointers else value

    def _work(self, i: str) -> list[str]:
        """Return what reads element `i` of the arrays, calls the function, and writes."""
        lines = []
        for buffer, a, _ in self.buffers:
            array = a.kind == "array" or a.role == "result"
            if array and not (not self.backward and a.writes) and buffer == self._read(a):
                lines.append(self._declared(a, f"{self._local(a)}", self._element_scalars(a, buffer, i)))
        lines += self._call(i)
        for a in self.arguments:
            if not self.backward and a.writes:
                for place, scalar in zip(
                    self._places(a, a.key, i), a.layout.scalars(self._local(a)), strict=True
                ):
                    lines.append(f"{place} = {self._to_place(a, scalar)};")
            if a.gradient and a.kind == "array":
                for place, scalar in zip(
                    self._places(a, f"d_{a.key}", i), a.layout.scalars(f"p_{a.key}.d"), strict=True
                ):
                    lines.append(f"{place} {self.adds} slanglab_hidden({scalar}, sl.zero);")
        return lines

    def _read(self, a: Argument) -> str:
        """Return the buffer that an element's value comes from."""
        return f"d_{a.key}" if self.backward and a.writes else a.key

    @staticmethod
    def _local(a: Argument) -> str:
        return f"v_{a.key}"

    def _part_type(self) -> str:
        return "double" if any(a.layout.scalar == "double" for a in self.shared) else "float"

    def _call(self, index: str) -> list[str]:
        """Return the call for one element, its arrays' values being in local variables."""
        lines, passed = [], []
        for a in self.arguments:
            name = f"v_{a.key}"
            if a.kind == "grid":
                lines.append(f"{a.layout.name} {name} = {self._grid(a, index)};")
            elif a.writes and not self.backward:
                lines.append(f"{a.layout.name} {name};")
            if self.backward and a.differentiable and not a.writes:
                lines.append(f"var p_{a.key} = diffPair({name});")
                name = f"p_{a.key}"
            if a.role != "result" or self.backward:
                passed.append(name)
        if self.backward:
            lines.append(f"bwd_diff({self.function})({', '.join(passed)});")
        else:
            result = next((a for a in self.arguments if a.role == "result"), None)
            start = f"v_{result.key} = " if result is not None else ""
            lines.append(f"{start}{self.function}({', '.join(passed)});")
        k = 0
        for a in self.shared:
            for scalar in a.layout.scalars(f"p_{a.key}.d"):
                lines.append(f"sl_part[{k}] += {self._part_type()}({scalar});")
                k += 1
        return lines

    @staticmethod
    def _grid(a: Argument, index: str) -> str:
        """Return the grid's value at an element; the last axis comes first in it, as slangpy has it."""
        if a.rank == 1:
            return f"int({index})"
        parts, rest = [], index
        for axis in range(a.rank - 1, 0, -1):
            parts.append(f"int(({rest}) % sl.{a.key}[{axis}])")
            rest = f"({rest}) / sl.{a.key}[{axis}]"
        parts.append(f"int({rest})")
        return f"{a.layout.name}({', '.join(parts)})"

    def _chunk(self, a: Argument) -> tuple[int, int]:
        """Return how many scalars one load takes, and how many loads a pack takes."""
        scalars = a.layout.count * self.strategy.width
        lanes = max(1, min(4, 16 // a.layout.size))
        while scalars % lanes:
            lanes //= 2
        return lanes, scalars // lanes


def sums_module(group: int) -> str:
    """Return the name of the module with the sums over groups of that many threads."""
    return f"slanglab_sums_{group}"
