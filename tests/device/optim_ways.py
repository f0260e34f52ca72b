"""The ways that an optimizer's step takes through its tensors, and tensors for it."""

import numpy as np

import slanglab
from slanglab.optim import programs

NUMPY = {"half": np.float16, "float": np.float32, "double": np.float64}
WAYS = {
    "own": None,
    "packs": programs.Way(pointers=True, bytes=16, packs=2, group=64, chunk=512, groups=3),
    "each": programs.Way(pointers=False, bytes=0, packs=4, group=64, chunk=512, groups=5),
}


def made(values, dtype):
    return slanglab.tensor(values, grad=True, dtype=dtype)


def give(tensor, gradient, dtype="float"):
    tensor.grad.copy_from_numpy(np.asarray(gradient).astype(NUMPY[dtype]))


def read(optimizer):
    return [p.to_numpy() for p in optimizer.params.values()]
