"""Gradients of arguments that many threads read: summed in waves, not one atomic addition after another.

In a backward call of slangpy's every thread adds to the gradient of a broadcast argument atomically. That is slow (121 ms on an H200 for
2^26 threads and one parameter) and wrong: a float that holds 2^24 takes no addends below 1. `wrap` gives what slangpy is called with
instead; its gradient goes through spread cells (`argument`, `cells`). `share` does so inside of dicts and instances too. What cannot go
that way is counted by `additions`.
"""

from slanglab.engine.shared.additions import additions
from slanglab.engine.shared.argument import Shared, worth, wrap
from slanglab.engine.shared.inside import share

__all__ = ["Shared", "additions", "share", "worth", "wrap"]
