"""What a user does in a notebook, done in real JupyterLab and Notebook 7."""

import base64
from pathlib import Path

import pytest
from playwright.sync_api import expect

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LOAD = "%load_ext slanglab\nimport numpy as np\nimport slanglab as sl"
POLY = "%%slang poly\n/// A parabola.\n[Differentiable]\nfloat f(float x) { return x * x; }"
SHIFTED = "%%slang shifted\nimport poly;\nfloat g(float x) { return f(x - 1); }"

# The colours at a tenth of each cell from its corner, where no number stands, by rows; null as long as nothing is drawn.
COLOURS = """([canvas, rows, columns]) => {
  const { width, height } = canvas;
  const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
  const box = { left: width, top: height, right: 0, bottom: 0 };
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      if (data[4 * (y * width + x) + 3] === 255) {
        box.left = Math.min(box.left, x);
        box.top = Math.min(box.top, y);
        box.right = Math.max(box.right, x + 1);
        box.bottom = Math.max(box.bottom, y + 1);
      }
  if (box.left >= box.right) return null;
  const out = [];
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      const x = Math.floor(box.left + ((j + 0.1) / columns) * (box.right - box.left));
      const y = Math.floor(box.top + ((i + 0.1) / rows) * (box.bottom - box.top));
      out.push([...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)]);
    }
  return out;
}"""


def colours(notebook, index, rows, columns):
    """Return the colours of the pictures under a cell (value, and gradient), once they are drawn: one for each element."""
    found = []
    views = notebook.output_area(index).locator(".sl.inspector .pic canvas:first-child")
    expect(views.first).to_be_visible()
    for canvas in views.element_handles():
        drawn = notebook.page.wait_for_function(COLOURS, arg=[canvas, rows, columns])
        found.append(drawn.json_value())
    return found


def statistics(notebook, index):
    """Return the table under a tensor: column heads and rows."""
    rows = notebook.output_area(index).locator(".sl.inspector .statistics tr")
    return [rows.nth(i).locator("th, td").all_text_contents() for i in range(rows.count())]


def test_a_cell_is_compiled_called_and_its_tensor_drawn(server, open_notebook):
    tensor = "x = sl.tensor([[0, 1, 2], [4, 6, 8]], grad=True)\n"
    tensor += "x.grad.copy_from_numpy(np.array([[-3, 0, 3], [-3, -3, 3]], np.float32))\nx"
    notebook = open_notebook(server, [LOAD, POLY, "poly.f(3.0)", tensor])
    notebook.run_all()
    assert not any(notebook.failed(i) for i in range(4)), [notebook.text(i) for i in range(4)]

    report = notebook.output_area(1).locator(".slanglab-report")
    expect(report).to_have_count(1)
    expect(report.locator(".state b")).to_have_text("compiled")
    expect(report.locator(".sig")).to_have_text("f(float x) → float")
    expect(report.locator("u")).to_have_text("x")
    expect(report.locator(".doc")).to_have_text("A parabola.")
    assert notebook.text(2) == "9.0"

    (output,) = notebook.outputs(3)
    assert base64.b64decode(output["data"]["image/png"]).startswith(b"\x89PNG")
    assert "8." in "".join(output["data"]["text/plain"])

    value, gradient = colours(notebook, 3, 2, 3)
    # The first, middle and last stop of the map "tide", and the ends and the middle of "poles": the smallest and the largest
    # element and the one halfway; the largest gradient of each sign, and none.
    assert value[0] == [0x15, 0x0C, 0x2D]
    assert max(abs(a - b) for a, b in zip(value[3], [0x00, 0x8D, 0x82], strict=True)) <= 3
    assert value[5] == [0xFF, 0xF0, 0xC1]
    assert len({tuple(colour) for colour in value}) == 6
    assert gradient[0] == gradient[3] == gradient[4] == [0x20, 0x4F, 0xAA]
    assert gradient[2] == gradient[5] == [0x90, 0x33, 0x00]
    assert max(abs(a - b) for a, b in zip(gradient[1], [0xF7, 0xF7, 0xF7], strict=True)) <= 8
    minus_sign = "\N{MINUS SIGN}"
    assert statistics(notebook, 3) == [
        ["whole tensor", "min", "max", "mean", "std", "zero", "NaN", "Inf"],
        ["value", "0", "8.000", "3.500", "2.814", "1", "0", "0"],
        ["gradient", f"{minus_sign}3.000", "3.000", f"{minus_sign}0.5000", "2.693", "1", "0", "0"],
    ]


def test_errors_are_shown_once_at_their_line_and_stop_run_all(server, open_notebook):
    wrong = "%%slang wrong\nfloat f(float x)\n{\n\tfloat y = 1; /* 変数 é */ return nope;\n}"
    notebook = open_notebook(server, [LOAD, wrong, "after = 1", POLY, "poly.f(y=np.ones(3))", "poly.f(2.0)"])
    notebook.run_all()
    assert notebook.failed(1)
    assert notebook.count(2) is None

    area = notebook.output_area(1)
    expect(area.locator(".slanglab-report")).to_have_count(1)
    expect(area.locator(".state b")).to_have_text("does not compile")
    column = wrong.splitlines()[3].index("nope") + 1
    expect(area.locator(".top .facts.r")).to_have_text(f"In[2], line 4, column {column}")
    assert notebook.count(1) == 2
    assert area.locator(".ln.hit").first.text_content().strip() == "4"
    assert "return nope;" in area.locator(".cd.hit").text_content()
    # The carets stand under the word, whatever tabs and wide letters are before it.
    offsets = area.locator(".snip").evaluate(
        """snip => {
          const place = (element, text) => {
            const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
            for (let node; (node = walk.nextNode());) {
              const at = node.data.indexOf(text);
              if (at < 0) continue;
              const range = document.createRange();
              range.setStart(node, at);
              range.setEnd(node, at + text.length);
              const { left, right } = range.getBoundingClientRect();
              return { left, right };
            }
          };
          return [place(snip.querySelector('.cd.hit'), 'nope'), place(snip.querySelector('.car.hit i'), '^^^^')];
        }"""
    )
    assert offsets[0]["right"] > offsets[0]["left"] + 20
    assert offsets[0] == pytest.approx(offsets[1], abs=1.5)
    # Once in the report, and once in the line that the application shows of every exception.
    assert area.text_content().count("undefined identifier 'nope'") == 2
    (error,) = (o for o in notebook.outputs(1) if o["output_type"] == "error")
    assert len("\n".join(error["traceback"]).splitlines()) == 1

    for index in (3, 4, 5):
        notebook.run(index)
    assert notebook.failed(4)
    refused = notebook.output_area(4).locator(".slanglab-report")
    expect(refused.locator(".state b")).to_have_text("call refused")
    expect(refused.locator(".name")).to_have_text("poly.f")
    expect(refused).to_contain_text("no parameter y")
    assert len(notebook.text(4).splitlines()) < 12
    assert notebook.text(5) == "4.0"


def test_an_edited_cell_reaches_what_is_held_and_what_imports_it(server, open_notebook):
    cells = [
        LOAD,
        POLY,
        SHIFTED,
        "held = poly.f, shifted.g",
        "[f(3.0) for f in held]",
        "import os; os.getpid()",
    ]
    notebook = open_notebook(server, cells)
    notebook.run_all()
    assert notebook.text(4) == "[9.0, 4.0]"
    process = notebook.text(5)

    notebook.edit(1, POLY.replace("x * x", "x * x + 100"))
    notebook.run(1)
    expect(notebook.output_area(1).locator(".state b")).to_have_text("compiled")
    expect(notebook.output_area(1).locator(".foot")).to_contain_text("also recompiled: shifted")
    notebook.run(4)
    assert notebook.text(4) == "[109.0, 104.0]"

    notebook.run(1)
    expect(notebook.output_area(1).locator(".state b")).to_have_text("unchanged")
    expect(notebook.output_area(1).locator(".slanglab-report")).to_have_count(1)

    notebook.edit(1, POLY.replace("x * x", "x * "))
    notebook.run(1)
    assert notebook.failed(1)
    expect(notebook.output_area(1).locator(".foot")).to_contain_text("still runs the version of In[")
    expect(notebook.output_area(1).locator(".foot")).to_contain_text("stale now: shifted")
    notebook.run(4)
    assert notebook.text(4) == "[109.0, 104.0]"

    notebook.run(2)
    expect(notebook.output_area(2).locator(".state b")).to_have_text("stale")
    expect(notebook.output_area(2).locator(".foot")).to_contain_text(
        "poly, which it imports, does not compile"
    )

    notebook.edit(1, POLY.replace("x * x", "-x"))
    notebook.restart_and_run_all()
    assert [notebook.count(i) for i in range(6)] == [1, 2, 3, 4, 5, 6]
    expect(notebook.output_area(1).locator(".state b")).to_have_text("compiled")
    assert notebook.text(4) == "[-3.0, -2.0]"
    assert notebook.text(5) != process


def test_the_first_notebook_runs_from_top_to_bottom(server, open_notebook):
    notebook = open_notebook(server, NOTEBOOKS / "01-first-cell.ipynb")
    kinds = notebook.page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.type)"
    )
    code = [i for i, kind in enumerate(kinds) if kind == "code"]
    assert len(code) > 15
    notebook.run_all()
    assert {i: notebook.text(i) for i in code if notebook.failed(i)} == {}
    assert [notebook.count(i) for i in code] == list(range(1, len(code) + 1))
    reports = notebook.page.locator(".slanglab-report")
    assert reports.count() == 4
    views = notebook.page.locator(".sl.inspector")
    assert views.count() == 2
    for i in range(views.count()):
        expect(views.nth(i).locator("canvas").first).to_be_attached()
    assert any("[12. 16. 20. 24.]" in notebook.text(i) for i in code)
