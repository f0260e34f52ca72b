"""Why slangpy refuses a call: gradients that are not there, kernels that do not compile, devices that are gone.

One function for each kind of refusal, from slangpy's words to ours; each takes the refusal and the match of its pattern in
`call_errors`.
"""

from __future__ import annotations

import re

from slanglab.errors import CallError
from slanglab.messages.hints import closest, hint, python_hint
from slanglab.messages.refusal import KernelError, Refusal, first_line
from slanglab.text.diagnostics import parse

# ----- backward calls -----


def not_differentiable(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a backward call of a function without derivative."""
    return refusal.error(
        " is not differentiable",
        hint="write `[Differentiable]` before the function, and before every function that it calls",
    )


def no_seed(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a backward call that starts from nothing."""
    return refusal.error(
        ": `_result` carries no gradient to start from",
        "_result",
        hint="pass a tensor with one: `y = f(x).with_grads()`, fill `y.grad`, then `f.bwds(x, _result=y)`",
    )


def no_output_gradient(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a backward call with nowhere to write."""
    without = [
        name
        for name, value in refusal.values.items()
        if hasattr(value, "with_grads") and getattr(value, "grad_out", None) is None
    ]
    name = without[0] if len(without) == 1 else None
    return refusal.error(
        f": {name or 'a tensor'} has no gradient to write to",
        name,
        hint=f"write `{name or 'x'} = {name or 'x'}.with_grads()` first",
    )


def inout(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse an inout parameter whose gradients share one buffer."""
    return refusal.error(
        ": an inout parameter needs two gradients, one that comes in and one that goes out",
        hint="write `x.with_grads(grad_in, grad_out)` with two tensors",
    )


def lost_index(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a backward call by name without `_result`."""
    return refusal.error(
        ": the result of the backward call is missing",
        "_result",
        given="nothing",
        hint="pass `_result=`, a tensor whose gradient is that of the result",
    )


# ----- the kernel and the device -----


def kernel(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a kernel that does not compile."""
    text = refusal.text
    read = refusal.messages or (lambda t: parse(t, lambda _: None, lambda n: re.sub(r"__v\d+$", "", n)))
    found = [d if d.hint else d.with_hint(hint(d) or "") for d in read(text) if d.severity == "error"]
    integers = [
        k
        for k, v in refusal.values.items()
        if isinstance(v, list | tuple) and all(isinstance(i, int) for i in v)
    ]
    if found and all(d.generated for d in found) and integers and "__slangpy_load" in text:
        name = integers[0]
        return refusal.error(
            f": {name} is a list of whole numbers, and the parameter is not"
            if refusal.values[name]
            else f": {name} is an empty list",
            name,
            hint=f"write `np.array({name}, dtype='float32')`",
        )
    first = found[0] if found else None
    what = f": {first.text or first.title}" if first and not first.generated else ""
    return KernelError(
        f"{refusal.function}: its kernel does not compile{what}",
        diagnostics=found,
        function=refusal.function,
        hint=(first.hint or None) if first else None,
        details=text,
    )


def memory(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a buffer that the device refuses."""
    return refusal.error(
        ": the device has no room for a buffer of that size",
        hint="one buffer holds less than 4 GB; delete tensors that are no longer needed, or work in parts",
    )


def closed(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a module whose device is gone."""
    return refusal.error(": its device was closed", hint="run the cell that defines it again")


def empty_array(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse an array without elements."""
    return refusal.error(": slangpy makes no tensor without elements")


def no_attribute(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a function that the module does not have."""
    name = match["name"]
    near = closest(name, refusal.values)
    return refusal.error(f": there is no function {name}", hint=f"did you mean `{near}`?" if near else None)


def torch(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a PyTorch tensor."""
    name = next((k for k, v in refusal.values.items() if type(v).__module__.startswith("torch")), None)
    return refusal.error(
        f": {name or 'an argument'} is a PyTorch tensor, which slangpy does not take here",
        name,
        hint=f"write `{name or 'x'}.detach().numpy()`",
    )


def vectorize(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse a `.map(…)` that does not fit the arguments."""
    reason = match["reason"]
    if "Cannot reduce scalar" in reason:
        return refusal.error(
            ": .map(…) names an axis of an argument that is a single number",
            hint="leave that argument out of `.map`",
        )
    if "Cannot reduce dimensions" in reason:
        return refusal.error(": .map(…) names an axis that an argument does not have")
    if reason.startswith("Too many keyword"):
        return refusal.error(": .map(…) names a parameter that the function does not have")
    return refusal.error(": .map(…) has more entries than the function has parameters")


def reason(refusal: Refusal, match: re.Match[str]) -> CallError:
    """Refuse any other reason that slangpy gives in its first line."""
    return refusal.error(f": {first_line(match['reason'])}", hint=python_hint(refusal.exc))
