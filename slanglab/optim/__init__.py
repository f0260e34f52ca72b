"""Optimizers whose step is a kernel on the device: SGD, Adam, AdamW, RMSProp, Lion; L-BFGS; clipping; learning-rate schedules.

opt = slanglab.optim.Adam({"w": w, "b": b}, lr=1e-2)
for i in range(500):
    opt.zero_grad()
    loss.bwds(w, b, x, _result=seed)
    opt.step()
"""

from slanglab.optim.clipping import clip_grad_norm, clip_grad_value
from slanglab.optim.lbfgs import LBFGS
from slanglab.optim.optimizer import Optimizer
from slanglab.optim.rules import SGD, Adam, AdamW, Lion, RMSProp
from slanglab.optim.schedules import Constant, Cosine, Exponential, Linear, OneCycle, Schedule, Step

__all__ = [
    "LBFGS",
    "SGD",
    "Adam",
    "AdamW",
    "Constant",
    "Cosine",
    "Exponential",
    "Linear",
    "Lion",
    "OneCycle",
    "Optimizer",
    "RMSProp",
    "Schedule",
    "Step",
    "clip_grad_norm",
    "clip_grad_value",
]
