"""slangpy's refusals of a call, made short: what happened, which argument, what it takes and what it got.

slangpy answers with 20 to 200 lines, or with one that names a C++ file. `explain` finds the sentence in them; the long text
stays in `details`. What it recognises was collected by making each mistake with slangpy 0.43.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from slanglab import waiting
from slanglab.errors import CallError, DeviceGoneError
from slanglab.messages import refused_arguments as arguments
from slanglab.messages import refused_kernels as kernels
from slanglab.messages.hints import python_hint
from slanglab.messages.refusal import KernelError, Refusal, describe, first_line, text_of
from slanglab.messages.slangpys import of_class
from slanglab.text.diagnostics import Diagnostic

__all__ = ["KernelError", "LostInCallError", "describe", "explain"]


class LostInCallError(CallError, DeviceGoneError):
    """The device was lost, and the call with it."""


def explain(
    exc: BaseException,
    function: str,
    values: Mapping[str, Any] | None = None,
    *,
    messages: Callable[[str], list[Diagnostic]] | None = None,
) -> CallError:
    """Turn an exception of slangpy into a short error.

    Parameters
    ----------
    exc : BaseException
        What slangpy raised.
    function : str
        The function as the user wrote it: "poly.f".
    values : mapping of str to object, optional
        The arguments by parameter name, in the order of the declaration.
    messages : callable, optional
        Reads the compiler's messages with the cells' texts at hand (`SlangCompiler.messages`), for kernels that do not compile.

    Returns
    -------
    CallError
        With slangpy's own text in `details`. This function does not raise.
    """
    try:
        if (gone := waiting.explain_loss(exc)) is not None:
            return LostInCallError(
                f"{function}: {gone.message}", function=function, hint=gone.hint, details=text_of(exc)
            )
        return _as_slangpys(_explain(Refusal(exc, function, dict(values or {}), messages)), exc)
    except Exception:
        details = text_of(exc)
        return CallError(f"{function}: slangpy refused the call", function=function, details=details or None)


def _as_slangpys(error: CallError, exc: BaseException) -> CallError:
    """Make an error one of slangpy's class too, so that code which catches that goes on working."""
    theirs = type(exc)
    if theirs.__module__.split(".", 1)[0] == "slangpy" and not isinstance(error, theirs):
        of_class(error, theirs)
        for name, value in vars(exc).items():
            error.__dict__.setdefault(name, value)
    return error


def _explain(refusal: Refusal) -> CallError:
    for pattern, handler in _HANDLERS:
        if match := pattern.search(refusal.text):
            return handler(refusal, match)
    said = first_line(refusal.text)
    if "incompatible function arguments" in said:
        said = "slangpy does not take these arguments"
    return refusal.error(f": {said}", hint=python_hint(refusal.exc))


# In this order: the first that fits is taken, so the precise ones come first.
_PATTERNS: tuple[tuple[str, Callable[[Refusal, re.Match[str]], CallError]], ...] = (
    (r"has no function or type named '(?P<name>\w+)'", kernels.no_attribute),
    (
        r"\AFailed to create type marshall for argument (?P<name>\w+): [\s\S]*? with error:\n(?P<reason>[\s\S]*)",
        arguments.unsupported,
    ),
    (r"Could not call function '[^']*': Function is not differentiable", kernels.not_differentiable),
    (r"(?:RHI messages:|\ASlang compilation error:|\AFailed to load slang module)", kernels.kernel),
    (r"\ACould not call function[\s\S]*\nPossible overloads:", arguments.overloads),
    (r"^\s+Parameter '(?P<name>\w+)' not specified\.$", arguments.missing),
    (r"^\s+Too many arguments: expected (?P<wanted>\d+), got (?P<given>\d+)$", arguments.too_many),
    (r"^\s+No parameter named '(?P<name>[^']*)'\.$", arguments.unknown_name),
    (r"^\s+Parameter '(?P<name>\w+)' specified multiple times\.$", arguments.twice),
    (
        r"^\s+Argument (?P<position>\d+) could not be resolved: On none-cuda platforms, (?P<wanted>\S+)<",
        arguments.needs_gradient,
    ),
    (
        r"^\s+Argument (?P<position>\d+) could not be resolved: python type (?P<given>.*) "
        r"does not match slang type (?P<wanted>.*)\.$",
        arguments.does_not_fit,
    ),
    (r"^\s+Ambiguous call - ", arguments.generic),
    (
        r"\AShape mismatch for (?P<name>\S+) between value \((?P<value>[^)]*)\) and call \((?P<call>[^)]*)\)",
        arguments.shapes,
    ),
    (
        r"numpy array shape dim (?P<axis>\d+) does not match the expected shape \((?P<wanted>-?\d+) != (?P<given>\d+)\)",
        arguments.array_shape,
    ),
    (
        r"\ACould not resolve dimensionality for[\s\S]*Error caused by argument: (?P<name>\w+)",
        arguments.dimensions,
    ),
    (r"Slang type '(?P<type>[^']*)' has no field '(?P<field>[^']*)'", arguments.has_no_field),
    (r"Could not find suitable conversion from (?P<given>\S+) to (?P<wanted>[^\n.]+)", arguments.conversion),
    (r"Missing required input gradients", kernels.no_seed),
    (r"Missing required output gradients", kernels.no_output_gradient),
    (r"inout parameter gradients need separate buffers", kernels.inout),
    (r"Exception in kernel generation: list index out of range", kernels.lost_index),
    (
        r"Exception in kernel generation: (?P<reason>Too many (?:keyword )?arguments supplied for explicit)",
        kernels.vectorize,
    ),
    (r"Explicit vectorization raised exception: \w+\('(?P<reason>[^']*)'\)", kernels.vectorize),
    (r"Exception in kernel generation: (?P<reason>[^\n]*)", kernels.reason),
    (r"std::bad_cast", arguments.bad_cast),
    (r"numpy array is not contiguous", arguments.not_contiguous),
    (r"createBuffer[\s\S]*SLANG_FAIL", kernels.memory),
    (r"Reflection object has been invalidated", kernels.closed),
    (r"CallData\.__init__\(\) got multiple values for argument '(?P<name>\w+)'", arguments.reserved),
    (r"Expected (?P<name>_append_to) to be a CommandEncoder", arguments.reserved),
    (r"Assertion failed: m_desc\.size > 0", kernels.empty_array),
    (r"PyTorch tensors detected", kernels.torch),
    (r"\AUnknown return type '(?P<name>[^']*)'", arguments.return_type),
)
_HANDLERS = tuple((re.compile(pattern, re.MULTILINE), handler) for pattern, handler in _PATTERNS)
