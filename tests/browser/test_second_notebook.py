"""The notebook on looking into tensors, in real JupyterLab and Notebook 7."""

from playwright.sync_api import expect
from test_notebook import NOTEBOOKS


def index_of(notebook, text):
    """Return the index of the code cell that has `text` in its source."""
    return notebook.page.evaluate(
        """text => window.jupyterapp.shell.currentWidget.content.widgets.findIndex(
          cell => cell.model.type === 'code' && cell.model.sharedModel.getSource().includes(text))""",
        text,
    )


def test_it_runs_from_top_to_bottom_and_shows_its_tensors(server, open_notebook):
    notebook = open_notebook(server, NOTEBOOKS / "02-looking-into-tensors.ipynb")
    kinds = notebook.page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.type)"
    )
    code = [i for i, kind in enumerate(kinds) if kind == "code"]
    notebook.run_all()
    assert {i: notebook.text(i) for i in code if notebook.failed(i)} == {}
    assert [notebook.count(i) for i in code] == list(range(1, len(code) + 1))
    assert "frames[0, :, :]" in notebook.text(index_of(notebook, "view.code"))

    # One NaN of a quarter of a million, in the gradient: counted, and marked in its picture.
    hunted = index_of(notebook, "bwds(x, y, p=0.75, _result=height)\nx")
    notebook.page.evaluate(
        "i => window.jupyterapp.shell.currentWidget.content.scrollToItem(i, 'start')", hunted
    )
    view = notebook.output_area(hunted).locator(".sl.inspector")
    expect(view.locator(".pic canvas").first).to_be_visible()
    expect(view).to_contain_text("NaN")
    assert "[(250, 250)]" in notebook.text(
        index_of(notebook, "from slanglab.tensors.summary import nonfinite")
    )

    # The slider of the first axis moves the slice.
    frames = index_of(notebook, 'sl.inspect(frames, "frames")')
    notebook.page.evaluate(
        "i => window.jupyterapp.shell.currentWidget.content.scrollToItem(i, 'start')", frames
    )
    view = notebook.output_area(frames).locator(".sl.inspector")
    view.locator(".axes input[type=range]").first.fill("3")
    expect(view.locator(".codeline code")).to_have_text("frames[3, :, :]")
