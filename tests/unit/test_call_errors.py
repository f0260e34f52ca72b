"""Slangpy's refusals, word for word, and what is made of them."""

import re

import numpy as np
import pytest
from slangpy_texts import CALLS

from slanglab.errors import CallError
from slanglab.messages.call_errors import KernelError, describe, explain
from slanglab.text.diagnostics import SourceText, parse

X4 = np.arange(4, dtype=np.float32)
READ_ONLY = X4.copy()
READ_ONLY.setflags(write=False)


class BufferWithoutGradient:
    """Stands for a tensor in texts that say nothing else about it."""

    grad_out = None

    def with_grads(self):
        return self


def refused(case, values=None, function="poly.f", **more):
    data = CALLS[case]
    kind = type(data["type"].rsplit(".", 1)[-1], (Exception,), {})
    return explain(kind(data["text"]), function, values, **more)


@pytest.mark.parametrize(
    ("case", "values", "message", "argument", "hint"),
    [
        ("few", {"x": 1.0}, "parameter y is missing", "y", ""),
        ("bwds_no_result1", {"x": X4}, "the result of the backward call is missing", "_result", "`_result=`"),
        (
            "bwds_no_result_kw",
            {"x": X4},
            "the result of the backward call is missing",
            "_result",
            "`_result=`",
        ),
        ("many", {"x": 1.0}, "takes 1 argument, and 2 were given", None, "it takes x"),
        ("badkw", {"x": 1.0, "Y": 2.0}, "has no parameter Y", "Y", "did you mean `y`?"),
        ("multi", {"x": 1.0}, "got two values for y", "y", ""),
        ("str", {"x": "1.5"}, "x cannot be passed as str", "x", "`float(x)`"),
        ("tuple", {"x": (1.0, 2.0)}, "x cannot be passed as tuple", "x", "`list(x)`"),
        ("npf32", {"x": np.float32(2)}, "x cannot be passed as float32", "x", "`float(x)`"),
        ("none", {"x": None}, "x cannot be used as float", "x", "pass a number"),
        ("f64", {"x": X4.astype(float)}, "x cannot be used as float", "x", "`x.astype('float32')`"),
        (
            "bool",
            {"x": np.array([True])},
            "x cannot be passed as array of bool",
            "x",
            "`x.astype('float32')`",
        ),
        (
            "bigend",
            {"x": X4.astype(">f4")},
            "x cannot be passed as array of float32",
            "x",
            "`x.astype('float32')`",
        ),
        ("readonly", {"y": 1, "x": READ_ONLY}, "x is a read-only array", "x", "`x.copy()`"),
        ("shape", {"x": X4, "y": np.zeros(5)}, "the shape of y does not fit", "y", "`.map(…)`"),
        ("res_shape", {"x": X4}, "the shape of _result does not fit", "_result", ""),
        (
            "f3_42",
            {"k": 1.0, "v": np.zeros((4, 2))},
            "axis 1 of v has 2 elements where 3 are needed",
            "v",
            "",
        ),
        ("f3_list2", {"v": [1.0, 2.0]}, "v cannot be used as float3", "v", ""),
        ("bwds_nondiff", {"x": X4}, "is not differentiable", None, "`[Differentiable]`"),
        (
            "bwds_in_nograd",
            {"x": BufferWithoutGradient()},
            "x has no gradient to write to",
            "x",
            "`x = x.with_grads()`",
        ),
        ("no_seed", {"x": X4}, "`_result` carries no gradient", "_result", "`y.grad`"),
        ("inout_shared", {}, "needs two gradients", None, "`x.with_grads(grad_in, grad_out)`"),
        ("dt2_nograd_bwds", {"i": 0, "t": X4}, "t is declared DiffTensor", "t", "`t = t.with_grads()`"),
        ("rank_low", {"t": X4}, "t has too few axes", "t", ""),
        ("struct_unknown", {"p": {"a": 1.0, "c": 1.0}}, "S has no field c", "p", ""),
        ("struct_float", {"p": 1.0}, "p cannot be used as S", "p", ""),
        ("itensor_np", {"i": 0, "t": X4}, "t must be a tensor", "t", "`slanglab.tensor(t)`"),
        (
            "itensor_float",
            {"i": 0, "t": 1.0},
            "t cannot be used as ITensor<float, 1>",
            "t",
            "`slanglab.tensor(t)`",
        ),
        ("over", {"x": 1.0}, "is overloaded", None, "its own name"),
        ("mul", {"a": 1.0, "b": 2.0}, "Slang has functions called mul too", None, "`my_mul`"),
        ("zerod", {"x": np.array(2.0, np.float32)}, "x is an array without axes", "x", "`float(x)`"),
        ("strided", {"y": X4, "x": X4[::2]}, "x is not contiguous", "x", "`np.ascontiguousarray(x)`"),
        (
            "res_numpy_scalar",
            {"x": 2.0},
            "a single number was to be returned as an array",
            None,
            "`_result='numpy'`",
        ),
        ("res_foo", {"x": 2.0}, "there is no result type 'foo'", "_result", ""),
        ("gen", {"x": 1.0}, "is generic", None, "`poly['gen<float3>'](…)`"),
        ("self", {"self": 1.0}, "slangpy keeps the name self", "self", "by position"),
        ("_result", {"_result": 1.0}, "slangpy keeps the name _result", "_result", "by position"),
        ("_append", {"_append_to": 1.0}, "slangpy keeps the name _append_to", "_append_to", "by position"),
        ("intlist", {"x": [1, 2]}, "x is a list of whole numbers", "x", "`np.array(x, dtype='float32')`"),
        ("big", {"a": 2**40}, "a is too large", "a", ""),
        ("neg", {"a": -1}, "a is negative", "a", ""),
        ("float_int", {"a": 1.5}, "a is no whole number", "a", "`int(a)`"),
        ("empty", {"x": X4[:0]}, "no tensor without elements", None, ""),
        ("map_bad", {"x": X4}, ".map(…) names an axis", None, "`.map`"),
        ("map_kw", {"x": X4}, ".map(…) names a parameter", None, ""),
        ("double_grads", {"x": X4}, "no gradients for a tensor of double", "x", "dtype='float'"),
        ("memory", {}, "no room for a buffer", None, "4 GB"),
        ("closed", {}, "its device was closed", None, "run the cell"),
        ("unknown_fn", {}, "there is no function nope", None, ""),
        ("fwds", {}, "has no attribute 'fwds'", None, "`f(x)`"),
    ],
)
def test_refusals(case, values, message, argument, hint):
    error = refused(case, values)
    assert message in error.message
    assert error.message.startswith("poly.f")
    assert error.argument == argument
    assert hint in (error.hint or "")
    assert error.details == CALLS[case]["text"]
    if argument in values:
        assert error.given is not None


def test_messages_are_short_and_hold_no_inner_names():
    for case in CALLS:
        error = refused(case, {"x": 1.0})
        shown = f"{error.message}\n{error.expected}\n{error.given}\n{error.hint}"
        assert len(error.message) < 200, case
        assert "\n" not in error.message
        assert not re.search(
            r"0x[0-9a-f]{4,}|/project/|khr\.io|NativeMarshall|[0-9a-f]{40}|\w__v\d", shown
        ), case


def test_expected_and_given():
    error = refused("f64", {"x": X4.astype(np.float64)})
    assert error.expected == "float"
    assert error.given == "numpy array of float64, shape (4,)"
    error = refused("f3_list2", {"v": [1.0, 2.0]})
    assert error.expected == "float3"
    error = refused("shape", {})
    assert (error.expected, error.given) == ("shape (4,), or one that broadcasts to it", "shape (5,)")
    assert refused("none").given == "None"  # from slangpy's text, where the values are not known
    assert refused("f64_t").given == "tensor of double, 1 axes"


def test_did_you_mean_compares_with_the_signature():
    assert refused("badkw").hint == "did you mean `y`?"
    assert refused("badkw").expected == "x, y"


def test_kernel_that_does_not_compile():
    lines = (*(f"line {i}" for i in range(1, 25)), "float noret(float x){ }")
    source = SourceText("In[4]", lines, 1)

    def messages(text):
        return parse(text, lambda file: source if file == "poly__v7" else None)

    error = refused("noret", {"x": 1.0}, function="poly.noret", messages=messages)
    assert isinstance(error, KernelError)
    assert "must return" in error.message
    (d,) = error.diagnostics
    assert d.place == "In[4], line 25, column 7"
    assert "return" in d.hint
    # Without the cells' texts the place is named and no text of it is shown.
    bare = refused("noret", {"x": 1.0})
    assert isinstance(bare, KernelError)
    assert bare.diagnostics[0].cell == "poly"
    assert bare.diagnostics[0].source == ()


def test_reasons_that_are_not_known_keep_their_first_line():
    text = "Something new\n/project/src/x.cpp:12 in function f"
    assert explain(RuntimeError(text), "poly.f").message == "poly.f: Something new"
    text = "/project/src/x.cpp:12 in function f\nbuffer at 0x7ffee4 of its kernel " + "a" * 40
    message = explain(RuntimeError(text), "poly.f").message
    assert "0x" not in message
    assert "aaaa" not in message
    assert "/project" not in message
    assert (
        explain(RuntimeError(""), "poly.f").message == "poly.f: slangpy refused the call and gave no reason"
    )


class Awkward:
    """Raises at everything that a message could ask of it."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __getattr__(self, name):
        raise ValueError(name)

    def __len__(self):
        raise ValueError("no length")

    def __bool__(self):
        raise ValueError("no truth")


class SilentError(Exception):
    def __str__(self):
        raise ValueError("no text")


def test_it_never_raises():
    for case in CALLS:
        for value in (
            Awkward(),
            None,
            [],
            {},
            np.zeros((0, 3)),
            object(),
            "x" * 10_000,
            [Awkward()],
            float("nan"),
            10**400,
        ):
            error = refused(case, {name: value for name in ("x", "y", "a", "p", "t", "v", "self")})
            assert isinstance(error, CallError)
            assert error.message.startswith("poly.f")
    assert isinstance(explain(SilentError(), "poly.f"), CallError)
    assert isinstance(explain(KeyboardInterrupt(), "poly.f"), CallError)


def test_descriptions_hold_no_address():
    class Plain:
        pass

    assert "0x" not in describe(Plain())
    assert describe(Awkward()) == "Awkward"
    assert len(describe("x" * 10_000)) < 100
    assert describe(X4) == "numpy array of float32, shape (4,)"
