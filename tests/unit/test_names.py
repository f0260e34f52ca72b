import pytest

from slanglab.text.names import means_something
from slanglab.text.symbols import outline

PARSED = outline(
    "namespace ns { float q(float x) { return x; } }\nT gen<T : IFloat, let N : int>(T x) { return x; }\n"
    "int cut<int M, let B : bool>(int x) { return x; }\n"
    "struct S { float a; static float st(float x) { return x; } };\nstruct G<T> { T a; };\nfloat f(float x) { return x; }"
)


@pytest.mark.parametrize(
    "name",
    [
        *("f", "ns::q", "S", "S::st", "G<float>", "G<S>", "gen", "gen<float3, 2>", "G<vector<float, 3>>"),
        *(
            "float",
            "float3",
            "half2x4",
            "vector<float,3>",
            "matrix<float, 2, 3>",
            "Tensor<float, 1>",
            "Tensor<S,2>",
        ),
        *("float2[4]", "S[2][3]", "G<float[2]>", "cut<3, true>", "Tensor<float, 1>[2]"),
    ],
)
def test_names_that_mean_something(name):
    assert means_something(name, PARSED)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "-",
            "a b",
            "a<b",
            "float*",
            "float5",
            "f<float>",
            "f(",
            "f(float)",
            "S<float>",
            "S<float, float>",
        ),
        *(
            "G<>",
            "G<float",
            "G<float>>",
            "G<nope>",
            "gen<float3>",
            "matrix<S, int>",
            "matrix<float,2>",
            "Tensor<float>",
        ),
        *(
            "typeof(f)",
            "no::such",
            "::f",
            "f::",
            "<img src=x onerror=alert(1)>",
            "vector<S,3>",
            "float3<2>",
            "1",
        ),
        *("float[", "float[]", "float[n]", "f[2]", "G<3>", "gen<3, 2>", "cut<float, true>", "G<true>"),
        "G<" * 200 + "float" + ">" * 200,
    ],
)
def test_names_that_mean_nothing(name):
    assert not means_something(name, PARSED)
