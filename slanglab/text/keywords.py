"""Words that mean something to Slang, as far as reading declarations and judging names needs them."""

from __future__ import annotations

__all__ = ["CALL_WORDS", "MODIFIERS", "RESERVED_MODULES", "RESERVED_NAMES", "STATEMENTS"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODIFIERS = _words(
    "public private internal protected static const constexpr extern export __exported inline uniform groupshared shared "
    "row_major column_major precise nointerpolation noperspective centroid globallycoherent volatile override no_diff unorm "
    "snorm virtual abstract __extern_cpp __global __builtin __prefix __postfix dynamic_uniform in out inout borrow "
    "highp mediump lowp flat coherent restrict readonly writeonly buffer varying pervertex"
)
"""What may stand before a type without being one."""

STATEMENTS = _words(
    "if else for while do switch case default return break continue discard throw try catch defer where operator sizeof "
    "true false new is as __target_switch __stage_switch __intrinsic_asm spirv_asm"
)
"""Words that begin a statement or an expression: never a type, never a name that is declared."""

_DECLARATIONS = _words(
    "import module implementing __include using namespace struct class interface enum union extension typealias typedef "
    "associatedtype cbuffer tbuffer property __subscript __init func let var ref constref expand each some dyn This "
    "this none nullptr"
)
_TYPES = _words(
    "void bool char short int long float half double unsigned signed uint size_t usize_t intptr_t uintptr_t "
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t float16_t float32_t float64_t "
    "vector matrix string String Array Tuple Optional Texture1D Texture2D Texture3D TextureCube Buffer"
) | {
    f"{scalar}{shape}"
    for scalar in ("bool", "int", "uint", "half", "float", "double")
    for shape in ("1", "2", "3", "4", *(f"{r}x{c}" for r in range(1, 5) for c in range(1, 5)))
}

RESERVED_NAMES = (MODIFIERS | STATEMENTS | _DECLARATIONS | _TYPES) - {
    "module"
}  # SlangPy's documents call theirs so
"""Words that cannot name a module: `import float;` would not mean a cell."""

RESERVED_MODULES = _words("slangpy sgl slang glsl hlsl core neural slangtorch slanglab slanglab_bounds")
"""Modules that Slang, slangpy and SlangLab bring themselves."""

CALL_WORDS = frozenset(("self", "_result", "_append_to", "_thread_count", "_native_cache"))
"""Names that slangpy's own call takes for itself, or that its generated kernel declares."""
