"""Turning the knobs of a Slang function: what can be turned, and its value and gradient at every setting.

`knobs` reads the signature, the annotations of the source and what the user gave; `evaluate` runs the function forward and backward over
its axes; `differences` measures the same gradients without differentiating; `descent` walks downhill; `exploration` is all of it for one
function, followed through the edits of its cell. Nothing here draws.
"""
