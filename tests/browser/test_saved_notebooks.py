"""Notebook cases of the inspector that are about files: what is saved, and what a page shows without kernel and network."""

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect
from test_inspector_hosts import TIDE, Seen, near
from test_inspector_tools import LOAD

CELLS = [
    "import numpy as np\nimport slanglab as sl",
    "value = np.arange(20, dtype=np.float32).reshape(4, 5)\nsl.inspect(value, 'value')",
    "sl.inspect(np.zeros((1024, 2048), np.float32), 'eight')",
]
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Return the notebook as nbclient leaves it, with the state of its widgets, which is its default."""
    folder = tmp_path_factory.mktemp("nbclient")
    notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS])
    return NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}).execute()


def test_NB_09_a_tensor_of_8_MB_saves_little(executed):
    # Two views, each with the text of the browser's module, as nbclient keeps it.
    assert len(nbformat.writes(executed)) < 2 * 100_000
    cell = executed.cells[2]
    assert len(nbformat.writes(new_notebook(cells=[cell]))) < 20_000


@pytest.mark.parametrize("kept", ["without widgets", "with widgets"])
def test_NB_06_a_page_shows_the_pictures_without_kernel_and_network(kept, executed, browser, tmp_path):
    notebook = nbformat.from_dict(executed)
    exporter = HTMLExporter()
    if kept == "without widgets":  # as JupyterLab saves it
        notebook.metadata.pop("widgets")
    else:
        exporter.config.NbConvertBase.display_data_priority = ["image/png", "text/html", "text/plain"]
        exporter = HTMLExporter(config=exporter.config)
    page_file = tmp_path / "notebook.html"
    page_file.write_text(exporter.from_notebook_node(notebook)[0])
    context = browser.new_context(offline=True)
    try:
        page = context.new_page()
        page.goto(page_file.as_uri())
        images = page.locator("img")
        expect(images).to_have_count(2)
        assert all(images.nth(i).evaluate("i => i.complete && i.naturalWidth > 200") for i in range(2))
        corner = images.first.evaluate(
            """image => {
              const canvas = document.createElement('canvas');
              canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
              const c = canvas.getContext('2d');
              c.drawImage(image, 0, 0);
              return [...c.getImageData(4, 4, 1, 1).data.slice(0, 3)];
            }"""
        )
        assert near(corner, TIDE["low"], 2)
    finally:
        context.close()


def test_NB_08_what_is_written_before_the_view_has_loaded_is_seen(lab_server, open_notebook):
    early = """\
from IPython.display import display
t = sl.tensor(np.zeros((4, 5), np.float32))
display(sl.inspect(t, "t"))
for k in range(1, 4):
    t.copy_from_numpy(np.arange(20, dtype=np.float32).reshape(4, 5) * k)"""
    notebook = open_notebook(lab_server, [LOAD, early])
    notebook.run_all()
    view = notebook.output_area(1).locator(".sl.inspector")
    expect(view.locator(".statistics")).to_contain_text("57.00")
    seen = Seen(notebook.page, view, 4, 5)
    colours = seen.colours(0)
    assert near(colours[0], TIDE["low"], 0)
    assert near(colours[19], TIDE["high"], 0)
    assert seen.card(0, 3, 4)[:3] == ["t[3, 4]", "value", "57"]


def test_a_picture_that_is_behind_has_its_own_statistics(lab_server, open_notebook):
    """What is known of a tensor reaches the page at once, its picture when the one before has been drawn."""
    held_up = """\
t = sl.tensor(np.arange(20, dtype=np.float32).reshape(4, 5))
w = sl.inspect(t, "t")
reopen = w._gate.reopen
w._gate.acknowledge = w._gate.reopen = w._ready = lambda *_: None
display(w)
t.copy_from_numpy(np.arange(20, dtype=np.float32).reshape(4, 5) * 3)
w.refresh()"""
    notebook = open_notebook(lab_server, [LOAD, held_up, "reopen()"])
    notebook.run(0)
    notebook.run(1)
    view = notebook.output_area(1).locator(".sl.inspector")
    seen = Seen(notebook.page, view, 4, 5)
    greatest = view.locator(".statistics")
    expect(greatest).to_contain_text("19.00")
    # Drawn again, for another reason.
    notebook.page.set_viewport_size({"width": 1100, "height": 1000})
    notebook.page.wait_for_timeout(500)
    assert near(seen.colours(0)[19], TIDE["high"], 0)
    expect(greatest).to_contain_text("19.00")
    notebook.run(2)
    assert not notebook.failed(2), notebook.text(2)
    expect(greatest).to_contain_text("57.00")
    assert near(seen.colours(0)[19], TIDE["high"], 0)
    assert seen.card(0, 3, 4)[:3] == ["t[3, 4]", "value", "57"]


def test_NB_09_the_pictures_do_not_grow_with_the_tensor():
    from slanglab.widgets.inspector import inspect

    sizes = []
    for shape in ((64, 64), (2048, 1024)):
        view = inspect(np.random.default_rng(0).random(shape, np.float32))
        data, _ = view.bundle()
        sizes.append(len(data["image/png"]))
        view.close()
    assert max(sizes) < 40_000
