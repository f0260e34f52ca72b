"""A stand-in for slangtorch where there is no CUDA: the texts that Slang really writes, run on the CPU, one thread after another.

Same function, same arguments, same folders; what takes the place of CUDA and of PyTorch's C++ is `cuda_on_cpu.h`. `BUILDS` counts.
"""

import hashlib
import importlib.util
import os
import re
import subprocess
import sysconfig
import time
from pathlib import Path

__version__ = "0"
HERE = Path(__file__).parents[1]
_LINE = re.compile(r"^#line \d+.*\n", re.MULTILINE)


def _own(text):
    """Return a text from the first `#line` on, without what names the files of others."""
    found = _LINE.search(text)
    return _LINE.sub("", text[found.start() :]) if found is not None else ""


def loadModule(fileName, defines=None, skipNinjaCheck=False):  # noqa: N803
    file = Path(fileName)
    name = "_standin_" + hashlib.sha256(str(file).encode()).hexdigest()[:16]
    folder = file.parent / ".slangtorch_cache" / file.stem / "0" / "0"
    binary = folder / f"{name}.so"
    if not binary.is_file():
        _build(file, folder, binary, name)
    spec = importlib.util.spec_from_file_location(name, binary)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return _wrapped(module)


def _build(file, folder, binary, name):
    import torch

    from slanglab.torch.entry_points import worker

    folder.mkdir(parents=True, exist_ok=True)
    (file.parent / "builds").open("a").write("1")
    text = file.read_text()
    if "SLOW_BUILD" in text:
        time.sleep(600)
    if "NVCC_REFUSES" in text:
        line = next(i for i, t in enumerate(text.split("\n")) if "NVCC_REFUSES" in t)
        stem = file.stem
        raise RuntimeError(
            f"Error building extension '{name}': [1/3] nvcc --generate-dependencies\nFAILED: [code=2] x.cuda.o\n"
            f'{stem}({line}): error: identifier "undeclared" is undefined\n\n1 error detected in the compilation of "x.cu".\n'
            "ninja: build stopped: subcommand failed."
        )
    texts = worker._texts(file)
    if texts["failed"]:
        raise RuntimeError(f"Compilation failed with error 1\n{texts['messages']}")
    kernels, host = folder / "kernels.cpp", folder / "host.cpp"
    kernels.write_text(
        f'#include "cuda_on_cpu.h"\nuint3 blockIdx, blockDim, threadIdx;\n{_own(texts["cuda"])}'
    )
    # The kernels keep their types: a launch then finds how many arguments there are, and of what type.
    host.write_text(
        f'#define FOR_PYTHON\n#include "cuda_on_cpu.h"\n{_own(texts["host"]).replace("(const void*)", "")}'
    )
    include = [HERE, sysconfig.get_paths()["include"], Path(torch.__file__).parent / "include"]
    command = [
        "g++", "-std=c++17", "-O0", "-w", "-fPIC", "-shared", "-fvisibility=hidden", f"-DTORCH_EXTENSION_NAME={name}",
        *(f"-I{path}" for path in include), str(kernels), str(host), "-o", str(binary),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"Error building extension '{name}': {done.stderr}")


class _Launch:
    def __init__(self, run):
        self._run = run

    def launchRaw(self, blockSize, gridSize):  # noqa: N803
        return self._run(blockSize, gridSize)


class _Wrapped:
    """A kernel of `[AutoPyBindCUDA]`: named arguments first, then the launch."""

    def __init__(self, function, names, fwd=None, bwd=None):
        self._function, self._names = function, names
        self.fwd_wrapped_fn, self.bwd_wrapped_fn = fwd, bwd

    def __call__(self, **given):
        assert set(given) == set(self._names), (set(given), self._names)
        values = [_plain(given[n]) for n in self._names]
        return _Launch(lambda block, grid: self._function(block, grid, *values))

    def bwd(self, **given):
        return self.bwd_wrapped_fn(**given)

    def fwd(self, **given):
        return self.fwd_wrapped_fn(**given)


def _plain(value):
    """Return a tensor of a DiffTensorView as its two parts; a struct given as a dict as a tuple."""
    import torch

    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(t, torch.Tensor) for t in value):
        return value[0], (value[1],)
    return tuple(value.values()) if isinstance(value, dict) else value


def _wrapped(module):
    import torch

    attributes = {n: getattr(module, n) for n in dir(module) if not n.startswith("__")}
    for info in (n for n in dir(module) if n.startswith("__funcinfo__")):
        names, kinds, fwd, bwd = getattr(module, info)()
        name = info.removeprefix("__funcinfo__")
        names = names[2:]  # the sizes of the launch come first, and have no types

        def taking(function, names=names, kinds=kinds):
            def run(block, grid, *values):
                return function(
                    block,
                    grid,
                    *(
                        (v, (torch.empty(1),)) if k == "DiffTensorView" and isinstance(v, torch.Tensor) else v
                        for v, k in zip(values, kinds, strict=True)
                    ),
                )

            return run

        derivatives = [_Wrapped(taking(getattr(module, d)), names) if d else None for d in (fwd, bwd)]
        attributes[name] = _Wrapped(taking(getattr(module, name)), names, *derivatives)
    if hasattr(module, "__typeinfo__DiffTensorView"):
        attributes["DiffTensorView"] = tuple
    return type(module.__name__, (object,), attributes)


assert os.name == "posix"
