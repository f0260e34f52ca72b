"""`slanglab.torch.function`: a Slang function as torch's compiler takes it."""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from slanglab.cells import following
from slanglab.cells.function import SlangFunction
from slanglab.errors import ArgumentError, CallError, SlangLabError
from slanglab.torch import bridge, operators
from slanglab.torch.signature import Signature, read

__all__ = ["SlangOperator", "function"]

_serial = itertools.count(1)
_known: weakref.WeakValueDictionary[int, SlangOperator] = weakref.WeakValueDictionary()
_names: set[str] = set()


class SlangOperator:
    """A Slang function to be called with torch tensors and numbers; made by `function`.

    It follows its cell: an edited body is what the next call runs, compiled graphs included. Where an edit changes what the function takes
    or returns, there are new operators: what was compiled before is compiled again, and a graph that was exported before says that it
    is out of date.
    """

    def __init__(self, slang: SlangFunction, name: str | None) -> None:
        self.slang = slang
        self.number = next(_serial)
        self.generation = 0
        self.signature = read(slang)
        self._base = name or f"{re.sub(r'[^0-9a-zA-Z_]', '_', slang.name)}_{self.number}"
        self._operators: dict[tuple[int, str], str] = {}
        self._set()
        _known[self.number] = self
        following.follow(self._follow)

    def _set(self) -> None:
        """Lay out what each call needs in plain values, which torch's compiler can follow."""
        signature = self.signature
        self._tag = f"{self.number}:{self.generation}:"
        self._names = signature.names
        self._structs = dict(signature.structs)
        self._defaults = dict(signature.defaults)
        self._differentiable = signature.differentiable
        self._single = len(signature.outputs) == 1

    def _follow(self) -> None:
        """Look whether the cell, which was run, has another signature now."""
        try:
            signature = read(self.slang)
        except SlangLabError:
            return  # the call itself says why
        if signature != self.signature:
            self.signature = signature
            self.generation += 1
            self._set()

    # ----- calling -----

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function.

        Parameters
        ----------
        *args, **kwargs
            For the function's parameters without the `out` ones: torch tensors, numbers, lists of numbers for a vector, and dicts of these
            for structs. One of them at least is a tensor.

        Returns
        -------
        torch.Tensor or tuple of torch.Tensor
            The result; where there are `out` parameters, what the function returns and then those, in their order.

        Raises
        ------
        CallError
            When the call cannot be made.
        """
        flat: list[Any] = []
        key = self._flatten(args, kwargs, flat)
        if not torch.compiler.is_compiling():
            if _is_plain(flat):
                found = _run(self.slang, self.signature, flat)
                return found[0] if self._single else tuple(found)
            _check_transforms(self.signature.function, flat)
        if not self._differentiable:
            flat = [v.detach() if isinstance(v, torch.Tensor) else v for v in flat]
        # By name: torch's compiler takes a text for a constant, and an operator only where it finds it in torch.ops.
        name = _operator(self._tag + key)
        return getattr(torch.ops.slanglab, name).default(*flat)

    def _flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], flat: list[Any]) -> str:
        """Lay the arguments out one behind another; return a letter for each."""
        names = self._names
        if len(args) > len(names):
            raise ArgumentError(
                f"{self.signature.function} takes {len(names)} arguments, and {len(args)} were given",
                function=self.signature.function,
            )
        values = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in values:
                why = "got two values for" if name in values else "has no parameter"
                raise ArgumentError(
                    f"{self.signature.function} {why} {name}",
                    function=self.signature.function,
                    argument=name,
                    expected=", ".join(names),
                )
            values[name] = value
        key = ""
        for name in names:
            if name in values:
                value = values[name]
            elif name in self._defaults:
                value = self._defaults[name]
            else:
                raise ArgumentError(
                    f"{self.signature.function}: parameter {name} is missing",
                    function=self.signature.function,
                    argument=name,
                )
            key += _lay(self.signature.function, name, value, self._structs.get(name), flat)
        if "t" not in key:
            raise ArgumentError(
                f"{self.signature.function}: none of the arguments is a torch tensor",
                function=self.signature.function,
                hint=f"call the Slang function itself for numbers, or pass one as a tensor: `torch.tensor({flat[0] if flat else 1.0})`",
            )
        return key

    def operator(self, *args: Any, **kwargs: Any) -> Any:
        """Return the operator (`torch.ops.slanglab.…`) that a call with such arguments runs, for `torch.library.opcheck` and the like."""
        key = self._flatten(args, kwargs, [])
        return getattr(torch.ops.slanglab, _operator(self._tag + key)).default

    def flat(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the arguments that this operator is given."""
        flat: list[Any] = []
        self._flatten(args, kwargs, flat)
        return flat

    # ----- as an object -----

    def __repr__(self) -> str:
        return f"<slanglab.torch.function of {self.slang!r}>"

    def __deepcopy__(self, memo: Any) -> SlangOperator:
        return self

    def __copy__(self) -> SlangOperator:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            f"the operator of {self.signature.function} cannot be pickled: its code is a Slang cell of this process. Save a "
            "`state_dict()`, and make the operator again with `slanglab.torch.function` where the cell is"
        )


def function(f: SlangFunction, *, name: str | None = None) -> SlangOperator:
    """Return a Slang function as a callable for `nn.Module`s, which `torch.compile` and `torch.export` accept.

    Parameters
    ----------
    f : SlangFunction
        A function of a cell. Its parameters are numbers, vectors, matrices, arrays, tensors of numbers, or structs of these; it changes
        none of them. Several results are `out` parameters.
    name : str, optional
        How its operators are called in `torch.ops.slanglab`, for graphs that are exported here and loaded in another process, where the
        same call has to be made before. By default each has a name of its own.

    Returns
    -------
    SlangOperator
        Called with torch tensors and numbers it computes what `f` does, in torch's graph. Its result has the shape that the arguments
        broadcast to and the type of the Slang function, which torch's compiler works out without a device.

    Raises
    ------
    CallError
        Names what `f` has that an operator of torch cannot have.

    Examples
    --------
    ::

        swish = slanglab.torch.function(net.swish)
        model = torch.compile(lambda x: swish(x, beta=1.5).sum(), fullgraph=True)
    """
    if not isinstance(f, SlangFunction):
        raise ArgumentError(
            "slanglab.torch.function takes a function of a Slang cell",
            function="slanglab.torch.function",
            argument="f",
            given=type(f).__name__,
            hint="for example `slanglab.torch.function(net.f)`",
        )
    if name is not None:
        if not (name.isascii() and name.isidentifier()):
            raise ArgumentError(
                f"{name!r} cannot be the name of an operator",
                argument="name",
                expected="an identifier of ASCII letters, digits and _",
            )
        if name in _names:
            raise ArgumentError(f"there is an operator called {name!r} already", argument="name")
    made = SlangOperator(f, name)
    if name is not None:
        _names.add(name)
    return made


def _lay(function: str, where: str, value: Any, fields: Any, flat: list[Any]) -> str:
    """Add one argument to the flat ones; return its letters."""
    if fields is not None:
        if not isinstance(value, dict) or len(value) != len(fields):
            raise ArgumentError(
                f"{function}: argument {where} is a struct",
                function=function,
                argument=where,
                expected="a dict with the fields " + ", ".join(name for name, _ in fields),
                given=type(value).__name__,
            )
        key = ""
        for name, inner in fields:
            if name not in value:
                raise ArgumentError(
                    f"{function}: argument {where} has no {name}", function=function, argument=where
                )
            key += _lay(function, f"{where}.{name}", value[name], inner, flat)
        return key
    if isinstance(value, torch.Tensor):
        letter = "t"
    elif isinstance(value, bool):
        letter = "b"
    elif isinstance(value, (int, torch.SymInt)):
        letter = "i"
    elif isinstance(value, (float, torch.SymFloat)):
        letter = "f"
    elif isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value):
        letter = "I" if all(isinstance(v, int) for v in value) else "F"
        value = list(value) if letter == "I" else [float(v) for v in value]
    else:
        raise ArgumentError(
            f"{function}: argument {where} is a {type(value).__name__}, which an operator of torch does not take",
            function=function,
            argument=where,
            expected="a torch tensor, a number, or a list of numbers",
            given=type(value).__name__,
            hint="arrays become tensors by `torch.as_tensor`; the Slang function itself takes arrays and slangpy tensors",
        )
    flat.append(value)
    return letter


def _is_plain(flat: list[Any]) -> bool:
    """Tell whether nothing of torch's looks at the call: then it goes the short way, to the Slang function itself."""
    for value in flat:
        kind = type(value)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            if torch._C._functorch.is_functorch_wrapped_tensor(value):
                return False
        elif isinstance(value, torch.Tensor):
            return False
    return not torch.utils._python_dispatch._len_torch_dispatch_stack()


def _check_transforms(function: str, flat: list[Any]) -> None:
    """Refuse what torch's operators cannot be differentiated by."""
    if any(isinstance(v, torch.Tensor) and torch._C._functorch.is_gradtrackingtensor(v) for v in flat):
        raise CallError(
            f"{function}: torch.func.grad, vjp and jacrev do not differentiate operators that are registered from Python",
            function=function,
            hint="use `torch.autograd.grad(result, inputs, seed)` or `.backward()`",
        )


def _run(slang: SlangFunction, signature: Signature, flat: Any) -> list[Any]:
    """Call the Slang function; return its results."""
    if len(signature.outputs) == 1 and signature.outputs[0].at is None:
        return [slang(*signature.arguments(flat, (None,)))]
    results = signature.results(flat)
    returned = slang(*signature.arguments(flat, results))
    return [returned if o.at is None else r for o, r in zip(signature.outputs, results, strict=True)]


def _operator(wanted: str) -> str:
    """Return the name of the operator for one way to call a function, "number:generation:key"; it is made at the first such call."""
    number, counted, key = wanted.split(":")
    one, generation = _known[int(number)], int(counted)
    found = one._operators.get((generation, key))
    if found is None:
        later = f"_{generation}" if generation else ""
        found = one._operators[generation, key] = f"{one._base}{later}_{key}"
        bound = _Bound(one, generation)
        operators.make(f"{operators.NAMESPACE}::{found}", one.signature, key, bound.run, bound.gradients)
    return found


# What torch.compiler.assume_constant_result does; calling that loads the whole compiler, which takes seconds.
_operator._dynamo_marked_constant = True  # type: ignore[attr-defined]


class _Bound:
    """What an operator runs: the function as its cell has it now, as long as the signature is the one that the operator has."""

    def __init__(self, one: SlangOperator, generation: int) -> None:
        self._slang = one.slang
        self._of = weakref.ref(one)
        self._generation = generation

    def _check(self, signature: Signature) -> None:
        one = self._of()
        if one is not None and one.generation != self._generation:
            raise CallError(
                f"{signature.function} has another signature since this graph was made",
                function=signature.function,
                hint="export it again",
            )

    def run(self, signature: Signature, flat: Sequence[Any]) -> list[Any]:
        """Return the results of a call."""
        self._check(signature)
        return _run(self._slang, signature, flat)

    def gradients(
        self, signature: Signature, flat: Sequence[Any], wanted: Sequence[int], seeds: Sequence[Any]
    ) -> list[Any]:
        """Return gradients of a call."""
        self._check(signature)
        if len(signature.outputs) == 1 and signature.outputs[0].at is None:
            return _backward(self._slang, signature, flat, wanted, seeds[0])
        # `out` parameters are written by the forward call, and torch's graph around it knows what belongs to which.
        given = [v.detach().requires_grad_() if i in wanted else v for i, v in enumerate(flat)]
        with torch.enable_grad():
            results = _run(self._slang, signature, given)
            pairs = [(r, s) for r, s in zip(results, seeds, strict=True) if r.requires_grad]
            found = torch.autograd.grad(
                [r for r, _ in pairs], [given[i] for i in wanted], [s for _, s in pairs], allow_unused=True
            )
        return list(found)


def _backward(
    slang: SlangFunction, signature: Signature, flat: Sequence[Any], wanted: Sequence[int], seed: Any
) -> list[Any]:
    """Make the backward call of a function that returns its result; the function itself is not run for that."""
    target = slang.targets()[0]
    tensors = [i for i, v in enumerate(flat) if isinstance(v, torch.Tensor)]
    args = tuple(signature.arguments(flat, (None,)))
    given = [flat[i].detach() for i in tensors]
    asked = [i in wanted for i in tensors]
    output = signature.outputs[0]
    shape = (*(signature.whole(flat) or (1,)), *output.element_shape)
    with torch.no_grad():
        every = bridge.backward(target, args, given, asked, seed, shape, output.dtype)
    by_place = dict(zip(tensors, every, strict=True))
    return [by_place[i] for i in wanted]
