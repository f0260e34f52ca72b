"""Pictures of every state that a cell can be in, for people to look at: `python tests/browser/shots.py OUT`.

JupyterLab in light and dark, wide and narrow, and Notebook 7 once; in each folder one picture per state, and the whole page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from pages import NotebookPage, Server, launch
from playwright.sync_api import Browser, sync_playwright

POLY = """\
%%slang poly
/// A quadratic: a x² + b x + c.
[Differentiable]
float polynomial(float a, float b, float c, float x)
{
    return a * x * x + b * x + c;
}

struct Ray { float3 origin; float3 direction; };

/// Where a ray is after some time; the direction is not normalised here.
float3 along(Ray ray, no_diff float t = 1.0)
{
    return ray.origin + t * ray.direction;
}
"""

SHIFTED = "%%slang shifted\nimport poly;\n\n[Differentiable]\nfloat around(float x) { return polynomial(1, 0, 0, x - 1); }"
MANY = "%%slang many\n" + "\n".join(f"float g{i}(float x) {{ return x + y{i}; }}" for i in range(6))

# What stands in a notebook, in its order: the name of the picture, or "" for a cell that only prepares, and the text.
CELLS = [
    ("", "%load_ext slanglab\n\nimport numpy as np\nimport slangpy as spy\n\nimport slanglab as sl"),
    ("compiled", POLY),
    ("unchanged", POLY),
    (
        "warning",
        "%%slang warned\n#define K 1\n#define K 2\n\n/// Twice.\nfloat twice(float x) { return K * x; }",
    ),
    ("error", POLY.replace("b * x + c", "b * y + c")),
    ("importer", SHIFTED),
    (
        "error-with-importer",
        POLY.replace("float3 along", "float4 along").replace("ray.origin +", "ray.orign +"),
    ),
    ("stale", SHIFTED),
    ("modules", "%slang modules"),
    ("recompiled", POLY.replace("a * x * x", "2 * a * x * x")),
    ("call-refused", "x = sl.linspace(-5, 3, 12)\npoly.polynomial(2.0, 8.0, X=x)"),
    ("call-of-a-wrong-type", 'poly.polynomial(2.0, 8.0, -1.0, "three")'),
    ("backward-refused", "poly.polynomial.bwds(2.0, 8.0, -1.0, x, _result=sl.ones(12))"),
    ("left-alone", "%%slang\nfloat third(float x) { return x / 3; }\nfloat x(float a) { return a; }"),
    ("many-errors", MANY),
    ("overview", "%slang"),
    ("help", "import inspect\nprint(inspect.signature(poly.along), poly.along.__doc__, sep='\\n')"),
    ("odd-characters", "%%slang odd\nfloat f(float x)\n{\n    return x − 1;\n}"),
    ("python-error", "spy.Tensor.ones(3)"),
    (
        "tensor-with-gradient",
        "rows, columns = np.mgrid[-3:3:96j, -4:4:128j]\n"
        "field = sl.tensor(np.cos(rows) * np.exp(-columns**2 / 4), grad=True)\n"
        "field.grad.copy_from_numpy((np.sin(2 * rows) * columns / 9).astype(np.float32))\nfield",
    ),
    ("tensor-line", "line = sl.linspace(-5, 3, 400, grad=True)\nline"),
    ("tensor-few", "few = sl.tensor([1, 2, 3, 4], grad=True)\nfew"),
    ("tensor-zero-dimensional", "sl.tensor(3.5)"),
    ("tensor-empty", "sl.empty((0, 4))"),
    (
        "tensor-nan",
        "bad = np.linspace(-1, 1, 24 * 32, dtype=np.float32).reshape(24, 32)\n"
        "bad[3, 5] = np.nan\nbad[10, 20:24] = np.inf\nbad[20, 1] = -np.inf\nhurt = sl.tensor(bad)\nhurt",
    ),
    (
        "tensor-four-axes",
        "deep = sl.tensor(np.random.default_rng(1).normal(size=(3, 4, 40, 60)), grad=True)\ndeep",
    ),
    ("two-tensors", "few, few.grad"),
    (
        "printed",
        '%%slang talk\nimport sgl.device.print;\nint square(int i) { print("{} squared", i); return i * i; }',
    ),
    ("prints", "talk.square(np.arange(3)).to_numpy()"),
    ("no-such-command", "%slang modul"),
]
VIEWS = [
    ("lab", False, 1280),
    ("lab", True, 1280),
    ("lab", False, 700),
    ("lab", True, 700),
    ("notebook", False, 1280),
]


def take(browser: Browser, server: Server, out: Path, dark: bool, width: int) -> None:
    """Run the notebook in one view, and save a picture of each state and one of the page."""
    out.mkdir(parents=True, exist_ok=True)
    server.theme(dark)
    # Tall enough for the tallest cell: what lies outside the window cannot be photographed.
    page = browser.new_page(viewport={"width": width, "height": 1800})
    notebook = NotebookPage(page, server, [source for _, source in CELLS], f"{out.name}.ipynb")
    if server.app == "lab" and width < 900:
        notebook.command("application:toggle-left-area")
    for index in range(len(CELLS)):
        notebook.run(index)
    page.mouse.move(2, 2)
    page.wait_for_timeout(500)
    for index, (name, _) in enumerate(CELLS):
        if name:
            page.locator(".jp-Notebook .jp-Cell").nth(index).screenshot(
                path=str(out / f"{index:02d}-{name}.png")
            )
    page.set_viewport_size({"width": width, "height": 1000})
    page.wait_for_timeout(300)
    notebook.screenshot(out / "page.png")
    print(out, *notebook.console, sep="\n  console: ")
    notebook.close()


def main() -> int:
    """Take the pictures; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--only", default="", help="views whose name holds this, for example lab-dark-700")
    arguments = parser.parse_args()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as temporary:
        browser = launch(playwright)
        for app in dict.fromkeys(view[0] for view in VIEWS):
            views = [
                (f"{app}-{'dark' if dark else 'light'}-{width}", dark, width)
                for a, dark, width in VIEWS
                if a == app
            ]
            views = [view for view in views if arguments.only in view[0]]
            if not views:
                continue
            root, folder = Path(temporary, f"{app}-root"), Path(temporary, app)
            root.mkdir()
            folder.mkdir()
            server = Server(root, folder, app)
            try:
                for name, dark, width in views:
                    take(browser, server, arguments.out / name, dark, width)
            finally:
                server.stop()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
