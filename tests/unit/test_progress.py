"""What long work shows, and when."""

import io
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from slanglab import progress


class Recorder:
    def __init__(self):
        self.events = []
        self.changed = threading.Event()

    def show(self, work):
        self.events.append(("show", work.title, work.line))
        self.changed.set()

    def hide(self):
        self.events.append(("hide",))

    def titles(self):
        return [e[1] if e[0] == "show" else None for e in self.events]


@pytest.fixture
def recorder():
    recorder = Recorder()
    progress.show_with(recorder)
    yield recorder
    progress.show_with(None)


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves, and a thread that looks at nothing."""

    class Clock:
        now = 1000.0

        def __call__(self):
            return self.now

    clock = Clock()
    display = progress._Display()  # one without a thread; that of the process's own finds nothing to show
    display.unwatched = False
    monkeypatch.setattr(progress, "perf_counter", clock)
    monkeypatch.setattr(progress, "_display", display)
    return clock


@pytest.fixture
def shown(clock, monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(progress._display, "shower", recorder)
    yield recorder
    progress.end_all()


def test_short_work_shows_nothing(clock, shown):
    with progress.work("short") as work:
        clock.now += progress.DELAY - 0.01
        work.tick()
    assert shown.events == []


def test_long_work_shows_itself_now_and_then_and_is_taken_away(clock, shown):
    with progress.work("compiling poly.f backward") as work:
        for _ in range(100):
            clock.now += 0.01
            work.tick()
    lines = [e[2] for e in shown.events if e[0] == "show"]
    assert lines[0] == "compiling poly.f backward · 0.2 s · interrupt to stop"
    assert lines[-1].startswith("compiling poly.f backward · 1.0 s") or "0.9 s" in lines[-1]
    assert 3 <= len(lines) <= 6
    assert shown.events[-1] == ("hide",)
    assert shown.events.count(("hide",)) == 1


def test_the_innermost_is_shown_and_then_what_is_around_it(clock, shown):
    with progress.work("outer") as outer:
        clock.now += 1
        outer.tick()
        with progress.work("inner", stoppable=False) as inner:
            inner.tick()
            clock.now += 1
            inner.tick()
        clock.now += 1
        outer.tick()
    titles = shown.titles()
    assert titles == ["outer", "inner", "outer", "outer", None]
    assert shown.events[1][2] == "inner · 1.0 s"


def test_short_work_in_long_work_does_not_interrupt_its_line(clock, shown):
    with progress.work("outer"):
        for _ in range(20):
            clock.now += 0.1
            with progress.work("inner") as inner:
                clock.now += 0.05
                inner.tick()
    assert set(shown.titles()) == {"outer", None}
    assert shown.titles()[-1] is None


def test_work_that_is_known_to_be_long_is_shown_from_the_beginning(clock, shown):
    with progress.work("opening the device", stoppable=False, at_once=True):
        assert shown.events == [("show", "opening the device", "opening the device")]
    assert shown.events[1:] == [("hide",)]


def test_an_error_in_the_work_takes_the_line_away(clock, shown):
    def fail():
        with progress.work("failing") as work:
            clock.now += 1
            work.tick()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert shown.events[-1] == ("hide",)


def test_a_lost_end_is_made_up_for(clock, shown):
    work = progress.work("interrupted").__enter__()
    clock.now += 1
    work.tick()
    progress.end_all()
    assert shown.events[-1] == ("hide",)
    work.__exit__(None, None, None)
    assert shown.events.count(("hide",)) == 1


def test_what_shows_may_fail_and_the_work_does_not(clock, shown, monkeypatch):
    def closed(work):
        raise OSError("the terminal is gone")

    monkeypatch.setattr(shown, "show", closed)
    with progress.work("going on") as work:
        clock.now += 1
        work.tick()
        clock.now += 1
        work.tick()
    assert shown.events == []
    assert progress._display.shower is None


def test_work_that_blocks_without_the_lock_is_seen_by_the_thread(recorder):
    with progress.work("blocking"):
        assert recorder.changed.wait(10)
    assert recorder.titles()[0] == "blocking"
    assert recorder.titles()[-1] is None


def test_works_of_many_threads_leave_nothing(recorder):
    def some():
        for i in range(20):
            with progress.work(f"{i}", at_once=i % 3 == 0) as work:
                work.tick()
                time.sleep(0.001)

    threads = [threading.Thread(target=some) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert progress._works == []
    assert not progress._display.busy
    assert recorder.events[-1] == ("hide",)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_child_shows_nothing(recorder):
    with progress.work("around a fork", at_once=True):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with progress.work("in the child", at_once=True):
                os.write(writer, str([progress._display.shower, len(progress._works)]).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 100) == b"[None, 1]"
    os.close(reader)
    os.close(writer)
    assert set(recorder.titles()) == {"around a fork", None}


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Screen:
    """As much of a terminal as the line uses: a row of characters and a cursor, with its margin."""

    def __init__(self, width):
        self.width, self.cells, self.at, self.saved, self.wraps = width, [" "] * width, 0, 0, True

    def write(self, text):
        while text:
            for sequence, do in self.sequences().items():
                if text.startswith(sequence):
                    do()
                    text = text[len(sequence) :]
                    break
            else:
                assert text[0] >= " ", repr(text[:10])
                self.cells[self.at] = text[0]
                self.at += 1
                if self.at == self.width:
                    assert not self.wraps, "the line goes on in the next row"
                    self.at -= 1
                text = text[1:]

    def sequences(self):
        def save():
            self.saved = self.at

        def restore():
            self.at = self.saved

        def erase():
            self.cells[self.at :] = [" "] * (self.width - self.at)

        def wrap(on):
            self.wraps = on

        return {
            "\x1b7": save,
            "\x1b8": restore,
            "\x1b[K": erase,
            "\x1b[?7l": lambda: wrap(False),
            "\x1b[?7h": lambda: wrap(True),
        }

    def __str__(self):
        return "".join(self.cells).rstrip()


def test_the_terminals_line_is_behind_the_cursor_and_leaves_what_was_there(monkeypatch, clock):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    assert progress.TerminalLine.usable()
    line = progress.TerminalLine()
    screen = Screen(60)
    screen.write(">>> ")
    work = progress.work("compiling a.rather.long.name.of.a.function")
    with work:
        clock.now += 3.2
        line.show(work)
    screen.write(terminal.getvalue())
    assert str(screen).startswith(">>> compiling a.rather")
    assert (screen.at, screen.wraps) == (4, True)
    terminal.truncate(0)
    terminal.seek(0)
    line.hide()
    screen.write(terminal.getvalue())
    assert str(screen) == ">>>"
    assert screen.at == 4


SCRIPT = """
import sys, time
from slanglab import progress
sys.stderr.write(">>> ")
with progress.work("waiting for poly.f"):
    time.sleep(0.6)
with progress.work("short"):
    pass
sys.stderr.write("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals there")
def test_a_script_in_a_terminal_shows_its_line_and_erases_it():
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stderr=theirs, env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            text += os.read(ours, 1000)
        except OSError:  # the end, on Linux
            break
    os.close(ours)
    assert process.wait() == 0
    shown = text.decode()
    assert re.search(r"waiting for poly\.f · 0\.\d s · interrupt to stop", shown)
    assert "short" not in shown
    screen = Screen(80)
    screen.write(shown)
    assert str(screen) == ">>> done"


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not progress.TerminalLine.usable()
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not progress.TerminalLine.usable()
    monkeypatch.setattr(sys, "stderr", None)
    assert not progress.TerminalLine.usable()
