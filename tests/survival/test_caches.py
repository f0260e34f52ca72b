"""Each thing that can be wrong with the caches, once; `caches.py` repeats them at random places and moments."""

import random
from pathlib import Path

import pytest
from caches import AROUND, DAMAGES, Rig, damaged

# One of each kind; `table.py` runs them all.
DAMAGES_HERE = {
    "nothing",
    "modules cut off at 0.5",
    "modules cut off at 0.99999",
    "modules changed",
    "modules a folder",
    "kernels cut off at 0.01",
    "kernels cut off at 0.1",
    "kernels cut off at 0.4",
    "kernels changed",
    "one bit of a kernel changed",
    "kernels something else",
    "kernels a link",
    "folder open to others",
    "folder a link",
    "seal lost",
    "a module left unfinished",
}


assert {d.name for d in DAMAGES} >= DAMAGES_HERE


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    return Rig(Path(tmp_path_factory.mktemp("caches")))


@pytest.fixture
def rng():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.mark.parametrize("damage", [d for d in DAMAGES if d.name in DAMAGES_HERE], ids=lambda d: d.name)
def test_damaged(rig, rng, damage):
    row = damaged(rig, damage, rng)
    assert row.ok, row.detail


@pytest.mark.parametrize("situation", [s for s in AROUND if s not in ("two at once", "nearly full disk")])
def test_around(rig, rng, situation):
    row = AROUND[situation](rig, rng)
    if row is None:
        pytest.skip("this cannot be arranged here")
    assert row.ok, row.detail
