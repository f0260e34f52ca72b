"""A browser that nobody looks into while something is measured.

A browser that is driven tells its driver of all that its pages receive, whole: at 30 pictures a second that takes
a good part of a core.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from pages import CHROMIUM_FLAGS, chromium
from playwright.sync_api import Browser, Playwright

__all__ = ["unattended"]


@contextlib.contextmanager
def unattended(playwright: Playwright, folder: Path) -> Iterator[Callable[[], Browser]]:
    """Start a browser that goes on when who drives it has left, for as long as the context lasts.

    Yields
    ------
    callable
        Takes the wheel: returns a browser whose `close` leaves its pages as they are.
    """
    program = chromium() or playwright.chromium.executable_path
    own = ["--headless", "--remote-debugging-port=0", f"--user-data-dir={folder}", "--window-size=1280,1000"]
    process = subprocess.Popen([program, *own, *CHROMIUM_FLAGS, "about:blank"], stderr=subprocess.DEVNULL)
    try:
        told = folder / "DevToolsActivePort"
        deadline = time.monotonic() + 60
        # Two lines: the port, and a path.
        while not (told.exists() and "/" in told.read_text()):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the browser did not start")
            time.sleep(0.05)
        port = told.read_text().split()[0]
        yield lambda: playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()
