import itertools
import re

import pytest
from pages import NotebookPage, Server, launch
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """Return a function from an application to its server, started at the first call."""
    running = {}

    def server(app):
        if app not in running:
            running[app] = Server(tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("jupyter"), app)
        return running[app]

    yield server
    for one in running.values():
        one.stop()


@pytest.fixture(scope="session", params=["lab", "notebook"])
def server(request, servers):
    return servers(request.param)


@pytest.fixture(scope="session")
def lab_server(servers):
    """JupyterLab alone, for what does not depend on the application."""
    return servers("lab")


# anywidget 0.11 gives a model's module two seconds to load. A model that is closed in that time, as by a cell that runs again at once, is
# never said to have loaded it, and the promise that nobody waits for is rejected. A view that failed says so otherwise, in its place.
CLOSED_WHILE_LOADING = "[anywidget] Failed to initialize model."


def _pattern(message):
    """Return what two messages about different addresses and numbers have in common."""
    return re.sub(r"https?://\S+|[0-9a-f-]{8,}|\d+", "*", message)


@pytest.fixture(scope="session")
def noise(browser):
    """Return a function from a server to what its application logs as errors by itself.

    That is found by running and restarting a notebook without SlangLab: Notebook 7.6 says "Cannot read properties of undefined
    (reading 'schema')" then too.
    """
    heard = {}

    def of(server):
        if server.app not in heard:
            plain = NotebookPage(browser.new_page(), server, ["1 + 1", "1 / 0"], "plain.ipynb")
            plain.run_all()
            plain.restart_and_run_all()
            heard[server.app] = {_pattern(m) for m in (*plain.console, CLOSED_WHILE_LOADING)}
            plain.close()
        return heard[server.app]

    return of


@pytest.fixture
def open_notebook(browser, noise):
    """Return a function that opens cells, or a notebook file, in a page: `open_notebook(server, cells, dark=False, width=1280)`.

    When the test is over no page may have logged an error of its own, asked another host for anything, or made an element that can
    run code out of a text.
    """
    opened = []
    serial = itertools.count()

    def open_(server, cells, *, dark=False, width=1280, height=1000):
        noise(server)
        server.theme(dark)
        page = browser.new_page(viewport={"width": width, "height": height})
        notebook = NotebookPage(page, server, cells, f"test-{id(opened):x}-{next(serial)}.ipynb")
        opened.append(notebook)
        return notebook

    yield open_
    problems = []
    for notebook in opened:
        problems += [m for m in notebook.console if _pattern(m) not in noise(notebook.server)]
        problems += [f"asked {url}" for url in notebook.elsewhere]
        problems += notebook.intruders()
        notebook.close()
    assert problems == []
