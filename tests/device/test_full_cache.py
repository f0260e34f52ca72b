"""A cache of kernels that is full: without a warning, and made anew by the next process that has it alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# The second kernel is larger than the whole cache, so that there is no place for it, whatever slangpy throws out.
RUN = """
import json, sys, warnings
import numpy as np
import slanglab
from slanglab import caches
from slanglab.caches.folders import InUse
from shell import Shell

caches.SHADERS_SIZE = int(sys.argv[1])
stand_by = InUse(caches.usual() / "in-use") if "in use" in sys.argv else None
if stand_by is not None:
    assert stand_by.share()
caches.prepare()
there = (caches.usual() / "shaders" / "rhi" / "data.mdb").exists()
shell = Shell()
shell.ns["np"] = np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    kept = slanglab.current().device.shader_cache_stats.entry_count
    numbers = ",".join(f"{k / 7:.6f}" for k in range(3000))
    table = f"static const float table[3000] = {{{numbers}}};"
    functions = "float look(int i) { return table[i]; }\\nfloat twice(float x) { return 2 * x; }"
    shell.run(f"%%slang tables\\n{table}\\n{functions}")
    printed = ""
    for cell in ("tables.twice(np.float32([1, 2])).to_numpy()", "tables.look(np.int32([7, 14])).to_numpy()") * 2:
        output = shell.run(cell)
        printed += output.stderr
        last = output.value.tolist()
about = [str(w.message) for w in caught if issubclass(w.category, caches.CacheWarning)]
overview = shell.run("%slang").text
found = {"there": there, "kept": kept, "last": last, "warnings": about, "printed": printed, "report": caches.report(), "overview": overview}
print(json.dumps(found))
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SLANGLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))

    def started(*arguments):
        ended = subprocess.run(
            [sys.executable, "-c", RUN, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout.splitlines()[-1])

    return started


SMALL, LARGE = 64 << 10, 64 << 20


def test_a_kernel_without_a_place_is_compiled_and_the_cache_made_anew_by_the_next(run):
    first = run(SMALL)
    assert first["last"] == [1.0, 2.0]
    assert first["warnings"] == []
    assert first["printed"] == ""
    assert ["full" in note for note in first["report"]] == [True]
    assert first["report"][0] in first["overview"]

    beside_another = run(SMALL, "in use")
    assert beside_another["there"]
    assert beside_another["last"] == [1.0, 2.0]

    alone = run(SMALL)
    assert not alone["there"]
    assert alone["last"] == [1.0, 2.0]
    assert alone["warnings"] == []

    with_room = run(LARGE)
    assert with_room["there"]
    assert with_room["report"] == []
    assert run(LARGE)["kept"] == with_room["kept"] + 2
