"""Real marimo in headless Chromium: an application of a few cells, run without its editor."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator


class MarimoPage:
    """A marimo application and a page that shows it.

    Parameters
    ----------
    browser : Browser
    folder : Path
        Of its own: the file, marimo's settings.
    cells : list of str
        The sources. Names that begin with an underscore stay in their cell, as marimo has it.
    dark : bool
    width, height : int
        Of the page.
    """

    def __init__(
        self,
        browser: Browser,
        folder: Path,
        cells: list[str],
        *,
        dark: bool = False,
        width: int = 1280,
        height: int = 1000,
    ) -> None:
        settings = folder / "config" / "marimo"
        settings.mkdir(parents=True)
        (settings / "marimo.toml").write_text(f'[display]\ntheme = "{"dark" if dark else "light"}"\n')
        file = folder / "app.py"
        file.write_text(
            "import marimo\n\napp = marimo.App()\n"
            + "".join(_cell(source) for source in cells)
            + '\nif __name__ == "__main__":\n    app.run()\n'
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = (folder / "marimo.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "marimo", "run", "--headless", "--no-token", f"--port={port}", str(file)],
            env={
                **os.environ,
                "XDG_CONFIG_HOME": str(folder / "config"),
                "SLANGLAB_CONFIG": str(folder / "slanglab"),
            },
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.console: list[str] = []
        self.elsewhere: list[str] = []
        self.page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        self.page.on("pageerror", lambda e: self.console.append(str(e)))
        self.page.on("request", self._requested)
        try:
            self._wait(folder)
            self.page.goto(self.url)
        except BaseException:
            self.close()
            raise

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.url, "ws://127.0.0.1", "data:", "blob:")):
            self.elsewhere.append(request.url)

    def _wait(self, folder: Path) -> None:
        for _ in range(600):
            if self._process.poll() is not None:
                raise RuntimeError(f"marimo ended:\n{(folder / 'marimo.log').read_text()[-2000:]}")
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=2)
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.1)
            else:
                return
        raise RuntimeError("marimo did not answer within a minute")

    def views(self) -> Locator:
        """Return the inspectors of the page; marimo has each in a shadow root, which locators see into."""
        return self.page.locator(".sl.inspector")

    def kill(self) -> None:
        """End the server and its kernels, as a crash would."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(10)

    def close(self) -> None:
        """Close the page, end the server."""
        self.page.close()
        self.kill()
        self._log.close()


def _cell(source: str) -> str:
    """Write a cell as marimo does; the names that it reads and gives marimo finds itself."""
    return f"\n\n@app.cell\ndef _():\n{textwrap.indent(source, '    ')}\n    return\n"
