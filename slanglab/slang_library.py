"""slangpy's library of Slang, as cells import it: the folders in which `import slangpy` is looked for.

Where control flow decides what a backward pass does, Slang's compiler keeps the tensors of a function in variables of its own. On Vulkan
a tensor's memory is a bound buffer, and a variable that holds one is not valid SPIR-V. No driver says so. Mesa's do what was meant; on
NVIDIA's (580, H200) every read and addition through it goes to element 0: the gradient of `if (i < n) a = at(s, i);` is all in `s[0]`.
An address may be held in a variable. So on Vulkan cells import a copy of the library whose tensors with gradients, and those that are
added to, are reached by their address, as all are on CUDA. Other tensors stay bound.

A bound buffer drops what is added behind its end; an address would write over something else, so the copy asks first. What is bound is
ordered by slang-rhi's barriers; what goes by addresses gets one from `slanglab.engine.fences`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import slangpy as spy

__all__ = ["LibraryChangedError", "LibraryWarning", "include_paths", "is_new", "mended", "texts"]


class LibraryChangedError(RuntimeError):
    """slangpy's library is not the one that is known here."""


class LibraryWarning(UserWarning):
    """Cells import slangpy's own library where they should import the copy."""


_told: dict[Any, Any] = {}
"""For `warnings`, which keeps here what it has said: every Slang session asks for the library."""

_INSIDE = """
    // The largest index that the shape has: what is behind it is left alone, as behind the end of a bound buffer.
    [ForceInline] uint _slanglab_last()
    {
        uint last = _offset;
        [ForceUnroll]
        for (int i = 0; i < D; ++i)
            last += (max(_shape[i], 1) - 1) * _strides[i];
        return last;
    }
    [ForceInline] bool _slanglab_inside(int idx) { return uint(idx) <= _slanglab_last(); }
"""

_POINTED = """
public struct SlangLabPointed{kind}<T, let D : int> : I{kind}Tensor<T, D>
{{
    public T* _data;

    public T read_buffer(int idx)
    {{
        uint last = _slanglab_last();
        T value = _data[min(uint(idx), last)];
        if (uint(idx) > last)  // no `select`: of arrays it ends the compiler
            value = T();
        return value;
    }}
    {write}
{inside}
    _SLANGPY_TENSOR_COMMON_FIELDS
    _SLANGPY_TENSOR_LOAD
    _SLANGPY_TENSOR_SLANGPYLOAD
    {store}

    public __subscript<I : __BuiltinIntegerType>(I indices[D])->T {{ get {{ return load(indices); }} {set} }}
    public __subscript<I : __BuiltinIntegerType>(vector<I, D> indices)->T {{ get {{ return load(indices); }} {set} }}

    public void __slangpy_load(Context0D context, out This value) {{ value = this; }}
    public void __slangpy_load<let SliceD : int>(ContextND<D - SliceD> ctx, out SlangLabPointed{kind}<T, SliceD> value)
    {{
        value._data = _data;
        _slice(ctx.call_id, _strides, _offset, value._strides, value._offset);
        [ForceUnroll]
        for (int i = 0; i < SliceD; ++i)
            value._shape[i] = _shape[D - SliceD + i];
    }}
}}
"""
_READ = _POINTED.format(kind="", write="", inside=_INSIDE, store="", set="")
_READ_WRITE = _POINTED.format(
    kind="RW",
    write="public void write_buffer(int idx, T value) { if (_slanglab_inside(idx)) _data[idx] = value; }",
    inside=_INSIDE,
    store="_SLANGPY_TENSOR_STORE\n    _SLANGPY_TENSOR_SLANGPYSTORE",
    set="set { store(indices, newValue); }",
)

_ATOMICS = "StorageTraits<T>::atomic{}WithStride(_data, {}, _element_byte_stride{})"
_AT_INDEX = "_idx(idx, _strides, _offset)"

_CHANGES: Mapping[str, Sequence[tuple[str, str, int]]] = {
    "atomics.slang": [
        (
            "#ifdef __TARGET_CUDA__\n    public typealias AtomicBufferType",
            "#if 1\n    public typealias AtomicBufferType",
            1,
        )
    ],
    "tensor.slang": [
        ("// Write only tensor\n", f"{_READ}{_READ_WRITE}\n// Write only tensor\n", 1),
        (
            "    public StorageTraits<T>::AtomicBufferType _data;\n",
            f"    public StorageTraits<T>::AtomicBufferType _data;\n{_INSIDE}",
            1,
        ),
        (
            f"return {_ATOMICS.format('Load', 'idx', '')};",
            f"return _slanglab_inside(idx) ? {_ATOMICS.format('Load', 'idx', '')} : T();",
            1,
        ),
        (
            f"        {_ATOMICS.format('Store', 'idx', ', value')};",
            f"        if (_slanglab_inside(idx)) {_ATOMICS.format('Store', 'idx', ', value')};",
            1,
        ),
        (
            f"        {_ATOMICS.format('Add', 'idx', ', value')};",
            f"        if (_slanglab_inside(idx)) {_ATOMICS.format('Add', 'idx', ', value')};",
            1,
        ),
        (
            f"        {_ATOMICS.format('Add', _AT_INDEX, ', value')};",
            f"        accumulate_buffer({_AT_INDEX}, value);",
            2,
        ),
    ],
    "difftensor.slang": [
        (
            "public Tensor<T.Differential, D> _grad_in;",
            "public SlangLabPointed<T.Differential, D> _grad_in;",
            2,
        ),
        ("public Tensor<T, D> _primal;", "public SlangLabPointed<T, D> _primal;", 1),
        ("public RWTensor<T, D> _primal;", "public SlangLabPointedRW<T, D> _primal;", 2),
        ("#ifndef __TARGET_CUDA__", "#if 0", 1),
    ],
}
"""For each file what is put for what, and how often that is there."""


@cache
def texts() -> Mapping[str, str]:
    """Return the files of the copy by name.

    Raises
    ------
    LibraryChangedError
        When a passage to change is not there: another slangpy than the one that this was written for.
    """
    made = {path.name: path.read_text() for path in Path(spy.SHADER_PATH).glob("*.slang")}
    for name, changes in _CHANGES.items():
        text = made.get(name, "")
        for old, new, times in changes:
            if text.count(old) != times:
                raise LibraryChangedError(f"slangpy's {name} is not the one that SlangLab knows")
            text = text.replace(old, new)
        made[name] = text
    return made


def _place(folder: Path) -> Path:
    text = "\0".join(f"{name}\0{text}" for name, text in sorted(texts().items()))
    return folder / f"slang-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def is_new(backend: str, folder: Path | None) -> bool:
    """Tell whether sessions of a backend will import a copy that has not been made yet, so that it is compiled first."""
    try:
        return backend == "vulkan" and folder is not None and not _place(folder).is_dir()
    except LibraryChangedError:
        return False


def mended(folder: Path) -> Path:
    """Return the folder of the copy, made below `folder` where it is not there yet.

    What is there is compared with what should be: 150 kB, about a millisecond.

    Raises
    ------
    OSError, LibraryChangedError
    """
    place = _place(folder)
    place.mkdir(mode=0o700, exist_ok=True)
    for name, text in texts().items():
        path, content = place / name, text.encode()
        try:
            if path.read_bytes() == content:
                continue
        except OSError:
            pass
        handle, temporary = tempfile.mkstemp(prefix=f"{name}-", dir=place)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    return place


def include_paths(backend: str, folder: Path | None) -> list[Path]:
    """Return where a Slang session of a backend looks for modules.

    Parameters
    ----------
    backend : str
        "vulkan", "cuda", …
    folder : Path or None
        Where the copy can be, a folder that nobody else writes to; None where there is none, which a warning tells.
    """
    usual = Path(spy.SHADER_PATH)
    if backend != "vulkan":
        return [usual]
    try:
        if folder is None:
            raise OSError("no folder can be written")
        return [mended(folder), usual]
    except (OSError, LibraryChangedError) as why:
        warnings.warn_explicit(
            f"cells import slangpy's own library ({why}): on NVIDIA's Vulkan the gradients of tensors that are read under a condition or "
            "in a loop are wrong with it. `%slang device cuda` has them right",
            LibraryWarning,
            "slanglab",
            0,
            registry=_told,
        )
        return [usual]
