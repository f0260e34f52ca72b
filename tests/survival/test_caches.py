"""Each thing that can be wrong with the caches, once; `caches.py` repeats them at random places and moments."""

import random
from pathlib import Path

import pytest
from caches import AROUND, DAMAGES, Rig, damaged

# The others differ only in place; `table.py` runs them all.
LEFT_TO_THE_TABLE = (
    {"modules cut off at 0.1", "modules cut off at 0.25", "modules cut off at 0.4"}
    | {f"modules cut off at {part}" for part in ("1e-05", "0.75", "0.9")}
    | {f"kernels cut off at {part}" for part in ("0.06", "0.2", "0.3", "0.5", "0.7")}
)


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    return Rig(Path(tmp_path_factory.mktemp("caches")))


@pytest.fixture
def rng():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.mark.parametrize(
    "damage", [d for d in DAMAGES if d.name not in LEFT_TO_THE_TABLE], ids=lambda d: d.name
)
def test_damaged(rig, rng, damage):
    row = damaged(rig, damage, rng)
    assert row.ok, row.detail


@pytest.mark.parametrize("situation", AROUND)
def test_around(rig, rng, situation):
    row = AROUND[situation](rig, rng)
    if row is None:
        pytest.skip("this cannot be arranged here")
    assert row.ok, row.detail
