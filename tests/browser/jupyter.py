"""Real JupyterLab and Notebook 7 in headless Chromium: a server, a page, and what a test asks of them.

The applications are driven by their own commands (`window.jupyterapp`), not by clicking through menus, and read through the DOM.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Messages of the applications themselves, seen with a notebook that does not load SlangLab.
KNOWN_NOISE = (
    "Cannot read properties of undefined (reading 'schema')",  # Notebook 7.6, at start
    "404 (Not Found)",  # JupyterLab asks for workspaces and checkpoints that are not there yet
    "WebSocket connection to",  # closed when a test ends
)


def chromium() -> str:
    """Return the browser: Debian's Chromium, or what CHROMIUM names."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise RuntimeError("no Chromium: install it with `apt-get install chromium`, or set CHROMIUM to its path")
    return found


class Server:
    """A Jupyter server on the loopback address, with folders of its own."""

    def __init__(self, root: Path, folder: Path, app: str) -> None:
        self.app = app
        self.root = root
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        names = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        environment = {**os.environ, **{k: str(folder / v) for k, v in names.items()}}
        settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "notification.jupyterlab-settings").write_text(
            json.dumps({"fetchNews": "false", "checkForUpdates": False})
        )
        self._settings = settings
        self._log = (folder / "server.log").open("wb")
        self._process = subprocess.Popen(
            [
                str(Path(sys.executable).parent / "jupyter"),
                app,
                "--no-browser",
                "--allow-root",
                "--ip=127.0.0.1",
                f"--port={port}",
                "--ServerApp.port_retries=0",
                "--IdentityProvider.token=",
                "--ServerApp.disable_check_xsrf=True",
                f"--ServerApp.root_dir={root}",
                "--LabApp.expose_app_in_browser=True",
                "--JupyterNotebookApp.expose_app_in_browser=True",
                "--LabApp.extension_manager=readonly",
            ],
            env=environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._wait(folder)

    def _wait(self, folder: Path) -> None:
        for _ in range(600):
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended:\n{(folder / 'server.log').read_text()[-2000:]}")
            try:
                urllib.request.urlopen(f"{self.url}/api/status", timeout=2)
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.1)
            else:
                return
        raise RuntimeError("the server did not answer within a minute")

    def theme(self, dark: bool) -> None:
        """Choose the theme that the next page opens with."""
        name = "JupyterLab Dark" if dark else "JupyterLab Light"
        (self._settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": name}))

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._log.close()


class NotebookPage:
    """One notebook, open in a page."""

    def __init__(self, page: Any, server: Server, cells: list[str], name: str) -> None:
        self.page = page
        self.server = server
        self.console: list[str] = []
        page.on("console", lambda m: self.console.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.console.append(str(e)))
        write_notebook(server.root / name, cells)
        self._open(name)

    def _open(self, name: str) -> None:
        path = f"/lab/tree/{name}?reset" if self.server.app == "lab" else f"/notebooks/{name}"
        self.page.goto(self.server.url + path)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        self.page.wait_for_function("window.jupyterapp?.shell.currentWidget?.sessionContext", timeout=60_000)
        self.page.evaluate(
            """async () => {
              const context = window.jupyterapp.shell.currentWidget.sessionContext;
              await context.ready;
              for (let i = 0; i < 600 && !context.session?.kernel; i++) await new Promise(r => setTimeout(r, 50));
              await context.session.kernel.info;
            }"""
        )

    def command(self, name: str) -> Any:
        return self.page.evaluate("name => window.jupyterapp.commands.execute(name).then(() => null)", name)

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")
        self.wait_idle()

    def run(self, index: int) -> None:
        """Run one cell."""
        self.page.evaluate("i => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = i }", index)
        self.command("notebook:run-cell")
        self.wait_idle()

    def edit(self, index: int, text: str) -> None:
        self.page.evaluate(
            "([i, t]) => window.jupyterapp.shell.currentWidget.content.widgets[i].model.sharedModel.setSource(t)",
            [index, text],
        )

    def restart_and_run_all(self) -> None:
        self.page.evaluate(
            """async () => {
              const context = window.jupyterapp.shell.currentWidget.sessionContext;
              await context.session.kernel.restart();
              await context.session.kernel.info;
            }"""
        )
        self.run_all()

    def wait_idle(self) -> None:
        self.page.wait_for_function(
            "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'",
            timeout=120_000,
        )

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """Return the outputs of a cell, as they would be saved."""
        return self.page.evaluate(
            "i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.outputs.toJSON()", index
        )

    def text(self, index: int) -> str:
        """Return what a cell put out, in plain text."""
        parts = []
        for output in self.outputs(index):
            if "text" in output:
                parts.append("".join(output["text"]))
            elif "data" in output:
                parts.append("".join(output["data"].get("text/plain", "")))
            else:
                parts.append("\n".join(output.get("traceback", [])))
        return "\n".join(parts)

    def errors(self) -> list[str]:
        """Return what stands in the browser's console as an error, less the applications' own noise."""
        return [text for text in self.console if not any(noise in text for noise in KNOWN_NOISE)]

    def output_area(self, index: int) -> Any:
        """Return a locator of the area under a cell."""
        return self.page.locator(".jp-Cell").nth(index).locator(".jp-OutputArea").first

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(path))

    def close(self) -> None:
        self.page.evaluate("window.jupyterapp.shell.currentWidget?.sessionContext.shutdown()")
        self.page.close()


def write_notebook(path: Path, cells: list[str]) -> None:
    """Write a notebook of code cells; a cell that starts with `#md` is Markdown."""
    written = []
    for i, source in enumerate(cells):
        cell: dict[str, Any] = {"id": f"cell-{i:03d}", "metadata": {}}
        if source.startswith("#md\n"):
            cell |= {"cell_type": "markdown", "source": source[4:]}
        else:
            cell |= {"cell_type": "code", "source": source, "outputs": [], "execution_count": None}
        written.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    path.write_text(json.dumps({"cells": written, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
