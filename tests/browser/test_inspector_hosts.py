"""What a reader sees and does in JupyterLab, Notebook 7 and marimo, light and dark: pixels, the hover card, sliders, zoom."""

import json
import re

import pytest
from marimo_pages import MarimoPage
from playwright.sync_api import expect
from test_inspector_tools import LOAD, MINUS, eventually
from test_notebook import COLOURS

# Slice 0 has the zero gradient at [0, 0, 2]; slice 1 what is not finite.
MADE = """\
value = np.arange(2 * 4 * 5, dtype=np.float32).reshape(2, 4, 5)
gradient = np.full((2, 4, 5), 0.125, np.float32)
gradient[0, 0] = [-3, -1, 0, 1, 3]
value[1, 2, 3] = np.nan
gradient[1, 0, 1] = -np.inf
t = sl.tensor(value, grad=True)
t.grad.copy_from_numpy(gradient)"""
BOARD = "board = sl.tensor((np.indices((512, 512)).sum(axis=0) % 2).astype(np.float32))"

TIDE = {"low": (0x15, 0x0C, 0x2D), "middle": (0x00, 0x8D, 0x82), "high": (0xFF, 0xF0, 0xC1)}
POLES = {
    False: {"low": (0x20, 0x4F, 0xAA), "middle": (0xF7, 0xF7, 0xF7), "high": (0x90, 0x33, 0x00)},
    True: {"low": (0x95, 0xCE, 0xFF), "middle": (0x1E, 0x1E, 0x1E), "high": (0xFF, 0xB6, 0x69)},
}
NAN = {False: (0xC0, 0x14, 0x8A), True: (0xFF, 0x63, 0xC3)}
INF = {False: (0x6A, 0x3C, 0xCF), True: (0xB7, 0x9C, 0xFF)}

# Where the cells of a picture are on the page, and how many pixels of a colour each has.
CELLS = """([canvas, rows, columns, colour]) => {
  const { width, height } = canvas;
  const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
  const box = { left: width, top: height, right: 0, bottom: 0 };
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      if (data[4 * (y * width + x) + 3] === 255) {
        box.left = Math.min(box.left, x); box.top = Math.min(box.top, y);
        box.right = Math.max(box.right, x + 1); box.bottom = Math.max(box.bottom, y + 1);
      }
  const counts = Array.from({ length: rows }, () => Array(columns).fill(0));
  for (let y = box.top; y < box.bottom; y++)
    for (let x = box.left; x < box.right; x++) {
      const o = 4 * (y * width + x);
      if (colour.every((c, k) => Math.abs(data[o + k] - c) < 3)) {
        const r = Math.floor((y - box.top) / (box.bottom - box.top) * rows);
        counts[r][Math.floor((x - box.left) / (box.right - box.left) * columns)]++;
      }
    }
  return { ...box, counts };
}"""


class Seen:
    """One view on a page."""

    def __init__(self, page, view, rows, columns):
        self.page, self.view, self.size = page, view, (rows, columns)

    def canvas(self, pane):
        return self.view.locator(".pane").nth(pane).locator(".pic canvas").first

    def colours(self, pane):
        handle = self.canvas(pane).element_handle()
        return self.page.wait_for_function(COLOURS, arg=[handle, *self.size]).json_value()

    def marked(self, pane, colour):
        """Return the cells in which a mark of a colour stands."""
        found = self.page.evaluate(CELLS, [self.canvas(pane).element_handle(), *self.size, list(colour)])
        return {(r, c) for r, row in enumerate(found["counts"]) for c, n in enumerate(row) if n > 8}

    def hover(self, pane, row, column):
        """Put the pointer on a cell, and return the card."""
        canvas = self.canvas(pane)
        canvas.scroll_into_view_if_needed()
        found = self.page.evaluate(CELLS, [canvas.element_handle(), *self.size, [1, 2, 3]])
        box = canvas.bounding_box()
        scale = self.page.evaluate("devicePixelRatio")
        x = found["left"] + (column + 0.5) / self.size[1] * (found["right"] - found["left"])
        y = found["top"] + (row + 0.5) / self.size[0] * (found["bottom"] - found["top"])
        self.page.mouse.move(box["x"] + x / scale, box["y"] + y / scale)
        return self.view.locator(".sl-card:visible")

    def card(self, pane, row, column):
        """Return the lines of the card of a cell."""
        card = self.hover(pane, row, column)
        expect(card).to_be_visible()
        return card.locator("div, span").all_text_contents()


def near(colour, other, by=3):
    return max(abs(a - b) for a, b in zip(colour, other, strict=True)) <= by


@pytest.fixture
def open_cells(request, browser, tmp_path):
    """Return a function that runs cells in an application and returns the page and its views."""
    opened = []

    def open_(host, cells, *, dark=False):
        if host == "marimo":
            cells = ["import marimo as mo\nimport numpy as np\nimport slanglab as sl", *cells]
            opened.append(MarimoPage(browser, tmp_path / "marimo", cells, dark=dark, height=1600))
            return opened[-1], opened[-1].views()
        server = request.getfixturevalue("servers")(host)
        open_notebook = request.getfixturevalue("open_notebook")
        notebook = open_notebook(server, [LOAD, *cells], dark=dark, height=1600)
        notebook.run_all()
        assert not any(notebook.failed(i) for i in range(len(cells) + 1))
        return notebook, notebook.page.locator(".sl.inspector")

    yield open_
    for page in opened:
        page.close()
        assert page.elsewhere == []
        # A server that a test ends is not an error of ours.
        assert [m for m in page.console if "ebSocket" not in m] == []


HOSTS = ["lab", "notebook", "marimo"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("host", HOSTS)
def test_what_a_reader_sees_and_does(host, dark, open_cells):
    page, views = open_cells(
        host, [MADE, "sl.inspect(t, 't')", BOARD, "sl.inspect(board, 'board')"], dark=dark
    )
    seen = Seen(page.page, views.first, 4, 5)
    expect(views).to_have_count(2, timeout=60_000)
    expect(seen.canvas(0)).to_be_visible()
    expect(views.first).to_have_attribute("data-theme", "dark" if dark else "light")
    poles = POLES[dark]
    eventually(page, lambda: near(seen.colours(1)[2], poles["middle"]))

    # Values from the least to the greatest of the tensor, gradients about zero: a zero is paper, opposite ones are the poles.
    value, gradient = seen.colours(0), seen.colours(1)
    assert near(value[0], TIDE["low"], 0)
    assert len({tuple(c) for c in value}) == 20
    assert near(gradient[0], poles["low"], 0)
    assert near(gradient[4], poles["high"], 0)
    assert near(gradient[2], poles["middle"], 8)
    assert not near(gradient[1], gradient[3], 30)
    assert seen.marked(0, NAN[dark]) == seen.marked(1, INF[dark]) == set()

    # The card has the numbers as they are, and their ratio; the minus sign is a minus sign.
    assert seen.card(0, 0, 1) == [
        "t[0, 0, 1]",
        "value",
        "1",
        "gradient",
        f"{MINUS}1",
        "|grad| / |value|",
        "1.00",
    ]
    assert seen.card(1, 3, 4) == [
        "t[0, 3, 4]",
        "value",
        "19",
        "gradient",
        "0.125",
        "|grad| / |value|",
        "0.00658",
    ]

    # The other slice: other colours on the same scale, and the marks, each in its picture.
    views.first.locator(".axes input[type=range]").fill("1")
    expect(views.first.locator(".codeline code")).to_have_text("t[1, :, :]")
    eventually(page, lambda: near(seen.colours(0)[19], TIDE["high"], 0))
    assert near(seen.colours(0)[0], TIDE["middle"], 4)
    assert seen.marked(0, NAN[dark]) == {(2, 3)}
    assert seen.marked(1, INF[dark]) == {(0, 1)}
    assert seen.marked(0, INF[dark]) == seen.marked(1, NAN[dark]) == set()
    assert seen.card(0, 2, 3)[:5] == ["t[1, 2, 3]", "value", "NaN", "gradient", "0.125"]
    assert seen.card(1, 0, 1)[:5] == ["t[1, 0, 1]", "value", "21", "gradient", f"{MINUS}Inf"]

    # A board of ones and zeros is all one half from afar, and what it is from near.
    board = Seen(page.page, views.nth(1), 8, 8)
    assert all(near(c, TIDE["middle"], 4) for c in board.colours(0))
    # First what is here, the mean of the block; then the element.
    card = board.hover(0, 4, 4)
    expect(card).to_be_visible()
    number = card.locator(".number").first
    expect(number).to_have_text(re.compile(r"^[01]$"))
    where = json.loads(card.locator(".where").text_content().removeprefix("board"))
    assert number.text_content() == str(sum(where) % 2)
    axes = views.nth(1).locator(".pic canvas").nth(1)
    axes.focus()
    for _ in range(40):
        axes.press("+")
    code = views.nth(1).locator(".codeline code")
    expect(code).not_to_have_text("board[:, :]")
    rows = [int(n) for n in re.findall(r"\d+", code.text_content())]
    assert rows[1] - rows[0] <= 6

    def exact():
        # The window may begin inside a cell; numbers and the edges of cells are of other colours.
        found = Seen(page.page, views.nth(1), 40, 40).colours(0)
        shares = [sum(near(c, TIDE[end], 0) for c in found) / len(found) for end in ("low", "high")]
        return min(shares) > 0.3

    eventually(page, exact, "the exact elements did not come")


@pytest.mark.parametrize("host", HOSTS)
def test_two_views_of_one_tensor_each_have_their_own_slice(host, open_cells):
    page, views = open_cells(host, [MADE, "sl.inspect(t, 't')", "sl.inspect(t, 't')"])
    expect(views).to_have_count(2, timeout=60_000)
    one, two = (Seen(page.page, views.nth(i), 4, 5) for i in range(2))
    before = two.colours(0)
    assert one.colours(0) == before
    views.nth(0).locator(".axes input[type=range]").fill("1")
    eventually(page, lambda: near(one.colours(0)[19], TIDE["high"], 0))
    assert two.colours(0) == before
    expect(views.nth(1).locator(".codeline code")).to_have_text("t[0, :, :]")
    if host == "marimo":
        # The kernel is gone: what is on the screen stays.
        page.kill()
        still = one.colours(0)
        one.hover(0, 0, 0)
        page.page.wait_for_timeout(500)
        assert one.colours(0) == still
        assert one.marked(0, NAN[False]) == {(2, 3)}
        assert one.card(0, 1, 1)[:3] == ["t[1, 1, 1]", "value", "26"]


def test_a_kernel_restarts_and_the_picture_stays(server, open_notebook):
    notebook = open_notebook(server, [LOAD, MADE, "t"], height=1400)
    notebook.run_all()
    views = notebook.output_area(2).locator(".sl.inspector")
    expect(views.locator(".pic canvas").first).to_be_visible()
    seen = Seen(notebook.page, views.first, 4, 5)
    before = seen.colours(0)
    notebook.restart()
    expect(views).to_contain_text("The kernel is gone. This is the last picture, taken")
    assert seen.colours(0) == before
    # What is here can still be read; what needs a kernel is switched off, and nothing is asked of the new one.
    assert seen.card(0, 1, 1)[:3] == ["t[0, 1, 1]", "value", "6"]
    expect(views.locator(".axes input[type=range]")).to_be_disabled()
    expect(views.get_by_role("button", name="pin")).to_be_disabled()
    notebook.run_all()
    expect(views).to_have_count(1)
    expect(views).not_to_contain_text("The kernel is gone")
    expect(views.locator(".axes input[type=range]")).to_be_enabled()
    assert Seen(notebook.page, views, 4, 5).colours(0) == before
    # Somebody else's notebook, not run yet, shows the still twin.
    notebook.save()
    notebook.reload(changed=True)
    image = notebook.output_area(2).locator("img")
    expect(image).to_be_visible()
    assert image.evaluate("i => i.naturalWidth") > 400


# The views alive in the kernel, and what their tensors are.
ALIVE = """\
from ipywidgets.widgets import widget as _w
print(sum(type(x).__name__ == 'TensorInspector' for x in _w._instances.values()), len(_w._instances))"""


@pytest.mark.parametrize(
    ("host", "shown"),
    [("lab", "w = sl.inspect(t, 't')\nw"), ("notebook", "t")],
    ids=["lab, held", "notebook, tensor"],
)
def test_a_cell_that_runs_twenty_times_leaves_one_view(host, shown, servers, open_notebook):
    server = servers(host)
    server.save_widgets(True)
    try:
        notebook = open_notebook(server, [LOAD, MADE, shown, ALIVE])
        notebook.run_all()
        alive, size = notebook.text(3), notebook.save()
        assert alive.startswith("1 ")
        for _ in range(20):
            notebook.run(2)
        notebook.run(3)
        # Counts of executions may gain a digit.
        assert notebook.save() - size < 1000
        assert notebook.text(3) == alive
    finally:
        server.save_widgets(False)
    expect(notebook.output_area(2).locator(".sl.inspector .pic canvas").first).to_be_visible()
    saved = json.loads(notebook.file.read_text())["metadata"]["widgets"]
    (state,) = saved.values()
    assert sum("AnyModel" in model["model_name"] for model in state["state"].values()) == 1
    assert size < 120_000


def test_a_view_that_no_message_reaches_says_so(lab_server, open_notebook):
    """As one does whose page took longer to load it than anywidget waits: all that comes for the model is dropped."""
    at_once = """() => {
      window.__timeout = AbortSignal.timeout;
      AbortSignal.timeout = () => {
        const late = new AbortController();
        queueMicrotask(() => late.abort());
        return late.signal;
      };
    }"""
    square = "%%slang\n[Differentiable] float square(float x) { return x * x; }"
    notebook = open_notebook(
        lab_server, [LOAD, MADE, square, "sl.inspect(t)", "sl.explore(square, x=(0, 1))"]
    )
    for cell in range(3):
        notebook.run(cell)
    notebook.page.evaluate(at_once)
    notebook.run(3)
    notebook.run(4)
    says = "This view hears nothing from the kernel. Run the cell again."
    inspector, explorer = notebook.output_area(3).locator(".sl"), notebook.output_area(4).locator(".sl")
    expect(inspector).to_contain_text(says, timeout=20_000)
    expect(explorer).to_contain_text(says, timeout=20_000)
    notebook.page.evaluate("() => { AbortSignal.timeout = window.__timeout }")
    notebook.run(3)
    expect(inspector.locator(".pic canvas").first).to_be_visible()
    expect(inspector).not_to_contain_text(says)


def test_a_cell_of_marimo_that_runs_twenty_times_leaves_one_view(open_cells):
    cells = [
        MADE,
        "again = mo.ui.number(0, 30, label='again')\nagain",
        "again.value\nview = sl.inspect(t, 't')\nview",
        "view\nfrom ipywidgets.widgets import widget as _w\n"
        "alive = sum(type(x).__name__ == 'TensorInspector' for x in _w._instances.values())\n"
        "mo.md(f'run {again.value}: {alive} alive')",
    ]
    page, views = open_cells("marimo", cells)
    expect(page.page.get_by_text("run 0: 1 alive")).to_be_visible(timeout=60_000)
    number = page.page.get_by_role("textbox")
    for run in range(1, 21):
        number.fill(str(run))
        number.press("Enter")
        expect(page.page.get_by_text(f"run {run}: 1 alive")).to_be_visible()
    expect(views).to_have_count(1)
    assert near(Seen(page.page, views, 4, 5).colours(0)[0], TIDE["low"], 0)
