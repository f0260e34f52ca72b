"""The text of a straight kernel over rows and columns: a layer's units for each of its inputs, every point with every splat.

A thread takes a row and goes along its columns (or takes a column, where there are more of those): the row's values are read once, and
its gradient stays in registers. Gradients of columns are sums over the threads. They go through the group's memory: each thread writes
its addends, then threads of other numbers sum those of one value and add them to a cell of the group's own. A second entry point sums
the cells. Neither atomic additions nor wave operations take part, so that the sums come out the same each time, on any device.
"""

from __future__ import annotations

from slanglab.engine.straight.arguments import Argument
from slanglab.engine.straight.extents import Crossed, cells
from slanglab.engine.straight.writer import ENTRY, LAST, Writer

__all__ = ["TableWriter"]


class TableWriter(Writer):
    """Writes the kernels."""

    def _shared(self) -> list[Argument]:
        # Those of one value for all come last: they are sums over the columns too.
        kinds = (self._short, "one")
        return [a for kind in kinds for a in self.arguments if a.kind == kind and a.gradient]

    @property
    def _long(self) -> str:
        """What a thread takes one of."""
        return "row" if self.strategy.rows else "column"

    @property
    def _short(self) -> str:
        return "column" if self.strategy.rows else "row"

    def _numbers(self) -> list[str]:
        # count: of what threads take one each; inner: of what each goes through
        return [f"uint {name}" for name in Crossed.names]

    def _module_scope(self) -> list[str]:
        together, _ = cells(self.sums, self.strategy)
        if together < 2:
            return []
        room = min(self.sums, together) * self._stride
        return [f"groupshared {self._part_type()} sl_table[{room}];"]

    @property
    def _parts(self) -> int:
        """Threads that sum one value."""
        return self.strategy.group // cells(self.sums, self.strategy)[0]

    @property
    def _stride(self) -> int:
        """Where the addends of the next value lie: not in the same banks."""
        return self.strategy.group + self._parts

    def _entry(self, block: bool) -> list[str]:
        group = self.strategy.group
        lines = self._head(ENTRY, block, "uint3 sl_group: SV_GroupID, uint sl_lane: SV_GroupIndex")
        lines += [f"    {line}" for line in self._constant()]
        lines += [
            f"    for (uint sl_start = sl_group.x * {group}; sl_start < sl.count; sl_start += sl.step)",
            "    {",
            "        bool sl_inside = sl_start + sl_lane < sl.count;",
            "        uint sl_own = sl_inside ? sl_start + sl_lane : sl.count - 1;",
        ]
        taken = [a for a in self.arguments if a.kind == self._long]
        lines += [
            "        " + self._declared(a, f"v_{a.key}", self._element_scalars(a, a.key, "sl_own"))
            for a in taken
        ]
        lines += [f"        {self._real(a)}[{a.layout.count}] g_{a.key} = {{}};" for a in taken if a.gradient]
        lines += [
            "        for (uint sl_other = 0; sl_other < sl.inner; sl_other++)",
            "        {",
            *(f"            {line}" for line in self._single()),
            "        }",
        ]
        if any(a.gradient for a in taken):
            lines += ["        if (sl_inside)", "        {"]
            lines += [f"            {line}" for a in taken if a.gradient for line in self._added(a)]
            lines.append("        }")
        return [*lines, "    }", "}"]

    @staticmethod
    def _real(a: Argument) -> str:
        return "double" if a.layout.scalar == "double" else "float"

    def _added(self, a: Argument) -> list[str]:
        """Return what adds a thread's own sums to the gradient of what it took."""
        real, lines = self._real(a), []
        for k, place in enumerate(self._places(a, f"d_{a.key}", "sl_own")):
            before = "" if self.strategy.fresh else f"{real}({place}) + "
            lines.append(f"{place} = {a.layout.stored}({before}slanglab_hidden(g_{a.key}[{k}], sl.zero));")
        return lines

    def _single(self) -> list[str]:
        """Return the work on one element."""
        index = "sl_own * sl.inner + sl_other" if self.strategy.rows else "sl_other * sl.count + sl_own"
        work = [f"uint sl_i = {index};"]
        for a in self.arguments:
            if a.kind == self._short:
                work.append(self._declared(a, f"v_{a.key}", self._element_scalars(a, a.key, "sl_other")))
        work += self._work("sl_i")
        for a in self.arguments:
            if a.kind == self._long and a.gradient:
                for k, scalar in enumerate(a.layout.scalars(f"p_{a.key}.d")):
                    work.append(f"g_{a.key}[{k}] += {self._real(a)}({scalar});")
        lines = [f"{self._part_type()}[{self.sums}] sl_part = {{}};"] if self.sums else []
        lines += ["if (sl_inside)", "{", *(f"    {line}" for line in work), "}"]
        return [*lines, *self._summed()] if self.sums else lines

    def _summed(self) -> list[str]:
        """Return what adds a group's addends for one column to its cells."""
        group, parts, stride = self.strategy.group, self._parts, self._stride
        together, goes = cells(self.sums, self.strategy)
        lines = [f"uint sl_cell = (sl_group.x * sl.inner + sl_other) * {goes * group} + sl_lane;"]
        for go in range(goes):
            first = go * together
            here = range(first, min(self.sums, first + together))
            lines += [
                "{",
                f"    bool sl_sums = sl_lane < {len(here) * parts};",
                "    SlangLabSum sl_sum = slanglab_sum(sl.zero);",
                f"    if (sl_sums && sl_start != sl_group.x * {group}) sl_sum.join(sl.cells[sl_cell + {go * group}]);",
            ]
            if together > 1:
                lines.append("    GroupMemoryBarrierWithGroupSync(); // the addends before are still read")
                lines += [f"    sl_table[{(k - first) * stride} + sl_lane] = sl_part[{k}];" for k in here]
                lines += [
                    "    GroupMemoryBarrierWithGroupSync();",
                    "    if (sl_sums)",
                    "    {",
                    f"        uint sl_from = sl_lane / {parts} * {stride} + sl_lane % {parts};",
                    f"        {self._part_type()} sl_total = 0;",
                    f"        [ForceUnroll] for (uint sl_k = 0; sl_k < {together}; sl_k++) sl_total += sl_table[sl_from + sl_k * {parts}];",
                    "        sl_sum.add(sl_total);",
                    "    }",
                ]
            else:
                lines.append(f"    sl_sum.add(sl_part[{first}]);")
            lines += [f"    if (sl_sums) sl.cells[sl_cell + {go * group}] = sl_sum.partial();", "}"]
        return lines

    def _last(self, block: bool) -> list[str]:
        group, parts = self.strategy.group, self._parts
        together, goes = cells(self.sums, self.strategy)
        own = sum(a.layout.count for a in self.shared if a.kind != "one")
        lines = self._head(LAST, block, "uint3 sl_group: SV_GroupID, uint sl_lane: SV_GroupIndex")
        lines += [
            f"    uint sl_other = sl_group.x / {self.sums};",
            f"    uint sl_value = sl_group.x % {self.sums};",
            "    // What is one value for all is summed over all columns, once.",
            f"    bool sl_all = sl_value >= {own};",
            "    if (sl_all && sl_other != 0) return;",
            "    uint sl_columns = sl_all ? sl.inner : 1;",
            "    SlangLabSum sl_sum = slanglab_sum(sl.zero);",
            f"    for (uint sl_i = sl_lane; sl_i < sl.slots * sl_columns * {parts}; sl_i += {group})",
            "    {",
            f"        uint sl_column = sl_other + sl_i / {parts} % sl_columns;",
            f"        uint sl_slot = sl_i / {parts} / sl_columns;",
            f"        uint sl_cell = (sl_slot * sl.inner + sl_column) * {goes * group} + sl_value / {together} * {group};",
            f"        sl_sum.join(sl.cells[sl_cell + sl_value % {together} * {parts} + sl_i % {parts}]);",
            "    }",
        ]
        return [*lines, *self._total("sl_value", lambda a: "0" if a.kind == "one" else "sl_other"), "}"]
