"""Some of slangpy's own tests through SlangLab's proxies; `make test-peer` runs all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_RUN = Path(__file__).parents[1] / "peer" / "run.py"


def test_what_passes_on_slangpy_passes_through_the_proxies():
    files = ("errors", "differential_function_call", "structured_numpy")
    done = subprocess.run(
        [sys.executable, str(_RUN), *files], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "test_errors.py" in done.stdout
