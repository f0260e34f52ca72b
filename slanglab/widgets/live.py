"""The live plot: a run that goes on, with buttons that act at once, and its figure for good when it has ended."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import slangpy as spy
import traitlets
from IPython.core.getipython import get_ipython

from slanglab.device import is_software
from slanglab.errors import SlangLabError
from slanglab.training.run import Recorder
from slanglab.widgets import live_figure, live_png, outputs, polling
from slanglab.widgets.gate import GATE_SECONDS
from slanglab.widgets.live_frames import describe, news, shot_arrays
from slanglab.widgets.transport import SlangWidget

__all__ = ["LivePlot"]

_PAGE_SHARE = 0.1
"""Share of a page's time that drawing may take where the run computes elsewhere, on a GPU."""

_PAGE_SHARE_BESIDE = 0.02
"""The same beside a run on this machine's processors: what the page computes, they do not."""

_LONGEST = 1.0
"""Seconds between two frames at most, however slow a page says that it is."""

_AGE_SHARE = 0.2
"""Share of a run's age that two frames are apart at most: a run that has just begun is looked at more closely."""

_VERSION = 1
"""Of the `info` trait; `VERSION` in js/src/live/data.ts says the same."""


def _page_share(run: Recorder) -> float:
    """Return the share of a page's time that drawing a run may take, by whether all its parameters are on GPUs."""
    devices = [getattr(tensor, "device", None) for tensor in run.params.values()]
    on_gpus = bool(devices) and all(isinstance(d, spy.Device) and not is_software(d) for d in devices)
    return _PAGE_SHARE if on_gpus else _PAGE_SHARE_BESIDE


class LivePlot(SlangWidget):
    """A view of training runs; the latest one is shown.

    `slanglab.train` and `slanglab.steps` make one where `plot` is True. One that was made before, in another cell, shows each run that
    it is given as `plot`: a new run begins a new curve, and the one before stays in grey.

    Attributes
    ----------
    run : Recorder or None
        The run that is shown.
    info : dict
        What the browser is told about the run, as JSON; no numbers of it.
    """

    _bundle = "live"
    _trust = 2.0
    _controls: Mapping[str, str] = {"control": "_control", "rate": "_rate"}
    _requests: Mapping[str, str] = {"look": "_look", "restore": "_restore"}

    info = traitlets.Dict().tag(sync=True)

    def __init__(self) -> None:
        self.run: Recorder | None = None
        self._runs = 0
        self._lock = threading.RLock()
        self._sent = self._sent_measures = 0
        self._shots_sent: Any = None
        self._heard = -1.0
        self._drawing: list[float] = []
        self._began = 0.0
        self._share = _PAGE_SHARE_BESIDE
        self._shown = ""
        self._poll: Callable[[], None] | None = None
        super().__init__(info={"version": _VERSION, "run": 0})

    # ----- a Watcher -----

    @property
    def watched(self) -> bool:
        """Whether somebody looks: the last frame that asked for an answer got it, or is on its way."""
        if self._heard < 0:
            return False
        asked = self._gate.asked_at
        return self._heard >= asked or time.monotonic() - asked < GATE_SECONDS

    @property
    def spacing(self) -> float:
        """Seconds between two frames, at least, by what the page says of how long it drew the ones before."""
        if not self._drawing:
            return 0.0
        # A single frame may have waited for something else: of two the quicker, of three the middle one.
        cost = sorted(self._drawing)[(len(self._drawing) - 1) // 2]
        return min(cost / self._share, _LONGEST, _AGE_SHARE * (time.monotonic() - self._began))

    def begin(self, run: Recorder) -> None:
        """Show a run that has not begun."""
        if run is self.run:
            return
        with self._lock:
            self.run = run
            self._runs += 1
            self._sent = self._sent_measures = 0
            self._shots_sent = None
            self._began = time.monotonic()
            self._share = _page_share(run)
            # What waits is of the run before.
            self._gate.clear()
        self._poll = polling.poller(self)
        self.info = {"version": _VERSION, "run": self._runs, **describe(run)}

    def frame(self, run: Recorder) -> None:
        """Send what is new, if the view has drawn what came before; a pause and the end are sent in any case."""
        if run is self.run and (run.phase != "running" or self._gate.open):
            self._push()

    def state(self, run: Recorder) -> None:
        """Show the state now."""
        if run is self.run:
            self._push()

    def poll(self) -> None:
        """Take what a person asked where the kernel keeps messages until the cell has ended."""
        if self._poll is not None:
            self._poll()

    def finish(self, run: Recorder) -> None:
        """Send the last frame, and put the final picture into the output."""
        if run is not self.run:
            return
        self._push()
        self.flush()
        if self._shown:
            self._update()

    # ----- showing -----

    def show(self) -> None:
        """Put the plot under the running cell, unless it stands there."""
        shell = get_ipython()
        if shell is None:
            return
        from IPython.display import display

        handle: Any = display(self, display_id=True)  # type: ignore[no-untyped-call]
        self._shown = getattr(handle, "display_id", "") or ""

    def _update(self) -> None:
        """Replace the still picture in the output by the one of now."""
        from IPython.display import publish_display_data

        data, metadata = self.bundle()
        try:
            publish_display_data(  # type: ignore[no-untyped-call]
                data, metadata, transient={"display_id": self._shown}, update=True
            )
        except Exception:
            # Nothing that is shown may end a run.
            self.log.debug("the final picture could not be put into the output", exc_info=True)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        outputs.show(self, get_ipython())
        return self.bundle(**kwargs)

    def bundle(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget with its twins: a PNG and text."""
        image = live_png.png(self.run) if self.run is not None else None
        return self.with_twins(self.text, image, **kwargs)

    @property
    def text(self) -> str:
        """The plain-text twin."""
        return "LivePlot: no run yet" if self.run is None else live_figure.text(self.run)

    def __repr__(self) -> str:
        return f"LivePlot({self.text.splitlines()[0]})"

    def figure(self) -> Any:
        """Return the run as a matplotlib figure, for papers.

        Raises
        ------
        SlangLabError
            Before the first run.
        """
        if self.run is None:
            raise SlangLabError(
                "There is no run to draw yet.", hint="pass the plot to slanglab.train(..., plot=plot)"
            )
        return live_figure.figure(self.run)

    # ----- out -----

    def _push(self, *, whole: bool = False) -> None:
        run = self.run
        if run is None:
            return
        with self._lock:
            if whole:
                self._sent = self._sent_measures = 0
                self._shots_sent = None
            meta, arrays = news(run, self._sent, self._sent_measures, whole=whole)
            self._sent, self._sent_measures = meta["to"], meta["measured"][1]
            meta["run"] = self._runs
            shots = run.shots
            if shots is not self._shots_sent:
                self._shots_sent = shots
                meta["shots"], more = shot_arrays(shots)
                arrays.update(more)
        self.push("points", meta, arrays)

    def _ready(self, known: object = None) -> None:
        self._push(whole=True)

    # ----- in -----

    def _take(self, content: object) -> None:
        self._heard = time.monotonic()
        cost = content.get("cost") if isinstance(content, dict) else None
        if isinstance(cost, int | float) and 0 <= cost < math.inf:
            self._drawing = [*self._drawing[-2:], 1e-3 * cost]
        super()._take(content)

    def _control(self, content: Mapping[str, Any]) -> None:
        run = self.run
        if run is None or content.get("run") != self._runs:
            return
        act = {"play": run.play, "pause": run.pause, "step": run.step, "stop": run.stop}.get(
            str(content.get("do"))
        )
        if act is not None:
            act()

    def _rate(self, content: Mapping[str, Any]) -> None:
        run, rate = self.run, content.get("rate")
        if run is None or run.optimizer is None or type(rate) not in (int, float):
            return
        if math.isfinite(rate) and rate >= 0:  # type: ignore[arg-type, operator]
            run.controls.rate(float(rate))  # type: ignore[arg-type]

    def _state(self, content: Mapping[str, Any]) -> Any:
        run, at = self.run, content.get("state")
        if run is None or type(at) is not int or not 0 <= at < len(run.states):
            return None
        return run.states[at]

    def _look(self, content: Mapping[str, Any]) -> None:
        """Answer with what was kept: pictures and norms of a state."""
        state = self._state(content)
        if state is None:
            return
        said, arrays = shot_arrays(list(state.pictures))
        norms = {name: measure.gradient for name, measure in state.measures.items()}
        meta = {
            "state": content["state"],
            "step": state.step,
            "loss": state.loss if math.isfinite(state.loss) else None,
            "norms": {name: x if x is not None and math.isfinite(x) else None for name, x in norms.items()},
            "shots": said,
        }
        self.tell("state", meta, arrays)

    def _restore(self, content: Mapping[str, Any]) -> None:
        """Write a kept state into the parameters, as the button says."""
        state = self._state(content)
        if state is None or self.run is None:
            return
        try:
            self.run.restore(content["state"])
            said = f"The parameters are those of step {state.step} again."
            if state.moments is not None:
                said = f"The parameters and the optimizer are those of step {state.step} again."
            elif self.run.optimizer is not None:
                said += " The optimizer has no load_state_dict: its own state stays."
        except Exception as error:
            said = f"The parameters could not be put back: {error}"
        self.tell("note", {"text": said})

    def close(self) -> None:
        """Take the plot away; a run in the background ends with it, since its cell runs again."""
        run = self.run
        if run is not None and run.phase != "ended" and getattr(run, "_task", None) is not None:
            run.stop()
        super().close()
