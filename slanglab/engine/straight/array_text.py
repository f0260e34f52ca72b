"""The text of a straight kernel over all elements of arrays, whatever axes they have.

A group takes a tile of elements at a time. Where the tile is full, each thread reads its elements into local arrays, a pack of
neighbours with loads of up to 16 bytes, then calls the function for each, then writes; at the end of the arrays the elements
are taken one by one.
"""

from __future__ import annotations

from slanglab.engine.straight.arguments import Argument
from slanglab.engine.straight.extents import Flat
from slanglab.engine.straight.writer import ENTRY, LAST, Writer

__all__ = ["ArrayWriter"]


class ArrayWriter(Writer):
    """Writes the kernels."""

    def _shared(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind == "one" and a.gradient]

    def _numbers(self) -> list[str]:
        return [f"uint {name}" for name in Flat.names]

    def _entry(self, block: bool) -> list[str]:
        s = self.strategy
        lines = self._head(ENTRY, block, "uint3 sl_group: SV_GroupID, uint sl_lane: SV_GroupIndex")
        lines += [f"    {line}" for line in self._constant()]
        if self.sums:
            lines += [
                f"    SlangLabSum[{self.sums}] sl_sums;",
                f"    for (uint sl_k = 0; sl_k < {self.sums}; sl_k++) sl_sums[sl_k] = slanglab_sum(sl.zero);",
            ]
        lines.append(
            f"    for (uint sl_start = sl_group.x * {s.tile}; sl_start < sl.count; sl_start += sl.step)"
        )
        lines.append("    {")
        if s.at_once > 1:
            lines += [f"        if (sl_start + {s.tile} <= sl.count)", "        {"]
            lines += [f"            {line}" for line in self._full()]
            lines += ["            continue;", "        }"]
        lines.append(
            f"        for (uint sl_i = sl_start + sl_lane; sl_i < min(sl_start + {s.tile}, sl.count); sl_i += {s.group})"
        )
        lines += ["        {", *(f"            {line}" for line in self._single()), "        }", "    }"]
        if self.sums:
            lines += [
                f"    for (uint sl_k = 0; sl_k < {self.sums}; sl_k++)",
                "    {",
                "        let sl_total = slanglab_group_sum(sl_lane, sl_sums[sl_k], sl.zero);",
                "        if (sl_lane == 0) sl.cells[sl_k * sl.slots + sl_group.x] = sl_total;",
                "    }",
            ]
        return [*lines, "}"]

    def _last(self, block: bool) -> list[str]:
        lines = self._head(LAST, block, "uint3 sl_group: SV_GroupID, uint sl_lane: SV_GroupIndex")
        lines += [
            "    SlangLabSum sl_sum = slanglab_sum(sl.zero);",
            f"    for (uint sl_i = sl_lane; sl_i < sl.slots; sl_i += {self.strategy.group})",
            "        sl_sum.join(sl.cells[sl_group.x * sl.slots + sl_i]);",
        ]
        return [*lines, *self._total("sl_group.x", lambda _: "0"), "}"]

    def _single(self) -> list[str]:
        """Return the work on element `i`."""
        lines = [f"{self._part_type()}[{self.sums}] sl_part = {{}};"] if self.sums else []
        lines += self._work("sl_i")
        return [*lines, *self._join()] if self.sums else lines

    def _join(self) -> list[str]:
        return [
            "[ForceUnroll]",
            f"for (int sl_k = 0; sl_k < {self.sums}; sl_k++) sl_sums[sl_k].add(sl_part[sl_k]);",
        ]

    def _full(self) -> list[str]:
        """Return the work on a full tile, from element `start`."""
        s = self.strategy
        first = f"sl_start / {s.width} + sl_lane" if s.width > 1 else "sl_start + sl_lane"
        lines = [f"uint sl_first = {first};"]
        if self.sums:
            lines.append(f"{self._part_type()}[{self.sums}] sl_part = {{}};")
        arrays = [(b, a) for b, a, _ in self.buffers if a.kind == "array" or a.role == "result"]
        inside: list[str] = []
        after: list[str] = []
        for buffer, a in arrays:
            if not self.backward and a.writes:
                lines.append(f"Array<{a.layout.name}, {s.at_once}> all_{buffer};")
                after += self._stored(a, buffer, f"all_{buffer}")
            elif buffer == self._read(a):
                lines += self._loaded(a, buffer, f"all_{buffer}")
                inside.append(f"{a.layout.name} v_{a.key} = all_{buffer}[sl_j];")
            else:  # a gradient
                if self.strategy.fresh:
                    lines.append(f"Array<{a.layout.name}, {s.at_once}> all_{buffer};")
                else:
                    lines += self._loaded(a, buffer, f"all_{buffer}")
                after += self._stored(a, buffer, f"all_{buffer}")
        index = f"((sl_first + uint(sl_j) / {s.width} * {s.group}) * {s.width} + uint(sl_j) % {s.width})"
        body = [*inside, *self._call(index)]
        for buffer, a in arrays:
            if not self.backward and a.writes:
                body.append(f"all_{buffer}[sl_j] = v_{a.key};")
            elif a.gradient and buffer == f"d_{a.key}":
                for to, scalar in zip(
                    a.layout.scalars(f"all_{buffer}[sl_j]"), a.layout.scalars(f"p_{a.key}.d"), strict=True
                ):
                    body.append(f"{to} {self.adds} slanglab_hidden({scalar}, sl.zero);")
        if s.unroll:
            lines.append("[ForceUnroll]")
        lines += [
            f"for (int sl_j = 0; sl_j < {s.at_once}; sl_j++)",
            "{",
            *(f"    {line}" for line in body),
            "}",
            *after,
        ]
        if self.sums:
            lines += self._join()
        return lines

    def _pack(self, a: Argument, buffer: str, pack: int) -> list[str]:
        """Return the places of the chunks of one pack."""
        s = self.strategy
        if not s.pointers or s.width == 1:
            return self._places(a, buffer, f"(sl_first + {pack * s.group})")
        _, loads = self._chunk(a)
        pointer = f"sl.{buffer}"
        base = f"(sl_first + {pack * s.group})"
        base = f"{base} * {loads}" if loads > 1 else base
        return [f"{pointer}[{base} + {c}]" if loads > 1 else f"{pointer}[{base}]" for c in range(loads)]

    def _loaded(self, a: Argument, buffer: str, prefix: str) -> list[str]:
        """Return what reads a thread's elements of a buffer into the local array `prefix`."""
        s = self.strategy
        lines = [f"Array<{a.layout.name}, {s.at_once}> {prefix};"]
        count = a.layout.count
        for pack in range(s.packs):
            if not s.pointers or s.width == 1:
                scalars = self._element_scalars(a, buffer, f"(sl_first + {pack * s.group})")
            else:
                lanes, _ = self._chunk(a)
                scalars = []
                for c, place in enumerate(self._pack(a, buffer, pack)):
                    lines.append(f"let {prefix}_{pack}_{c} = {place};")
                    name = f"{prefix}_{pack}_{c}"
                    scalars += [f"{name}[{k}]" for k in range(lanes)] if lanes > 1 else [name]
            for j in range(s.width):
                value = a.layout.compose(scalars[j * count : (j + 1) * count])
                e = pack * s.width + j
                lines.append(f"{a.layout.name} {prefix}_e{e} = {value};")
                lines.append(f"{prefix}[{e}] = {prefix}_e{e};")
        return lines

    def _stored(self, a: Argument, buffer: str, prefix: str) -> list[str]:
        """Return what writes the local array `prefix` to a thread's elements of a buffer."""
        s = self.strategy
        lines = []
        for pack in range(s.packs):
            scalars = [
                self._to_place(a, v)
                for j in range(s.width)
                for v in a.layout.scalars(f"{prefix}[{pack * s.width + j}]")
            ]
            if not s.pointers or s.width == 1:
                places = self._places(a, buffer, f"(sl_first + {pack * s.group})")
                lines += [f"{place} = {v};" for place, v in zip(places, scalars, strict=True)]
                continue
            lanes, _ = self._chunk(a)
            for c, place in enumerate(self._pack(a, buffer, pack)):
                part = scalars[c * lanes : (c + 1) * lanes]
                value = f"vector<{a.layout.stored},{lanes}>({', '.join(part)})" if lanes > 1 else part[0]
                lines.append(f"{place} = {value};")
        return lines
