"""How long a call takes on the device: two timestamps around it, when somebody asks."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import slangpy as spy

__all__ = ["Stopwatch"]


class Stopwatch:
    """Two timestamps on the device's queue, before and behind whatever is submitted within a `with`.

    Work on the queue runs in the order in which it was submitted, so what lies between the timestamps is what the block submitted. A
    block that also compiles or uploads has the time in it that the device waits for that.

    Parameters
    ----------
    device : slangpy.Device
    """

    def __init__(self, device: spy.Device) -> None:
        self._device = device
        self._pool = device.create_query_pool(spy.QueryType.timestamp, 2)

    def _mark(self, index: int) -> None:
        encoder = self._device.create_command_encoder()
        encoder.write_timestamp(self._pool, index)
        self._device.submit_command_buffer(encoder.finish())

    def __enter__(self) -> Self:
        self._mark(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mark(1)

    def milliseconds(self) -> float:
        """Return the time between the two, in milliseconds; waits for the device."""
        self._device.wait()
        first, second = self._pool.get_timestamp_results(0, 2)
        return float(second - first) * 1e3
