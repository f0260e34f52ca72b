"""Measure how often the gradient check cries wolf, and how often it misses.

    python tests/rates/rates.py --count 10000 --directions 2

draws as many random functions, checks the right gradient of each and 23 kinds of wrong ones, and prints a table in Markdown. The seed is
fresh, and printed; `--seed` repeats a run. The table in docs/gradient-check.md came from here.
"""

from __future__ import annotations

import argparse
import collections
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from broken import KINDS, broken
from functions import FAMILIES, SMOOTH, Drawn, draw
from tape import Array

from slanglab.checks.adjoint import adjoint
from slanglab.checks.decision import check
from slanglab.checks.problem import Line, Problem, random_cotangent, random_direction

BANDS = ((0.3, "30 % and more"), (0.1, "10 to 30 %"), (0.03, "3 to 10 %"), (0.015, "2 %"))
OWN_ERROR = 0.003
"""From here on a right gradient computed in float32 is itself so far off that an alarm is true."""


@dataclass
class Tally:
    """Counts of one family, or of several added up."""

    right: collections.Counter[str] = field(default_factory=collections.Counter)
    true_alarms: int = 0
    calls: list[int] = field(default_factory=list)
    bands: dict[str, collections.Counter[str]] = field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    kinds: dict[str, collections.Counter[str]] = field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    forward: collections.Counter[str] = field(default_factory=collections.Counter)
    alarms: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.right.update(other.right)
        self.true_alarms += other.true_alarms
        self.calls += other.calls
        self.forward.update(other.forward)
        self.alarms += other.alarms
        for mine, theirs in ((self.bands, other.bands), (self.kinds, other.kinds)):
            for key, counts in theirs.items():
                mine[key].update(counts)


def relative_error(right: Sequence[Array], wrong: Sequence[Array], direction: Sequence[Array]) -> float:
    """Return how large the error of a gradient is along such directions, relative to the gradient."""
    if not all(np.all(np.isfinite(w)) for w in wrong):
        return float("inf")
    exact = [np.asarray(r, np.float64) for r in right]
    off = sum((((w - r) * d) ** 2).sum() for r, w, d in zip(exact, wrong, direction, strict=True))
    size = sum(((r * d) ** 2).sum() for r, d in zip(exact, direction, strict=True))
    return float(np.sqrt(off / size)) if size else float("inf")


def _band(error: float) -> str | None:
    return next((name for least, name in BANDS if error >= least), None)


def measure(drawn: Drawn, rng: np.random.Generator, directions: int, tally: Tally) -> None:
    """Check the right gradient of a function and all wrong ones."""
    value = drawn.value(drawn.point)
    cotangent = random_cotangent(value, rng)
    problem = Problem(drawn.value, drawn.point, value, cotangent, drawn.elements)
    lines = [Line(problem, random_direction(drawn.point, rng)) for _ in range(directions)]
    right = drawn.gradients(cotangent[0], np.float32)
    exact = drawn.gradients(cotangent[0], np.float64)
    direction = lines[0].direction
    own = relative_error(exact, right, direction)
    found = check(problem, right, rng, directions, lines=lines)
    tally.right[found.verdict] += 1
    tally.calls.append(found.calls)
    if found.verdict == "differs":
        shapes = [x.shape for x in drawn.point]
        tally.true_alarms += own >= OWN_ERROR
        tally.alarms.append(
            f"{'true' if own >= OWN_ERROR else 'FALSE'} alarm: {drawn.family} {shapes}, own error {own:.1e}, {found}"
        )
    tangent = _tangent(exact, direction, rng)
    tally.forward[_adjoint(tangent, right, direction)] += own < OWN_ERROR
    for kind, wrong in broken(right, drawn, cotangent[0], rng):
        error = relative_error(right, wrong, direction)
        band = _band(error)
        if band is None or (band == "2 %" and kind != "2 % more"):
            continue  # it happens to equal the right one
        verdict = check(problem, wrong, rng, directions, lines=lines).verdict
        tally.bands[band][verdict] += 1
        tally.kinds[kind][verdict] += 1
        if np.isfinite(error) and _adjoint(tangent, wrong, direction) == "agrees":
            tally.bands[band]["missed by forward mode"] += 1


def _tangent(exact: Sequence[Array], direction: Sequence[Array], rng: np.random.Generator) -> float:
    """Return ⟨c, J·v⟩ as forward mode in float32 has it: rounded some times on the way."""
    total = sum(float((g * v).sum()) for g, v in zip(exact, direction, strict=True))
    return total * (1 + 3e-7 * rng.standard_normal())


def _adjoint(tangent: float, gradient: Sequence[Array], direction: Sequence[Array]) -> str:
    return adjoint([np.array(tangent)], [np.array(1.0)], gradient, direction).verdict


def run(
    count: int,
    directions: int,
    seed: int,
    progress: bool = False,
    families: Sequence[str] = FAMILIES,
) -> dict[str, Tally]:
    """Measure `count` functions, the families in turn; each family's numbers are its own."""
    tallies = {family: Tally() for family in FAMILIES}
    started = time.monotonic()
    with np.errstate(all="ignore"):
        for i in range(count):
            family = families[i % len(families)]
            rng = np.random.default_rng((seed, i))
            before = len(tallies[family].alarms)
            measure(draw(family, rng), rng, directions, tallies[family])
            for alarm in tallies[family].alarms[before:]:
                print(f"function {i}: {alarm}", file=sys.stderr, flush=True)
            if progress and i % 1000 == 999:
                print(f"{i + 1} functions, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return tallies


def together(tallies: Sequence[Tally]) -> Tally:
    """Add up tallies."""
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} % of {whole}" if whole else "-"


def table(tallies: dict[str, Tally]) -> str:
    """Return the rates as a table in Markdown."""
    groups = {
        "all": together(list(tallies.values())),
        "smooth": together([tallies[f] for f in SMOOTH]),
        "kinked": tallies["kinked"],
        "noisy": tallies["noisy"],
    }
    rows = [("functions", [str(sum(t.right.values())) for t in groups.values()])]
    rows.append(("false alarms", [str(t.right["differs"] - t.true_alarms) for t in groups.values()]))
    rows.append(
        (
            "alarms that are true: the float32 gradient itself is off",
            [str(t.true_alarms) for t in groups.values()],
        )
    )
    rows.append(
        ("cannot tell", [_percent(t.right["cannot tell"], sum(t.right.values())) for t in groups.values()])
    )
    for _, band in BANDS:
        counted = [t.bands[band] for t in groups.values()]
        rows.append((f"missed: error {band}", [_percent(b["agrees"], _checked(b)) for b in counted]))
    large = [_added(t.bands, [BANDS[0][1], BANDS[1][1]]) for t in groups.values()]
    rows.append(("missed: error 10 % and more", [_percent(b["agrees"], _checked(b)) for b in large]))
    rows.append(
        ("wrong by 10 % and more, cannot tell", [_percent(b["cannot tell"], _checked(b)) for b in large])
    )
    rows.append(
        (
            "missed by forward mode alone: error 10 % and more",
            [_percent(b["missed by forward mode"], _checked(b)) for b in large],
        )
    )
    rows.append(
        (
            "false alarms of forward mode alone",
            [_percent(t.forward["differs"], sum(t.forward.values())) for t in groups.values()],
        )
    )
    rows.append(
        ("extra forward calls: median / mean / 95 % / most", [_calls(t.calls) for t in groups.values()])
    )
    lines = [f"| | {' | '.join(groups)} |", "|---|" + "---|" * len(groups)]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows]
    lines += [
        "",
        "| family | functions | false alarms | cannot tell | missed, 10 % and more | calls |",
        "|---|---|---|---|---|---|",
    ]
    for family, tally in tallies.items():
        b = _added(tally.bands, [BANDS[0][1], BANDS[1][1]])
        n = sum(tally.right.values())
        lines.append(
            f"| {family} | {n} | {tally.right['differs'] - tally.true_alarms} | {_percent(tally.right['cannot tell'], n)} "
            f"| {_percent(b['agrees'], _checked(b))} | {_calls(tally.calls)} |"
        )
    lines += [
        "",
        "| wrong gradient, smooth functions | checked | missed | cannot tell |",
        "|---|---|---|---|",
    ]
    for kind in KINDS:
        b = groups["smooth"].kinds[kind]
        n = _checked(b)
        lines.append(f"| {kind} | {n} | {b['agrees']} | {b['cannot tell']} |")
    return "\n".join(lines)


def _checked(counts: collections.Counter[str]) -> int:
    return counts["agrees"] + counts["differs"] + counts["cannot tell"]


def _added(bands: dict[str, collections.Counter[str]], names: Sequence[str]) -> collections.Counter[str]:
    return sum((bands[n] for n in names), collections.Counter())


def _calls(calls: Sequence[int]) -> str:
    if not calls:
        return "-"
    return f"{np.median(calls):g} / {np.mean(calls):.1f} / {np.percentile(calls, 95):g} / {max(calls)}"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--directions", type=int, default=2)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--family", choices=FAMILIES, help="draw all functions from one family")
    options = parser.parse_args()
    seed = int(np.random.default_rng().integers(2**32)) if options.seed is None else options.seed
    print(
        f"{options.count} functions, {options.directions} direction{'s' * (options.directions > 1)}, seed {seed}; "
        f"numpy {np.__version__}, {platform.machine()}",
        flush=True,
    )
    families = (options.family,) if options.family else FAMILIES
    print(table(run(options.count, options.directions, seed, progress=True, families=families)))


if __name__ == "__main__":
    main()
