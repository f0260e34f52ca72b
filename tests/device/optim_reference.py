"""The optimizers once more, in numpy's float64, and problems for them."""

import math

import numpy as np


class Reference:
    """One of the rules over arrays; `kinds` are the types that parameters are rounded to after each step, or None."""

    def __init__(self, rule, params, kinds=None, **hyper):
        self.rule = rule
        self.params = [np.array(p, np.float64) for p in params]
        self.kinds = kinds
        self.hyper = hyper
        self.t = 0
        self.state = [{} for _ in params]
        self.margin = [np.full(np.shape(p), np.inf) for p in params]  # Lion: how near its mean came to 0

    def step(self, gradients, lr=None):
        self.t += 1
        hyper = dict(self.hyper)
        if lr is not None:
            hyper["lr"] = lr
        for i, g in enumerate(gradients):
            g = np.asarray(g, np.float64)
            self.params[i] = getattr(self, self.rule)(self.params[i], g, self.state[i], i, **hyper)
            if self.kinds is not None:
                self.params[i] = self.params[i].astype(self.kinds[i]).astype(np.float64)

    def SGD(self, p, g, s, i, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False):
        g = g + weight_decay * p
        if momentum:
            s["b"] = g if self.t == 1 else momentum * s["b"] + (1 - dampening) * g
            g = g + momentum * s["b"] if nesterov else s["b"]
        return p - lr * g

    def Adam(self, p, g, s, i, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
        return self._adam(p, g + weight_decay * p, s, lr, betas, eps)

    def AdamW(self, p, g, s, i, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        kept = 1 - lr * weight_decay
        if self.kinds is None or self.kinds[i] == np.float64:
            return self._adam(p * kept, g, s, lr, betas, eps)
        # As torch has it: a parameter is multiplied by a float32 and rounded, before the step.
        p = (p * float(np.float32(kept))).astype(np.float32).astype(np.float64)
        return self._adam(p, g, s, lr, betas, eps)

    def _adam(self, p, g, s, lr, betas, eps):
        a, b = betas
        s["m"] = a * s.get("m", 0) + (1 - a) * g
        s["v"] = b * s.get("v", 0) + (1 - b) * g**2
        return p - lr * (s["m"] / (1 - a**self.t)) / (np.sqrt(s["v"] / (1 - b**self.t)) + eps)

    def RMSProp(self, p, g, s, i, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False):
        g = g + weight_decay * p
        s["v"] = alpha * s.get("v", 0) + (1 - alpha) * g**2
        spread = s["v"]
        if centered:
            s["m"] = alpha * s.get("m", 0) + (1 - alpha) * g
            spread = spread - s["m"] ** 2
        move = g / (np.sqrt(spread) + eps)
        if momentum:
            move = s["b"] = momentum * s.get("b", 0) + move
        return p - lr * move

    def Lion(self, p, g, s, i, lr=1e-4, betas=(0.9, 0.99), weight_decay=0):
        a, b = betas
        m = s.get("m", np.zeros_like(p))
        mean = a * m + (1 - a) * g
        self.margin[i] = np.minimum(self.margin[i], np.abs(mean))
        s["m"] = b * m + (1 - b) * g
        return p - lr * (np.sign(mean) + weight_decay * p)


def random_shapes(rng, count=4):
    """Return shapes, the first of them larger than a chunk and of an odd size."""
    shapes = [(int(rng.integers(4097, 9000)) | 1,), (1,)]
    while len(shapes) < count:
        shapes.append(tuple(int(n) for n in rng.integers(1, 12, rng.integers(1, 4))))
    return shapes


def random_hyper(rule, rng):
    """Return hyper-parameters, which leave the problems below well conditioned."""
    decay = float(rng.choice([0, rng.uniform(0, 0.1)]))
    betas = (float(rng.uniform(0.5, 0.95)), float(rng.uniform(0.9, 0.9999)))
    if rule == "SGD":
        momentum = float(rng.choice([0, rng.uniform(0.1, 0.9)]))
        nesterov = bool(momentum and rng.random() < 0.5)
        dampening = float(rng.uniform(0, 0.5)) if momentum and not nesterov else 0.0
        return {
            "lr": float(rng.uniform(1e-3, 5e-2)),
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": decay,
            "nesterov": nesterov,
        }
    if rule in ("Adam", "AdamW"):
        lr, eps = float(10 ** rng.uniform(-4, -1.5)), float(10 ** rng.uniform(-8, -4))
        return {"lr": lr, "betas": betas, "eps": eps, "weight_decay": decay}
    if rule == "Lion":
        return {"lr": float(10 ** rng.uniform(-4, -2)), "betas": betas, "weight_decay": decay}
    return {
        "lr": float(10 ** rng.uniform(-5, -3)),
        "alpha": float(rng.uniform(0.95, 0.999)),
        "eps": float(10 ** rng.uniform(-8, -4)),
        "weight_decay": decay,
        "momentum": float(rng.choice([0, rng.uniform(0.1, 0.8)])),
        "centered": bool(rng.random() < 0.5),
    }


class Valley:
    """Σ h (p - c)² / 2 - 0.1 cos(2 p + φ), elementwise, or gradients drawn at random.

    c is so far that no run comes to it: there a gradient over its own size is a sign, which two roundings take to two places.
    """

    def __init__(self, shape, rng):
        self.h = rng.uniform(0.5, 2, shape)
        self.phase = rng.uniform(0, 2 * math.pi, shape)
        self.start = rng.normal(size=shape) * 3
        self.c = self.start + rng.choice([-1, 1], shape) * rng.uniform(8, 12, shape)

    def gradient(self, p):
        p = np.asarray(p, np.float64)
        return self.h * (p - self.c) + 0.2 * np.sin(2 * p + self.phase)


class Noise:
    """Gradients drawn at random, whatever the parameters are; the same at each run."""

    def __init__(self, shape, rng):
        self.start = rng.normal(size=shape) * 3
        self.drawn = rng.normal(size=(100, *shape)).astype(np.float32).astype(np.float64)
        self.calls = 0

    def gradient(self, p):
        self.calls += 1
        return self.drawn[(self.calls - 1) // 2 % 100]  # asked for both sides in turn


def random_problems(rule, rng):
    """Return problems of random shapes, of one kind; Lion's sign wants gradients that do not depend on it."""
    kind = Noise if rule == "Lion" or rng.random() < 0.5 else Valley
    print(kind.__name__)
    return [kind(shape, rng) for shape in random_shapes(rng)]


def error(found, exact):
    """Return the largest difference, relative to the scale of the values."""
    exact = np.asarray(exact, np.float64)
    return float(np.abs(np.asarray(found, np.float64) - exact).max() / max(1.0, np.abs(exact).max()))
