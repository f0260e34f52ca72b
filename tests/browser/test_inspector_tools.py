"""The inspector in real JupyterLab and Notebook 7: scales, brush, reduced axes, table, comparison, saving, following."""

import base64
import itertools
import re

import numpy as np
import pytest
from playwright.sync_api import expect
from test_notebook import COLOURS

LOAD = "%load_ext slanglab\nimport numpy as np\nimport slanglab as sl"
MADE = """\
value = np.arange(2 * 4 * 5, dtype=np.float32).reshape(2, 4, 5)
gradient = np.where(value % 2, -1, 1) * 10.0 ** (value / 5 - 6)
value[1, 2, 3] = np.nan
t = sl.tensor(value, grad=True)
t.grad.copy_from_numpy(gradient.astype(np.float32))
w = sl.inspect(t, "t")
w"""
MINUS = "\N{MINUS SIGN}"


@pytest.fixture
def view(server, open_notebook):
    """Return a notebook with the tensor open under its second cell, and a locator of the view."""
    notebook = open_notebook(server, [LOAD, MADE, "pass"], height=1400)
    notebook.run_all()
    assert not notebook.failed(1), notebook.text(1)
    found = notebook.output_area(1).locator(".sl.inspector")
    expect(found.locator(".pic canvas").first).to_be_visible()
    return notebook, found


def evaluate(notebook, source):
    """Run a line in the third cell and return what it says."""
    notebook.edit(2, source)
    notebook.run(2)
    assert not notebook.failed(2), notebook.text(2)
    return notebook.text(2)


def press(view, name, within=""):
    view.locator(within or ":scope").get_by_role("button", name=name, exact=True).first.click()


def colours(notebook, view, pane):
    """Return the colours of one picture's elements, by rows."""
    canvas = view.locator(".pane").nth(pane).locator(".pic canvas").first.element_handle()
    return notebook.page.wait_for_function(COLOURS, arg=[canvas, 4, 5]).json_value()


def eventually(notebook, check, message="", seen=lambda: ""):
    """Wait until `check` holds; `seen` tells what was there instead."""
    for _ in range(60):
        if check():
            return
        notebook.page.wait_for_timeout(100)
    raise AssertionError(f"{message or 'it did not happen'} {seen()}")


def test_scales_brush_and_code(view):
    notebook, inspector = view
    before = colours(notebook, inspector, 1)
    press(inspector, "rank", ".pane:nth-child(2)")
    eventually(notebook, lambda: colours(notebook, inspector, 1) != before)
    ranked = colours(notebook, inspector, 1)
    # By rank neighbours in size differ as much at the small end as at the large one; by symlog the small ones are all paper.
    small = [abs(a - b) for a, b in zip(ranked[0], ranked[2], strict=True)]
    assert max(small) > 2
    assert max(abs(a - b) for a, b in zip(before[0], before[2], strict=True)) <= 2

    # The choice survives a slice and a refresh.
    inspector.locator(".axes input[type=range]").fill("1")
    expect(inspector.locator(".codeline code")).to_have_text("t[1, :, :]")
    evaluate(notebook, "w.refresh()")
    assert (
        inspector.locator(".pane").nth(1).get_by_role("button", name="rank").get_attribute("aria-pressed")
        == "true"
    )
    eventually(notebook, lambda: evaluate(notebook, "print(w.code)") == "t[1, :, :]\n")
    # A range that is typed.
    select = inspector.locator(".pane").nth(0).locator("select")
    select.select_option("typed")
    field = inspector.locator(".pane").nth(0).get_by_label("range to")
    field.fill("abc")
    field.press("Tab")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("20")
    field.press("Tab")
    expect(field).to_have_attribute("aria-invalid", "false")
    # Everything of this slice is 20 or more: one colour, that of the upper end.
    eventually(notebook, lambda: colours(notebook, inspector, 0)[0] == [0xFF, 0xF0, 0xC1])


def test_a_brush_marks_elements_and_counts_them(server, open_notebook):
    many = "value = np.linspace(0, 1, 4000, dtype=np.float32).reshape(50, 80)\nt = sl.tensor(value)\nw = sl.inspect(t, 't')\nw"
    notebook = open_notebook(server, [LOAD, many])
    notebook.run_all()
    inspector = notebook.output_area(1).locator(".sl.inspector")
    bars = inspector.locator(".hist canvas")
    expect(bars).to_be_visible()
    bars.scroll_into_view_if_needed()
    box = bars.bounding_box()
    left, width = box["x"] + 26, box["width"] - 26
    mouse = notebook.page.mouse
    mouse.move(left + 0.5 * width, box["y"] + 20)
    mouse.down()
    mouse.move(left + 0.75 * width, box["y"] + 20, steps=3)
    mouse.up()
    said = inspector.locator(".marking")
    expect(said).to_contain_text(
        re.compile(r"marked: [\d\u202f]+ of 4\u202f000 elements with value from 0\.\d+ to 0\.\d+")
    )
    text = said.text_content()
    count = int(re.sub(r"\D", "", text.split(" of ")[0]))
    low, high = (float(x) for x in re.findall(r"0\.\d+", text))
    assert abs(count - 4000 * (high - low)) < 20
    # The keys move its ends.
    grip = inspector.get_by_label("marked from")
    grip.focus()
    grip.press("Shift+ArrowRight")
    expect(said).not_to_contain_text(text.split(" of ")[0])
    grip.press("Escape")
    expect(said).to_be_hidden()


def test_reduced_axes_and_the_table(view):
    notebook, inspector = view
    press(inspector, "max", ".axes")
    expect(inspector.locator(".codeline code")).to_have_text("t.to_numpy()[:, :, :].max(axis=0)")
    expect(inspector.locator(".jump button")).to_contain_text("[:, 2, 3]")
    press(inspector, "table", ".tools")
    cell = inspector.locator('.vt td[data-row="0"][data-col="1"] span').first
    expect(cell).to_have_text("21")
    press(inspector, "one", ".axes")
    expect(cell).to_have_text("1")
    inspector.locator(".axes input[type=range]").fill("1")
    expect(inspector.locator('.vt td[data-row="2"][data-col="3"] span').first).to_have_text("× NaN")
    expect(inspector.locator('.vt td[data-row="0"][data-col="1"] span').nth(1)).to_have_text(
        f"{MINUS}0.015848925"
    )
    table = inspector.locator(".vt")
    table.focus()
    table.press("n")
    expect(inspector.locator('.vt td[aria-selected="true"]')).to_have_attribute("data-col", "3")
    # Rows that were never in view are not there until they are scrolled to.
    evaluate(
        notebook,
        "big = sl.inspect(sl.tensor(np.arange(6e5, dtype=np.float32).reshape(1000, 600)), 'big')\nbig",
    )
    large = notebook.output_area(2).locator(".sl.inspector")
    press(large, "table", ".tools")
    expect(large.locator('.vt td[data-row="0"][data-col="0"] span')).to_have_text("0")
    assert large.locator(".vt td").count() < 400
    large.locator(".vt").evaluate("e => { e.scrollTop = 1e9; e.scrollLeft = 1e9 }")
    expect(large.locator('.vt td[data-row="999"][data-col="599"] span')).to_have_text("599999")


# The buttons that stand out of an inspector as wide as that; "" is as wide as the page lets it be.
CUT = """(el, width) => {
  el.style.width = width;
  const {left, right} = el.getBoundingClientRect();
  const out = r => r.left < left - 0.5 || r.right > right + 0.5;
  const seen = [...el.querySelectorAll(".tools button")].filter(b => b.getClientRects().length);
  return seen.filter(b => out(b.getBoundingClientRect())).map(b => b.outerHTML);
}"""


def test_a_copy_is_compared_and_the_view_follows(view):
    notebook, inspector = view
    before = colours(notebook, inspector, 0)
    press(inspector, "pin", ".tools")
    expect(inspector.locator(".comparison")).to_be_visible()
    for width in ("420px", "190px", ""):
        assert inspector.evaluate(CUT, width) == [], width
    # No call of refresh: the write is enough.
    evaluate(notebook, "t.copy_from_numpy(np.where(np.arange(5) == 2, value + 3, value).astype(np.float32))")
    eventually(notebook, lambda: colours(notebook, inspector, 0) != before, "the view did not follow")
    press(inspector, "difference", ".comparison")
    expect(inspector.locator(".title").first).to_contain_text("minus that of pinned")
    eventually(
        notebook,
        lambda: colours(notebook, inspector, 0)[2] == [0x90, 0x33, 0x00],
        seen=lambda: (colours(notebook, inspector, 0), inspector.inner_text()),
    )
    assert all(abs(c - 0xF7) < 4 for c in colours(notebook, inspector, 0)[1])
    expect(inspector.locator(".codeline code")).to_have_text("(t.to_numpy() - pinned.to_numpy())[0, :, :]")
    press(inspector, "compare no more", ".comparison")
    expect(inspector.locator(".comparison")).to_have_count(0)


def test_the_axes_that_are_drawn(view):
    notebook, inspector = view
    code = inspector.locator(".codeline code")
    inspector.get_by_label("axis drawn down").focus()
    inspector.get_by_label("axis drawn down").select_option("0")
    expect(code).to_have_text("t[:, 0, :]")
    expect(inspector.get_by_label("axis drawn down")).to_be_focused()
    expect(inspector.get_by_label("axis 1", exact=True)).to_be_visible()
    canvas = inspector.locator(".pic canvas").first.element_handle()
    drawn = notebook.page.wait_for_function(COLOURS, arg=[canvas, 2, 5]).json_value()
    assert drawn[0] == [0x15, 0x0C, 0x2D]
    # Element 20 of 39 is in the second row now.
    assert max(abs(a - b) for a, b in zip(drawn[5], [0x00, 0x8D, 0x82], strict=True)) <= 6
    press(inspector, "swap axes", ".tools")
    expect(code).to_have_text("t.to_numpy()[:, 0, :].T")
    assert evaluate(notebook, "print(w.code)") == "t.to_numpy()[:, 0, :].T\n"
    canvas = inspector.locator(".pic canvas").first.element_handle()
    swapped = notebook.page.wait_for_function(COLOURS, arg=[canvas, 5, 2]).json_value()
    assert swapped[1] == drawn[5]
    assert swapped[2] == drawn[1]
    # The axis that the other menu has: the two change places.
    inspector.get_by_label("axis drawn across").select_option("2")
    expect(code).to_have_text("t[:, 0, :]")
    evaluate(notebook, "w.axes = 2, 1")
    expect(code).to_have_text("t.to_numpy()[0, :, :].T")


def test_the_gradient_over_the_value(view):
    notebook, inspector = view
    # A gradient of the largest size hides the value, none of it lets the value through, in grey.
    evaluate(notebook, "t.grad.copy_from_numpy(np.where(value == 7, -5, 0).astype(np.float32))")
    blue = [0x20, 0x4F, 0xAA]
    eventually(notebook, lambda: colours(notebook, inspector, 1)[7] == blue)
    button = inspector.locator(".tools").get_by_role("button", name="overlaid")
    button.click()
    expect(inspector.locator(".tools").get_by_role("button", name="overlaid")).to_have_attribute(
        "aria-pressed", "true"
    )
    found = colours(notebook, inspector, 0)
    assert found[7] == blue
    rest = [c for i, c in enumerate(found) if i != 7]
    assert all(max(c) - min(c) <= 2 for c in rest)
    assert [c[0] for c in rest] == sorted(c[0] for c in rest)
    expect(inspector.locator(".pane").nth(1).locator(".pic")).to_be_hidden()
    inspector.locator(".pic canvas").nth(1).focus()
    notebook.page.keyboard.press("o")
    expect(inspector.locator(".pane").nth(1).locator(".pic")).to_be_visible()
    assert colours(notebook, inspector, 0)[0] == [0x15, 0x0C, 0x2D]


HEIGHTS = """([canvas, from, to]) => {
  // The highest pixel of the value's curve (teal) in some columns, in CSS pixels.
  const scale = devicePixelRatio;
  const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const out = [];
  for (let x = from; x <= to; x += 20)
    for (let y = Math.round(24 * scale); y < height; y++) {
      const o = 4 * (y * width + Math.round(x * scale));
      if (data[o + 3] > 200 && data[o] < 60 && data[o + 1] > 90 && data[o + 2] > 100) { out.push(y / scale); break; }
    }
  return out;
}"""


def test_a_curve_has_scales(lab_server, open_notebook):
    made = "# Five decades.\nl = sl.tensor(np.exp(np.linspace(0, 12, 500)).astype(np.float32), grad=True)\nsl.inspect(l, 'l')"
    notebook = open_notebook(lab_server, [LOAD, made])
    notebook.run_all()
    inspector = notebook.output_area(1).locator(".sl.inspector")
    canvas = inspector.locator(".pic canvas").first
    expect(canvas).to_be_visible()
    heights = lambda: canvas.evaluate("(c, [f, a, b]) => eval(f)([c, a, b])", [HEIGHTS, 300, 800])  # noqa: E731
    linear = heights()
    press(inspector, "symlog", ".curves")
    eventually(notebook, lambda: heights() != linear)
    curved = heights()
    # An exponential is a straight line on a logarithmic axis, and bent on a linear one.
    steps = [a - b for a, b in itertools.pairwise(curved)]
    assert len(steps) > 15
    assert max(steps) - min(steps) < 2.5
    bent = [a - b for a, b in itertools.pairwise(linear)]
    assert max(bent) - min(bent) > 4
    select = inspector.locator(".curves select").first
    select.select_option("typed")
    field = inspector.get_by_label("range to")
    field.fill("1000")
    field.press("Tab")
    eventually(notebook, lambda: heights() != curved)


def test_what_is_on_the_screen_is_saved(view, tmp_path):
    notebook, inspector = view
    for name, start in (("SVG", b"<svg "), ("PNG", b"\x89PNG\r\n")):
        press(inspector, "save", ".tools")
        with notebook.page.expect_download() as waited:
            press(inspector, name, ".menu")
        path = tmp_path / name
        waited.value.save_as(path)
        assert waited.value.suggested_filename == f"t.{name.lower()}"
        assert path.read_bytes().startswith(start)
    assert "in grey" not in (tmp_path / "SVG").read_text(encoding="utf-8")
    press(inspector, "overlaid", ".tools")
    press(inspector, "save", ".tools")
    with notebook.page.expect_download() as waited:
        press(inspector, "SVG", ".menu")
    waited.value.save_as(tmp_path / "over")
    assert "in grey, under its gradient" in (tmp_path / "over").read_text(encoding="utf-8")
    press(inspector, "overlaid", ".tools")


def test_tables_of_tensors(server, open_notebook):
    cells = [
        LOAD,
        "a = sl.ones((3, 4), grad=True)\nb = sl.tensor([1.0, np.nan])\nsl.table(a, b)",
        "[a, {'b': b}]",
        "[a, 3]",
        "sl.summary(b)",
    ]
    notebook = open_notebook(server, cells)
    notebook.run_all()
    for index, rows in ((1, ["a", "b"]), (2, ["[0]", "[1]['b']"])):
        table = notebook.output_area(index).locator(".slanglab-table")
        expect(table.locator("tbody th")).to_have_text([re.compile(f"^{re.escape(name)}") for name in rows])
        expect(table).to_contain_text("× 1 NaN")
    assert notebook.text(3) == "[Tensor float32 (3, 4): 1.000, 1 +- 0; gradient 0, 3]"
    expect(notebook.output_area(4).locator(".slanglab-table tbody tr")).to_have_count(1)
    (output,) = notebook.outputs(4)
    assert "NaN" in "".join(output["data"]["text/plain"])


def test_a_live_view_keeps_up(lab_server, open_notebook):
    loop = """\
import time
frames = np.random.default_rng(0).random((8, 512, 512)).astype(np.float32)
t = sl.tensor(frames[0])
live = sl.inspect(t, "t")
live"""
    notebook = open_notebook(lab_server, [LOAD, loop, "pass"])
    notebook.run_all()
    inspector = notebook.output_area(1).locator(".sl.inspector")
    expect(inspector.locator(".pic canvas").first).to_be_visible()
    run = """\
start, k = time.time(), 0
while time.time() - start < 2:
    t.copy_from_numpy(frames[k % 8])
    k += 1
    time.sleep(0.002)
last = frames[(k - 1) % 8]"""
    before = int(evaluate(notebook, "live._gate.sent"))
    evaluate(notebook, run)
    notebook.page.wait_for_timeout(500)
    sent = int(evaluate(notebook, "live._gate.sent")) - before
    # Acknowledged frames, so painted ones; how many a second is the benchmark's to say.
    assert sent >= 3
    # The last state is the one that stays.
    maximum = float(evaluate(notebook, "float(last.mean()) - live.info['value']['mean']"))
    assert abs(maximum) < 1e-5
    # And with it the ranges of its blocks, which no frame brought while the cell ran. Without a kernel the card shows these, not elements.
    last = np.random.default_rng(0).random((8, 512, 512)).astype(np.float32)
    last = last[int(evaluate(notebook, "(k - 1) % 8"))]
    notebook.restart()
    expect(inspector.get_by_role("status").first).to_contain_text("The kernel is gone")
    box = inspector.locator(".pic canvas").last.bounding_box()
    notebook.page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.4 * box["height"])
    card = inspector.locator(".sl-card")
    expect(card).to_contain_text("in its block")
    row, column = (int(n) // 2 * 2 for n in re.findall(r"\d+", card.locator(".where").inner_text()))
    block = last[row : row + 2, column : column + 2]
    ends = re.search(r"([\d.]+) to ([\d.]+) in its block", card.inner_text()).groups()
    assert [*map(float, ends)] == pytest.approx([block.min(), block.max()], rel=6e-3)
    (shown,) = (o for o in notebook.outputs(1) if "data" in o)
    assert base64.b64decode(shown["data"]["image/png"])[:4] == b"\x89PNG"


def test_the_first_view_of_a_page_follows_while_its_cell_is_busy(lab_server, open_notebook):
    """What it says before the kernel has a subshell waits for the cell; it says it again (`js/src/lib/greeting.ts`)."""
    busy = """\
from slanglab.widgets import gate
gate.GATE_SECONDS = 1e6
t = sl.tensor(np.zeros((4, 5), np.float32))
w = sl.inspect(t, "t")
display(w)
t.copy_from_numpy(np.arange(20, dtype=np.float32).reshape(4, 5) * 3)
w.refresh()
while True: time.sleep(0.01)"""
    notebook = open_notebook(lab_server, [LOAD + "\nimport time", busy])
    notebook.run(0)
    notebook.select(1)
    notebook.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell') }")
    view = notebook.output_area(1).locator(".sl.inspector")
    expect(view.locator(".statistics")).to_contain_text("57.00", timeout=60_000)
    expect(view.locator(".pic canvas").first).to_be_visible()
    assert len({tuple(c) for c in colours(notebook, view, 0)}) == 20
    notebook.command("kernelmenu:interrupt")
    eventually(notebook, lambda: notebook.failed(1))


def test_a_brush_marks_a_part_of_a_curve(lab_server, open_notebook):
    made = "l = sl.tensor(np.linspace(0, 1, 500, dtype=np.float32), grad=True)\nsl.inspect(l, 'l')"
    notebook = open_notebook(lab_server, [LOAD, made, "sl.inspect(sl.linspace(0, 1, 20), 'few')"])
    notebook.run_all()
    few = notebook.output_area(2).locator(".sl.inspector")
    expect(few.locator(".curves select")).to_be_visible()
    expect(few.locator(".hist canvas")).to_be_hidden()
    inspector = notebook.output_area(1).locator(".sl.inspector")
    canvas = inspector.locator(".pic canvas").first
    bars = inspector.locator(".hist canvas")
    expect(bars).to_have_count(2)
    wide = canvas.evaluate("c => c.clientWidth")

    def seen():
        return len(canvas.evaluate("(c, [f, a, b]) => eval(f)([c, a, b])", [HEIGHTS, 60, wide - 60]))

    whole = seen()
    assert whole > 20
    bars.first.scroll_into_view_if_needed()
    box = bars.first.bounding_box()
    mouse = notebook.page.mouse
    left, width = box["x"] + 40, box["width"] - 40
    mouse.move(left + 0.5 * width, box["y"] + 20)
    mouse.down()
    mouse.move(left + 0.75 * width, box["y"] + 20, steps=3)
    mouse.up()
    said = inspector.locator(".marking")
    expect(said).to_contain_text(re.compile(r"marked: 12\d of 500 elements with value from 0\.\d+ to 0\.\d+"))
    # A quarter of the straight line is in full, the rest is pale.
    assert abs(seen() - whole / 4) <= 3
    bars.first.click(position={"x": 50, "y": 20})
    expect(said).to_be_hidden()
    assert seen() == whole


HELD_BACK = """\
from slanglab.widgets.inspector import TensorInspector
finish, later = TensorInspector._serve_finish, []
TensorInspector._serve_finish = lambda *asked: later.append(asked)
t = sl.tensor(np.linspace(0, 1, 1200 * 1000, dtype=np.float32).reshape(1200, 1000))
w = sl.inspect(t, "t")
w"""
# Whether anything stands on the colour bar.
BARS = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, 40).data.some(x => x)"


def test_the_histogram_of_a_large_tensor_comes_after_its_picture_and_nothing_moves(server, open_notebook):
    notebook = open_notebook(server, [LOAD, HELD_BACK, "pass"])
    notebook.run_all()
    inspector = notebook.output_area(1).locator(".sl.inspector")
    bars = inspector.locator(".hist canvas")
    expect(bars).to_be_visible()
    eventually(notebook, lambda: evaluate(notebook, "print(len(later))") == "1\n")
    assert not bars.evaluate(BARS)
    places = [inspector.bounding_box(), bars.bounding_box(), inspector.locator(".codeline").bounding_box()]
    evaluate(notebook, "finish(*later[0])")
    eventually(notebook, lambda: bars.evaluate(BARS))
    assert places == [
        inspector.bounding_box(),
        bars.bounding_box(),
        inspector.locator(".codeline").bounding_box(),
    ]
