"""Live plots in real JupyterLab and Notebook 7: buttons of a busy cell at first contact, numbers, and what may go wrong."""

import base64
import io
import json
import re
import time

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect
from test_inspector_tools import eventually

# Steps of numpy alone: what is tested is who hears whom while a cell is busy.
LOAD = """\
%load_ext slanglab
import time, json
import numpy as np
import slanglab as sl
from slanglab.tensors.sources import Arrays
class Descent:
    def __init__(self, params, lr):
        self.params, self.lr = params, lr
    def zero_grad(self):
        for p in self.params.values(): p.gradient[...] = 0
    def step(self):
        for p in self.params.values(): p.value[...] -= self.lr * p.gradient
target = np.linspace(1, 2, 8)
def made():
    w = Arrays(np.zeros(8), np.zeros(8))
    return w, Descent({"größe <b>": w}, 1e-3)
w, optimizer = made()
ends = []
def step(i):
    time.sleep(0.004)
    w.gradient[...] += w.value - target
    ends.append(time.time())
    return 0.5 * float(np.sum((w.value - target) ** 2)) + 0.01 * np.sin(i)"""
BUSY = "run = sl.train(step, steps=100_000, optimizer=optimizer)\nover = time.time()"
LIMIT = 0.2


def start(notebook, cell):
    """Run a cell and do not wait for it."""
    notebook.select(cell)
    notebook.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell') }")


def ended(notebook, cell):
    notebook.page.wait_for_function(
        "i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.executionCount !== null",
        arg=cell,
        timeout=120_000,
    )
    notebook.wait_idle()


def say(notebook, cell, source):
    """Run an expression and return its value."""
    notebook.edit(cell, f"print(json.dumps({source}))")
    notebook.run(cell)
    assert not notebook.failed(cell), notebook.text(cell)
    return json.loads(notebook.text(cell))


def press(notebook, view, name):
    """Click a button and return when that was, in seconds as the kernel counts them."""
    button = view.get_by_role("button", name=name, exact=True)
    button.evaluate(
        "b => b.addEventListener('click', () => { window.__clicked = Date.now() / 1000 }, {once: true})"
    )
    button.click()
    return notebook.page.evaluate("window.__clicked")


@pytest.fixture
def busy(server, open_notebook):
    """Return a notebook with a cell that trains, and the view under it; the browser has said nothing to the plot but that it is there."""
    notebook = open_notebook(server, [LOAD, BUSY, "pass"], height=1300)
    notebook.run(0)
    assert not notebook.failed(0), notebook.text(0)
    start(notebook, 1)
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".state")).to_have_text("running", timeout=60_000)
    return notebook, view


def test_the_first_view_of_a_page_is_heard_while_its_cell_is_busy(server, open_notebook):
    """What it says before the kernel has a subshell waits for the cell; it says it again (`js/src/lib/greeting.ts`)."""
    patient = "\nfrom slanglab.widgets import gate\ngate.GATE_SECONDS = 1e6"
    notebook = open_notebook(server, [LOAD + patient, BUSY, "pass"], height=1300)
    notebook.run(0)
    assert not notebook.failed(0), notebook.text(0)
    start(notebook, 1)
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".state")).to_have_text("running", timeout=60_000)
    press(notebook, view, "stop")
    ended(notebook, 1)
    expect(view.locator(".state")).to_have_text("stopped")


def test_stop_at_first_contact(busy):
    notebook, view = busy
    clicked = press(notebook, view, "stop")
    ended(notebook, 1)
    expect(view.locator(".state")).to_have_text("stopped")
    assert not notebook.failed(1), notebook.text(1)
    last, how, losses, done = say(notebook, 2, "[ends[-1], run.stopped, len(run.history['loss']), run.done]")
    assert how == "stopped"
    assert losses == done
    assert last - clicked < LIMIT


def test_pause_step_rate_and_play_at_first_contact(busy):
    notebook, view = busy
    clicked = press(notebook, view, "pause")
    expect(view.locator(".state")).to_have_text("paused")
    shown = int(re.sub(r"\D", "", view.locator(".facts .num").first.text_content()))
    time.sleep(0.5)
    for more in (1, 2):
        press(notebook, view, "step")
        expect(view.locator(".facts .num").first).to_have_text(re.compile(rf"^{spaced(shown + more)}$"))
    played = press(notebook, view, "play")
    expect(view.locator(".state")).to_have_text("running")
    time.sleep(0.3)
    slider = view.locator("input[type=range]").first
    slider.evaluate(
        """s => { s.value = 1; window.__clicked = Date.now() / 1000; s.dispatchEvent(new Event('input', {bubbles: true})) }"""
    )
    moved = notebook.page.evaluate("window.__clicked")
    time.sleep(0.5)
    press(notebook, view, "stop")
    ended(notebook, 1)
    ends, rates = say(notebook, 2, "[ends, run.history['learning_rate'].tolist()]")
    ends = np.array(ends)
    paused = ends[shown - 1]
    assert paused - clicked < LIMIT
    # Nothing but the two steps that were asked for until it went on.
    assert np.sum((ends > paused) & (ends < played)) == 2
    assert ends[ends > played][0] - played < LIMIT
    rates = np.array(rates)
    changed = np.flatnonzero(np.diff(rates))[0] + 1
    np.testing.assert_allclose(rates[changed], 1e-2)
    assert 0 < ends[changed] - moved < LIMIT


def spaced(n):
    return re.sub(r"\B(?=(\d{3})+$)", "\N{NARROW NO-BREAK SPACE}", str(n))


def test_keys(busy):
    notebook, view = busy
    view.focus()
    notebook.page.keyboard.press(" ")
    expect(view.locator(".state")).to_have_text("paused")
    notebook.page.keyboard.press("s")
    notebook.page.keyboard.press(" ")
    expect(view.locator(".state")).to_have_text("running")
    notebook.page.keyboard.press("Escape")
    ended(notebook, 1)
    expect(view.locator(".state")).to_have_text("stopped")


def test_play_while_the_one_step_is_done(lab_server, open_notebook):
    """A step that is being done is not running on: Space is "go on" then, as the button says."""
    slow = "def slow(i):\n    time.sleep(2)\n    return step(i)\nrun = sl.train(slow, steps=100_000, optimizer=optimizer)"
    notebook = open_notebook(lab_server, [LOAD, slow, "pass"], height=1300)
    notebook.run(0)
    start(notebook, 1)
    view = notebook.output_area(1).locator(".sl.live")
    state, done = view.locator(".state"), view.locator(".facts .num").first
    expect(state).to_have_text("running", timeout=60_000)
    view.focus()
    notebook.page.keyboard.press(" ")
    expect(state).to_have_text("paused")
    before = int(re.sub(r"\D", "", done.text_content()))
    notebook.page.keyboard.press("s")
    expect(state).to_have_text("running")
    said = view.locator(".controls button").first.text_content()
    notebook.page.keyboard.press(" ")
    assert said == "play"
    expect(done).to_have_text(re.compile(rf"^{spaced(before + 3)}$"), timeout=20_000)
    notebook.page.keyboard.press("Escape")
    ended(notebook, 1)


@pytest.fixture
def opened(lab_server, open_notebook):
    """Return a function that runs cells after LOAD in JupyterLab, each to its end."""

    def open_(*cells, wait=True):
        notebook = open_notebook(lab_server, [LOAD, *cells, "pass"], height=1300)
        notebook.run(0)
        if wait:
            for i in range(1, len(cells) + 1):
                notebook.run(i)
                ended(notebook, i)
        return notebook

    return open_


def hover(notebook, view, at):
    """Put the pointer on the loss at a share of its width; return the step and the text of the number there."""
    box = view.locator(".u-over").bounding_box()
    notebook.page.mouse.move(box["x"] + at * box["width"], box["y"] + box["height"] / 2)
    text = view.locator("h4 .under")
    expect(text).to_have_text(re.compile("^step "))
    step, number = text.text_content().removeprefix("step ").split(": ")
    return int(re.sub(r"\D", "", step)), number


@pytest.mark.parametrize("count", [500, 60_000])
def test_the_numbers_are_numpys(opened, count):
    body = "rng = np.random.default_rng()\nlosses = np.exp(-np.arange(N) / N * 4) * rng.uniform(0.5, 1.5, N)"
    notebook = opened(
        f"N = {count}\n{body}\nrun = sl.train(lambda i: losses[i], steps=N, name='<i>eins</i>')",
        "print(json.dumps(losses.tolist()))",
    )
    losses = np.array(json.loads(notebook.text(2)))
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".state")).to_have_text("done")
    # Text is text.
    expect(view.locator(".head .name")).to_have_text("<i>eins</i>")
    for at in (0.01, 0.3, 0.5, 0.77, 0.99):
        step, text = hover(notebook, view, at)
        assert abs(step - at * count) < count / 100 + 2
        shown = float(text.replace("\N{MINUS SIGN}", "-"))
        np.testing.assert_allclose(shown, losses[step], rtol=6e-4)
    label = view.locator(".loss").get_attribute("aria-label")
    assert f"loss, {count} steps" in label
    np.testing.assert_allclose(
        float(re.search(r"to ([\d.e−]+),", label)[1].replace("−", "-")), losses[-1], rtol=6e-3
    )


def test_what_is_saved_shows_the_end(opened):
    notebook = opened("run = sl.train(step, steps=40, optimizer=optimizer)")
    (output,) = (o for o in notebook.outputs(1) if "image/png" in o["data"])
    assert "done at step 40 of 40" in "".join(output["data"]["text/plain"])
    assert "text/html" not in output["data"]
    image = np.array(Image.open(io.BytesIO(base64.b64decode(output["data"]["image/png"]))).convert("RGB"))
    teal = np.abs(image.astype(int) - [0x00, 0x71, 0x7C]).sum(axis=2) < 30
    columns = np.flatnonzero(teal.any(axis=0))
    assert columns[0] < 40
    assert columns[-1] > image.shape[1] - 40


def test_what_is_not_finite(opened):
    bad = "def spoiled(i):\n    found = step(i)\n    if i == 30: w.gradient[5] = np.nan\n    return found"
    notebook = opened(f"{bad}\nrun = sl.train(spoiled, steps=90, optimizer=optimizer, check_every=1)")
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.get_by_role("alert")).to_contain_text("NaN at step 30: größe <b>.grad[5].")
    expect(view.locator(".state")).to_have_text("stopped")
    before = say(notebook, 2, "w.value.tolist()")
    assert np.isfinite(before).all()
    view.get_by_role("button", name=re.compile("go back to step")).click()
    expect(view.get_by_role("status")).to_contain_text("The parameters are those of step")
    after, kept = say(notebook, 2, "[w.value.tolist(), run.states[-1].values['größe <b>'].tolist()]")
    assert after == kept


def test_an_exception_in_a_step(opened):
    bad = "def spoiled(i):\n    if i == 30: raise KeyError('<script>mine</script>')\n    return step(i)"
    notebook = opened(f"{bad}\nrun = sl.train(spoiled, steps=90, optimizer=optimizer)")
    assert notebook.failed(1)
    assert "raise KeyError" in re.sub(r"\x1b\[[\d;]*m", "", notebook.text(1))
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.get_by_role("alert")).to_contain_text("<script>mine</script>")
    assert say(notebook, 2, "len(sl.last_training().history['loss'])") == 30


def test_interrupt(opened):
    notebook = opened(BUSY, wait=False)
    start(notebook, 1)
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".facts")).to_contain_text("steps/s", timeout=60_000)
    notebook.command("kernelmenu:interrupt")
    ended(notebook, 1)
    assert not notebook.failed(1), notebook.text(1)
    how, done, losses = say(notebook, 2, "[run.stopped, run.done, len(run.history['loss'])]")
    assert how == "interrupted"
    assert done == losses
    expect(view.locator(".state")).to_have_text(f"interrupted at step {spaced(done)}")


def test_interrupt_of_an_own_loop(opened):
    loop = "for i in (run := sl.steps(10_000)):\n    time.sleep(0.01)\n    run.log(1 / (i + 1))"
    notebook = opened(loop, wait=False)
    start(notebook, 1)
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".facts")).to_contain_text("steps/s", timeout=60_000)
    notebook.command("kernelmenu:interrupt")
    ended(notebook, 1)
    assert "KeyboardInterrupt" in notebook.text(1)
    done = say(notebook, 2, "run.done")
    expect(view.locator(".state")).to_have_text(f"interrupted at step {spaced(done)}")
    assert say(notebook, 2, "run.history['loss'].tolist()")[:3] == [1, 1 / 2, 1 / 3]


def test_two_in_the_background_while_other_cells_run(opened):
    two = """\
v, other = made()
def second(i):
    v.gradient[...] += v.value + target
    return float(i)
one = sl.train(step, steps=100_000, optimizer=optimizer, background=True)
two = sl.train(second, steps=10**9, optimizer=other, background=True)"""
    notebook = opened(two, wait=False)
    notebook.run(1)
    views = notebook.output_area(1).locator(".sl.live")
    expect(views).to_have_count(2)
    for k in (0, 1):
        expect(views.nth(k).locator(".state")).to_have_text("running", timeout=60_000)
    first = say(notebook, 2, "[one.done, two.done]")
    time.sleep(0.5)
    second = say(notebook, 2, "[one.done, two.done]")
    assert second[0] > first[0]
    assert second[1] > first[1]
    press(notebook, views.nth(0), "stop")
    expect(views.nth(0).locator(".state")).to_have_text("stopped")
    expect(views.nth(1).locator(".state")).to_have_text("running")
    press(notebook, views.nth(1), "stop")
    expect(views.nth(1).locator(".state")).to_have_text("stopped")


def test_an_error_in_the_background(opened):
    notebook = opened("run = sl.train(lambda i: 1 / (20 - i), steps=90, background=True)", wait=False)
    notebook.run(1)
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.get_by_role("alert")).to_contain_text("ZeroDivisionError", timeout=60_000)
    notebook.edit(2, "run.wait()")
    notebook.run(2)
    assert "ZeroDivisionError" in notebook.text(2)


def test_a_reloaded_page_gets_the_whole(opened):
    notebook = opened("run = sl.train(step, steps=100_000, optimizer=optimizer, background=True)", wait=False)
    notebook.run(1)
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".state")).to_have_text("running", timeout=60_000)
    notebook.save()
    notebook.page.reload()
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".state")).to_have_text("running", timeout=60_000)
    eventually(notebook, lambda: hover(notebook, view, 0.0)[0] == 0)
    press(notebook, view, "stop")
    expect(view.locator(".state")).to_have_text("stopped")
    losses = say(notebook, 2, "run.history['loss'].tolist()")
    step, text = hover(notebook, view, 0.0)
    np.testing.assert_allclose(float(text), losses[step], rtol=6e-4)


def test_a_closed_view_holds_nothing_up(opened):
    notebook = opened(BUSY, wait=False)
    start(notebook, 1)
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".state")).to_have_text("running", timeout=60_000)
    notebook.command("notebook:clear-cell-output")
    expect(view).to_have_count(0)
    closed = time.time()
    notebook.page.wait_for_timeout(3000)
    notebook.command("kernelmenu:interrupt")
    ended(notebook, 1)
    how, lost, took = say(
        notebook, 2, f"[run.stopped, len(ends) - run.done, sum(t > {closed} for t in ends)]"
    )
    # 3 s of steps of at least 4 ms, and of no more than 20 ms on a machine that is busy; a frame that nobody draws is waited for 2 s.
    assert how == "interrupted"
    assert lost in (0, 1)
    assert took > 150


def test_out_of_sight_nothing_is_drawn_until_it_is_back(opened):
    tall = "from IPython.display import HTML\nHTML('<div style=\"height: 5000px\"></div>')"
    notebook = opened(BUSY, tall, wait=False)
    notebook.run(2)
    start(notebook, 1)
    view = notebook.output_area(1).locator(".sl.live")
    loss = view.locator(".loss")

    def steps():
        # Before the first drawing there is no label.
        return int(re.search(r"(\d+) steps", loss.get_attribute("aria-label") or "0 steps")[1])

    eventually(notebook, lambda: steps() > 0)
    scroll = "top => { document.querySelector('.jp-WindowedPanel-outer').scrollTop = top }"
    notebook.page.evaluate(scroll, 4000)
    notebook.page.wait_for_timeout(500)
    known = steps()
    notebook.page.wait_for_timeout(1500)
    assert steps() == known
    notebook.page.evaluate(scroll, 0)
    # 1.5 s of steps of at least 4 ms at most, and of no more than 20 ms on a machine that is busy.
    eventually(notebook, lambda: steps() > known + 75)
    notebook.page.evaluate(scroll, 4000)
    notebook.page.wait_for_timeout(500)
    notebook.command("kernelmenu:interrupt")
    ended(notebook, 1)
    # The end is drawn wherever the view is; it is another one, as the cell's output has got its still picture.
    done = say(notebook, 3, "run.done")
    eventually(notebook, lambda: steps() == done)


def test_a_restarted_kernel_leaves_the_last_picture(opened):
    notebook = opened("run = sl.train(step, steps=100_000, optimizer=optimizer, background=True)", wait=False)
    notebook.run(1)
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".state")).to_have_text("running", timeout=60_000)
    expect(view.locator(".uplot")).to_be_visible()
    notebook.restart()
    expect(view).to_contain_text("The kernel of this plot is gone")
    expect(view.locator(".state")).to_have_text("kernel gone")
    expect(view.locator(".uplot")).to_be_visible()
    expect(view.get_by_role("button", name="stop")).to_be_disabled()


def test_one_plot_for_several_runs(opened):
    """NB-11: a plot of another cell shows each run, and each begins a new curve."""
    notebook = opened(
        "plot = sl.LivePlot()\nplot", "run = sl.train(step, steps=50, optimizer=optimizer, plot=plot)"
    )
    view = notebook.output_area(1).locator(".sl.live")
    expect(notebook.output_area(2).locator(".sl.live")).to_have_count(0)
    for _ in range(2):
        expect(view.locator(".state")).to_have_text("done")
        assert hover(notebook, view, 0.0)[0] == 0
        assert "loss, 50 steps" in view.locator(".loss").get_attribute("aria-label")
        notebook.run(2)
        ended(notebook, 2)


def test_nobody_is_flooded(opened):
    """NB-03: at most twenty messages a second, and the last value arrives."""
    count = """\
sent = []
from slanglab.widgets.transport import SlangWidget
plain = SlangWidget._transmit
def counted(self, frame):
    sent.append(time.time())
    plain(self, frame)
SlangWidget._transmit = counted
run = sl.train(lambda i: float(i), steps=400_000)"""
    notebook = opened(count)
    view = notebook.output_area(1).locator(".sl.live")
    expect(view.locator(".facts .num").first).to_have_text(spaced(400_000))
    times = np.array(say(notebook, 2, "sent"))
    in_a_second = max(int(np.sum((times >= t) & (times < t + 1))) for t in times)
    # The whole for the view that opens, and the end, come on top.
    assert in_a_second <= 24
    assert "to 4.00e5" in view.locator(".loss").get_attribute("aria-label")


def test_kept_states_can_be_looked_at(opened):
    notebook = opened(
        "image = np.zeros((4, 4))\n"
        "def shown(i):\n    image[...] = i\n    image[0, 0] = 0\n    return step(i)\n"
        "run = sl.train(shown, steps=300, optimizer=optimizer, show={'image': image})"
    )
    view = notebook.output_area(1).locator(".sl.live")
    slider = view.get_by_label("kept states")
    expect(slider).to_be_visible()
    slider.focus()
    notebook.page.keyboard.press("Home")
    expect(view.locator("figcaption").first).to_contain_text("at step 0, kept")
    states = say(notebook, 2, "[s.step for s in run.states]")
    slider.focus()
    notebook.page.keyboard.press("End")
    expect(view.locator("figcaption").first).to_contain_text("at step 300")
    assert states[0] == 0
    assert states[-1] == 300
