"""The table of runs: every situation that a notebook is to survive, many times, each in a real kernel.

Run: python tests/survival/table.py [AREA ...] [--count N]. The areas are the files of this folder that have `runs`. A run keeps
`precious = 41` in the notebook and has the next cell compute; a row counts runs of one situation, and tells what the last bad one lacked.
Exits with 1 if any run failed. With the count as it is, some half an hour on two cores.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rows import Row

AREAS = ("guard", "waiting", "worker_engine", "caches", "memory")


@dataclass
class _Line:
    """The runs of one situation."""

    good: int = 0
    bad: list[str] = field(default_factory=list)
    last: str = ""

    def add(self, row: Row) -> None:
        if row.ok:
            self.good += 1
            self.last = row.detail
        else:
            self.bad.append(row.detail)


def _runs(area: str, count: int) -> Iterator[Row]:
    """Return the runs of an area; what breaks them off is a row of its own."""
    try:
        yield from importlib.import_module(area).runs(count)
    except Exception as error:  # the other areas still have their say
        yield Row(f"{area}, as a whole", False, f"{type(error).__name__}: {error}")


def main() -> None:
    """Run, print the table and exit."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("areas", nargs="*", default=AREAS, metavar="AREA", help=", ".join(AREAS))
    options.add_argument("--count", type=int, default=100, help="runs of what is tried at random moments")
    chosen = options.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    lines: dict[str, _Line] = {}
    started = time.monotonic()
    for area in chosen.areas:
        for row in _runs(area, chosen.count):
            lines.setdefault(row.name, _Line()).add(row)
            print(
                f"{time.monotonic() - started:7.1f} s  {'ok ' if row.ok else 'BAD'}  {row.name}: {row.detail}",
                file=sys.stderr,
                flush=True,
            )
    print("| situation | runs | survived | seen |\n|---|---|---|---|")
    for name, line in lines.items():
        total = line.good + len(line.bad)
        seen = (line.bad[-1] if line.bad else line.last).replace("|", "\\|").replace("\n", " ")
        print(f"| {name} | {total} | {line.good} | {seen} |")
    total, bad = sum(x.good + len(x.bad) for x in lines.values()), sum(len(x.bad) for x in lines.values())
    print(f"\n{total} runs, {total - bad} survived, {time.monotonic() - started:.0f} s.")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
