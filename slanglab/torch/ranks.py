"""Which device one of several processes computes on."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from typing import Any

from slanglab.errors import DeviceError

__all__ = ["local_device", "show_one_gpu"]

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def show_one_gpu(rank: int, variables: MutableMapping[str, str]) -> None:
    """Let CUDA see one GPU: the one of this rank among those that it was to see. It has to be done before CUDA is first used.

    Raises
    ------
    DeviceError
        When fewer GPUs are named in CUDA_VISIBLE_DEVICES than there are processes.
    """
    named = [name.strip() for name in variables.get(_VISIBLE, "").split(",") if name.strip()]
    if named and rank >= len(named):
        raise DeviceError(
            f"process {rank} of this machine has no GPU: {_VISIBLE} names {len(named)}",
            hint="start as many processes as there are GPUs, or use the backend gloo on the CPU",
        )
    variables[_VISIBLE] = named[rank] if named else str(rank)


def local_device() -> Any:
    """Choose the GPU of this process, and return it as a `torch.device`; for scripts that torchrun starts.

    torchrun numbers the processes of a machine in the variable LOCAL_RANK. This lets CUDA see the GPU of that number alone, so that torch
    and SlangLab both have it as their first: call it before anything uses CUDA. In processes that `slanglab.torch.launch` starts with
    NCCL that is done.

    Returns
    -------
    torch.device
        `cuda:0`, which is the GPU of this process; `cpu` where torch finds none. Without LOCAL_RANK it is that of a program by itself.

    Raises
    ------
    DeviceError
        When CUDA is in use already, or there are fewer GPUs than processes.

    Examples
    --------
    ::

        device = slanglab.torch.local_device()
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        model = torch.nn.parallel.DistributedDataParallel(slanglab.torch.Module(net.f, w=w).to(device))
    """
    import torch

    rank = os.environ.get("LOCAL_RANK")
    chosen = _VISIBLE in os.environ and os.environ.get("SLANGLAB_LOCAL_GPU") == rank
    if rank is not None and not chosen and torch.version.cuda is not None:
        if torch.cuda.is_initialized():
            raise DeviceError(
                "the GPU of this process cannot be chosen any more: CUDA is in use",
                hint="call slanglab.torch.local_device() first, before any tensor is on a GPU and any cell is compiled",
            )
        before = os.environ.get(_VISIBLE)
        show_one_gpu(int(rank), os.environ)
        os.environ["SLANGLAB_LOCAL_GPU"] = rank
        if not torch.cuda.is_available() and _has_gpus():
            named = before if before is not None else "all"
            raise DeviceError(
                f"process {rank} of this machine has no GPU of its own (CUDA_VISIBLE_DEVICES: {named})",
                hint="start as many processes as there are GPUs",
            )
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def _has_gpus() -> bool:
    return sys.platform == "linux" and os.path.exists("/dev/nvidia0")
