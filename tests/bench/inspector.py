"""How soon a tensor is on the screen: SlangLab's inspector beside other ways to look at an array in JupyterLab.

For float32 arrays of 1e4, 1e6 and 16e6 elements (1e8 too where there is a GPU): the time in the kernel to build and display,
the bytes that reached the browser, and the time from pressing Run until a frame of the page holds a picture of more than sixty
colours, in headless Chromium. First comes the first view of a page, then the median of the following ones, each of new numbers.
Everything is imported, and has built (not shown) one small view, before. SlangLab looks at a `slangpy.Tensor`; the others get
the same numbers as an array that NumPy holds already. Last comes a tensor of 512 x 512 that
changes all the time, in a browser that nobody drives meanwhile: how often its view is painted, and how long a frame takes from the
kernel until it is acknowledged.

    pip install treescope plotly anyplotlib matplotlib   # peers, for this only
    python tests/bench/inspector.py [--sizes 1e4,1e6,16e6] [--only slanglab,anyplotlib] [--limit 60]

A view that is not drawn within the limit of seconds is given up, and its system is not asked for larger arrays.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from pages import NotebookPage, Server, launch
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as BrowserError
from unattended import unattended

from slanglab import device as devices

COMMON = "import time, sys\nimport numpy as np\nfrom IPython.display import display\nrng = np.random.default_rng()\n"
# Slopes and some noise: a picture of means has many colours too.
NUMBERS = """\
a = np.linspace(-1, 1, {rows}, dtype=np.float32)[:, None] * np.linspace(0, 1, {columns}, dtype=np.float32)
a += 0.1 * rng.standard_normal(a.shape, np.float32)
"""
SHOW = "begin = time.perf_counter()\ndisplay({show})\ntook = time.perf_counter() - begin"


@dataclass(frozen=True)
class System:
    """One way to look: the package, what a cell runs once, and the expression that is displayed; `give` makes it of `a`."""

    name: str
    package: str
    setup: str
    show: str
    give: str = "x = a"


SYSTEMS = [
    System(
        "slanglab",
        "slanglab",
        "import slanglab as sl\nsl.inspect(sl.tensor(np.ones((64, 64), np.float32))).close()\n",
        "sl.inspect(x)",
        "x = sl.tensor(a)\nx.device.wait()",
    ),
    System(
        "treescope",
        "treescope",
        "import treescope\ntreescope.render_array(np.ones((64, 64)))._repr_html_()\n",
        "treescope.render_array(x)",
    ),
    System(
        "treescope, truncated",
        "treescope",
        "import treescope\ntreescope.render_array(np.ones((64, 64)), truncate=True)._repr_html_()\n",
        "treescope.render_array(x, truncate=True)",
    ),
    System(
        "plotly FigureWidget",
        "plotly",
        "import plotly.graph_objects as go\ngo.FigureWidget(go.Heatmap(z=np.ones((64, 64), np.float32)))\n",
        "go.FigureWidget(go.Heatmap(z=x))",
    ),
    System(
        "matplotlib imshow",
        "matplotlib",
        "%matplotlib inline\nimport matplotlib.pyplot as plt\n"
        "def picture(x):\n    figure, axes = plt.subplots()\n    axes.imshow(x)\n    plt.close(figure)\n    return figure\n"
        "picture(np.ones((64, 64)))\n",
        "picture(x)",
    ),
    System(
        "anyplotlib",
        "anyplotlib",
        "import anyplotlib as apl\n"
        "def picture(x):\n    figure, axes = apl.subplots(1, 1)\n    axes.imshow(x)\n    return figure\n"
        "picture(np.ones((64, 64), np.float32))\n",
        "picture(x)",
    ),
]

# Resolves with milliseconds once a picture under the cell has more than sixty colours: canvases, images and those of SVG are looked
# for in every frame, through shadow roots and frames.
RUN = """async ([cell, limit]) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = cell;
  await notebook.scrollToItem(cell, 'start'); // some draw only what is in sight
  await new Promise(resolve => setTimeout(resolve, 200));
  const own = document.createElement('canvas');
  own.width = own.height = 64;
  const context = own.getContext('2d', { willReadFrequently: true });
  context.imageSmoothingEnabled = false;
  const colours = element => {
    const svg = element.localName === 'image';
    const wide = svg ? 1 : element.naturalWidth ?? element.width;
    if (!wide || (element.localName === 'img' && !element.complete)) return 0;
    context.clearRect(0, 0, 64, 64);
    try { context.drawImage(element, 0, 0, 64, 64); } catch { return 0; }
    return new Set(new Uint32Array(context.getImageData(0, 0, 64, 64).data.buffer)).size;
  };
  const pictures = function* (root) {
    for (const element of root.querySelectorAll('*')) {
      if (['canvas', 'img', 'image'].includes(element.localName)) yield element;
      if (element.shadowRoot) yield* pictures(element.shadowRoot);
      if (element.localName === 'iframe' && element.contentDocument) yield* pictures(element.contentDocument);
    }
  };
  const begin = performance.now();
  return new Promise((resolve, reject) => {
  const look = () => {
    const area = notebook.widgets[cell].outputArea.node;
    for (const picture of pictures(area)) if (colours(picture) > 60) return resolve(performance.now() - begin);
    if (performance.now() - begin > limit) return resolve(null);
    requestAnimationFrame(look);
  };
  window.jupyterapp.commands.execute('notebook:run-cell').catch(reject);
  requestAnimationFrame(look);
  });
}"""


# A tensor written as often as the kernel's loop allows, and a view that follows; what it acknowledges has been painted.
LIVE = """\
import asyncio, json, os
x = sl.tensor(a)
w = sl.inspect(x)
rolled = [np.roll(a, 16 * i, axis=1) for i in range(32)]
async def live(seconds, file):
    await asyncio.sleep(3)  # until who started it has left
    gate, acknowledge = w._gate, w._gate.acknowledge
    lags, ahead, written = [], 0, 0
    def note(seq):
        if seq == gate._in_flight:
            lags.append(time.monotonic() - gate._sent_at)
        acknowledge(seq)
    gate.acknowledge = note
    before, begin = gate.sent, time.monotonic()
    while (took := time.monotonic() - begin) < seconds:
        sl.assign(x, rolled[written % 32])
        written += 1
        ahead = max(ahead, gate.sent - before - len(lags))
        await asyncio.sleep(0.001)
    told = {"written": written / took, "painted": len(lags) / took, "lag": sorted(lags), "ahead": ahead}
    with open(file + ".new", "w") as out:
        json.dump(told, out)
    os.rename(file + ".new", file)
w"""


@dataclass
class Shown:
    """One display: seconds in the kernel, bytes to the browser, seconds until drawn (None: not within the limit)."""

    built: float
    sent: int
    drawn: float | None


class Bytes:
    """Counts what web sockets bring to a page."""

    def __init__(self, page: Page) -> None:
        self.count = 0
        page.on("websocket", lambda socket: socket.on("framereceived", self._add))

    def _add(self, data: Any) -> None:
        self.count += len(data if isinstance(data, bytes) else data.encode())


def shows(
    browser: Browser, server: Server, system: System, count: int, times: int, limit: float
) -> list[Shown]:
    """Show `times` arrays in one page; ends with the first that is not drawn."""
    side = math.isqrt(count)
    numbers = NUMBERS.format(rows=side, columns=count // side) + system.give
    cells = [COMMON + system.setup]
    for _ in range(times):
        cells += [numbers, SHOW.format(show=system.show), "print(took)"]
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    received = Bytes(page)
    notebook = NotebookPage(page, server, cells, f"{system.package}-{count}.ipynb")
    found: list[Shown] = []
    try:
        notebook.run(0)
        if notebook.failed(0):
            raise RuntimeError(notebook.text(0))
        for at in range(1, len(cells), 3):
            notebook.run(at)
            page.wait_for_timeout(300)
            before = received.count
            drawn = page.evaluate(RUN, [at + 1, limit * 1e3])
            if drawn is None:
                found.append(Shown(math.nan, received.count - before, None))
                break
            notebook.wait_idle()
            page.wait_for_timeout(1000)  # what comes after the first picture counts too
            sent = received.count - before
            notebook.run(at + 2)
            found.append(Shown(float(notebook.text(at + 2)), sent, drawn / 1e3))
    except BrowserError as error:
        print(f"  {system.name}: {str(error).splitlines()[0]}", file=sys.stderr)
        found.append(Shown(math.nan, received.count, None))
    finally:
        try:
            notebook.close()
        except BrowserError:
            page.close()
    return found


def apart(system: System, count: int, times: int, limit: float) -> list[Shown]:
    """Show arrays from a process of its own: what is sent may be more than a browser, or what drives it, has memory for."""
    room = ["--one", system.name, "--sizes", str(count), "--times", str(times), "--limit", str(limit)]
    process = subprocess.Popen(
        [sys.executable, __file__, *room],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        told, wrong = process.communicate(timeout=120 + times * 2 * limit)
    except subprocess.TimeoutExpired:
        told = wrong = b""
    finally:
        # The browser is in its session, and goes with it; the server was stopped by `show_one`.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    lines = [json.loads(line) for line in told.decode().splitlines()]
    if not lines or process.returncode:
        lines.append({"built": math.nan, "sent": -1, "drawn": None})
        print("\n".join(wrong.decode().splitlines()[-3:])[:300], file=sys.stderr)
    return [Shown(**line) for line in lines]


def show_one(system: System, count: int, times: int, limit: float) -> None:
    """Print what `shows` finds, a line of JSON each."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        root = Path(folder) / "root"
        root.mkdir()
        server = Server(root, Path(folder), "lab")
        try:
            browser = launch(playwright)
            for one in shows(browser, server, system, count, times, limit):
                print(json.dumps(vars(one)))
        finally:
            server.stop()


def show_live(side: int, seconds: float) -> dict[str, Any]:
    """Show a tensor that changes all the time; return rates, lags and the frames that were under way at most."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        root, found = Path(folder) / "root", Path(folder) / "found.json"
        root.mkdir()
        server = Server(root, Path(folder), "lab")
        try:
            with unattended(playwright, Path(folder) / "browser") as drive:
                browser = drive()
                numbers = COMMON + "import slanglab as sl\n" + NUMBERS.format(rows=side, columns=side) + LIVE
                start = f"task = asyncio.ensure_future(live({seconds}, {str(found)!r}))"
                notebook = NotebookPage(
                    browser.contexts[0].new_page(), server, [numbers, start], "live.ipynb"
                )
                notebook.run(0)
                notebook.page.wait_for_timeout(1000)
                notebook.run(1)
                if notebook.failed(1):
                    raise RuntimeError(notebook.text(1))
                browser.close()
                deadline = time.monotonic() + seconds + 60
                while not found.exists() and time.monotonic() < deadline:
                    time.sleep(0.2)
                told: dict[str, Any] = json.loads(found.read_text())
                return told
        finally:
            server.stop()


def said(one: Shown) -> str:
    sent = f"{one.sent / 1e6:8.2f} MB"
    if one.sent < 0:
        return "     not drawn: the browser or what drives it ended"
    if one.drawn is None:
        return f"     not drawn, {sent}"
    return f"{one.built * 1e3:7.0f} ms {sent} {one.drawn * 1e3:7.0f} ms"


def middle(some: list[Shown]) -> Shown:
    if any(one.drawn is None for one in some):
        return next(one for one in some if one.drawn is None)
    parts = [statistics.median(getattr(one, name) for one in some) for name in ("built", "sent", "drawn")]
    return Shown(parts[0], int(parts[1]), parts[2])


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sizes", default="", help="elements, comma separated")
    options.add_argument("--only", default="", help="packages, comma separated")
    options.add_argument("--times", type=int, default=4, help="displays of one size by one system")
    options.add_argument("--limit", type=float, default=60, help="seconds until a display is given up")
    options.add_argument("--json", default="", help="a file for the figures")
    options.add_argument("--one", default="", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        system = next(s for s in SYSTEMS if s.name == given.one)
        show_one(system, int(given.sizes), given.times, given.limit)
        return
    device = devices.open_device(os.environ.get("SLANGLAB_DEVICE", "auto"))
    print(devices.describe(device))
    sizes = [int(float(n)) for n in (given.sizes or "1e4,1e6,16e6").split(",")]
    if not given.sizes and not devices.is_software(device):
        sizes.append(100_000_000)
    device.close()
    chosen = [s for s in SYSTEMS if not given.only or s.package in given.only.split(",")]
    rows: list[dict[str, Any]] = []
    given_up: set[str] = set()
    for count in sizes:
        print(f"\n{count:.3g} elements{'':16}  first: build, sent, drawn          then")
        for system in chosen:
            if system.name in given_up:
                continue
            found = apart(system, count, given.times, given.limit)
            if found[-1].drawn is None:
                given_up.add(system.name)
            try:
                version = importlib.metadata.version(system.package)
            except importlib.metadata.PackageNotFoundError:
                version = "of this folder"
            later = f"   {said(middle(found[1:]))}" if found[1:] else ""
            print(f"{system.name + ' ' + version:30} {said(found[0])}{later}", flush=True)
            rows.append({"system": system.name, "count": count, "shown": [vars(one) for one in found]})
    if not given.only or "slanglab" in given.only.split(","):
        live = show_live(512, 6.0)
        lags = live["lag"] or [math.nan]
        print(
            f"\nlive at 512 x 512: written {live['written']:.0f} times a second, painted {live['painted']:.0f}; "
            f"lag {statistics.median(lags) * 1e3:.0f} ms, 95 % below {lags[int(0.95 * len(lags))] * 1e3:.0f} ms; "
            f"frames under way at most {live['ahead']}"
        )
        rows.append({"live": 512, **live})
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
