"""Training split among processes, by DistributedDataParallel: the time of a step with one process, and with one for each GPU.

A network of three layers over points and a picture of gaussians, both with their layers in Slang, as in tests/device/test_ddp.py, each
process with its part of the data: NCCL and a GPU for each where there are several, Gloo and the CPU otherwise. The step is timed by the
slowest process, over the steps after the first ones; the losses of both runs are compared.

    python tests/bench/ddp.py [--nprocs 2] [--points 1048576] [--side 1024] [--steps 40]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

import numpy as np
import torch
from test_ddp import NETWORK, SPLATS, Network, gaussians, start, waves
from torch import distributed

import slanglab as sl
from slanglab.torch import launch, local_device

_FIRST = 10
"""Steps that are not timed: kernels are compiled in them."""


def timed(model: Any, loss_of: Any, steps: int) -> tuple[float, list[float]]:
    """Train, and return the seconds of a step and the losses over all data."""
    where = local_device()
    rank, count = distributed.get_rank(), distributed.get_world_size()
    model = model.to(where)
    split = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    kept, begin = [], 0.0

    def settle() -> float:
        distributed.barrier()
        if where.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    for step in range(_FIRST + steps):
        if step == _FIRST:
            begin = settle()
        optimizer.zero_grad()
        loss = loss_of(split)
        loss.backward()
        optimizer.step()
        kept.append(loss.detach())
    took = torch.tensor((settle() - begin) / steps, device=where)
    distributed.all_reduce(took, distributed.ReduceOp.MAX)
    losses = torch.stack(kept)
    distributed.all_reduce(losses)
    assert rank < count
    return float(took), (losses / count).tolist()


def network(rank: int, net: Any, points: int, steps: int) -> tuple[float, list[float]]:
    """Train the network over this process's part of the points."""
    count = distributed.get_world_size()
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (points, 2)).astype(np.float32)
    y = np.sign(x[:, 0] * x[:, 1]).astype(np.float32)[:, None]
    mine, labels = (torch.from_numpy(a[rank::count].copy()).to(local_device()) for a in (x, y))
    return timed(Network(net, start(3)), lambda m: net.error(m(mine), labels).mean(), steps)


def splats(rank: int, slang: Any, side: int, steps: int) -> tuple[float, list[float]]:
    """Fit the gaussians to this process's rows of the picture."""
    count = distributed.get_world_size()
    at, picture = waves(side)
    model = gaussians(slang, 5)
    places, wanted = (
        torch.from_numpy(a.astype(np.float32)[rank::count].copy()).to(local_device()) for a in (at, picture)
    )
    return timed(model, lambda m: ((m(places) - wanted) ** 2).mean(), steps)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nprocs", type=int, default=2)
    parser.add_argument("--points", type=int, default=1 << 20)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=40)
    chosen = parser.parse_args()
    on_gpus = torch.cuda.is_available() and torch.cuda.device_count() >= chosen.nprocs
    where, backend = (torch.cuda.get_device_name(), "nccl") if on_gpus else ("CPU", "gloo")
    if on_gpus:
        torch.zeros(1, device="cuda")
        sl.current().switch_device("cuda")
    print(f"{where}, {backend}, torch {torch.__version__}\n")
    one, several = "1 process ms", f"{chosen.nprocs} processes ms"
    print(f"| | {one} | {several} | speed-up | largest difference of losses |\n|---|---|---|---|---|")
    net, gaussians = sl.compile(NETWORK, "bench_ddp_network"), sl.compile(SPLATS, "bench_ddp_splats")
    for what, train, slang, size in (
        (f"network, {chosen.points} points", network, net, chosen.points),
        (f"48 gaussians, {chosen.side} x {chosen.side}", splats, gaussians, chosen.side),
    ):
        alone, losses = launch(train, 1, slang, size, chosen.steps, backend=backend)
        split, same = launch(train, chosen.nprocs, slang, size, chosen.steps, backend=backend)
        apart = max(abs(a - b) for a, b in zip(losses, same, strict=True))
        print(
            f"| {what} | {alone * 1e3:.2f} | {split * 1e3:.2f} | {alone / split:.2f} | {apart:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
