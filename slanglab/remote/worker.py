"""The worker: a whole lab in a process of its own, which does what the notebook asks for, one request after the other.

A request is a frame with `do`, the name of one of the methods below, and its arguments. An answer holds a result or an error, and what was
printed and warned of meanwhile. Objects stay here, in a table; the notebook knows them by their numbers, and says when it has let go.
"""

from __future__ import annotations

import base64
import contextlib
import inspect
import io
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import slangpy as spy

from slanglab import caches, commands, lab, log
from slanglab.cells.function import SlangFunction
from slanglab.cells.module import SlangModule, SlangStruct
from slanglab.cells.session import Request
from slanglab.cells.versions import CompileError
from slanglab.engine.probing.gradcheck import gradcheck
from slanglab.engine.runs import Run
from slanglab.errors import SlangLabError
from slanglab.remote import frames, records
from slanglab.remote.values import Decoder, Encoder, NotSendableError
from slanglab.settings import Settings
from slanglab.tensors import create
from slanglab.tensors.summary import summary
from slanglab.widgets.inspector import TensorInspector
from slanglab.widgets.static import SCALE

__all__ = ["PUBLIC", "VERSION", "Worker", "main"]

VERSION = 1
"""Of the requests; both sides are of one installation, so that another one is an error."""

_TEXTS: dict[str, Callable[[Any], Any]] = {"str": str, "repr": repr, "doc": inspect.getdoc, "dir": dir}

PUBLIC: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(create, name)
        for name in ("assign", "empty", "full", "linspace", "ones", "random", "tensor", "zeros")
    },
    "gradcheck": gradcheck,
    "last_run": lab.last_run,
    "summary": summary,
    "sync": lab.sync,
}
"""Functions of `slanglab` that run here."""


class Worker:
    """The requests, and what they need.

    Parameters
    ----------
    options : dict
        "settings": the notebook's, by name.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        # A file of its own, in the private folder that a child begins in: the notebook keeps the settings.
        settings = Settings(Path.cwd() / "settings.json")
        for name, value in options.get("settings", {}).items():
            with contextlib.suppress(SlangLabError):
                settings.set(name, value)
        self.lab = lab.adopt(lab.Lab(settings))
        self.ears = _Ears(self.lab.log)
        self._objects: dict[int, Any] = {}
        self._last = 0
        self._segment: frames.Segment | None = None
        self._place: list[int] = []
        self._decode: Decoder
        self._encode: Encoder
        self._written: list[bytes | None] = []
        self._given: dict[int, int] = {}

    # ----- the loop -----

    def serve(self, take: Callable[[int], bytes], give: Callable[[bytes], None]) -> None:
        """Answer requests until there are no more."""
        while (found := frames.read(take)) is not None:
            give(self.answer(*found))

    def answer(self, message: dict[str, Any], buffers: list[bytearray]) -> bytes:
        """Do what a request asks for, and return the answer as bytes."""
        if (place := message.get("segment")) is not None and place != self._place:
            self._segment, self._place = frames.Segment.find(place), place
        for number in message.get("release", ()):
            self._objects.pop(number, None)
        calls = message["do"] == "call"
        self._decode = Decoder(buffers, self._resolve, records.RECORDS, self._segment, copies=not calls)
        self._encode = self._encoder(message.get("used", 0))
        self._written = []
        self._given = {}
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            answer["result"] = self._object(getattr(self, f"do_{message['do']}")(message))
            self._bring_back(answer)
        except Exception as error:
            self._encode = self._encoder(message.get("used", 0))
            answer.pop("result", None)
            answer["error"] = self._error(error)
        self.ears.tell(answer)
        answer["wanted"] = self._encode.wanted
        data = frames.pack(answer, self._encode.buffers)
        del self._decode, self._encode
        return data

    def _encoder(self, used: int) -> Encoder:
        return Encoder(self._refer, records.RECORDS, self._segment, used)

    def _error(self, error: BaseException) -> dict[str, Any]:
        state = {}
        if isinstance(error, CompileError) and error.report is not None:
            error.details = None  # the notebook makes its own of the report
        if isinstance(error, SlangLabError):
            state = records.state_of(error, self._encode)
        text = error.message if isinstance(error, SlangLabError) else str(error)
        return {"types": records.types_of(error), "text": text, "state": state}

    # ----- objects -----

    def _resolve(self, coded: list[Any]) -> Any:
        found = self._objects[coded[1]]
        self._given[id(found)] = coded[1]
        return found

    def _keep(self, value: Any) -> int:
        self._last += 1
        self._objects[self._last] = value
        return self._last

    def _refer(self, value: Any) -> Any:
        """Return what stands for an object that stays here; None for what goes by value."""
        kind = type(value)
        if kind is spy.Tensor:
            if (number := self._given.get(id(value))) is not None:
                return ["n", "same", number, {}]
            return ["n", "tensor", self._keep(value), self._of_tensor(value)]
        if kind is SlangFunction:
            return ["n", "function", self._keep(value), {"name": value.name}]
        if kind is SlangStruct or isinstance(value, spy.Struct):
            return ["n", "struct", self._keep(value), {"name": value.full_name}]
        if kind is SlangModule:
            return ["n", "module", self._keep(value), {}]
        if kind is Run:
            told = records.Told(value.check.verdict, value.check.text)
            return self._encode(replace(value, check=told)) if type(value.check) is not records.Told else None
        return None

    @staticmethod
    def _of_tensor(tensor: Any) -> dict[str, Any]:
        element = tensor.dtype
        return {
            "shape": tensor.shape.as_tuple(),
            "dtype": element.full_name,
            "element": element.shape.as_tuple(),
            "bytes": tensor.storage.struct_size,
        }

    def _object(self, value: Any) -> Any:
        """Encode a value; an object that cannot be sent stays here, and its number is sent."""
        try:
            return self._encode(value)
        except NotSendableError:
            facts = {"type": type(value).__name__, "repr": repr(value)[:2000], "callable": callable(value)}
            return ["n", "object", self._keep(value), facts]

    def _bring_back(self, answer: dict[str, Any]) -> None:
        """Send what a call wrote into its arguments: arrays, numbers, the state of random generators."""
        decode = self._decode
        if decode.cells:
            answer["cells"] = [self._encode(cell.value) for cell in decode.cells]
        if decode.generators:
            answer["generators"] = [self._encode(g.bit_generator.state) for g in decode.generators]
        back = [
            [number, self._encode.array(array)]
            for number, (array, before) in enumerate(zip(decode.arrays, self._written, strict=False))
            if before is not None and array.tobytes() != before
        ]
        if back:
            answer["back"] = back

    # ----- requests -----

    def do_open(self, message: dict[str, Any]) -> Any:
        """Say that this is the worker that was meant."""
        return [message["version"] == VERSION, os.getpid()]

    def _arguments(self, message: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        decode = self._decode
        return [decode(a) for a in message["args"]], {k: decode(v) for k, v in message["kwargs"].items()}

    def do_call(self, message: dict[str, Any]) -> Any:
        """Call an object, or a method of one."""
        target = self._objects[message["object"]]
        name = message.get("name")
        args, kwargs = self._arguments(message)
        arrays = self._decode.arrays
        if arrays and name is None and _may_write(target, kwargs):
            self._written = [a.tobytes() if a.flags.writeable and a.ndim else None for a in arrays]
        return (target if name is None else getattr(target, name))(*args, **kwargs)

    def do_count(self, message: dict[str, Any]) -> int:
        """Return how many objects the notebook holds here."""
        return len(self._objects)

    def do_modify(self, message: dict[str, Any]) -> Any:
        """Apply a modifier to a function."""
        args, kwargs = self._arguments(message)
        found = getattr(self._objects[message["object"]], message["name"])
        return found if message["name"] == "bwds" else found(*args, **kwargs)

    def do_get(self, message: dict[str, Any]) -> Any:
        """Return an attribute."""
        return getattr(self._objects[message["object"]], message["name"])

    def do_item(self, message: dict[str, Any]) -> Any:
        """Return an item."""
        return self._objects[message["object"]][self._decode(message["args"][0])]

    def do_text(self, message: dict[str, Any]) -> Any:
        """Return str, repr, doc or dir of an object."""
        value, what = self._objects[message["object"]], message["what"]
        if what == "signature":
            return _signature(value)
        return _TEXTS[what](value)

    def do_public(self, message: dict[str, Any]) -> Any:
        """Run one of SlangLab's public functions."""
        name = message["name"]
        if name not in PUBLIC:
            raise ValueError(f"{name} does not run in the worker")
        args, kwargs = self._arguments(message)
        self.lab.mend()
        return PUBLIC[name](*args, **kwargs)

    def do_compile(self, message: dict[str, Any]) -> Any:
        """Compile a cell; return its key, its names and the report."""
        with contextlib.suppress(OSError):
            os.chdir(message["folder"])
        _, given = self._arguments(message)
        given["include"] = tuple(Path(p) for p in given["include"])
        self.lab.mend()
        ran = self.lab.run(Request(**given))
        access = ran.access
        found = [(name, access.own(name)) for name in access.names()]
        names = [
            [n, "function" if isinstance(f, SlangFunction) else "struct"] for n, f in found if f is not None
        ]
        return [
            access.cell.key,
            access.cell.named,
            access.shown,
            names,
            ran.module,
            self.lab.cells.report(ran),
        ]

    def do_command(self, message: dict[str, Any]) -> None:
        """Run `%slang LINE`, whose text is printed."""
        commands.run(self.lab, message["line"])

    def do_timing(self, message: dict[str, Any]) -> Any:
        """Switch the timing of calls; return whether it was on."""
        before = self.lab.control.policy.timing
        self.lab.control.change(timing=message["on"])
        return before

    def do_picture(self, message: dict[str, Any]) -> Any:
        """Return what a tensor shows: text, and a PNG where there is one to draw, with its size in pixels of the page."""
        view = TensorInspector(self._objects[message["object"]], message["title"])
        try:
            image = view.png
            if image is None:
                return [view.text, None, 0, 0]
            width, height = (int.from_bytes(image[at : at + 4], "big") // SCALE for at in (16, 20))
            return [view.text, base64.b64encode(image).decode("ascii"), width, height]
        finally:
            view.close()


def main(options: dict[str, Any]) -> None:
    """Serve the process that started this one; what a child begins with."""
    out = os.dup(1)
    os.dup2(2, 1)  # whatever native code prints must not come between the answers
    source = open(0, "rb", buffering=1 << 16, closefd=False)  # noqa: SIM115  (for as long as there is a process)

    def give(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(out, rest) :]

    worker = Worker(options)
    worker.ears.open()
    worker.serve(source.read, give)


class _Ears:
    """What is printed, logged and warned of while a request is answered: everything, as this process has no other output.

    Parameters
    ----------
    logged : LogCapture
    """

    def __init__(self, logged: log.LogCapture) -> None:
        self._logged = logged
        self._out, self._err = io.StringIO(), io.StringIO()
        self._warned: list[list[Any]] = []

    def open(self) -> None:
        """Hear from now on, to the end of the process."""
        sys.stdout, sys.stderr = self._out, self._err
        warnings.simplefilter("always")  # the notebook has the filters
        for category in (DeprecationWarning, ResourceWarning, ImportWarning):
            warnings.simplefilter("ignore", category)
        warnings.showwarning = self._warn  # type: ignore[assignment]  # it takes what that takes

    def _warn(self, message: Any, category: type[Warning], *_: Any) -> None:
        self._warned.append([[t.__name__ for t in category.__mro__], str(message)])

    def tell(self, answer: dict[str, Any]) -> None:
        """Put what was heard into an answer."""
        for record in self._logged.take():
            if record.level in ("warn", "error", "fatal") and not caches.heard(record.text):
                self._err.write(f"slangpy {record.level}: {record.text.strip()}\n")
        for name, stream in (("out", self._out), ("err", self._err)):
            if stream.tell():
                answer[name] = stream.getvalue()
                stream.seek(0)
                stream.truncate()
        if self._warned:
            answer["warnings"], self._warned = self._warned, []


def _may_write(target: Any, kwargs: dict[str, Any]) -> bool:
    """Tell whether a call may write into its arrays."""
    if not isinstance(target, SlangFunction) or isinstance(kwargs.get("_result"), np.ndarray):
        return True
    return any(
        not one.checked or any(p.writes or p.kind in ("tensor", "struct", "other") for p in one.parameters)
        for one in target.targets()
    )


def _signature(value: Any) -> Any:
    """Return a signature as texts: for each parameter its name, kind, default and annotation, and the annotation of the result."""

    def text(part: Any) -> str | None:
        return None if part is inspect.Parameter.empty else repr(part)

    found = inspect.signature(value)
    parameters = [
        [p.name, int(p.kind), text(p.default), text(p.annotation)] for p in found.parameters.values()
    ]
    return [parameters, text(found.return_annotation)]
