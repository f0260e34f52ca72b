"""How long looking at a tensor takes on the device, beside NumPy doing the same on the same machine.

Run it as `python tests/bench/summary.py [--backend cuda] [--sizes 22,24]`. Each line is the median of the repeats, in
milliseconds, with the results on the host at the end; the ratio is NumPy's time over the device's. First comes what a
summary takes by the device's own clock, beside a copy of the tensor's bytes there, half of which is reading them once.
On a GPU: `python tests/bench/summary.py --backend cuda --sizes 26 --device-only`, and the same with `--backend vulkan`.
"""

from __future__ import annotations

import argparse
import statistics as stats
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import slangpy as spy

from slanglab import device as devices
from slanglab.tensors import described, division, sources
from slanglab.tensors import summary as look


def median(call: Callable[[], object], repeats: int) -> float:
    call()
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        took.append((time.perf_counter() - start) * 1e3)
    return stats.median(took)


def numpy_summary(x: Any) -> object:
    """What `summary` says, by NumPy's own functions."""
    counts = [
        np.count_nonzero(x == 0),
        *(np.count_nonzero(f(x)) for f in (np.isnan, np.isposinf, np.isneginf)),
    ]
    low, high = x.min(), x.max()
    return (low, high, x.mean(), x.std(), counts, np.histogram(x, 64, (low, high)))


def numpy_statistics(x: Any) -> object:
    counts = [
        np.count_nonzero(x == 0),
        *(np.count_nonzero(f(x)) for f in (np.isnan, np.isposinf, np.isneginf)),
    ]
    return (x.min(), x.max(), x.mean(), x.std(), counts)


def numpy_picture(x: Any) -> object:
    """Block mean, least, greatest and flags, 512 x 512 or fewer texels."""
    side = x.shape[0]
    block = max(1, side // 512)
    tiles = x.reshape(side // block, block, -1, block)
    return (
        tiles.mean(axis=(1, 3)),
        tiles.min(axis=(1, 3)),
        tiles.max(axis=(1, 3)),
        np.isfinite(tiles).all(axis=(1, 3)),
    )


def timed(device: Any, record: Callable[[Any], object], repeats: int = 20) -> float:
    """What is recorded into one command buffer, in milliseconds, by the device's own clock.

    Nothing goes before it: work that writes would leave the device writing its cache back meanwhile.
    """
    pool = device.create_query_pool(spy.QueryType.timestamp, 2)
    took = []
    for _ in range(repeats + 3):
        encoder = device.create_command_encoder()
        encoder.write_timestamp(pool, 0)
        kept = record(encoder)
        encoder.write_timestamp(pool, 1)
        device.submit_command_buffer(encoder.finish())
        device.wait()
        del kept
        begin, end = pool.get_timestamp_results(0, 2)
        took.append((end - begin) * 1e3)
    return stats.median(took[3:])


def device_copy(device: Any, tensor: Any) -> float:
    """One copy of the tensor's bytes on the device."""
    target = spy.Tensor.empty_like(tensor)
    return timed(
        device,
        lambda encoder: encoder.copy_buffer(target.storage, 0, tensor.storage, 0, tensor.storage.size),
    )


def device_time(device: Any, t: Any, repeats: int) -> None:
    """Print what a summary takes on the device, beside a copy of the tensor there: half of it is reading it once."""
    copy = device_copy(device, t)
    view = sources.source(t, None, False)
    recorded = timed(device, lambda encoder: described.describe(device, view, 64, encoder))
    reading = copy / 2
    host = median(lambda: look.summary(t), repeats)
    gigabytes = t.storage.size / 1e6
    print(
        f"  copy on the device {copy:.3f} ({2 * gigabytes / copy:.0f} GB/s), so reading once {reading:.3f}; summary on the device "
        f"{recorded:.3f}: {recorded / reading:.2f} times reading once, {recorded / copy:.2f} times the copy; "
        f"with the host {host:.3f}: {host / reading:.2f} times"
    )
    parts = described.parts(device, view, 64)
    print(
        "  of it: " + ", ".join(f"{name} {timed(device, record):.3f}" for name, record in parts), flush=True
    )


def sweep(device: Any, t: Any) -> None:
    """Print what a summary and each of its passes take on the device with other numbers of threads and groups."""
    view = sources.source(t, None, False)
    usual = division.SIZES
    for threads in (128, 256, 512, 1024):
        for each in (924, 1024, 1280):
            division.SIZES = (threads, 132 * each // threads, usual[2])
            parts = [
                f"{name} {timed(device, record):.4f}" for name, record in described.parts(device, view, 64)
            ]
            whole = timed(device, lambda encoder: described.describe(device, view, 64, encoder))
            print(f"  {division.SIZES}: {', '.join(parts)}, the whole {whole:.4f}", flush=True)
    division.SIZES = usual


def compare(x: Any, t: Any, repeats: int) -> None:
    """Print one line for each thing to look at."""
    known = look.statistics(t)
    extent = (float(known.minimum or 0), float(known.maximum or 0))
    rows: list[tuple[str, Callable[[], object], Callable[[], object] | None]] = [
        ("summary", lambda: look.summary(t), lambda: numpy_summary(x)),
        ("statistics", lambda: look.statistics(t), lambda: numpy_statistics(x)),
        ("histogram", lambda: look.histogram(t, 64, extent), lambda: np.histogram(x, 64, extent)),
        ("symlog histogram", lambda: look.histogram(t, 64, extent, "symlog"), None),
        ("picture 512x512", lambda: look.picture(t, 512, 512), lambda: numpy_picture(x)),
        ("picture 1x1024", lambda: look.picture(t.view((x.size,), (1,), 0), 1, 1024), None),
        ("nonfinite", lambda: look.nonfinite(t), lambda: np.argwhere(~np.isfinite(x))),
        ("statistics of t[:, 1:]", lambda: look.statistics(t[:, 1:]), lambda: numpy_statistics(x[:, 1:])),
    ]
    for name, ours, theirs in rows:
        mine = median(ours, repeats)
        other = median(theirs, repeats) if theirs else None
        beside = f"   numpy {other:9.2f}   ratio {other / mine:6.2f}" if other is not None else ""
        print(f"  {name:24} device {mine:9.3f}{beside}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--backend", default="auto")
    options.add_argument("--sizes", default="22,24", help="even powers of two, comma separated")
    options.add_argument("--repeats", type=int, default=7)
    options.add_argument(
        "--device-only", action="store_true", help="only what the device's clock says of a summary"
    )
    options.add_argument("--sweep", action="store_true", help="try other numbers of threads and groups")
    given = options.parse_args()
    device = devices.open_device(given.backend)
    print(f"{devices.describe(device)}; numpy {np.__version__}; median of {given.repeats}, ms")
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {seed}")
    for power in map(int, given.sizes.split(",")):
        side = 2 ** (power // 2)
        x = np.random.default_rng(seed).standard_normal((side, 2**power // side), np.float32)
        t = spy.Tensor.from_numpy(device, x)
        print(f"2^{power} floats")
        device_time(device, t, given.repeats)
        if given.sweep:
            sweep(device, t)
        if not given.device_only:
            compare(x, t, given.repeats)
    device.close()


if __name__ == "__main__":
    main()
