"""Tables of tensors and summaries, as text and as HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

from slanglab.tensors import summary as summaries
from slanglab.tensors.records import Summary
from slanglab.tensors.sources import Arrays
from slanglab.tensors.wording import line
from slanglab.widgets import tables
from slanglab.widgets.tables import table


class Seen(HTMLParser):
    """The elements and attributes of some HTML, and its rows as text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_a_line_a_tensor() -> None:
    weights = np.array([[1.0, -2.0], [np.nan, 4.0]], np.float32)
    bias = Arrays(np.array([3.0, 4.0]), np.array([0.0, 0.0]))
    found = table(weights, bias, other=np.arange(3), bad=np.array(["x"]), things={"a": weights, "b": [bias]})
    assert list(found.summaries) == ["weights", "bias", "other"]
    text = repr(found)
    lines = text.splitlines()
    assert lines[0].split() == ["name", "shape", "dtype", "value", "gradient", "norm"]
    assert lines[1].startswith("weights  (2, 2)")
    assert "-2.000 to 4.000" in lines[1]
    assert lines[1].endswith("1 NaN")
    assert "gradient all zero" in lines[2]
    assert "no real numbers" in lines[4]
    seen = Seen(found._repr_html_())
    assert seen.rows[1][0].startswith("weights")
    assert seen.rows[1][-1] == "× 1 NaN"
    assert not any(name.startswith("on") for name in seen.attributes)


def test_containers_are_taken_apart() -> None:
    a, b = np.zeros(2), np.ones((3, 3))
    params = {"w": a, "layers": [b, b]}
    assert list(table(params).summaries) == ["params['w']", "params['layers'][0]", "params['layers'][1]"]
    assert "and 1 more" in repr(table([np.zeros(1)] * (tables._MOST + 1)))
    assert tables.inside([a]) is None
    assert tables.inside([]) is None
    assert tables.inside({}) is None


def test_names_cannot_inject() -> None:
    found = table(**{'<img src=x onerror="alert(1)">': np.zeros(2)})
    seen = Seen(found._repr_html_())
    assert "img" not in seen.tags
    assert "onerror" not in seen.attributes
    assert '<img src=x onerror="alert(1)">' in seen.rows[1][0]


def test_a_summary_shows_itself(monkeypatch) -> None:
    value = np.array([[1.0, np.inf], [0.0, 5.0]], np.float32)
    found = summaries.summary(Arrays(value, np.zeros_like(value)))
    assert "gradient" in repr(found)
    assert "+Inf" in repr(found).splitlines()[1]
    assert found._repr_html_() is None
    monkeypatch.setattr(Summary, "drawer", tables.summary_html)
    seen = Seen(found._repr_html_())
    assert [row[0] for row in seen.rows] == ["whole tensor", "value", "gradient", "|gradient| / |value|"]
    assert seen.rows[1][1:9] == ["0", "5.000", "2.000", "2.160", "1", "0", "1", "0"]
    fields = summaries.summary(np.zeros(3, [("a", "f4"), ("b<", "i4")]))
    assert "b<" in Seen(tables.summary_html(fields)).rows[2][0]
    Seen(tables.summary_html(summaries.summary(np.zeros((0, 3)))))


def test_a_tensor_in_one_line() -> None:
    value = np.array([0.0, 1.0, 2.0, np.nan], np.float32)
    assert line(summaries.summary(value)) == "Tensor float32 (4,): 0 to 2.000, 1 +- 0.82; 1 NaN"
    both = Arrays(value[:3], np.array([0, -3, 0], np.float32))
    assert line(summaries.summary(both)).endswith("gradient +-3")
    assert line(summaries.summary(Arrays(value[:3], value[:3] * 0))).endswith("gradient 0")
    assert line(summaries.summary(np.zeros((0, 2), np.float32))) == "Tensor float32 (0, 2)"
