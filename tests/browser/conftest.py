import itertools
from pathlib import Path

import pytest
from jupyter import CHROMIUM_FLAGS, NotebookPage, Server, chromium
from playwright.sync_api import sync_playwright

SHOTS = Path(__file__).parents[1] / "shots"


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), headless=True, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session", params=["lab", "notebook"])
def server(request, tmp_path_factory):
    root, folder = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("jupyter")
    server = Server(root, folder, request.param)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory):
    """JupyterLab alone, for what does not depend on the application."""
    server = Server(tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("jupyter"), "lab")
    yield server
    server.stop()


@pytest.fixture
def open_notebook(browser):
    """Return a function that opens cells as a notebook: `open_notebook(server, cells, dark=False, width=1280)`."""
    opened = []
    serial = itertools.count()

    def open_(server, cells, *, dark=False, width=1280, height=1000):
        server.theme(dark)
        page = browser.new_page(viewport={"width": width, "height": height})
        notebook = NotebookPage(page, server, cells, f"test-{id(opened):x}-{next(serial)}.ipynb")
        opened.append(notebook)
        return notebook

    yield open_
    for notebook in opened:
        notebook.close()


@pytest.fixture
def shots():
    """Return the folder for screenshots; git ignores it."""
    SHOTS.mkdir(exist_ok=True)
    return SHOTS
