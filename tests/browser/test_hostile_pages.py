"""Text that wants to be markup or code, in real JupyterLab: it stays text.

Each payload sets `window.__pwned`. The page watches for elements and attributes that can run code (`WATCH` in pages.py), for
dialogs and for requests to other hosts; the fixture `open_notebook` fails a test that saw any.
"""

import json

import pytest
from pages import NotebookPage
from playwright.sync_api import TimeoutError, expect

LOAD = "%load_ext slanglab\nimport numpy as np\nimport slanglab as sl"
IMG = "<img src=x onerror=window.__pwned=1>"
SCRIPT = "<script>window.__pwned=1</script>"
STYLE = "<style>*{display:none}</style>"
LINK = "[x](javascript:window.__pwned=1) <details open ontoggle=window.__pwned=1>"
FILE = 'x" onmouseover="__pwned=1" a="'


def test_the_watch_sees_what_it_watches_for(lab_server, browser):
    """Markup that a user asks for does what it says, so the silence of the other tests means something."""
    cells = [f"from IPython.display import HTML\nHTML({IMG!r})", f"HTML({SCRIPT.replace('1', '2')!r})"]
    notebook = NotebookPage(browser.new_page(), lab_server, cells, "watched.ipynb")
    for index in (0, 1):
        notebook.run(index)
        notebook.page.wait_for_function("n => window.__pwned === n", arg=index + 1)
    seen = notebook.intruders()
    assert any(text.startswith("onerror in ") for text in seen)
    assert any(text.startswith("script in ") for text in seen)
    assert seen[-1] == "code ran: 2"
    notebook.close()


def test_text_in_cells_names_and_files_stays_text(lab_server, open_notebook):
    (lab_server.root / f"{FILE}.slang").write_text("float helper(float x) { return nope; }\n")
    quoted = FILE.replace('"', '\\"')
    cells = [
        LOAD,
        f"%%slang\nfloat f(float x) {{ return x + ; }} // {IMG}",
        "%%slang <svg/onload=window.__pwned=1>\nfloat f(float x) { return x; }",
        f"%%slang docs\n/// {LINK} {IMG}\nfloat f(float x) {{ return x; }}",
        "docs.f?",
        "%%slang odd\nfloat f(float x\u202e) { return x; }",
        f'%%slang imports\nimport "{quoted}";\nfloat f(float x) {{ return helper(x); }}',
        f'%%slang talk\nimport sgl.device.print;\nint f(int i) {{ print("{SCRIPT} {{}}", i); return i; }}',
        "talk.f(3)",
        f"docs.f({IMG!r})",
        f"docs.f(**{{{STYLE!r}: 1.0}})",
        f"docs[{IMG[1:-1]!r}]",
        f"sl.compile('float f(float x) {{ return nope; }}', name={IMG!r})",
        f"%slang {IMG}",
        f"%slang config report {SCRIPT}",
        f"%slang forget {IMG}",
        f"%%slang flags -D '{IMG}'\nfloat f(float x) {{ return x; }}",
        f"%%slang flags -I '{IMG}'\nfloat f(float x) {{ return x; }}",
        f"%%slang --{IMG}\nfloat f(float x) {{ return x; }}",
        f"%%slang strings\nfloat f(float x) {{ String s = \"{SCRIPT}\"; return x + s; }}",
        f"%%slang messages\n#error {IMG}\nfloat f(float x) {{ return x; }}",
        f"%%slang warned\n#warning {IMG}\nfloat f(float x) {{ return x; }}",
    ]  # fmt: skip
    notebook = open_notebook(lab_server, cells)
    for index in range(len(cells)):
        notebook.run(index)
    usage = {2, 13, 15, 16, 18}
    assert {i for i in range(len(cells)) if "UsageError" in notebook.text(i)} == usage
    fine = {0, 3, 4, 7, 8, 17, 21}
    assert {i for i in range(len(cells)) if not notebook.failed(i)} == fine | usage

    def shown(index):
        return notebook.output_area(index).text_content()  # inner_text is empty for what is scrolled away

    assert IMG in shown(1)
    assert "<svg/onload=window.__pwned=1>" in shown(2)
    assert LINK in shown(3)
    assert IMG in shown(3)
    assert LINK in shown(4)
    expect(notebook.output_area(4).locator("a, details")).to_have_count(0)
    assert "\\u202e" in shown(5)
    assert "\u202e" not in shown(5)
    assert FILE in shown(6)
    assert f"{SCRIPT} 3" in shown(8)
    for index, payload in [
        (9, IMG),
        (10, STYLE),
        (11, IMG[1:-1]),
        (12, IMG),
        (13, IMG.split()[0]),
        (20, IMG),
        (21, IMG),
    ]:
        assert payload in shown(index), index
    # Nothing in a report but what SlangLab makes: an icon, a table, lines of text.
    made = notebook.page.eval_on_selector_all(
        ".slanglab-report",
        "all => [...new Set(all.flatMap(r => [...r.querySelectorAll('*')].map(e => e.localName)))]",
    )
    allowed = "b bdi br code dd details div dl dt i path pre section span style summary svg table tbody td th thead tr u"
    assert set(made) <= set(allowed.split())
    # Shift+Tab shows the documentation in the page too.
    notebook.edit(4, "docs.f")
    notebook.select(4)
    notebook.page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.activeCell.editor.setCursorPosition({line: 0, column: 6})"
    )
    notebook.command("notebook:enter-edit-mode")
    notebook.command("tooltip:launch-notebook")
    tooltip = notebook.page.locator(".jp-Tooltip")
    expect(tooltip).to_contain_text("ontoggle")
    expect(tooltip.locator("a, details, img")).to_have_count(0)


def test_names_that_mean_something_to_javascript(lab_server, open_notebook):
    names = ["constructor", "__proto__", "toString", "hasOwnProperty", "valueOf"]
    declared = "\n".join(f"float {name}(float x) {{ return x + {i}; }}" for i, name in enumerate(names))
    cells = [
        LOAD,
        f"%%slang proto\nstruct A__proto__ {{ float constructor; float __proto__; }};\n{declared}\n"
        "float useA(A__proto__ a) { return a.constructor + a.__proto__; }",
        f"[proto[name](10.0) for name in {names}], proto.useA({{'constructor': 1.0, '__proto__': 2.0}})",
        "constructor = sl.tensor([[1, 2], [3, 4]], grad=True)\nconstructor",
        f"sl.inspect(sl.tensor([[5, 6], [7, 8]]), name={STYLE!r})",
        f"sl.inspect(sl.tensor([1, 2, 3]), name={IMG!r})",
        f"sl.inspect(np.ones(2, np.dtype([({STYLE!r}, 'f4'), ('__proto__', 'f4')])))",
    ]
    notebook = open_notebook(lab_server, cells)
    before = notebook.page.evaluate("Object.getOwnPropertyNames(Object.prototype)")
    for index in range(len(cells)):
        notebook.run(index)
    assert [notebook.text(i) for i in range(6) if notebook.failed(i)] == []
    assert notebook.text(2) == "([10.0, 11.0, 12.0, 13.0, 14.0], 3.0)"
    for name in [*names, "A__proto__"]:
        expect(notebook.output_area(1).locator(".sig b", has_text=name).first).to_be_visible()
    expect(notebook.output_area(3).locator(".sl .name")).to_have_text("constructor")
    expect(notebook.output_area(4).locator(".sl .name")).to_have_text(STYLE)
    expect(notebook.output_area(4).locator(".sl canvas").first).to_be_visible()
    expect(notebook.output_area(4).locator(".sl .codeline code")).to_contain_text(STYLE)
    expect(notebook.output_area(5).locator(".sl .name")).to_have_text(IMG)
    assert notebook.page.evaluate("Object.getOwnPropertyNames(Object.prototype)") == before
    assert notebook.page.evaluate("({}).version === undefined && ({}).shape === undefined")


def test_a_view_survives_what_it_is_told(lab_server, open_notebook):
    """The data of a saved view may be anybody's: a message, or nothing, but the page and the other views go on."""
    told = [
        {},
        {"version": 99},
        {"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}},
        {"shape": [10**9, 10**9]},
        {"shape": [-3, 4]},
        {"shape": [float("nan"), 2]},
        {"shape": [1] * 10_000},
        {"name": SCRIPT * 10_000, "dtype": IMG, "device": STYLE, "note": IMG, "note_code": SCRIPT},
        {"value": {"count": "<b>", "minimum": IMG}},
        {"form": "picture", "axes": {"row": 7, "col": -1, "channel": "x"}},
        {"form": SCRIPT},
        {"fields": [{"name": STYLE, "dtype": IMG, "statistics": None}] * 5000},
    ]
    deep = "for _ in range(900):\n    deep = [deep]"
    cells = [
        LOAD,
        "x = sl.tensor([[1, 2], [3, 4]], grad=True)\nviews = []",
        "deep = 1\n" + deep,
        "import json\nnan = float('nan')\n"
        f"told = {told!r}\ntold.append({{'shape': deep}})\n"
        "for one in told:\n    view = sl.inspect(x, name='x')\n    view.info = {**view.info, **one} if one else {}\n"
        "    views.append(view)\n    display(view)",
        "x",
        "views[0].push('picture', {'index': [0, 0]}, {})\n"
        "views[0].tell('element', {'place': '<b>', 'value': [1e400], 'gradient': {}})\n"
        "views[0].tell('found', {'place': [10**12, -1]})\nviews[0].tell('trouble', {'text': "
        + repr(IMG)
        + "})\n"
        "views[0].tell('__proto__', {'polluted': 1})",
    ]
    notebook = open_notebook(lab_server, cells)
    notebook.run_all()
    assert [notebook.text(i) for i in range(len(cells)) if notebook.failed(i)] == []
    views = notebook.output_area(3).locator(".sl.inspector")
    expect(views).to_have_count(len(told) + 1)
    expect(views.first).to_have_text("This saved view cannot be read. Run the cell again.")
    for i in (2, 3, 4, 5, 6, 9, 10, 12):
        assert views.nth(i).text_content().strip(), i
    named = views.nth(7).text_content()
    assert len(named) < 3000
    assert STYLE in named
    expect(notebook.output_area(4).locator(".sl.inspector canvas").first).to_be_visible()
    assert notebook.page.evaluate("({}).polluted ?? null") is None


def saved(path, state):
    """Write a notebook as somebody may send it: not signed, the output of a tensor in it, and widget state that is theirs."""
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    model = "a" * 32
    modules = {
        "_model_module": "anywidget",
        "_model_name": "AnyModel",
        "_view_module": "anywidget",
        "_view_name": "AnyView",
    }
    entry = {
        "model_module": "anywidget",
        "model_module_version": "~0.11.*",
        "model_name": "AnyModel",
        "state": {**modules, "_anywidget_id": "slanglab.widgets.inspector.TensorInspector", **state},
    }
    view = {"model_id": model, "version_major": 2, "version_minor": 0}
    data = {"application/vnd.jupyter.widget-view+json": view, "image/png": png, "text/plain": "twin"}
    output = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}
    cell = {
        "cell_type": "code",
        "id": "a",
        "metadata": {},
        "source": "x",
        "execution_count": 1,
        "outputs": [output],
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    states = {"version_major": 2, "version_minor": 0, "state": {model: entry}}
    metadata = {"kernelspec": kernel, "widgets": {"application/vnd.jupyter.widget-state+json": states}}
    path.write_text(json.dumps({"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_a_saved_notebook_that_is_not_trusted_shows_the_still_picture(lab_server, open_notebook, tmp_path):
    harmless = {
        "_esm": "export default { render() {} }",
        "_css": "",
        "info": {"shape": [10**9, -1], "name": SCRIPT},
    }
    opened = open_notebook(lab_server, saved(tmp_path / "saved.ipynb", harmless))
    expect(opened.output_area(0).locator("img[src^='data:image/png']")).to_have_count(1)
    expect(opened.output_area(0).locator(".jupyter-widgets")).to_have_count(0)


@pytest.mark.xfail(
    strict=True, reason="anywidget 0.11 loads code and style of saved state, trusted or not; not ours to mend"
)
def test_a_saved_notebook_that_is_not_trusted_runs_nothing(lab_server, browser, tmp_path):
    evil = {
        "_esm": "window.__pwned = 1; export default { render() {} }",
        "_css": "* { background: url(http://evil.invalid/x.png) }",
    }
    notebook = NotebookPage(
        browser.new_page(), lab_server, saved(tmp_path / "evil.ipynb", evil), "evil.ipynb"
    )
    try:
        expect(notebook.output_area(0).locator("img[src^='data:image/png']")).to_have_count(1)
        with pytest.raises(TimeoutError):
            notebook.page.wait_for_function("window.__pwned === 1", timeout=5000)
        assert notebook.elsewhere == []
    finally:
        notebook.close()
