"""A mark in the work of a device, and whether the device has come to it.

An empty submit is finished when everything submitted before it is; on CUDA, where slangpy calls every submit finished, it is an event.
"""

from __future__ import annotations

import weakref
from typing import Any

import slangpy as spy

from slanglab.machine import cuda

__all__ = ["Mark", "copies_block", "is_reached", "mark"]

Mark = int | cuda.Event

_submit = spy.Device.__dict__["submit_command_buffer"]  # slangpy's own, whatever is put in its place
_events: dict[int, tuple[weakref.ref[Any], cuda.Events | None]] = {}


def _events_of(device: spy.Device) -> cuda.Events | None:
    """Return the events of a device; None where submits do."""
    known = _events.get(id(device))
    if known is None or known[0]() is not device:
        is_cuda = device.info.type == spy.DeviceType.cuda
        known = _events[id(device)] = weakref.ref(device), cuda.Events(device) if is_cuda else None
    return known[1]


def mark(device: spy.Device, submit: int | None = None) -> Mark:
    """Make a mark behind everything submitted so far.

    Parameters
    ----------
    device : slangpy.Device
    submit : int, optional
        The last submit, which serves as a mark where a submit does.

    Raises
    ------
    RuntimeError
        slangpy's or the driver's, when the device is lost.
    """
    events = _events_of(device)
    if events is not None:
        return events.mark()
    if submit is not None:
        return submit
    return int(_submit(device, device.create_command_encoder().finish()))


def copies_block(device: spy.Device) -> bool:
    """Tell whether a copy from or to the host is made when it is submitted, after all that runs, with the interpreter's lock held.

    CUDA does that for memory that the driver does not know, as slangpy's is.
    """
    return _events_of(device) is not None


def is_reached(device: spy.Device, place: Mark) -> bool:
    """Tell whether the device has done everything before a mark.

    Raises
    ------
    RuntimeError
        When the device is lost, where the backend says so here.
    """
    if isinstance(place, int):
        return bool(device.is_submit_finished(place))
    events = _events_of(device)
    return events is None or events.is_reached(place)
