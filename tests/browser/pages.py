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

from playwright.sync_api import Browser, Locator, Page, Playwright

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Runs in each page before anything else: what text must never turn into. `__pwned` is set by none of our code and by every payload.
WATCH = """
window.__intruders = [];
const bad = el => {
  const named = [...el.attributes].filter(a => /^on/i.test(a.name) || /^\\s*javascript:/i.test(a.value)).map(a => a.name);
  return el.localName === 'script' || el.localName === 'iframe' ? [el.localName] : named;
};
const look = node => {
  if (node.nodeType !== 1 || !node.closest('.jp-OutputArea, .jp-Tooltip, .jp-Inspector')) return;
  for (const el of [node, ...node.querySelectorAll('*')])
    for (const what of bad(el)) window.__intruders.push(what + ' in ' + el.outerHTML.slice(0, 200));
};
new MutationObserver(changes => {
  for (const change of changes) {
    change.addedNodes.forEach(look);
    if (change.type === 'attributes') look(change.target);
  }
}).observe(document, { subtree: true, childList: true, attributes: true });
"""


def launch(playwright: Playwright) -> Browser:
    """Start the browser: what CHROMIUM names, else the system's Chromium or Chrome, else Playwright's own."""
    return playwright.chromium.launch(executable_path=chromium(), headless=True, args=CHROMIUM_FLAGS)


def chromium() -> str | None:
    """Return the browser's program; None for Playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


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
            "SLANGLAB_CONFIG": "slanglab",
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

    def save_widgets(self, saved: bool) -> None:
        """Choose whether pages that open from now on save the state of widgets with a notebook."""
        folder = self._settings.parent.parent / "@jupyter-widgets" / "jupyterlab-manager"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugin.jupyterlab-settings").write_text(json.dumps({"saveState": saved}))

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
    """One notebook, open in a page.

    Parameters
    ----------
    page : Page
        A new one.
    server : Server
    cells : list of str or Path
        The sources, or a notebook to copy.
    name : str
        Of the file in the server's folder.
    """

    def __init__(self, page: Page, server: Server, cells: list[str] | Path, name: str) -> None:
        self.page = page
        self.server = server
        self.file = server.root / name
        self.console: list[str] = []
        self.elsewhere: list[str] = []
        """Requests to other places than the server."""
        page.on("console", lambda m: self.console.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.console.append(str(e)))
        page.on("request", self._requested)
        page.on("dialog", self._dialog)
        page.add_init_script(WATCH)
        if isinstance(cells, Path):
            shutil.copyfile(cells, server.root / name)
        else:
            write_notebook(server.root / name, cells)
        self._open(name)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def _dialog(self, dialog: Any) -> None:
        self.elsewhere.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

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

    def command(self, name: str) -> None:
        """Run one of the application's commands to its end."""
        self.page.evaluate("name => window.jupyterapp.commands.execute(name).then(() => null)", name)

    def run_all(self) -> None:
        """Run all cells; stops at the first error, as the application does."""
        self.command("notebook:run-all-cells")
        self.wait_idle()

    def select(self, index: int) -> None:
        """Make a cell the active one."""
        self.page.evaluate(
            "i => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = i }", index
        )

    def run(self, index: int) -> None:
        """Run one cell."""
        self.select(index)
        self.command("notebook:run-cell")
        self.wait_idle()

    def edit(self, index: int, text: str) -> None:
        """Replace the source of a cell."""
        self.page.evaluate(
            "([i, t]) => window.jupyterapp.shell.currentWidget.content.widgets[i].model.sharedModel.setSource(t)",
            [index, text],
        )

    def restart_and_run_all(self) -> None:
        """Restart the kernel and run all cells, by the menu's command and its dialog."""
        self._by_dialog("runmenu:restart-and-run-all")

    def restart(self) -> None:
        """Restart the kernel, by the menu's command and its dialog, and run nothing."""
        self._by_dialog("kernelmenu:restart")

    def _by_dialog(self, command: str) -> None:
        self.page.evaluate("name => { window.__done = window.jupyterapp.commands.execute(name) }", command)
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.page.evaluate("() => window.__done.then(() => null)")
        self.wait_idle()

    def save(self) -> int:
        """Save the notebook and return the bytes of its file."""
        self.command("docmanager:save")
        return self.file.stat().st_size

    def reload(self, *, changed: bool = False) -> None:
        """Open the saved file anew, with a new kernel; `changed`: as one that came from elsewhere, which is not trusted."""
        self.page.evaluate(
            "window.jupyterapp.shell.currentWidget?.sessionContext.shutdown().then(() => null)"
        )
        if changed:
            found = json.loads(self.file.read_text())
            found["metadata"]["came from"] = "elsewhere"
            self.file.write_text(json.dumps(found))
        self._open(self.file.name)

    def wait_idle(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(
            "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'",
            timeout=120_000,
        )

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """Return the outputs of a cell, as they would be saved."""
        return self.page.evaluate(
            "i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.outputs.toJSON()", index
        )

    def count(self, index: int) -> int | None:
        """Return the number beside a cell; None for a cell that has not run."""
        return self.page.evaluate(
            "i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.executionCount", index
        )

    def failed(self, index: int) -> bool:
        """Tell whether a cell ended with an error."""
        return any(output["output_type"] == "error" for output in self.outputs(index))

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

    def output_area(self, index: int) -> Locator:
        """Return a locator of the area under a cell."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-Cell-outputArea")

    def intruders(self) -> list[str]:
        """Return the elements and attributes that came out of text, and whether code in a text ran."""
        found: list[str] = self.page.evaluate("window.__intruders")
        pwned = self.page.evaluate("window.__pwned ?? null")
        return found if pwned is None else [*found, f"code ran: {pwned}"]

    def screenshot(self, path: Path) -> None:
        """Take a picture of the page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(path))

    def close(self) -> None:
        """Shut the kernel down and close the page."""
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
