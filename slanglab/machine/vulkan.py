"""Ask the Vulkan loader which drivers answer, without slangpy.

slangpy says "Failed to create device!" whatever the cause. The loader itself tells the causes apart: no loader, no driver,
a driver that is too old. Structures and numbers are those of the Vulkan specification (vulkan_core.h).
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

__all__ = ["REQUIRED_EXTENSION", "PhysicalDevice", "physical_devices"]

REQUIRED_EXTENSION = "VK_KHR_shader_non_semantic_info"
"""slangpy 0.43.1 asks every Vulkan device for it; Mesa's software driver of Debian 12 (22.3.6) does not have it."""

_KINDS = ("other", "integrated GPU", "discrete GPU", "virtual GPU", "software (CPU)")
_LOADER = {"linux": "libvulkan.so.1", "win32": "vulkan-1.dll", "darwin": "libvulkan.1.dylib"}


@dataclass(frozen=True)
class PhysicalDevice:
    """One adapter as its Vulkan driver describes it.

    Attributes
    ----------
    name : str
        The adapter.
    kind : str
        "discrete GPU", "software (CPU)", ...
    driver : str
        Name and version of the driver, as it writes them ("llvmpipe, Mesa 25.0.7-2").
    complete : bool
        Whether it has the extension that slangpy cannot do without.
    """

    name: str
    kind: str
    driver: str
    complete: bool


class _ApplicationInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("application", ctypes.c_char_p),
        ("application_version", ctypes.c_uint32),
        ("engine", ctypes.c_char_p),
        ("engine_version", ctypes.c_uint32),
        ("api_version", ctypes.c_uint32),
    )


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.POINTER(_ApplicationInfo)),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.POINTER(ctypes.c_char_p)),
    )


class _DriverProperties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("driver", ctypes.c_int32),
        ("name", ctypes.c_char * 256),
        ("info", ctypes.c_char * 256),
        ("conformance", ctypes.c_uint8 * 4),
    )


class _Properties2(ctypes.Structure):
    # VkPhysicalDeviceProperties is 824 bytes, aligned to 8; of it we read the kind (at 16) and the name (at 20).
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("properties", ctypes.c_uint64 * 103),
    )


class _ExtensionProperties(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 256), ("version", ctypes.c_uint32))


def _check(code: int, call: str) -> None:
    if code not in (0, 5):  # VK_SUCCESS, VK_INCOMPLETE
        raise OSError(f"{call} answers {code} (VkResult)")


def physical_devices() -> list[PhysicalDevice]:
    """Return the adapters of all Vulkan drivers that the loader finds.

    Call it in a process of its own: it runs the drivers' code.

    Raises
    ------
    OSError
        If there is no loader, or if it finds no driver at all (VkResult -9, VK_ERROR_INCOMPATIBLE_DRIVER).
    """
    vk = ctypes.CDLL(_LOADER.get(sys.platform, "libvulkan.so.1"))
    application = _ApplicationInfo(type=0, application=b"slanglab doctor", api_version=(1 << 22) | (1 << 12))
    create = _InstanceCreateInfo(type=1, application=ctypes.pointer(application))
    if sys.platform == "darwin":  # Metal's Vulkan layers show themselves only to those who ask for them
        create.flags = 1
        create.extension_count = 1
        create.extensions = (ctypes.c_char_p * 1)(b"VK_KHR_portability_enumeration")
    instance = ctypes.c_void_p()
    _check(vk.vkCreateInstance(ctypes.byref(create), None, ctypes.byref(instance)), "vkCreateInstance")
    try:
        count = ctypes.c_uint32()
        _check(
            vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None), "vkEnumeratePhysicalDevices"
        )
        handles = (ctypes.c_void_p * count.value)()
        _check(
            vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles),
            "vkEnumeratePhysicalDevices",
        )
        return [_describe(vk, ctypes.c_void_p(handle)) for handle in handles[: count.value]]
    finally:
        vk.vkDestroyInstance(instance, None)


def _describe(vk: Any, device: ctypes.c_void_p) -> PhysicalDevice:
    driver = _DriverProperties(type=1000196000)
    properties = _Properties2(type=1000059001, next=ctypes.addressof(driver))
    vk.vkGetPhysicalDeviceProperties2(device, ctypes.byref(properties))
    raw = bytes(properties.properties)
    kind = int.from_bytes(raw[16:20], sys.byteorder)

    count = ctypes.c_uint32()
    vk.vkEnumerateDeviceExtensionProperties(device, None, ctypes.byref(count), None)
    extensions = (_ExtensionProperties * count.value)()
    vk.vkEnumerateDeviceExtensionProperties(device, None, ctypes.byref(count), extensions)
    names = {extension.name.decode(errors="replace") for extension in extensions}
    described = (part.decode(errors="replace").strip() for part in (driver.name, driver.info))
    return PhysicalDevice(
        name=raw[20:276].split(b"\0")[0].decode(errors="replace"),
        kind=_KINDS[kind] if kind < len(_KINDS) else "other",
        driver=", ".join(part for part in described if part),
        complete=REQUIRED_EXTENSION in names,
    )
