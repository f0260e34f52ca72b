"""What a reader does with an explorer in JupyterLab, Notebook 7 and marimo: sliders, the tangent, a plane, a descent, edited cells."""

import re

import numpy as np
import pytest
from marimo_pages import MarimoPage
from playwright.sync_api import expect
from test_inspector_tools import LOAD, MINUS, eventually

WAVE = """\
%%slang w
[Differentiable]
float wave(float x, float a, float b, float c) { return a * exp(-b * x * x) * cos(c * x); }
[Differentiable]
float valley(float2 p, float k) { float u = 1.2 - p.x; float v = p.y - p.x * p.x; return u * u + k * v * v; }
[Differentiable]
float product(float a, float b) { return a * b * b; }
"""
CURVE = "e = sl.explore(w.wave, x=np.linspace(-3, 3, 301), a=(-5, 5, 1.5), b=(0, 2, 0.35), c=(0, 12, 4.0))\ne"
X = np.linspace(-3, 3, 301).astype(np.float32).astype(np.float64)


def wave(x, a, b=0.35, c=4.0):
    """Return the value and the derivatives with respect to x, a, b and c."""
    hull, cosine, sine = np.exp(-b * x * x), np.cos(c * x), np.sin(c * x)
    slope = a * hull * (-2 * b * x * cosine - c * sine)
    return a * hull * cosine, slope, hull * cosine, -a * x * x * hull * cosine, -a * x * hull * sine


def numeral(text):
    """Return the number that a text shows."""
    return float(text.replace(MINUS, "-"))


class Seen:
    """One explorer on a page."""

    def __init__(self, page, view):
        self.page, self.view = page, view

    # By text_content: inner_text is empty for a cell that is scrolled away, as JupyterLab does not lay it out.
    def read(self, name):
        return numeral(self.view.locator(f"[data-read={name}]").text_content())

    def bar(self, path):
        return numeral(self.view.locator(f'.bar .num[data-path="{path}"]').text_content())

    def slider(self, path):
        return self.view.get_by_role("slider", name=path, exact=True)

    def numbers(self, name):
        text = self.view.locator(f"[data-here={name}]").text_content()
        return [numeral(t) for t in re.findall(rf"[-{MINUS}]?[\d.]+(?:e[-{MINUS}]?\d+)?", text)]

    def drag(self, path, share):
        """Drag a slider's thumb with the pointer to a share of its width; return the value that it then shows."""
        slider = self.slider(path)
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        low, high, now = (float(slider.evaluate(f"e => e.{k}")) for k in ("min", "max", "value"))
        y = box["y"] + box["height"] / 2
        at = box["x"] + 7 + (now - low) / (high - low) * (box["width"] - 14)
        to = box["x"] + 7 + share * (box["width"] - 14)
        mouse = self.page.page.mouse
        mouse.move(at, y)
        mouse.down()
        for k in range(1, 6):
            mouse.move(at + (to - at) * k / 5, y)
        mouse.up()
        return float(slider.input_value())

    def shows(self, a, **more):
        """Wait until the numbers at the point are those of the wave."""

        def right():
            at = X[np.argmin(np.abs(X - self.read("x")))]
            value, slope, by_a, by_b, by_c = wave(at, a, **more)
            pairs = [
                (self.read("value"), value),
                (self.read("slope"), slope),
                (self.bar("x"), slope),
                (self.bar("a"), by_a),
                (self.bar("b"), by_b),
                (self.bar("c"), by_c),
            ]
            return all(abs(shown - known) <= 1e-3 * abs(known) + 2e-5 for shown, known in pairs)

        eventually(self.page, right, "the numbers at the point are not those of the function")


# Height above the page of the lowest and highest pixel of a colour in each column of a canvas.
COLUMNS = """([canvas, colour, from, to]) => {
  const { width, height } = canvas, ratio = devicePixelRatio;
  const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
  const out = [];
  for (let x = 0; x < width; x++) {
    const rows = [];
    for (let y = from * ratio; y < to * ratio; y++) {
      const o = 4 * (y * width + x);
      if (colour.every((c, k) => Math.abs(data[o + k] - c) < 6)) rows.push(y);
    }
    out.push(rows.length ? (rows[0] + rows[rows.length - 1]) / 2 : null);
  }
  return out;
}"""


@pytest.fixture
def open_view(request, browser, tmp_path):
    opened = []

    def open_(host, cells):
        if host == "marimo":
            setup = "import marimo as mo\nimport numpy as np\nimport slanglab as sl"
            made = f"w = sl.compile({WAVE.partition(chr(10))[2]!r}, 'w')"
            shown = [c.rpartition("\n")[0] + "\nmo.ui.anywidget(e)" for c in cells]
            opened.append(MarimoPage(browser, tmp_path / "marimo", [setup, made, *shown], height=1400))
            return opened[-1], opened[-1].page.locator(".sl.explorer")
        server = request.getfixturevalue("servers")(host)
        notebook = request.getfixturevalue("open_notebook")(server, [LOAD, WAVE, *cells], height=1400)
        notebook.run_all()
        assert not any(notebook.failed(i) for i in range(len(cells) + 2))
        return notebook, notebook.page.locator(".sl.explorer")

    yield open_
    for page in opened:
        page.close()
        assert page.elsewhere == []


@pytest.mark.parametrize("host", ["lab", "notebook", "marimo"])
def test_sliders_repaint_value_and_gradients(host, open_view):
    page, views = open_view(host, [CURVE])
    expect(views.first.locator("canvas").first).to_be_visible(timeout=60_000)
    seen = Seen(page, views.first)
    seen.shows(1.5)
    a = seen.drag("a", 0.9)
    assert a > 3
    seen.shows(a)
    # The curve itself: its pixels follow the function in shape, which a range of its own cannot hide.
    canvas = seen.view.locator(".plot canvas").element_handle()
    teal = [0x00, 0x71, 0x7C]
    columns = np.array(
        [np.nan if y is None else y for y in page.page.evaluate(COLUMNS, [canvas, teal, 22, 206])], float
    )
    ratio = page.page.evaluate("devicePixelRatio")
    place = (np.arange(len(columns)) / ratio - 44) / (len(columns) / ratio - 54) * 6 - 3
    known = np.isfinite(columns) & (np.abs(place) < 2.9) & (np.abs(place - seen.read("x")) > 0.1)
    assert known.sum() > 100
    assert np.corrcoef(columns[known], wave(place[known], a)[0])[0, 1] < -0.98
    # Keys: one step, ten, a tenth of the range, the ends, and back to the start.
    slider = seen.slider("b")
    for key, value in [
        ("Home", 0.0),
        ("PageUp", 0.2),
        ("ArrowRight", 0.205),
        ("Shift+ArrowRight", 0.255),
        ("ArrowLeft", 0.25),
    ]:
        slider.press(key)
        assert float(slider.input_value()) == pytest.approx(value, abs=1e-9)
    seen.shows(a, b=0.25)
    # A step whose picture was made ahead is there at once, with the numbers of its own setting; turned round, too.
    for k, key in enumerate(["ArrowRight"] * 4 + ["ArrowLeft"] * 4):
        slider.press(key)
        seen.shows(a, b=0.25 + 0.005 * min(k + 1, 7 - k))
    # The tangent follows the pointer.
    box = seen.view.locator(".plot canvas").bounding_box()
    page.page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 100)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 60, steps=4)
    page.page.mouse.up()
    assert 0.8 < seen.read("x") < 1.6
    seen.shows(a, b=0.25)
    # A number is typed.
    field = seen.view.get_by_label("c, the number")
    field.fill("2.5")
    seen.shows(a, b=0.25, c=2.5)
    expect(seen.view.locator(".codeline code").first).to_contain_text("c=2.5")
    field.fill("99")
    expect(field).to_have_attribute("aria-invalid", "true")
    # Differences agree.
    seen.view.get_by_label("finite differences").check()
    expect(seen.view.locator(".verdict")).to_contain_text("all 4 agree")


def test_the_kernel_has_the_settings_of_the_page(open_view):
    notebook, views = open_view("lab", [CURVE, "print(e.values, abs(e.grads['a']).max(), e.code)"])
    seen = Seen(notebook, views.first)
    expect(seen.view.locator(".plot canvas")).to_be_visible()
    a = seen.drag("a", 0.2)
    seen.shows(a)
    seen.view.locator(".plot canvas").press("End")
    notebook.page.wait_for_timeout(300)
    notebook.run(3)
    said = notebook.text(3)
    assert f"'a': {a}" in said
    assert "'x': 3.0" in said
    assert f"a={a}" in said
    # Set by code, the page follows.
    notebook.edit(3, "e.set(a=-2.0)")
    notebook.run(3)
    seen.shows(-2.0)
    assert float(seen.slider("a").input_value()) == -2.0


@pytest.mark.parametrize("host", ["lab", "notebook", "marimo"])
def test_a_plane_and_a_descent(host, open_view):
    page, views = open_view(host, ["e = sl.explore(w.valley, p=((-2, 2), (-1, 3)), k=(1, 9, 5.0))\ne"])
    seen = Seen(page, views.first)
    expect(seen.view.locator(".plot canvas")).to_be_visible(timeout=60_000)

    def right(k):
        x, y = seen.numbers("point")
        value, gradient = seen.numbers("value")[0], seen.numbers("gradient")
        known = (1.2 - x) ** 2 + k * (y - x * x) ** 2
        slope = (-2 * (1.2 - x) - 4 * k * x * (y - x * x), 2 * k * (y - x * x))
        close = [abs(value - known) < 5e-3 * abs(known) + 1e-3]
        close += [abs(g - s) < 5e-3 * abs(s) + 2e-2 for g, s in zip(gradient, slope, strict=True)]
        bar = seen.bar("k")
        return all(close) and (not bar or abs(bar - (y - x * x) ** 2) < 5e-3 * abs(bar) + 1e-3)

    eventually(page, lambda: right(5))
    k = seen.drag("k", 0.8)
    eventually(page, lambda: right(k))
    # A press chooses the start; the numbers are those of that point.
    canvas = seen.view.locator(".plot canvas")
    box = canvas.bounding_box()
    before = seen.numbers("point")
    page.page.mouse.click(box["x"] + 0.2 * box["width"], box["y"] + 0.25 * box["height"])
    eventually(page, lambda: seen.numbers("point") != before and right(k))
    start = seen.numbers("point")
    first = seen.numbers("value")[0]
    seen.view.get_by_label("optimizer").select_option("Adam")
    seen.view.get_by_role("button", name="step", exact=True).click()
    eventually(page, lambda: seen.numbers("point") != start)
    # Adam's first step is the learning rate along each axis.
    moved = np.abs(np.array(seen.numbers("point")) - start)
    np.testing.assert_allclose(moved, 0.1, atol=2e-3)
    seen.view.get_by_role("button", name="run", exact=True).click()
    code = seen.view.locator(".codeline code").nth(1)

    def steps():
        # Before the first step there is no code.
        return int(re.search(r"steps=(\d+)", code.text_content() or "steps=0")[1])

    eventually(page, lambda: steps() > 8)
    seen.view.get_by_role("button", name="pause", exact=True).click()
    page.page.wait_for_timeout(400)
    stopped = steps()
    page.page.wait_for_timeout(500)
    assert steps() == stopped
    assert seen.numbers("value")[0] < first
    seen.view.get_by_role("button", name="restart", exact=True).click()
    eventually(page, lambda: seen.numbers("point") == pytest.approx(start, abs=1e-3))


def test_an_edited_cell_is_followed(open_view):
    notebook, views = open_view("lab", [CURVE])
    seen = Seen(notebook, views.first)
    expect(seen.view.locator(".plot canvas")).to_be_visible()
    seen.slider("a").press("Home")
    seen.shows(-5.0)
    notebook.edit(1, WAVE.replace("return a * exp", "return 2.0 * a * exp"))
    notebook.run(1)

    def doubled():
        at = X[np.argmin(np.abs(X - seen.read("x")))]
        value, slope, *_ = wave(at, -10.0)
        return abs(seen.read("value") - value) < 1e-3 and abs(seen.read("slope") - slope) < 1e-2

    eventually(notebook, doubled)
    # A parameter that is gone, then a text that does not compile: the picture stays and the view says so.
    renamed = WAVE.replace("float a, float b, float c)", "float amplitude, float b, float c)")
    notebook.edit(1, renamed.replace("return a * exp", "return amplitude * exp"))
    notebook.run(1)
    expect(seen.view.locator(".note")).to_contain_text("does not fit")
    assert doubled()
    notebook.edit(1, WAVE.replace("exp(-b", "exq(-b"))
    notebook.run(1)
    expect(seen.view.locator(".note").first).to_be_visible()
    assert doubled()
    notebook.edit(1, WAVE)
    notebook.run(1)
    seen.shows(-5.0)
    expect(seen.view.locator(".note")).to_have_count(0)


def test_a_busy_kernel_is_said_and_the_last_request_served(open_view):
    notebook, views = open_view("lab", [CURVE, "import time; time.sleep(3)"])
    seen = Seen(notebook, views.first)
    expect(seen.view.locator(".plot canvas")).to_be_visible()
    notebook.page.wait_for_timeout(500)
    notebook.edit(3, "import time\ntime.sleep(3)")
    notebook.select(3)
    notebook.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell') }")
    notebook.page.wait_for_timeout(400)
    for key in ("Home", "PageUp", "PageUp", "PageUp"):
        seen.slider("a").press(key)
    expect(seen.view.locator(".head")).to_contain_text("kernel is busy")
    notebook.wait_idle()
    seen.shows(-2.0)
    expect(seen.view.locator(".head")).not_to_contain_text("kernel is busy")


def test_two_views_and_linked_explorers(open_view):
    notebook, views = open_view(
        "lab",
        [
            CURVE,
            "e",
            "other = sl.explore(w.product, a=(0, 10, 1.0), b=2.0)\ne.link(other, 'a')\nother",
        ],
    )
    expect(views).to_have_count(3)
    first, second, third = (Seen(notebook, views.nth(i)) for i in range(3))
    first.slider("a").press("End")
    first.shows(5.0)
    second.shows(5.0)
    eventually(notebook, lambda: float(third.slider("a").input_value()) == 5.0)
    eventually(notebook, lambda: abs(third.bar("b") - 20) < 1e-3)
    third.slider("a").press("Home")
    first.shows(0.0)


def test_a_restarted_kernel_leaves_a_still_picture(open_view):
    notebook, views = open_view("lab", [CURVE])
    seen = Seen(notebook, views.first)
    expect(seen.view.locator(".plot canvas")).to_be_visible()
    notebook.restart()
    seen.view.locator(".plot canvas").hover()
    expect(seen.view.locator(".note")).to_contain_text("last picture")
    expect(seen.slider("a")).to_be_disabled()


def test_names_and_messages_are_text(open_view):
    hostile = "<img src=x onerror=window.__pwned=1>"
    _notebook, views = open_view(
        "lab",
        [f"e = sl.explore(w.product, a=(0, 1), b=2.0)\ne._say('{hostile}'); e._notes.append('{hostile}')\ne"],
    )
    expect(views.first.locator(".note").first).to_contain_text(hostile)
