"""What a Slang text declares, as plain data. `slanglab.text.symbols.outline` makes it.

Lines and columns are 1-based and count code points of the text that was read; callers add what stands above it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Direction",
    "Field",
    "Function",
    "Import",
    "Include",
    "ModuleDeclaration",
    "Outline",
    "Parameter",
    "Struct",
    "StructKind",
    "Variable",
    "signature",
]

Direction = Literal["in", "out", "inout"]
StructKind = Literal["struct", "class", "interface", "enum", "union", "typealias", "extension"]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function.

    Attributes
    ----------
    name : str
        Empty for a parameter without a name.
    type : str
        As written, white space made regular; `float x[2][3]` has the type that the compiler reports, `float[3][2]`.
    direction : {"in", "out", "inout"}
        A `ref` parameter counts as "inout".
    no_diff : bool
    default : str or None
        The default expression, as written.
    line, column : int
        Of the name, or of the type where there is no name.
    semantic : str
        What follows a colon behind the name (`SV_DispatchThreadID`), or empty.
    """

    name: str
    type: str
    direction: Direction = "in"
    no_diff: bool = False
    default: str | None = None
    line: int = 0
    column: int = 0
    semantic: str = ""


@dataclass(frozen=True)
class Function:
    """One function, method, constructor (`__init`) or operator (`operator+`).

    Attributes
    ----------
    name, qualified : str
        `f` and `ns::S::f`.
    parameters : tuple of Parameter
    result : str
        The return type; a constructor's is its struct.
    differentiable : bool
        An attribute says so: `[Differentiable]`, `[BackwardDifferentiable]`, `[ForwardDifferentiable]`, or a custom derivative.
        The compiler's reflection has the last word.
    custom_derivative : bool
        The derivative is the user's own function, named here or by an attribute such as `[BackwardDerivativeOf(f)]` elsewhere.
    attributes : tuple of str
        Without brackets, as written: `Differentiable`, `numthreads(8, 1, 1)`.
    doc : str
        The text of the documentation comment directly above, without its marks.
    generics : tuple of str
        Generic parameters as written: `T : IFloat`, `let N : int`.
    static, mutating, is_entry_point : bool
    in_struct : str or None
        The type that a method belongs to, without namespaces (`S`, `Outer::Inner`).
    namespace : str
        The enclosing namespaces (`a::b`), or empty.
    line, column : int
        Of the name.
    end_line : int
        Of the last character of the body, or of the `;`.
    has_body : bool
        False for a requirement of an interface and for a declaration without a definition.
    branch : tuple of (int, int)
        The `#if` branches around it, outermost first: number of the `#if` in the text, and of its arm.
    """

    name: str
    qualified: str
    parameters: tuple[Parameter, ...] = ()
    result: str = "void"
    differentiable: bool = False
    custom_derivative: bool = False
    attributes: tuple[str, ...] = ()
    doc: str = ""
    generics: tuple[str, ...] = ()
    static: bool = False
    mutating: bool = False
    is_entry_point: bool = False
    in_struct: str | None = None
    namespace: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0
    has_body: bool = True
    branch: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    def excludes(self, other: Function) -> bool:
        """Tell whether the compiler never sees both: they stand in different arms of one `#if`."""
        arms = dict(self.branch)
        return any(arms.get(number, arm) != arm for number, arm in other.branch)


@dataclass(frozen=True)
class Field:
    """One field or property of a struct, or one case of an enum (whose type is empty)."""

    name: str
    type: str
    doc: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Struct:
    """One type that the text declares, or one `extension` of a type.

    Attributes
    ----------
    name, qualified : str
        `S` and `ns::S`. For an extension, the type that it extends.
    kind : {"struct", "class", "interface", "enum", "union", "typealias", "extension"}
    fields : tuple of Field
        In the order of the text, static members left out; the cases of an enum.
    properties : tuple of Field
        Members with `get` and `set`.
    methods : tuple of Function
    bases : tuple of str
        Base type and interfaces; for a typealias the type that it stands for.
    generics : tuple of str
    namespace : str
        What encloses it, types included.
    """

    name: str
    qualified: str
    kind: StructKind = "struct"
    fields: tuple[Field, ...] = ()
    properties: tuple[Field, ...] = ()
    methods: tuple[Function, ...] = ()
    bases: tuple[str, ...] = ()
    doc: str = ""
    generics: tuple[str, ...] = ()
    namespace: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0


@dataclass(frozen=True)
class Variable:
    """One global variable.

    Attributes
    ----------
    modifiers : tuple of str
        `uniform`, `static`, `const`, `extern`, `groupshared`, ... as written; `cbuffer` for a member of a `cbuffer`.
    value : str or None
        The initial value, as written.
    """

    name: str
    qualified: str
    type: str
    modifiers: tuple[str, ...] = ()
    value: str | None = None
    doc: str = ""
    namespace: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Import:
    r"""One `import`.

    Attributes
    ----------
    name : str
        `poly`, `sgl.device.print`, `lib/poly.slang`; the escapes of a quoted name are decoded, as the compiler does.
    quoted, exported : bool
        `import "poly";` and `__exported import poly;`.
    line, column : int
        Of the name, inside the quotes.
    start_byte, end_byte : int
        Where the name stands in the text's UTF-8, without quotes.
    start, end : int
        The same in code points.
    """

    name: str
    quoted: bool
    exported: bool
    line: int
    column: int
    start_byte: int
    end_byte: int
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Include:
    """One `#include`; `angled` for `<path>`."""

    path: str
    angled: bool
    line: int
    column: int


@dataclass(frozen=True)
class ModuleDeclaration:
    """`module x;`: line and column are those of the word `module`."""

    name: str
    line: int
    column: int


@dataclass(frozen=True)
class Outline:
    """Everything that a text declares, in its order.

    What stands inside `#if` and `#ifdef` is listed for all branches, except for those that a literal 0 or 1 switches off.

    Attributes
    ----------
    functions : tuple of Function
        All of them, methods included.
    structs, extensions : tuple of Struct
    globals : tuple of Variable
    imports : tuple of Import
    includes : tuple of Include
    macros : tuple of str
        Names that the text defines with `#define`.
    module_declaration : ModuleDeclaration or None
    errors : tuple of (int, int)
        Line and column of the places that made no sense to the reader; what stands around them is listed all the same.
        It is a hint for completion and views: whether a text is right is the compiler's word.
    """

    functions: tuple[Function, ...] = ()
    structs: tuple[Struct, ...] = ()
    extensions: tuple[Struct, ...] = ()
    globals: tuple[Variable, ...] = ()
    imports: tuple[Import, ...] = ()
    includes: tuple[Include, ...] = ()
    macros: tuple[str, ...] = ()
    module_declaration: ModuleDeclaration | None = None
    errors: tuple[tuple[int, int], ...] = ()

    @property
    def has_errors(self) -> bool:
        """True when some place made no sense to the reader."""
        return bool(self.errors)


def signature(function: Function) -> str:
    """Return a function's signature on one line: `f(float x, out float y, float b = 8.0) -> float`.

    Parameters
    ----------
    function : Function

    Returns
    -------
    str
        Directions other than "in" and `no_diff` are named, and so are generic parameters: `f<T : IFloat>(T x) -> T`.
    """
    generics = f"<{', '.join(function.generics)}>" if function.generics else ""
    parameters = ", ".join(_parameter(p) for p in function.parameters)
    return f"{function.name}{generics}({parameters}) -> {function.result or 'void'}"


def _parameter(parameter: Parameter) -> str:
    words = ["no_diff"] if parameter.no_diff else []
    if parameter.direction != "in":
        words.append(parameter.direction)
    words.append(parameter.type)
    if parameter.name:
        words.append(parameter.name)
    if parameter.default is not None:
        words.append(f"= {parameter.default}")
    return " ".join(words)
