"""The line that says what is going on: there while it goes on, and nowhere afterwards."""

import json
import re

from playwright.sync_api import expect

LOAD = "%load_ext slanglab\nimport time\nfrom slanglab import progress"
LARGE = "%%slang large\n" + "\n".join(
    f"[Differentiable] float f{i}(float x) {{ return x * x + {i}; }}" for i in range(1200)
)
WAIT = """with progress.work("waiting for <b>poly</b>.f") as work:
    for _ in range(150):
        time.sleep(0.01)
        work.tick()
"""
ENDED = "print('before')\n" + WAIT + "print('behind')"
STOPPED = "with progress.work('waiting for ever') as work:\n    while True:\n        time.sleep(0.01)\n        work.tick()"


def start(notebook, index):
    """Run a cell without waiting for its end."""
    notebook.select(index)
    notebook.page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-cell')")


def saved(notebook):
    """Save the notebook; return its text and the outputs of its cells."""
    notebook.command("docmanager:save")
    path = notebook.page.evaluate("window.jupyterapp.shell.currentWidget.context.path")
    text = (notebook.server.root / path).read_text()
    return text, [cell["outputs"] for cell in json.loads(text)["cells"]]


def test_a_slow_compile_shows_itself_and_leaves_its_report_alone(server, open_notebook):
    notebook = open_notebook(server, [LOAD, LARGE])
    notebook.run(0)
    start(notebook, 1)
    line = notebook.output_area(1).locator(".slanglab-work")
    expect(line).to_be_visible()
    expect(line).to_have_text(
        re.compile(r"^(opening the device|setting up the caches.*|compiling In\[2\])( · .*)?$")
    )
    notebook.wait_idle()
    assert not notebook.failed(1), notebook.text(1)
    expect(notebook.output_area(1).locator(".slanglab-report")).to_have_count(1)
    expect(line).to_have_count(0)
    text, outputs = saved(notebook)
    assert "slanglab-work" not in text
    assert [o["output_type"] for o in outputs[1]] == ["display_data"]


def test_a_wait_counts_and_leaves_what_the_user_put_out(server, open_notebook):
    notebook = open_notebook(server, [LOAD, WAIT, ENDED])
    notebook.run(0)
    for index in (1, 2):
        start(notebook, index)
        line = notebook.output_area(index).locator(".slanglab-work")
        expect(line).to_have_text(
            re.compile(r"^waiting for <b>poly</b>\.f · 0\.[2-9] s · interrupt to stop$")
        )
        expect(line).to_have_text(re.compile(r" · 1\.\d s · "))
        notebook.wait_idle()
        expect(line).to_have_count(0)
    text, outputs = saved(notebook)
    assert "slanglab-work" not in text
    assert "waiting for &lt;" not in text
    assert outputs[1] == []
    before, empty, behind = outputs[2]
    assert "".join(before["text"]) == "before\n"
    assert empty["data"] == {}
    assert "".join(behind["text"]) == "behind\n"
    shown = notebook.output_area(2).locator(".jp-OutputArea-output").filter(has_text=re.compile(r"\S"))
    expect(shown).to_have_count(2)


def test_interrupt_takes_the_line_away(server, open_notebook):
    notebook = open_notebook(server, [LOAD, STOPPED, "6 * 7"])
    notebook.run(0)
    start(notebook, 1)
    line = notebook.output_area(1).locator(".slanglab-work")
    expect(line).to_have_text(re.compile(r"waiting for ever · \d\.\d s · interrupt to stop"))
    notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()"
    )
    notebook.wait_idle()
    expect(line).to_have_count(0)
    text, outputs = saved(notebook)
    assert "slanglab-work" not in text
    assert [o["output_type"] for o in outputs[1]] == ["error"]
    notebook.run(2)
    assert notebook.text(2) == "42"
