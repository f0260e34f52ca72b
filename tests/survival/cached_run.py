"""A process that uses the caches as a notebook does, and says on its last line, as JSON, how it went.

python cached_run.py [seconds to stay open] [first kernel] [number of kernels]
"""

import json
import sys
import time
import warnings

import numpy as np
import slangpy as spy

from slanglab import caches, device


def main() -> None:
    stay = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = caches.prepare()
        prepared = time.perf_counter()
        opened = device.open_device("vulkan")
    session = device.slang_session(opened, device.caches()[0])
    x = np.arange(1, 5, dtype=np.float32)
    right = True
    for k in range(first, first + count):
        source = f"[Differentiable] float cube{k}(float x) {{ return x * x * x + {k}; }}"
        module = spy.Module(session.load_module_from_source(f"cubes{k}", source))
        function = module.find_function(f"cube{k}")
        values = spy.Tensor.from_numpy(opened, x).with_grads(zero=True)
        result = function(values, _result="tensor").with_grads()
        right &= bool(np.allclose(result.to_numpy(), x**3 + k))
        result.grad.copy_from_numpy(np.ones(4, np.float32))
        function.bwds(values, _result=result)
        right &= bool(np.allclose(values.grad.to_numpy(), 3 * x**2))
        print(f"kernel {k}", flush=True)
    caches.settle()
    usual = caches.usual()
    modules, shaders = device.caches()
    try:
        hits = opened.shader_cache_stats.hit_count
    except RuntimeError:
        hits = None
    answer = {
        "right": right,
        "cold": found.cold,
        "hits": hits if shaders is not None else 0,
        "usual": modules == usual / "modules" and shaders == usual / "shaders",
        "private": str(modules.parent) if modules is not None and modules.parent != usual else "",
        "warnings": [str(w.message) for w in heard if issubclass(w.category, caches.CacheWarning)],
        "prepare_ms": round(1e3 * (prepared - begun), 2),
    }
    print(json.dumps(answer), flush=True)
    time.sleep(stay)


main()
