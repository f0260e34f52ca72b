"""What to do about a message. Each replacement here was compiled with slangpy 0.43.1; its errors are real texts."""

import pytest
from slangpy_texts import COMPILES, messages

from slanglab.messages.hints import closest, hint, python_hint
from slanglab.text.diagnostics import Diagnostic
from slanglab.text.symbols import outline


def first_hint(case):
    return next((h for d in messages(case) if (h := hint(d))), None)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("getv", "write `x[i]`"),
        ("get", "write `x[i]`"),
        ("setv", "write `y[i] = v;`"),
        ("set", "write `x[i] = 1.0;`"),
        ("add_grad", "write `x._grad_out.add(i, 1.0)`"),
        ("tensor", "`import slangpy;`"),
        ("idiff", "`import slangpy;`"),
        ("loop", "`[MaxIters(N)] for(int i=0;i<n;i++) s+=x;`"),
        ("loopw", "`[MaxIters(N)] while (i < n) { s+=x; i++; }`"),
        ("loopd", "`[MaxIters(N)] do { s+=x; i++; } while (i < n);`"),
        ("nondiff", "`[Differentiable]` before `g`"),
        ("unimport", "`%%slang nope`"),
        ("struct1", "`;` after the `}` of `struct A`"),
        ("structf", "`;` after the `}` of `struct A`"),
        ("nbsp", "column 25 is a no-break space (U+00A0)"),
        ("minus", "column 27 is a minus sign (U+2212), which Slang does not know: write `-`"),
        ("quote", "left double quotation mark (U+201C)"),
        ("ff", "form feed (U+000C)"),
        ("attr", "`[Differentiable]`"),
        ("undeftype", "`float`"),
        ("bracket", "write `)` before `;`"),
        ("semi", "write `;` before `return`"),
        ("brace", "add the missing `}`"),
        ("swizzle", "`.x`, `.y`, `.z`"),
        ("float2", "`.xy`"),
        ("dup", "delete one of the two"),
        ("noret", "`return …;`"),
        ("inttofloat", "`int(…)`"),
        ("uninit", "give `y` a value"),
    ],
)
def test_hint(case, expected):
    assert expected in first_hint(case)


def test_a_gradient_that_does_not_arrive():
    text = first_hint("load_grad")
    assert "declare `x` as `WDiffTensor<float, 1>`" in text
    assert "`x._grad_in.load(i)`" in text


def on_line(line, word, code, text):
    column = line.index(word) + 1
    return Diagnostic("error", code, "", text, "In[1]", 1, column, column + len(word), ((1, line),))


@pytest.mark.parametrize(
    ("line", "member", "owner", "expected"),
    [
        ("return w.getv({p.y, p.x});", "getv", "Tensor<float, 2>", "write `w[p.y, p.x]`"),
        ("return w.get(int2(a), b).x;", "get", "Tensor<float3, 2>", "write `w[int2(a), b]`"),
        ("net.w.setv({i, j}, f(a, b));", "setv", "RWTensor<float, 2>", "write `net.w[i, j] = f(a, b);`"),
        ("g = y.load_grad(i, j);", "load_grad", "RWDiffTensor<float, 2>", "write `y._grad_in.load(i, j)`"),
        ("g = y.load_grad(i);", "load_grad", "IWDiffTensor<float, 1>", "write `y._read_grad_each(i)`"),
        (
            "x.add_grad(i, g * 2);",
            "add_grad",
            "IDiffTensor<float, 1>",
            "write `x._accumulate_grad_each(g * 2, i)`",
        ),
        (
            "x.set({i}, v);",
            "set",
            "Tensor<float, 1>",
            "declare `x` as `WTensor<float, 1>` and write `x[i] = v;`",
        ),
        ("a = y.getv(i);", "getv", "WTensor<float, 1>", "declare `y` as `RWTensor<float, 1>`"),
    ],
)
def test_old_tensor_methods(line, member, owner, expected):
    d = on_line(line, member, "E30027", f"'{member}' is not a member of '{owner}'")
    assert expected in hint(d)


OUTLINE = outline(
    """struct Ray { float3 origin; float3 at(float t) { return origin; } }
float soft(float y, float sharpness) { return y; }
static const float scale = 2.0;

float f(float x, float alpha)
{
    return x;
}
"""
)


def undefined(name, line=6):
    return Diagnostic(
        "error",
        "E30015",
        "undefined identifier",
        f"undefined identifier '{name}'",
        "In[1]",
        line,
        1,
        1 + len(name),
        ((line, name),),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alhpa", "did you mean the parameter `alpha` (line 5)?"),
        ("Alpha", "did you mean the parameter `alpha` (line 5)?"),
        ("sotf", "did you mean the function `soft` (line 2)?"),
        ("ray", "did you mean the struct `Ray` (line 1)?"),
        ("scael", "did you mean the variable `scale` (line 3)?"),
        ("sqtr", "did you mean `sqrt`?"),
        ("vec3", "Slang has no `vec3`: write `float3`"),
        ("mix", "Slang has no `mix`: write `lerp`"),
        ("print", "`import sgl.device.print;`"),
        ("PI", "`static const float PI = 3.14159265;`"),
    ],
)
def test_did_you_mean(name, expected):
    assert expected in hint(undefined(name), OUTLINE)


def test_parameters_of_other_functions_are_not_meant():
    assert "sharpness" in hint(undefined("sharpnes", line=2), OUTLINE)
    found = hint(undefined("sharpnes", line=6), OUTLINE)
    assert found is None or "sharpness" not in found


def test_lines_are_those_of_the_notebook_cell():
    assert hint(undefined("alhpa", line=7), OUTLINE, 2) == "did you mean the parameter `alpha` (line 6)?"
    assert "alpha" not in (hint(undefined("alhpa", line=4), OUTLINE, 2) or "")


def test_nothing_is_said_where_nothing_is_near():
    assert hint(undefined("qqqqqq"), OUTLINE) is None


def test_without_an_outline_the_lines_shown_are_searched():
    assert hint(messages("undef")[0]) == "did you mean `a`?"


def test_struct_members():
    d = Diagnostic(
        "error",
        "E30027",
        "member not found",
        "'orign' is not a member of 'Ray'",
        "In[1]",
        1,
        3,
        8,
        ((1, "r.orign"),),
    )
    assert hint(d, OUTLINE) == "did you mean `.origin`?"


def test_generated_code_has_no_hint():
    d = Diagnostic("error", "E30015", "undefined identifier", "undefined identifier 'aa'", generated=True)
    assert hint(d) is None


def test_backticks_in_the_source_do_not_break_the_hint():
    line = "for (int i = 0; i < n; i++) s += `x`;"
    text = hint(on_line(line, "for", "E30510", "loops need an attribute"))
    assert text.count("`") % 2 == 0


def test_every_message_gets_a_hint_or_none_and_never_an_error():
    for case in COMPILES:
        for d in messages(case):
            text = hint(d)
            assert text is None or (text.strip() and "\n" not in text and text.count("`") % 2 == 0)


def test_closest_prefers_the_same_word_in_other_letters():
    assert closest("B", ["bb", "b", "a"]) == "b"
    assert closest("x", []) is None


# ----- Python: texts of slangpy 0.43.1 -----

EMPTY = (
    "empty(): incompatible function arguments. The following argument types are supported:\n    1. empty(device: slangpy.Device, "
    "shape: slangpy.slangpy.Shape, dtype: object | None = None) -> slangpy.native_func.Tensor\n\nInvoked with types: "
)
ZEROS = EMPTY.replace("empty", "zeros")
INIT = (
    "__init__(): incompatible function arguments. The following argument types are supported:\n    1. __init__(self, storage: "
    "slangpy.Buffer, dtype: slangpy.native_refl.Type, shape: slangpy.slangpy.Shape) -> None\n\nInvoked with types: slangpy.Device"
)
NUMPY = (
    "numpy(): incompatible function arguments. The following argument types are supported:\n    1. numpy(device: slangpy.Device, "
    "ndarray: object) -> slangpy.native_func.Tensor\n\nInvoked with types: "
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TypeError(INIT), "`slanglab.empty((4,), dtype='float')`"),
        (TypeError(INIT), "`spy.Tensor.empty(device, shape=(4,), dtype='float')`"),
        (AttributeError("module 'slangpy' has no attribute 'float32'"), "`'float'`"),
        (AttributeError("module 'slangpy' has no attribute 'int32'"), "`'int'`"),
        (AttributeError("module 'slangpy' has no attribute 'zeros'"), "`slanglab.zeros((4,))`"),
        (AttributeError("module 'slangpy' has no attribute 'NDBuffer'"), "`spy.Tensor.empty("),
        (AttributeError("type object 'Tensor' has no attribute 'ones'"), "`slanglab.ones((4,))`"),
        # Python 3.12 and newer name the module too
        (
            AttributeError("type object 'slangpy.native_func.Tensor' has no attribute 'ones'"),
            "`slanglab.ones((4,))`",
        ),
        (AttributeError("'Tensor' object has no attribute 'item'"), "`t.to_numpy().item()`"),
        (AttributeError("'Tensor' object has no attribute 'zero_grad'"), "`t.grad.clear()`"),
        (AttributeError("'Function' object has no attribute 'backward'"), "`f.bwds(x, _result=y)`"),
        (AttributeError("'Function' object has no attribute 'fwds'"), "`f(x)`"),
        (TypeError(NUMPY), "`t.to_numpy()`"),
        (TypeError(ZEROS + "tuple, str"), "the device comes first"),
        (
            TypeError(ZEROS + "slangpy.Device, kwargs = { shape: tuple, element_type: str }"),
            "called `dtype` now",
        ),
        (TypeError(EMPTY + "slangpy.Device, int, str"), "a shape is a tuple"),
        (TypeError("unsupported operand type(s) for +: 'Tensor' and 'Tensor'"), "no operators"),
        (TypeError("object of type 'Tensor' has no len()"), "`t.shape[0]`"),
        (ValueError("Unsupported type <class 'numpy.float32'>"), "`dtype='float'`"),
        (
            RuntimeError("Tensor has no grad.\n/project/src/sgl/func/tensor.cpp:453 in function grad"),
            "`t = t.with_grads()`",
        ),
        (ValueError("Cannot create a tensor with zero dimensions"), "`(1,)`"),
    ],
)
def test_python_hint(error, expected):
    assert expected in python_hint(error)


def test_python_hints_are_for_slangpy_only():
    class Tensor:
        pass

    with pytest.raises(AttributeError) as caught:
        Tensor().item()  # type: ignore[attr-defined]
    assert str(caught.value) == "'Tensor' object has no attribute 'item'"
    assert python_hint(caught.value) is None
    assert python_hint(KeyError("x")) is None
    assert python_hint(AttributeError("module 'numpy' has no attribute 'float32x'")) is None
