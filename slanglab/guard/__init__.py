"""The guard: a worker process compiles every new kernel first, since the compiler may crash or hang at it.

Writing a kernel's text and reading it (the front end) is safe; turning it into target code is not: with some functions the Slang
compiler of slangpy 0.43 ends the process, or computes for ever with Python's lock held. The worker has a device like the
notebook's and the same caches. When it has compiled a kernel, the notebook finds the target code in the shader cache and does not enter
that stage; when it does not come back, the notebook says so and goes on.

    likeness    devices and sessions in plain values      kernels    the texts that a kernel is made of
    protocol    what is said                              verdicts   what is known of kernels
    worker      the child's side                          process    one worker, as the notebook sees it
    client      the guard itself
"""

from slanglab.guard.client import Guard, Pending, guard_for, is_on, prepare, stop_all, switch
from slanglab.guard.errors import CompileInterrupted, GuardWarning, KernelRefusedError
from slanglab.guard.kernels import Kernel, Texts, load, texts_of

__all__ = [
    "CompileInterrupted",
    "Guard",
    "GuardWarning",
    "Kernel",
    "KernelRefusedError",
    "Pending",
    "Texts",
    "guard_for",
    "is_on",
    "load",
    "prepare",
    "stop_all",
    "switch",
    "texts_of",
]
