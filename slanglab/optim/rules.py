"""The optimizers whose step is a kernel. Names, defaults and formulas are those of torch.optim."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from slanglab.errors import ArgumentError
from slanglab.optim.optimizer import checked
from slanglab.optim.schedules import Schedule
from slanglab.optim.steps import StepOptimizer

__all__ = ["SGD", "Adam", "AdamW", "Lion", "RMSProp"]


def _betas(who: str, betas: Any) -> tuple[float, float]:
    try:
        first, second = betas
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{who}: betas are {betas!r}.",
            function=who,
            argument="betas",
            expected="two numbers, 0 at least and below 1",
            given=repr(betas),
        ) from None
    return (
        checked(who, "betas[0]", first, 0, 1, open_end=True),
        checked(who, "betas[1]", second, 0, 1, open_end=True),
    )


class SGD(StepOptimizer):
    """Gradient descent, with momentum.

    Parameters
    ----------
    params, lr
        See `Optimizer`.
    momentum : float
        What is kept of the last step; 0: none, and no state.
    dampening : float
        A gradient adds `1 - dampening` of itself to the momentum; the first adds all.
    weight_decay : float
        Adds so much of the parameter to its gradient (L2).
    nesterov : bool
        Look ahead by the momentum; needs momentum, and no dampening.
    clip_norm, clip_value, skip_nonfinite
        See `StepOptimizer`.

    References
    ----------
    B. T. Polyak: Some methods of speeding up the convergence of iteration methods. 1964.
    I. Sutskever, J. Martens, G. Dahl, G. Hinton: On the importance of initialization and momentum in deep learning. ICML 2013.
    """

    file = "optim_sgd"
    corrected = 2
    hyper: ClassVar[tuple[str, ...]] = ("momentum", "dampening", "weight_decay", "nesterov")

    def __init__(
        self,
        params: Any,
        lr: float | Schedule = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None:
        self.momentum = checked("SGD", "momentum", momentum)
        self.dampening = checked("SGD", "dampening", dampening, -1e30)
        self.weight_decay = checked("SGD", "weight_decay", weight_decay)
        self.nesterov = bool(nesterov)
        if nesterov and (momentum == 0 or dampening != 0):
            raise ArgumentError(
                "SGD: Nesterov's step needs momentum and no dampening.",
                function="SGD",
                argument="nesterov",
                given=f"momentum={momentum!r}, dampening={dampening!r}",
            )
        super().__init__(params, lr, clip_norm, clip_value, skip_nonfinite)

    def buffers(self) -> tuple[str, ...]:
        """Return the names of the state."""
        return ("momentum_buffer",) if self.momentum else ()

    def macros(self) -> dict[str, int]:
        """Return the macros of the rule."""
        return {"NESTEROV": int(self.nesterov)}

    def numbers(self, lr: float, step: int) -> tuple[float, ...]:
        """Return the hyper-parameters of a step."""
        share = 1.0 if step == 1 else 1 - self.dampening
        return share, 0.0, lr, self.momentum, self.weight_decay

    def correction(self, lr: float) -> tuple[float, ...]:
        """Return what a gradient adds to the momentum after the first."""
        return (1 - self.dampening,)


class Adam(StepOptimizer):
    """Adam.

    Parameters
    ----------
    params, lr
        See `Optimizer`.
    betas : (float, float)
        What is kept of the means of the gradient and of its square.
    eps : float
        Added to the root of the mean square.
    weight_decay : float
        Adds so much of the parameter to its gradient (L2); `AdamW` decays the parameter itself.
    clip_norm, clip_value, skip_nonfinite
        See `StepOptimizer`.

    References
    ----------
    D. P. Kingma, J. Ba: Adam: A Method for Stochastic Optimization. ICLR 2015.
    """

    file = "optim_adam"
    corrected = 1
    hyper: ClassVar[tuple[str, ...]] = ("betas", "eps", "weight_decay")

    def __init__(
        self,
        params: Any,
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None:
        who = type(self).__name__
        self.betas = _betas(who, betas)
        self.eps = checked(who, "eps", eps)
        self.weight_decay = checked(who, "weight_decay", weight_decay)
        super().__init__(params, lr, clip_norm, clip_value, skip_nonfinite)

    def buffers(self) -> tuple[str, ...]:
        """Return the names of the state."""
        return "exp_avg", "exp_avg_sq"

    def macros(self) -> dict[str, int]:
        """Return the macros of the rule."""
        return {"DECOUPLED": 0}

    def _decay(self, lr: float) -> float:
        return self.weight_decay

    def numbers(self, lr: float, step: int) -> tuple[float, ...]:
        """Return the hyper-parameters of a step."""
        first, second = self.betas
        return (
            lr / (1 - first**step),
            math.sqrt(1 - second**step),
            1 - first,
            second,
            1 - second,
            self.eps,
            self._decay(lr),
        )

    def correction(self, lr: float) -> tuple[float, ...]:
        """Return the learning rate and the logarithms of the betas."""
        return lr, *(math.log(beta) if beta > 0 else -1e30 for beta in self.betas)


class AdamW(Adam):
    """Adam that decays the parameters themselves, not by their gradients.

    Parameters
    ----------
    params, lr, betas, eps
        As for `Adam`.
    weight_decay : float
        A step takes `lr * weight_decay` of the parameter away.
    clip_norm, clip_value, skip_nonfinite
        See `StepOptimizer`.

    References
    ----------
    I. Loshchilov, F. Hutter: Decoupled Weight Decay Regularization. ICLR 2019.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            clip_norm=clip_norm,
            clip_value=clip_value,
            skip_nonfinite=skip_nonfinite,
        )

    def macros(self) -> dict[str, int]:
        """Return the macros of the rule."""
        return {"DECOUPLED": 1}

    def _decay(self, lr: float) -> float:
        return 1 - lr * self.weight_decay


class RMSProp(StepOptimizer):
    """RMSProp: the gradient over the root of its mean square.

    Parameters
    ----------
    params, lr
        See `Optimizer`.
    alpha : float
        What is kept of the mean square.
    eps : float
        Added to the root.
    weight_decay : float
        Adds so much of the parameter to its gradient (L2).
    momentum : float
        What is kept of the last step.
    centered : bool
        Divide by the standard deviation of the gradient instead.
    clip_norm, clip_value, skip_nonfinite
        See `StepOptimizer`.

    References
    ----------
    T. Tieleman, G. Hinton: Lecture 6.5 of Neural Networks for Machine Learning. 2012.
    A. Graves: Generating Sequences With Recurrent Neural Networks. 2013 (centered).
    """

    file = "optim_rmsprop"
    hyper: ClassVar[tuple[str, ...]] = ("alpha", "eps", "weight_decay", "momentum", "centered")

    def __init__(
        self,
        params: Any,
        lr: float | Schedule = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None:
        self.alpha = checked("RMSProp", "alpha", alpha)
        self.eps = checked("RMSProp", "eps", eps)
        self.weight_decay = checked("RMSProp", "weight_decay", weight_decay)
        self.momentum = checked("RMSProp", "momentum", momentum)
        self.centered = bool(centered)
        super().__init__(params, lr, clip_norm, clip_value, skip_nonfinite)

    def buffers(self) -> tuple[str, ...]:
        """Return the names of the state."""
        return (
            "square_avg",
            *(("grad_avg",) if self.centered else ()),
            *(("momentum_buffer",) if self.momentum else ()),
        )

    def macros(self) -> dict[str, int]:
        """Return the macros of the rule."""
        return {"CENTERED": int(self.centered), "MOMENTUM": int(self.momentum > 0)}

    def numbers(self, lr: float, step: int) -> tuple[float, ...]:
        """Return the hyper-parameters of a step."""
        return lr, self.alpha, 1 - self.alpha, self.eps, self.weight_decay, self.momentum


class Lion(StepOptimizer):
    """Lion: steps of one size, in the direction of the sign of a mean gradient.

    Parameters
    ----------
    params, lr
        See `Optimizer`; a third to a tenth of what Adam takes.
    betas : (float, float)
        What is kept of the mean for the sign, and for the next step.
    weight_decay : float
        A step takes `lr * weight_decay` of the parameter away.
    clip_norm, clip_value, skip_nonfinite
        See `StepOptimizer`.

    References
    ----------
    X. Chen et al.: Symbolic Discovery of Optimization Algorithms. NeurIPS 2023 (defaults and formula; torch.optim has none).
    """

    file = "optim_lion"
    hyper: ClassVar[tuple[str, ...]] = ("betas", "weight_decay")

    def __init__(
        self,
        params: Any,
        lr: float | Schedule = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        skip_nonfinite: bool = False,
    ) -> None:
        self.betas = _betas("Lion", betas)
        self.weight_decay = checked("Lion", "weight_decay", weight_decay)
        super().__init__(params, lr, clip_norm, clip_value, skip_nonfinite)

    def buffers(self) -> tuple[str, ...]:
        """Return the names of the state."""
        return ("exp_avg",)

    def macros(self) -> dict[str, int]:
        """Return the macros of the rule."""
        return {}

    def numbers(self, lr: float, step: int) -> tuple[float, ...]:
        """Return the hyper-parameters of a step."""
        first, second = self.betas
        return 0.0, 0.0, lr, 1 - first, 1 - second, self.weight_decay
