"""The explorer on a page in cases of their own: compared functions, a saved notebook, a plot of another cell, an interrupt, touch."""

import itertools
import json

import numpy as np
import pytest
from pages import NotebookPage
from playwright.sync_api import expect
from test_explorer import CURVE, WAVE, Seen, X, numeral, wave
from test_inspector_tools import LOAD, eventually


@pytest.fixture
def opened(lab_server, open_notebook):
    def open_(*cells):
        notebook = open_notebook(lab_server, [LOAD, WAVE, *cells], height=1400)
        notebook.run_all()
        assert not any(notebook.failed(i) for i in range(len(cells) + 2))
        return notebook, notebook.page.locator(".sl.explorer")

    return open_


def test_compared_functions_have_a_legend_with_their_values(opened):
    notebook, views = opened(
        'g = sl.compile("[Differentiable] float hull(float x, float a, float b, float c) '
        '{ return a * exp(-b * x * x); }", "other")',
        CURVE.replace("c=(0, 12, 4.0))", "c=(0, 12, 4.0), compare=g.hull)"),
        "sl.explore(w.product, a=(0, 9, 3.0), b=2.0, compare=sl.compile("
        "'[Differentiable] float mean(float a, float b) { return (a + b) / 2; }', 'm').mean)",
    )
    seen = Seen(notebook, views.first)
    expect(seen.view.locator(".plot canvas")).to_be_visible()

    def shows(a):
        at = X[np.argmin(np.abs(X - seen.read("x")))]
        own, other = (
            numeral(seen.view.locator(f'[data-compared="{n}"]').text_content()) for n in ("wave", "hull")
        )
        return abs(own - wave(at, a)[0]) < 1e-3 * abs(a) and abs(
            other - a * np.exp(-0.35 * at * at)
        ) < 1e-3 * abs(a)

    eventually(notebook, lambda: shows(1.5))
    seen.slider("a").press("End")
    eventually(notebook, lambda: shows(5.0))
    seen.view.locator(".plot canvas").press("PageUp")
    eventually(notebook, lambda: shows(5.0))
    dial = views.nth(1)
    expect(dial.locator('[data-compared="product"]')).to_have_text("12.00")
    expect(dial.locator('[data-compared="mean"]')).to_have_text("2.500")


def test_a_plane_has_the_lines_of_what_it_is_compared_with(opened):
    notebook, views = opened(
        'g = sl.compile("[Differentiable] float bowl(float2 p, float k) { return k * dot(p, p); }", "other")',
        "sl.explore(w.valley, p=((-2, 2), (-1, 3)), k=(1, 9, 5.0), compare=g.bowl)",
    )
    seen = Seen(notebook, views.first)
    canvas = seen.view.locator(".plot canvas")
    expect(canvas).to_be_visible()
    canvas.press("ArrowRight")

    def right():
        x, y = seen.numbers("point")
        shown = numeral(seen.view.locator('[data-compared="bowl"]').text_content())
        return abs(shown - 5 * (x * x + y * y)) < 5e-3 * (1 + abs(shown))

    eventually(notebook, right)
    # Violet of the light page: pixels of the lines all over the plane.
    count = canvas.evaluate(
        """c => { const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height);
          let n = 0;
          for (let i = 0; i < data.length; i += 4)
            n += Math.abs(data[i] - 0x6a) + Math.abs(data[i + 1] - 0x3c) + Math.abs(data[i + 2] - 0xcf) < 12;
          return n; }"""
    )
    assert count > 400


def test_a_saved_notebook_shows_the_picture(opened):
    notebook, views = opened(CURVE, "sl.explore(w.valley, p=((-2, 2), (-1, 3)), k=(1, 9, 5.0))")
    expect(views.nth(1).locator(".plot canvas")).to_be_visible()
    assert notebook.save() < 200_000
    notebook.reload(changed=True)
    for cell, words in ((2, "d/dx"), (3, "valley")):
        picture = notebook.output_area(cell).locator("img[src^='data:image/png']")
        expect(picture).to_have_count(1)
        # Twice the pixels that it is shown with, and more than one colour.
        size = picture.evaluate(
            """async img => { await img.decode(); const c = document.createElement('canvas');
              c.width = img.naturalWidth; c.height = img.naturalHeight; const d = c.getContext('2d'); d.drawImage(img, 0, 0);
              const seen = new Set(new Uint32Array(d.getImageData(0, 0, c.width, c.height).data.buffer));
              return [c.width, c.height, seen.size]; }"""
        )
        assert min(size[:2]) > 200
        assert size[2] > 8
        (data,) = (o["data"] for o in notebook.outputs(cell) if "image/png" in o.get("data", {}))
        assert words in "".join(data["text/plain"])
    saved = json.dumps(json.loads(notebook.file.read_text())["cells"])
    assert "_esm" not in saved


def test_a_view_of_another_cell_shows_each_run(opened):
    """NB-11: the explorer stands under one cell, another turns it, again and again."""
    notebook, views = opened(CURVE, "e.set(a=float(3))")
    seen = Seen(notebook, views.first)
    seen.shows(3.0)
    for a in (-2.0, 4.5):
        notebook.edit(3, f"e.set(a={a})")
        notebook.run(3)
        seen.shows(a)
    expect(views).to_have_count(1)


def test_an_interrupted_loop_of_changes(opened):
    """NB-12: the kernel lives, the view shows what the kernel has, and its sliders go on."""
    notebook, views = opened(CURVE, "None")
    seen = Seen(notebook, views.first)
    expect(seen.view.locator(".plot canvas")).to_be_visible()
    notebook.edit(3, "import itertools\nfor i in itertools.count():\n    e.set(a=5 * np.sin(i / 50))")
    notebook.select(3)
    before = seen.read("value")
    notebook.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell') }")
    # It is seen to move while the cell runs.
    eventually(notebook, lambda: seen.read("value") != before)
    notebook.command("kernelmenu:interrupt")
    eventually(notebook, lambda: notebook.failed(3))
    assert "KeyboardInterrupt" in notebook.text(3)
    seen.slider("a").press("Home")
    seen.shows(-5.0)
    notebook.edit(3, "print(e.values['a'])")
    notebook.run(3)
    assert notebook.text(3).strip() == "-5.0"


def test_the_first_view_of_a_page_is_drawn_while_its_cell_is_busy(lab_server, open_notebook):
    """What it says before the kernel has a subshell waits for the cell; it says it again (`js/src/lib/greeting.ts`)."""
    busy = CURVE.removesuffix("e") + "display(e)\nwhile True: time.sleep(0.01)"
    notebook = open_notebook(lab_server, [LOAD + "\nimport time", WAVE, busy], height=1400)
    notebook.run(0)
    notebook.run(1)
    notebook.select(2)
    notebook.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell') }")
    view = notebook.page.locator(".sl.explorer").first
    expect(view.locator(".plot canvas")).to_be_visible(timeout=60_000)
    Seen(notebook, view).shows(1.5)
    assert not notebook.failed(2)
    notebook.command("kernelmenu:interrupt")
    eventually(notebook, lambda: notebook.failed(2))


class Touched:
    """A finger on a page."""

    def __init__(self, page):
        self.page = page
        self._cdp = page.context.new_cdp_session(page)

    def _send(self, kind, *points):
        self._cdp.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]}
        )

    def drag(self, start, end, steps=8):
        self._send("touchStart", start)
        for k in range(1, steps + 1):
            self._send("touchMove", tuple(a + (b - a) * k / steps for a, b in zip(start, end, strict=True)))
        self._send("touchEnd")


@pytest.fixture
def touched(lab_server, browser, noise):
    """Return a function that opens cells on a page of a device that is touched."""
    noise(lab_server)
    lab_server.theme(False)
    context = browser.new_context(has_touch=True, viewport={"width": 900, "height": 1400})
    serial = itertools.count()
    pages = []

    def open_(*cells):
        notebook = NotebookPage(
            context.new_page(), lab_server, [LOAD, WAVE, *cells], f"touch-{id(pages):x}-{next(serial)}.ipynb"
        )
        pages.append(notebook)
        notebook.run_all()
        return notebook, notebook.page.locator(".sl.explorer").first

    yield open_
    for notebook in pages:
        assert notebook.intruders() == []
        notebook.close()
    context.close()


def test_a_finger_turns_a_knob_and_drags_the_tangent(touched):
    notebook, view = touched(CURVE)
    seen, finger = Seen(notebook, view), Touched(notebook.page)
    canvas = view.locator(".plot canvas")
    expect(canvas).to_be_visible()
    slider = seen.slider("a")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    y = box["y"] + box["height"] / 2
    now = box["x"] + 7 + 0.65 * (box["width"] - 14)
    finger.drag((now, y), (box["x"] + 7 + 0.2 * (box["width"] - 14), y))
    a = float(slider.input_value())
    assert -3.4 < a < -2.6
    seen.shows(a)
    notebook.page.touchscreen.tap(box["x"] + 0.9 * box["width"], y)
    a = float(slider.input_value())
    assert a > 3.5
    seen.shows(a)
    box = canvas.bounding_box()
    scrolled = "() => [...document.querySelectorAll('.jp-WindowedPanel-outer')].map(e => e.scrollTop).join()"
    before = notebook.page.evaluate(scrolled)
    finger.drag(
        (box["x"] + 0.4 * box["width"], box["y"] + 60), (box["x"] + 0.8 * box["width"], box["y"] + 160)
    )
    assert 1.2 < seen.read("x") < 2.2
    seen.shows(a)
    # The page stays where it is under the finger.
    assert notebook.page.evaluate(scrolled) == before


def test_a_finger_drags_the_point_of_a_plane(touched):
    notebook, view = touched("sl.explore(w.valley, p=((-2, 2), (-1, 3)), k=(1, 9, 5.0))")
    seen, finger = Seen(notebook, view), Touched(notebook.page)
    canvas = view.locator(".plot canvas")
    expect(canvas).to_be_visible()
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    finger.drag(
        (box["x"] + 0.5 * box["width"], box["y"] + 150), (box["x"] + 0.2 * box["width"], box["y"] + 80)
    )

    def right():
        x, y = seen.numbers("point")
        known = (1.2 - x) ** 2 + 5 * (y - x * x) ** 2
        return x < -0.9 and y > 1.6 and abs(seen.numbers("value")[0] - known) < 5e-3 * abs(known)

    eventually(notebook, right)
