"""A device and a Slang session described in plain values, so that the worker can have its like.

All that takes part in the shader cache's key is here: with another option the notebook would not find what the worker compiled.
"""

from __future__ import annotations

import enum
from typing import Any

import slangpy as spy

__all__ = ["compiler_options", "device", "session", "version"]

_FLAGS = (
    "enable_debug_layers",
    "enable_rhi_validation",
    "enable_ray_tracing_validation",
    "enable_cuda_interop",
    "enable_print",
    "enable_cuda_launch_from_gfx",
    "enable_ray_tracing",
    "shader_cache_size",
)


def device(of: spy.Device) -> dict[str, Any]:
    """Return how a device was opened."""
    given = of.desc
    described: dict[str, Any] = {name: getattr(given, name) for name in _FLAGS}
    described["type"] = of.info.type.name
    described["adapter_luid"] = None if given.adapter_luid is None else [int(b) for b in given.adapter_luid]
    described["additional_vulkan_instance_extensions"] = list(given.additional_vulkan_instance_extensions)
    described["additional_vulkan_device_extensions"] = list(given.additional_vulkan_device_extensions)
    described["module_cache_path"] = _text(given.module_cache_path)
    described["shader_cache_path"] = _text(given.shader_cache_path)
    return {
        "device": described,
        "options": compiler_options(given.compiler_options),
        "adapter": of.info.adapter_name,
    }


def session(of: spy.SlangSession) -> dict[str, Any]:
    """Return how a Slang session was made."""
    given = of.desc
    return {
        "options": compiler_options(given.compiler_options),
        "default_includes": given.add_default_include_paths,
        "cache": _text(given.cache_path),
    }


def compiler_options(given: Any) -> dict[str, Any]:
    """Return compiler options as what JSON can hold, enumerators by their names."""
    described = {}
    for name in dir(given):
        if name.startswith("_"):
            continue
        value = getattr(given, name)
        if isinstance(value, enum.Enum):
            value = value.name
        elif isinstance(value, list | tuple):
            value = [str(v) for v in value]
        described[name] = value
    return described


def version() -> str:
    """Return the versions that decide what a text compiles to."""
    return f"slangpy {spy.__version__}, Slang {spy.SLANG_BUILD_TAG}"


def _text(path: Any) -> str | None:
    return None if path is None else str(path)
