"""A function of one version of a cell, ready to be called: what slangpy calls, and what is known about its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import slangpy as spy
from slangpy.slangpy import Shape

from slanglab.engine.control import Control
from slanglab.engine.fences import fence_for
from slanglab.engine.gradients import is_in_place
from slanglab.engine.inplace import Step
from slanglab.engine.parameters import Parameter, parameter
from slanglab.engine.plans import Plans
from slanglab.text.diagnostics import Diagnostic
from slanglab.text.keywords import CALL_WORDS

__all__ = ["Target"]

_GROUPED_KEPT = 64


@dataclass(eq=False)
class Target:
    """One function.

    Attributes
    ----------
    name : str
        As the user wrote it: "poly.f".
    node : slangpy.FunctionNode
        slangpy's function, with the modifiers that the user applied.
    slang_function : object
        slangpy's reflection of it.
    parameters : tuple of Parameter
    device : slangpy.Device
    backward : bool
    defaults : dict of str to callable
        For parameters with a default value, what returns it.
    returned : object
        The result type set by `.return_type(...)`, or None.
    after : callable or None
        What to do when the call has been submitted: showing what it printed, which is returned.
    by_position : bool
        True when slangpy knows the parameters under other names, so that all must be passed by position.
    checked : bool
        False for a function whose parameters are not known (an overloaded method): its arguments go to slangpy as they are.
    messages : callable or None
        Reads the compiler's messages with the texts of the cells at hand.
    this_first : bool
        True for a method that is bound to no instance: its first argument is the instance.
    this : object
        The instance that a method is bound to, or None.
    mapping : dict of str to object
        What `.map(...)` says about each parameter.
    control : Control
        The policy of the lab, and where a call leaves its report.
    forward : Target or None
        For a backward target, the forward one that it came from.
    texts : callable
        Returns the texts that the function is compiled from: its cell's and those of what that imports.
    causes : callable
        Returns the traps that the linter sees in the function, most likely first.
    checker : callable or None
        Compares a backward call that has run with difference quotients, if that is due; it takes this, what was prepared, and the
        details of the report. (Such a check makes calls itself, so nothing here can import it.)
    custom : callable
        Returns the functions with a derivative of their own that take part.
    check_always : bool
        True where every backward call is checked, whatever the policy.
    modifiers : tuple of str
        Names of the modifiers applied, "bwds" not among them.
    steps : dict of str to Step
        What the last forward call found in tensors that it overwrote; one dict for the function forward and backward.
    """

    name: str
    node: Any
    slang_function: Any
    parameters: tuple[Parameter, ...]
    device: spy.Device
    backward: bool = False
    defaults: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    returned: Any = None
    after: Callable[[], str] | None = None
    by_position: bool = False
    checked: bool = True
    messages: Callable[[str], list[Diagnostic]] | None = None
    this_first: bool = False
    this: Any = None
    mapping: Mapping[str, Any] = field(default_factory=dict)
    control: Control = field(default_factory=Control)
    forward: Target | None = None
    texts: Callable[[], Iterable[str]] = tuple
    causes: Callable[[], Sequence[Diagnostic]] = tuple
    checker: Callable[[Target, Any, Any], None] | None = None
    custom: Callable[[], tuple[str, ...]] = tuple
    check_always: bool = False
    modifiers: tuple[str, ...] = ()
    steps: dict[str, Step] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = tuple(p.name for p in self.parameters)
        self.by_name = {p.name: p for p in self.parameters}
        # Parameters whose names slangpy keeps for itself can only be passed by position, and so must all before them.
        reserved = [i for i, n in enumerate(self.names) if n in CALL_WORDS]
        self.positional = len(self.names) if self.by_position else reserved[-1] + 1 if reserved else 0
        binds_gradients = self.backward or any(p.kind == "tensor" for p in self.parameters)
        self.plans = Plans(self.device, binds_gradients, bool(self.mapping), self.backward)
        self.fence = fence_for(self.device, self.backward or not self.checked, self.parameters)
        self.overwrites = any(is_in_place(p) for p in self.parameters)
        self.routes: dict[object, Any] = {}
        self.checked_kinds: set[object] = set()
        self.beside: dict[str, Any] = {}
        """What makes calls with other libraries' tensors keeps here what it knows of the function."""
        self._keyed: dict[str, Any] = {}
        self._grouped: dict[tuple[int, tuple[int, ...]], tuple[Any, Any]] = {}

    def modified(self, modifier: str, node: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Target:
        """Return the same function with a modifier applied: its name, the node that came of it, and its arguments."""
        if modifier == "bwds":
            return replace(self, node=node, backward=True, forward=self)
        forward = self.forward
        if forward is not None:  # a modifier behind `.bwds`
            before = getattr(forward.node, modifier)(*args, **kwargs)
            forward = forward.modified(modifier, before, args, kwargs)
        changed: dict[str, Any] = {"node": node, "forward": forward, "modifiers": (*self.modifiers, modifier)}
        if modifier == "return_type":
            if self.reads(args[0]):
                changed["node"] = self.node  # slangpy's own would read natively
            return replace(self, **changed, returned=args[0])
        if modifier == "bind":
            return replace(self, **changed, this=args[0], this_first=False)
        if modifier == "map":
            # For a method the first entry is the instance's.
            own = args[1:] if self.this_first or self.this is not None else args
            return replace(self, **changed, mapping={**dict(zip(self.names, own, strict=False)), **kwargs})
        return replace(self, **changed)

    @cached_property
    def result(self) -> Parameter | None:
        """What a call returns, as a parameter that is written; None for a function without a result."""
        if not self.checked or not self.slang_function.have_return_value:
            return None
        return parameter("_result", self.slang_function.return_type, "out")

    def reads(self, wanted: object) -> bool:
        """Tell whether results are to be a numpy array that is read from a tensor.

        slangpy's own way to an array blocks in native code until the kernel has ended, and fails for bools and single numbers.
        What it has to say about results that make no array is left to it.
        """
        # A comparison of an array with a text would be one of its elements.
        numpy = wanted == "numpy" if isinstance(wanted, str) else wanted is np.ndarray
        spec = self.result if numpy and not self.backward else None
        return (
            spec is not None
            and spec.kind in ("scalar", "vector", "matrix", "array")
            and spec.dtype is not None
        )

    def grouped(self, node: Any, shape: tuple[int, ...]) -> Any:
        """Return a node with a group shape."""
        key = id(node), shape
        known = self._grouped.get(key)
        if known is None or known[0] is not node:
            if len(self._grouped) >= _GROUPED_KEPT:
                self._grouped.clear()
            known = self._grouped[key] = node, node.call_group_shape(Shape(shape))
        return known[1]

    def keyed(self, key: str) -> Any:
        """Return the node for calls whose arguments are of one kind in a way that slangpy's kernel cache does not see.

        A comment in the prelude makes it part of the cache's key.
        """
        node = self._keyed.get(key)
        if node is None:
            node = self._keyed[key] = self.node.prelude(f"// arguments: {key}")
        return node
