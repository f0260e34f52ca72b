"""What the live widgets cost: a slider of an explorer (part "explore"), and a plot of a training loop (part "training").

    python tests/bench/live.py [--only explore] [--times 40] [--rounds 5] [--steps 2000] [--long 100000]

Each part is a script of its own with its comparison in the same run; this one runs them one after the other, since each wants the
machine for itself, and ends with one table.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

Row = tuple[str, str, str]
"""What was measured, ours, and what it is compared with."""


def explore(arguments: argparse.Namespace) -> tuple[list[Row], bool]:
    """Measure the explorer beside `ipywidgets.interact`; return rows, and whether it is eight times as soon."""
    module: Any = importlib.import_module("explore")
    found = module.measure(arguments.times, arguments.seconds)
    median, quartiles, rates = found["median_ms"], found["quartiles_ms"], found["updates_a_second"]

    def time(kind: str) -> str:
        return f"{median[kind]:.1f} ms ({quartiles[kind][0]:.1f} to {quartiles[kind][1]:.1f})"

    rows = [
        ("slider to painted frame", time("ours"), f"{time('interact')}, interact"),
        ("the same, turning round", time("turning round"), "nothing is ahead of these presses"),
        ("updates a second", f"{rates['ours']:.1f}", f"{rates['interact']:.1f}, interact"),
        ("times sooner", f"{found['times_sooner']:.1f}", "at least 8 wanted"),
    ]
    return rows, found["times_sooner"] >= 8


def training(arguments: argparse.Namespace) -> tuple[list[Row], bool]:
    """Measure a training loop with its plot open beside a bare loop; return what it printed as rows."""
    module: Any = importlib.import_module("live_training")
    given = ["--rounds", arguments.rounds, "--steps", arguments.steps, "--long", arguments.long]
    printed, before = io.StringIO(), sys.argv
    sys.argv = ["live_training.py", *map(str, given), *(["--cpu"] if arguments.cpu else [])]
    try:
        with contextlib.redirect_stdout(printed):
            status = module.main()
    finally:
        sys.argv = before
        print(printed.getvalue(), end="")
    rows = []
    for line in printed.getvalue().splitlines():
        what, colon, said = line.partition(": ")
        if colon:
            figure, _, rest = said.partition(" (")
            spread = rest.partition(")")[0]
            peer = "a run without a plot" if what.startswith("browser") else "a bare loop"
            beside = f"{peer}; {spread}" if re.match(r"[+-]", figure) else ""
            rows.append((what, figure, beside))
    return rows, not status


PARTS = {"explore": explore, "training": training}
_FILES = {"explore": "explore", "training": "live_training"}


def table(rows: list[Row]) -> str:
    """Return rows under one another, each column as wide as its widest text."""
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def main() -> int:
    """Measure, and print a table; the exit status is 1 where a part missed what it is held to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--times", type=int, default=40, help="explore: key presses for each of the two")
    parser.add_argument("--seconds", type=float, default=4.0, help="explore: how long keys are held")
    parser.add_argument("--rounds", type=int, default=5, help="training: runs of each kind")
    parser.add_argument("--steps", type=int, default=2000, help="training: steps of a run")
    parser.add_argument("--long", type=int, default=100_000, help="training: steps of the long run")
    parser.add_argument(
        "--cpu", action="store_true", help="training: processor time instead, for a busy machine"
    )
    arguments = parser.parse_args()
    wanted = [arguments.only] if arguments.only else list(PARTS)
    rows: list[Row] = [("", "slanglab", "beside")]
    held = True
    for part in wanted:
        if importlib.util.find_spec(_FILES[part]) is None:
            print(f"{part}: {_FILES[part]}.py is not here")
            held = held and arguments.only != part
            continue
        found, good = PARTS[part](arguments)
        held = held and good
        rows += [(f"{part}: {what}", ours, beside) for what, ours, beside in found]
    print(table(rows))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
