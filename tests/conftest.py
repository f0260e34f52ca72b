import gc

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# No time limits: a machine that is busy is not a failure. A failing example is printed with the line that repeats it.
settings.register_profile(
    "slanglab", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("slanglab")


@pytest.fixture
def seed():
    """A fresh seed, which a failing test prints."""
    drawn = int(np.random.default_rng().integers(2**32))
    print(f"seed {drawn}")
    return drawn


@pytest.fixture
def rng(seed):
    """Random numbers from a fresh seed."""
    return np.random.default_rng(seed)


def pytest_collection_finish(session):
    """Leave out of later collections what was imported so far: each would look at all of it, and many tests ask for one."""
    gc.collect()
    gc.freeze()
