"""Run slangpy's own tests twice, on plain slangpy and through SlangLab's proxies, and compare.

Run: python tests/peer/run.py [FILE ...] [--devices vulkan]. Every test that passes on plain slangpy has to pass through the proxies, but
for those that expected.toml lists with a reason. slangpy's wheel carries its tests; `through_slanglab.py` is the plugin that puts the
proxies in their way and counts the calls that go through them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

# Files that reach no function, or none that a cell has: reflection, hot reload, linking, devices, PyTorch.
# test_shapes.py needs a package that nothing else does.
_LEFT_OUT = re.compile(
    r"torch|reflection|linking|fuse|sgl|tostring|name_parse|buffer_sizes|buffer_views|shapes?\.py"
)

Outcomes = dict[str, dict[str, Any]]


def _tests() -> Path:
    import slangpy

    folder = Path(slangpy.__file__).parent / "tests" / "slangpy_tests"
    if not folder.is_dir():
        sys.exit(f"this slangpy has no tests of its own: {folder} is missing")
    return folder


def _run(through: str, files: list[Path], devices: str, scratch: Path) -> Outcomes:
    """Run the tests in a process and folder of their own (they write what they generate) and return the outcome of each."""
    outcomes = scratch / f"{through}.json"
    path = os.pathsep.join([str(HERE.parent.parent), str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    command += ["-p", "slangpy.testing.plugin", "-p", "through_slanglab", f"--device-types={devices}"]
    command += [
        f"--through={through}",
        f"--outcomes={outcomes}",
        f"--rootdir={files[0].parent}",
        *map(str, files),
    ]
    print(f"slangpy's tests on {through}", flush=True)
    log = scratch / f"{through}.txt"
    with log.open("w") as out:
        code = subprocess.run(
            command, cwd=scratch, env={**os.environ, "PYTHONPATH": path}, stdout=out, stderr=out, check=False
        ).returncode
    if not outcomes.is_file():
        sys.exit(f"the tests on {through} ended with {code}:\n{log.read_text()[-4000:]}")
    found = json.loads(outcomes.read_text(encoding="utf-8"))
    return {f"{t['file']}::{t['name']}": t for t in found if "file" in t}


def _problems(plain: Outcomes, proxied: Outcomes, expected: dict[str, dict[str, str]]) -> list[str]:
    """Return what is wrong, in one line each."""
    problems = []
    for name, before in plain.items():
        if before["outcome"] != "passed":
            continue
        after = proxied.get(name, {"outcome": "missing", "text": "", "direct": 0})
        entry = expected.get(before["name"].split("[", 1)[0])
        if entry is not None:
            if after["outcome"] == "passed":
                problems.append(f"{name} passes, and expected.toml says that it does not")
            elif entry["says"] not in after["text"]:
                problems.append(f"{name} fails otherwise than expected.toml says\n{after['text']}")
        elif after["outcome"] != "passed":
            problems.append(f"{name} passes on plain slangpy and {after['outcome']} here\n{after['text']}")
        elif after["direct"]:
            problems.append(f"{name}: {after['direct']} calls went past the proxies")
    return problems


def _table(plain: Outcomes, proxied: Outcomes, expected: dict[str, dict[str, str]]) -> None:
    rows: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    for name, before in plain.items():
        after = proxied.get(name, {"outcome": "missing", "proxied": 0, "direct": 0})
        row = rows[before["file"]]
        row[0] += before["outcome"] == "passed"
        row[1] += before["outcome"] == "passed" and after["outcome"] == "passed"
        row[2] += before["outcome"] == "passed" and before["name"].split("[", 1)[0] in expected
        row[3] += after["proxied"]
        row[4] += after["direct"]
    rows["total"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    print(f"{'':40}{'plain':>8}{'proxies':>9}{'excepted':>10}{'calls':>8}{'past':>6}")
    for file, row in rows.items():
        print(f"{file:40}{row[0]:8}{row[1]:9}{row[2]:10}{row[3]:8}{row[4]:6}")
    print(
        "plain, proxies: tests that pass on slangpy, and those of them through SlangLab's proxies; excepted: listed in "
        "expected.toml; calls: calls of Slang functions that went through a proxy; past: that did not"
    )


def main() -> int:
    """Run both, print the table, return 1 where a test fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="names such as `tensor` for test_tensor.py; all by default")
    parser.add_argument("--devices", default="vulkan", help="slangpy's device types, with commas")
    options = parser.parse_args()
    named = [_tests() / f"test_{name}.py" for name in options.files]
    files = named or sorted(f for f in _tests().glob("test_*.py") if not _LEFT_OUT.search(f.name))
    with (HERE / "expected.toml").open("rb") as stream:
        expected = {entry["name"]: entry for entry in tomllib.load(stream)["test"]}
    with tempfile.TemporaryDirectory() as folder:
        plain = _run("slangpy", files, options.devices, Path(folder))
        proxied = _run("slanglab", files, options.devices, Path(folder))
    _table(plain, proxied, expected)
    known = {t["name"].split("[", 1)[0] for t in plain.values() if t["outcome"] == "passed"}
    for name in expected if not options.files else ():
        print(f"excepted: {name}: {expected[name]['reason']}")
    problems = _problems(plain, proxied, expected)
    if not options.files:
        problems += [
            f"expected.toml lists {n}, which is no test that passes" for n in expected if n not in known
        ]
        if not any(t["proxied"] for t in proxied.values()):
            problems.append("no call went through a proxy")
    for problem in problems:
        print(f"FAILED {problem}")
    print(
        f"{len(problems)} problems"
        if problems
        else "every other test that passes on slangpy passes through the proxies"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
