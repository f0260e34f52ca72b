"""`slanglab.flow`: the path from parameters to a loss, with the magnitude of the gradient on each tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from slanglab import look
from slanglab.cells.function import SlangFunction
from slanglab.cells.recording import Call, Recording, key, recorded
from slanglab.errors import ArgumentError, SlangLabError
from slanglab.tensors import sources
from slanglab.tensors import summary as summaries
from slanglab.training.measuring import norm
from slanglab.training.parameters import variables
from slanglab.widgets.markup import attribute, escape

__all__ = ["Flow", "flow"]

_WIDTH, _LEFT, _FUNCTION, _RIGHT = 760, 8, 300, 510
_BOX, _CALL, _HEIGHT, _ROOM = 242, 150, 46, 10


@dataclass(frozen=True)
class Node:
    """A tensor of the flow.

    Attributes
    ----------
    name : str
        A variable's or a parameter's.
    shape : tuple of int
    gradient : float or None
        Euclidean norm of its gradient; NaN where some of it is not finite, None where it has none.
    """

    name: str
    shape: tuple[int, ...]
    gradient: float | None


class Flow:
    """Calls, tensors between them, and the norms of their gradients when the recording ended.

    Attributes
    ----------
    calls : list of Call
        In order; each with the nodes' keys of inputs and outputs.
    nodes : dict
        The tensors.
    result : object
        What the function returned, where one was given.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.nodes: dict[Any, Node] = {}
        self.result: Any = None
        self._context: AbstractContextManager[Recording] | None = None
        self._recording: Recording | None = None

    def __enter__(self) -> Flow:
        if self._context is not None:
            raise SlangLabError("This flow is recorded already.", hint="make another one: slanglab.flow()")
        self._context = recorded()
        self._recording = self._context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._context is not None
        assert self._recording is not None
        self._context.__exit__(kind, error, trace)
        if error is None:
            self._finish(self._recording)

    def _finish(self, recording: Recording) -> None:
        self.calls = recording.calls
        names = {
            key(one): name for name, one in variables().items() if sources.is_tensor(one) and name[:1] != "_"
        }
        for call in self.calls:
            for name, tensor in [*call.outputs, *call.inputs]:
                given = names.get(key(tensor)) or name or f"{call.name}(…)"
                known = self.nodes.get(key(tensor))
                gradient = _norm(tensor)
                # The same numbers, once with a gradient and once without: the gradient counts.
                if known is None or (known.gradient is None and gradient is not None):
                    self.nodes[key(tensor)] = Node(given, tuple(tensor.shape.as_tuple()), gradient)

    # ----- twins -----

    @property
    def text(self) -> str:
        """The plain-text twin: a line for each call and tensor."""
        if not self.calls:
            return "Flow: no call was recorded"
        lines = []
        for call in self.calls:
            done = "" if call.backward else "  (no backward call)"
            lines.append(f"{call.name}{done}")
            for arrow, ends in (("<-", call.inputs), ("->", call.outputs)):
                for _, tensor in ends:
                    node = self.nodes[key(tensor)]
                    lines.append(f"  {arrow} {node.name} {look.shape(node.shape)}  {_said(node, ascii=True)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html()}

    def html(self) -> str:
        """Return the drawing as an HTML element with its own style, without a script."""
        if not self.calls:
            body = "<div>No call was recorded: call functions of a Slang cell inside the <code>with</code>.</div>"
        else:
            body = f'{_Drawing(self).svg()}<div class="foot">Bars and lines: norm of the gradient, on a logarithmic scale.</div>'
        return f'<div class="slanglab-flow"><style>{look.style("flow.css")}</style>{body}</div>'


def _norm(tensor: Any) -> float | None:
    if sources.gradient_of(tensor) is None:
        return None
    return norm(summaries.statistics(tensor, gradient=True))


def _said(node: Node, ascii: bool = False) -> str:
    if node.gradient is None:
        return "no gradient"
    if math.isnan(node.gradient):
        return "gradient not finite"
    return f"|gradient| {look.number(node.gradient, ascii=ascii)}"


class _Drawing:
    """A row for each call: what comes from outside at the left, the function, its results at the right."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        known = [n.gradient for n in flow.nodes.values() if n.gradient and math.isfinite(n.gradient)]
        logs = np.log10(known) if known else np.zeros(1)
        # A decade at least: gradients that hardly differ look alike.
        self._low = min(float(logs.min()), float(logs.max()) - 1) - 0.2
        self._high = float(logs.max())

    def _share(self, node: Node) -> float:
        if not node.gradient or not math.isfinite(node.gradient):
            return 0.0
        return (math.log10(node.gradient) - self._low) / (self._high - self._low)

    def svg(self) -> str:
        """Return the drawing."""
        boxes: list[str] = []
        edges: list[str] = []
        places: dict[Any, tuple[float, float]] = {}
        top = 4.0
        for call in self._flow.calls:
            outside = [t for _, t in call.inputs if key(t) not in places or places[key(t)][0] < _FUNCTION]
            inside = [t for _, t in call.inputs if key(t) in places and places[key(t)][0] > _FUNCTION]
            rows = max(len(outside), len(call.outputs), 1)
            height = rows * (_HEIGHT + _ROOM) - _ROOM
            middle = top + height / 2
            boxes.append(
                f'<rect class="f" x="{_FUNCTION}" y="{middle - 17:.1f}" width="{_CALL}" height="34" rx="17"/>'
                f'<text class="m" text-anchor="middle" x="{_FUNCTION + _CALL / 2}" y="{middle + 4:.1f}">{_cut(call.name, 18)}</text>'
            )
            for tensors, left in ((outside, _LEFT), ([t for _, t in call.outputs], _RIGHT)):
                first = middle - (len(tensors) * (_HEIGHT + _ROOM) - _ROOM) / 2
                for i, tensor in enumerate(tensors):
                    y = first + i * (_HEIGHT + _ROOM)
                    node = self._flow.nodes[key(tensor)]
                    boxes.append(self._box(node, left, y))
                    at = y + _HEIGHT / 2
                    if left == _LEFT:
                        edges.append(self._edge(node, _LEFT + _BOX, at, _FUNCTION, middle))
                    else:
                        edges.append(self._edge(node, _FUNCTION + _CALL, middle, _RIGHT, at))
                        places[key(tensor)] = _RIGHT, y + _HEIGHT
            for tensor in inside:
                x, y = places[key(tensor)]
                edges.append(
                    self._down(self._flow.nodes[key(tensor)], x + 30, y, _FUNCTION + _CALL - 30, middle - 17)
                )
            top += height + 34
        label = attribute(f"gradients through {look.plural(len(self._flow.calls), 'call')}")
        return (
            f'<svg viewBox="0 0 {_WIDTH} {top - 30:.0f}" role="img" aria-label="{label}">'
            f"<title>{label}</title>{''.join(edges)}{''.join(boxes)}</svg>"
        )

    def _box(self, node: Node, x: float, y: float) -> str:
        share = self._share(node)
        bar = (
            f'<rect class="g" x="{x + 10}" y="{y + 38:.1f}" width="{share * (_BOX - 20):.1f}" height="3"/>'
            if share
            else ""
        )
        spoiled = node.gradient is not None and (node.gradient == 0 or math.isnan(node.gradient))
        return (
            f'<rect class="t" x="{x}" y="{y:.1f}" width="{_BOX}" height="{_HEIGHT}" rx="3"/>'
            f'<text class="m" x="{x + 10}" y="{y + 17:.1f}">{_cut(node.name, 20)}</text>'
            f'<text class="d m" text-anchor="end" x="{x + _BOX - 10}" y="{y + 17:.1f}">{_cut(look.shape(node.shape), 14)}</text>'
            f'<text class="{"w" if spoiled else "d"}" x="{x + 10}" y="{y + 32:.1f}">{escape(_said(node))}</text>{bar}'
        )

    def _edge(self, node: Node, x0: float, y0: float, x1: float, y1: float) -> str:
        bend = (x1 - x0) / 2
        return self._path(
            node, f"M{x0:.1f} {y0:.1f}C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
        )

    def _down(self, node: Node, x0: float, y0: float, x1: float, y1: float) -> str:
        bend = max(20.0, (y1 - y0) / 2)
        return self._path(
            node, f"M{x0:.1f} {y0:.1f}C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
        )

    def _path(self, node: Node, path: str) -> str:
        share = self._share(node)
        return f'<path class="e{"" if share else " no"}" d="{path}" stroke-width="{1 + 4 * share:.1f}"/>'


def _cut(text: str, most: int) -> str:
    return (
        escape(text if len(text) <= most else f"{text[: most - 1]}…")
        .replace("<bdi>", "")
        .replace("</bdi>", "")
    )


def flow(f: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any) -> Flow:
    """Show how gradients flow from a loss to the parameters: the calls, the tensors between them, and the norm of each gradient.

        sl.flow(m.model, w, x)          # one call forward and one backward
        sl.flow(step, 0)                # all calls that a function makes
        with sl.flow() as f:            # all calls in a block
            ...

    Parameters
    ----------
    f : function, optional
        A function of a Slang cell is called forward, and backward with ones as the gradient of its result; the gradients of its arguments
        are cleared before. Any other function is called once, and the Slang calls that it makes, backward ones too, are recorded.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    Flow
        Shown by a notebook as a drawing, else as text; without `f` a context manager. Norms are those at the end: where a step clears or
        overwrites gradients, they are those of the last backward call.

    Raises
    ------
    ArgumentError
        If a Slang function returns nothing that has a gradient.
    """
    made = Flow()
    if f is None:
        return made
    if not callable(f):
        raise ArgumentError("flow takes a function.", argument="f", given=type(f).__name__)
    with made:
        made.result = _both(f, args, kwargs) if isinstance(f, SlangFunction) else f(*args, **kwargs)
    return made


def _both(f: SlangFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import slangpy as spy

    for one in (*args, *kwargs.values()):
        if sources.is_tensor(one) and (held := sources.gradient_of(one)) is not None:
            held[0].clear()
    result = f.return_type(spy.Tensor)(*args, **kwargs)
    if not sources.is_tensor(result):
        raise ArgumentError(
            f"{f.name} returned no tensor, so nothing flows back from it.",
            argument="f",
            hint="record calls that are written out: with slanglab.flow() as f: …",
        )
    result = result.with_grads() if sources.gradient_of(result) is None else result
    slope = result.grad.to_numpy()
    result.grad.copy_from_numpy(np.ones_like(slope))
    f.bwds(*args, _result=result, **kwargs)
    return result
