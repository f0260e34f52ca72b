"""How long a slider takes to a painted frame: the explorer beside `ipywidgets.interact` with matplotlib, in one JupyterLab page.

    python tests/bench/explore.py [--times 40]

Both show the same function of 400 points with the gradients with respect to its axis and to three parameters, in five plots under one
another, and both compute them by the same calls. A time runs from the key press on a focused slider to the frame of the browser after
the new picture: for the explorer after its readout has changed, for matplotlib after the new image is decoded. They take turns.

The explorer runs the step ahead that would follow a press. Ten presses go one way, then ten the other, as a reader's do; "turning round"
are presses that each go back on the one before, where nothing was ahead and the way goes through the kernel.

Then keys are pressed without a pause for some seconds, and painted frames are counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from pages import NotebookPage, Server, launch
from playwright.sync_api import Page, sync_playwright

SLANG = """\
%%slang bench
[Differentiable]
float wave(float x, float a, float b, float c) { return a * exp(-b * x * x) * cos(c * x); }
"""
SETUP = "%load_ext slanglab\nimport numpy as np\nimport slanglab as sl\nx = np.linspace(-3, 3, 400)"
OURS = "sl.explore(bench.wave, x=x, a=(-5, 5, 1.5), b=(0, 2, 0.35), c=(0, 12, 4.0))"
PEER = """\
%matplotlib inline
import ipywidgets
import matplotlib.pyplot as plt

inputs = {"x": sl.tensor(x, grad=True), **{n: sl.zeros(400, grad=True) for n in "abc"}}
result = sl.zeros(400, grad=True)
result.grad.copy_from_numpy(np.ones(400, np.float32))

def show(a=1.5, b=0.35, c=4.0):
    for name, value in (("a", a), ("b", b), ("c", c)):
        inputs[name].copy_from_numpy(np.full(400, value, np.float32))
    for tensor in inputs.values():
        tensor.grad.clear()
    bench.wave(**inputs, _result=result)
    bench.wave.bwds(**inputs, _result=result)
    figure, axes = plt.subplots(5, 1, sharex=True, figsize=(6, 6), height_ratios=[4, 1, 1, 1, 1])
    axes[0].plot(x, result.to_numpy())
    for ax, (name, tensor) in zip(axes[1:], inputs.items()):
        ax.plot(x, tensor.grad.to_numpy())
    plt.show()

ipywidgets.interact(show, a=(-5.0, 5.0, 0.02), b=(0.0, 2.0, 0.005), c=(0.0, 12.0, 0.02));
"""

# Resolves with the milliseconds from a key press on the focused slider to the frame after the picture has changed.
WATCH = """([where, kind]) => {
  const area = document.querySelectorAll('.jp-Notebook .jp-Cell')[where].querySelector('.jp-Cell-outputArea');
  const look = () => kind === 'ours' ? area.querySelector('.read')?.textContent : area.querySelector('img')?.src;
  const before = look();
  window.__time = new Promise(done => {
    let from = 0;
    area.addEventListener('keydown', () => { from = performance.now(); }, { capture: true, once: true });
    const painted = async () => {
      if (kind !== 'ours') await area.querySelector('img').decode().catch(() => {});
      requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => done(performance.now() - from); port2.postMessage(0); });
    };
    const watch = new MutationObserver(() => {
      const now = look();
      if (from && now && now !== before) { watch.disconnect(); painted(); }
    });
    watch.observe(area, { subtree: true, childList: true, attributes: true, characterData: true });
  });
}"""

# Counts the pictures that differ from the one before while keys go down at every frame.
COUNT = """async ([where, kind, seconds]) => {
  const area = document.querySelectorAll('.jp-Notebook .jp-Cell')[where].querySelector('.jp-Cell-outputArea');
  const handle = kind === 'ours' ? area.querySelector('input[type=range]') : area.querySelector('.noUi-handle');
  const look = () => kind === 'ours' ? area.querySelector('.read')?.textContent : area.querySelector('img')?.src;
  handle.focus();
  let known = look(), count = 0, up = true, pressed = 0;
  const start = performance.now();
  while (performance.now() - start < seconds * 1000) {
    if (++pressed % 150 === 0) up = !up;
    handle.dispatchEvent(new KeyboardEvent('keydown', { key: up ? 'ArrowRight' : 'ArrowLeft', bubbles: true, cancelable: true }));
    await new Promise(requestAnimationFrame);
    const now = look();
    if (now && now !== known) { known = now; count++; }
  }
  return count / ((performance.now() - start) / 1000);
}"""


def latency(page: Page, cell: int, kind: str, key: str) -> float:
    """Press a key on the focused slider of a cell; return the milliseconds to the painted frame."""
    handle = "input[type=range]" if kind == "ours" else ".noUi-handle"
    page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(handle).first.focus()
    page.evaluate(WATCH, [cell, kind])
    page.keyboard.press(key)
    return float(page.evaluate("window.__time"))


def measure(times: int, seconds: float) -> dict[str, Any]:
    """Open the page, take turns, and return what was found."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as temporary:
        browser = launch(playwright)
        root, folder = Path(temporary, "root"), Path(temporary, "jupyter")
        root.mkdir()
        folder.mkdir()
        server = Server(root, folder, "lab")
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 2400})
            notebook = NotebookPage(page, server, [SETUP, SLANG, OURS, PEER], "bench.ipynb")
            notebook.run_all()
            failed = [notebook.text(i) for i in range(4) if notebook.failed(i)]
            if failed:
                raise RuntimeError("\n".join(failed))
            page.wait_for_selector(".explorer canvas")
            page.wait_for_selector(".jp-Cell img")
            page.wait_for_timeout(1000)
            found: dict[str, list[float]] = {"ours": [], "interact": [], "turning round": []}
            for i in range(times + 3):
                key = "ArrowRight" if i % 20 < 10 else "ArrowLeft"
                for kind, cell in (("ours", 2), ("interact", 3)):
                    taken = latency(page, cell, kind, key)
                    if i >= 3:
                        found[kind].append(taken)
                    page.wait_for_timeout(300)  # the kernel is idle at the next press
            for i in range(times):
                taken = latency(page, 2, "ours", "ArrowLeft" if i % 2 else "ArrowRight")
                found["turning round"].append(taken)
                page.wait_for_timeout(300)
            rates = {
                kind: page.evaluate(COUNT, [cell, kind, seconds])
                for kind, cell in (("ours", 2), ("interact", 3))
            }
            notebook.close()
        finally:
            server.stop()
            browser.close()
    medians = {kind: statistics.median(numbers) for kind, numbers in found.items()}
    return {
        "median_ms": medians,
        "quartiles_ms": {kind: statistics.quantiles(numbers, n=4)[::2] for kind, numbers in found.items()},
        "times_sooner": medians["interact"] / medians["ours"],
        "updates_a_second": rates,
        "times": times,
    }


def main() -> int:
    """Measure, and print the figures as JSON; the exit status is 1 where the explorer is not 8 times as soon."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=40, help="key presses for each of the two")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long keys are held")
    arguments = parser.parse_args()
    found = measure(arguments.times, arguments.seconds)
    print(json.dumps(found, indent=2))
    return 0 if found["times_sooner"] >= 8 else 1


if __name__ == "__main__":
    sys.exit(main())
