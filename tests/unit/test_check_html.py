"""The report of a gradient check, as text and as HTML."""

import re
from html.parser import HTMLParser

import numpy as np

from slanglab.checks.results import Outcome
from slanglab.checks.worst import Element
from slanglab.engine.probing.report import GradCheck, InputCheck, percent
from slanglab.widgets.check_html import html


def report(name="x", verdict="differs", function="m.f", notes=()):
    outcome = Outcome(verdict, 0.31, 0.005, calls=4)
    forward = Outcome("agrees", 1e-7, 1e-4)
    elements = (Element((3, 1), 0.5, 1.25, 1.81),) if verdict == "differs" else ()
    found = InputCheck(name, (4, 2), verdict, "", 0.31, 0.005, outcome, forward, "", elements)
    return GradCheck(function, verdict, (found,), tuple(notes), (), 2, 17, 14)


class Reader(HTMLParser):
    """Checks that elements nest, and keeps the text."""

    def __init__(self):
        super().__init__()
        self.open, self.said = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "path":
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return " ".join("".join(reader.said).split())


def test_what_differs_is_said_with_both_derivatives():
    said = read(html(report()))
    assert "gradient differs" in said
    assert "x[3, 1] = 0.5: bwds gives 1.25, differences 1.81" in said
    assert "off by 31 %" in said
    text = str(report())
    assert "x[3, 1] = 0.5: bwds gives 1.25, differences 1.81" in text
    assert "seed 17" in text
    assert repr(report()) == text
    assert "wrong" not in text + said


def test_names_and_notes_are_escaped():
    for evil in ("<script>alert(1)</script>", '"><img src=x>', "`<b>`"):
        drawn = html(report(name=evil, function=evil, notes=[evil]))
        assert "<script>" not in drawn
        assert "<img" not in drawn
        read(drawn)


def test_a_report_shows_itself_where_somebody_draws(monkeypatch):
    assert report()._repr_html_() is None
    monkeypatch.setattr(GradCheck, "drawer", html)
    assert report()._repr_html_() == html(report())


def test_the_verdict_has_its_tone():
    tones = {
        v: re.search(r'class="rep (\w+)"', html(report(verdict=v)))[1]
        for v in ("agrees", "differs", "cannot tell")
    }
    assert tones == {"agrees": "ok", "differs": "err", "cannot tell": "warn"}
    assert report(verdict="agrees").ok
    assert not report(verdict="cannot tell").ok


def test_sizes_in_words():
    assert percent(0.005) == "0.5 %"
    assert percent(1.0) == "100 %"
    assert percent(0.128) == "13 %"
    assert percent(1e-6) == "< 0.01 %"
    assert percent(25.0) == "25 times"
    assert percent(float("inf")) == "infinite"
    assert percent(np.nan) == "-"
