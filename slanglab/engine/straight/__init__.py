"""Straight kernels: one Slang kernel for one elementwise call of one function, instead of slangpy's general one.

A call is over all elements of arrays (`kernel`, `array_text`), or over rows and columns (`tables`, `table_text`).
"""

from slanglab.engine.straight.kernel import Launch, Straight
from slanglab.engine.straight.making import build
from slanglab.engine.straight.strategy import Strategy, choose, least

__all__ = ["Launch", "Straight", "Strategy", "build", "choose", "least"]
