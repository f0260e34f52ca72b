"""The self-test: a real forward and backward call through slangpy, and the numbers it must give.

It is the polynomial of slangpy's documentation, 2x² + 8x - 1 at 1, 2, 3, 4; its derivative is 4x + 8. It runs on plain
slangpy, so that it tells whether the machine works apart from whether SlangLab does.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slanglab.errors import DeviceError
from slanglab.machine import libraries, probe

__all__ = ["Outcome", "main", "polynomial_backward"]

_SLANG = """
[Differentiable]
float polynomial(float a, float b, float c, float x)
{
    return a * x * x + b * x + c;
}
"""


@dataclass(frozen=True)
class Outcome:
    """What the self-test computed.

    Attributes
    ----------
    adapter, backend : str
        The device it ran on.
    value, gradient : ndarray
        f and df/dx at `x`, shape (4,), float32, as the device gave them.
    right : bool
        Whether both agree with the derivative worked out by hand.
    """

    adapter: str
    backend: str
    value: npt.NDArray[np.float32]
    gradient: npt.NDArray[np.float32]
    right: bool


def polynomial_backward(backend: str) -> Outcome:
    """Run f(x) = 2x² + 8x - 1 and its backward at x = 1, 2, 3, 4 on a new device.

    Parameters
    ----------
    backend : str
        "vulkan", "cuda", "d3d12" or "metal".
    """
    libraries.preload()
    import slangpy

    device: Any = slangpy.create_device(type=getattr(slangpy.DeviceType, backend), enable_debug_layers=False)
    try:
        module = slangpy.Module(device.load_module_from_source("slanglab_self_test", _SLANG))
        x = np.array([1, 2, 3, 4], np.float32)
        points = slangpy.Tensor.from_numpy(device, x).with_grads(zero=True)
        result = module.polynomial(a=2, b=8, c=-1, x=points, _result="tensor").with_grads()
        result.grad.copy_from_numpy(np.ones(4, np.float32))
        module.polynomial.bwds(a=2, b=8, c=-1, x=points, _result=result)
        value, gradient = result.to_numpy(), points.grad.to_numpy()
        exact = x.astype(np.float64)
        right = bool(
            np.allclose(value, 2 * exact**2 + 8 * exact - 1, rtol=1e-6)
            and np.allclose(gradient, 4 * exact + 8, rtol=1e-6)
        )
        return Outcome(device.info.adapter_name, backend, value, gradient, right)
    finally:
        device.close()


def _first_backend() -> str:
    answers = []
    for backend in probe.backends_here():
        answers.append(probe.ask(backend))
        if answers[-1].opened:
            return backend
    told = "; ".join(f"{answer.backend}: {answer.loader or answer.error}" for answer in answers)
    raise DeviceError(f"no device opens ({told})", hint="slanglab doctor")


def main(backend: str | None = None) -> int:
    """Run the self-test in a process of its own and print what it gives; 0 if the numbers are right.

    Parameters
    ----------
    backend : str, optional
        The backend to test; without it the first that opens a device.
    """
    try:
        chosen = backend or _first_backend()
    except DeviceError as error:
        print(f"self-test: {error}")
        return 1
    code = subprocess.call([sys.executable, "-m", "slanglab.machine.self_test", chosen])  # noqa: S603
    if code < 0:
        print(f"self-test: the driver ended the process by signal {-code}\n  hint: slanglab doctor")
    return 0 if code == 0 else 1


def _child(backend: str) -> int:
    try:
        outcome = polynomial_backward(backend)
    except Exception as error:
        told = str(error).strip().splitlines() or [type(error).__name__]
        print(f"self-test: {told[0]}\n  hint: slanglab doctor")
        return 1
    print(f"self-test on {outcome.adapter} ({outcome.backend}): gradient of 2x² + 8x - 1 at 1, 2, 3, 4")
    print(outcome.gradient)
    if not outcome.right:
        print("self-test: expected [12. 16. 20. 24.]; this device computes wrong gradients")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_child(sys.argv[1]))
