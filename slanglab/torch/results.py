"""What a launched function returns, on its way to the notebook: tensors, numbers, texts, and lists and dicts of them.

It is written by `torch.save` in a form that `torch.load(weights_only=True)` reads, which runs nothing.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import slangpy as spy
import torch

from slanglab.errors import SlangLabError

__all__ = ["ResultError", "dump", "load"]

_DEEPEST = 50


class ResultError(SlangLabError, TypeError):
    """A result that cannot be sent to the notebook."""


def dump(value: Any) -> bytes:
    """Return a result as bytes.

    Raises
    ------
    ResultError
        Names the part that cannot be sent.
    """
    buffer = io.BytesIO()
    torch.save(_coded(value, "the result", 0), buffer)
    return buffer.getvalue()


def load(data: bytes) -> Any:
    """Return the result that some bytes are."""
    return _decoded(torch.load(io.BytesIO(data), map_location="cpu", weights_only=True))


def _coded(value: Any, where: str, depth: int) -> Any:
    """Return a value as a pair of a letter for its kind and what it holds."""
    if depth > _DEEPEST:
        raise ResultError(f"{where} holds itself, or is more than {_DEEPEST} containers deep")
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return "plain", value
    if isinstance(value, torch.nn.Module):
        raise ResultError(
            f"{where} is a {type(value).__name__}, a module, which stays in its process",
            hint="return its `state_dict()`, and load that here",
        )
    if isinstance(value, torch.Tensor):
        # Of a view the whole memory would travel; a gradient's graph ends here.
        return "tensor", value.detach().cpu().clone()
    if isinstance(value, spy.Tensor):
        return "array", torch.from_numpy(np.array(value.to_numpy()))
    if isinstance(value, (np.ndarray, np.generic)):
        try:
            kind = "array" if isinstance(value, np.ndarray) else "number"
            return kind, torch.from_numpy(np.array(value))
        except TypeError:
            raise ResultError(f"{where} is an array of {value.dtype}, which torch has no type for") from None
    if isinstance(value, Mapping):
        pairs = []
        for key, inner in value.items():
            pairs.append(
                (_coded(key, f"a key of {where}", depth + 1), _coded(inner, f"{where}[{key!r}]", depth + 1))
            )
        return "dict", pairs
    if type(value) in (list, tuple, set):
        parts = [_coded(inner, f"{where}[{i}]", depth + 1) for i, inner in enumerate(value)]
        return type(value).__name__, parts
    raise ResultError(
        f"{where} is a {type(value).__name__}, which cannot be sent to the notebook",
        hint="return tensors, arrays, numbers, texts, and lists, tuples, sets and dicts of them",
    )


def _decoded(coded: Any) -> Any:
    kind, inner = coded
    if kind in ("plain", "tensor"):
        return inner
    if kind == "array":
        return inner.numpy()
    if kind == "number":
        return inner.numpy()[()]
    if kind == "dict":
        return {_decoded(key): _decoded(value) for key, value in inner}
    parts = [_decoded(part) for part in inner]
    return {"list": list, "tuple": tuple, "set": set}[kind](parts)
