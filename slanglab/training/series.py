"""Numbers that arrive one at a time, and as few points as show the same curve."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "decimated"]


class Column:
    """Numbers that arrive one at a time, in a buffer that grows by doubling.

    One thread appends; others may read at any time what was complete then.

    Attributes
    ----------
    append : callable
        Adds a number at the end. It is a list's own: a step of a training loop leaves no cache warm, so that every line of
        Python around it is slow.
    """

    def __init__(self) -> None:
        self._room: NDArray[np.float64] = np.empty(1024)
        self._stored = 0
        self._tail: list[float] = []
        """Numbers that are not in the buffer yet."""
        self._lock = threading.Lock()
        self.append = self._tail.append

    @property
    def count(self) -> int:
        """Numbers so far."""
        with self._lock:
            return self._stored + len(self._tail)

    def extend(self, xs: NDArray[np.float64]) -> None:
        """Add several."""
        with self._lock:
            self._settle()
            self._store(xs)

    def view(self, first: int = 0) -> NDArray[np.float64]:
        """Return the numbers from `first` on, without a copy."""
        with self._lock:
            self._settle()
            return self._room[first : self._stored]

    def _settle(self) -> None:
        n = len(self._tail)  # more may come meanwhile
        if n:
            self._store(np.array(self._tail[:n]))
            del self._tail[:n]

    def _store(self, xs: NDArray[np.float64]) -> None:
        n = self._stored + len(xs)
        if n > len(self._room):
            # Readers of the old buffer keep it.
            self._room = np.concatenate([self._room, np.empty(max(n, len(self._room)))])
        self._room[self._stored : n] = xs
        self._stored = n


def decimated(y: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Choose the points of a curve that show all of it: least and greatest of each run of points.

    Parameters
    ----------
    y : ndarray of float64, shape (n,)
        NaN and the infinities are taken for nothing, unless a run holds nothing else: then its first point stays.
    most : int
        Points at most, 6 or more.

    Returns
    -------
    ndarray of int
        Ascending indices into `y`; all of them where there are no more than `most`. First and last are among them.
    """
    n = len(y)
    if n <= most:
        return np.arange(n)
    # Two points a run; two more at the ends, and two of an incomplete run.
    run = -(-n // max(1, (most - 4) // 2))
    whole = n // run * run
    parts = y[:whole].reshape(-1, run)
    starts = np.arange(0, whole, run)
    low = starts + np.argmin(np.where(np.isfinite(parts), parts, np.inf), axis=1)
    high = starts + np.argmax(np.where(np.isfinite(parts), parts, -np.inf), axis=1)
    chosen = [np.array([0, n - 1]), low, high]
    if whole < n:
        rest = y[whole:]
        chosen.append(whole + np.array([np.argmin(np.where(np.isfinite(rest), rest, np.inf))]))
        chosen.append(whole + np.array([np.argmax(np.where(np.isfinite(rest), rest, -np.inf))]))
    found: NDArray[np.intp] = np.unique(np.concatenate(chosen))
    return found
