"""A backward call by slangpy alone, in a process of its own: what crashes, hangs or is wrong there must not take the tests along."""

import json
import subprocess
import sys

_SCRIPT = """
import json, sys
import numpy as np
import slangpy as spy

case = json.load(sys.stdin)
device = spy.Device(
    type=spy.DeviceType[case["device"]], enable_hot_reload=False, compiler_options={"include_paths": [spy.SHADER_PATH]}
)
module = spy.Module(device.load_module_from_source("plain_case", case["text"]))
function = module.require_function(case["function"])
arguments, made = {}, {}
for name, value in case["arguments"].items():
    if isinstance(value, list):
        array = np.array(value)
        if array.dtype.kind == "f":
            value = spy.Tensor.from_numpy(device, array.astype(np.float32))
            if name in case["wrt"]:
                value = made[name] = value.with_grads(zero=True)
        else:
            value = array.astype(np.int32)
    arguments[name] = value
result = function(**arguments, _result="tensor")
print(json.dumps({"value": result.to_numpy().tolist()}), flush=True)
result = result.with_grads(zero=True)
result.grad.copy_from_numpy(np.ones(result.shape.as_tuple(), np.float32))
function.bwds(**arguments, _result=result)
print(json.dumps({name: tensor.grad.to_numpy().tolist() for name, tensor in made.items()}), flush=True)
"""


def plain_backward(device, text, function, arguments, wrt, seconds=25):
    """Return what a forward and a backward call give.

    Returns
    -------
    (list or None, dict or str)
        The value of the forward call, and the gradients by name with a cotangent of ones; instead of these "hangs", "crashes" or
        "fails".
    """
    case = {
        "device": device.info.type.name,
        "text": text,
        "function": function,
        "arguments": arguments,
        "wrt": list(wrt),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            input=json.dumps(case),
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        written, outcome = done.stdout, "crashes" if done.returncode < 0 else "fails"
    except subprocess.TimeoutExpired as error:
        written, outcome = (error.stdout or b"").decode(), "hangs"
    lines = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    value = lines[0]["value"] if lines else None
    return value, lines[1] if len(lines) > 1 else outcome
