"""Install Mesa's software Vulkan driver (lavapipe) where no device answers: `slanglab setup-device`.

As root on Debian and Ubuntu through apt, from backports where the release's own Mesa is too old. Without root the same
packages are unpacked into the user's cache (`unpack`). On other systems the packages' names are told.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slanglab import paths
from slanglab.errors import DeviceError
from slanglab.machine import libraries, probe
from slanglab.machine.apt import (
    Apt,
    AptError,
    Source,
    backports,
    newest_adequate,
    of_the_distribution,
    os_release,
    read_sources,
    render_sources,
    upstream_version,
)
from slanglab.machine.commands import slanglab_command
from slanglab.machine.unpack import Unpacker, exclusive, explain, publish

__all__ = ["LEAST_MESA", "gpu_nodes", "install_command", "set_up", "uses_apt"]

LEAST_MESA = (23, 1)
"""First Mesa to try: 22.3.6 lacks VK_KHR_shader_non_semantic_info; that a newer one suffices is tried, not assumed."""

_DRIVER = "mesa-vulkan-drivers"
_ASK = "ask the administrator for mesa-vulkan-drivers (23.1 or newer), libvulkan1, libatomic1 and libx11-6"
_SOURCES_FILE = Path("/etc/apt/sources.list.d/slanglab-backports.sources")
_OTHER_SYSTEMS = {
    "fedora": "sudo dnf install mesa-vulkan-drivers vulkan-loader libatomic libX11",
    "rhel": "sudo dnf install mesa-vulkan-drivers vulkan-loader libatomic libX11",
    "arch": "sudo pacman -S vulkan-swrast vulkan-icd-loader gcc-libs libx11",
    "suse": "sudo zypper install libvulkan_lvp libvulkan1 libatomic1 libX11-6",
    "opensuse": "sudo zypper install libvulkan_lvp libvulkan1 libatomic1 libX11-6",
    "gentoo": "sudo emerge media-libs/mesa media-libs/vulkan-loader  # with VIDEO_CARDS=lavapipe, USE=vulkan",
}


def gpu_nodes() -> list[str]:
    """Return the device files of GPUs on this machine."""
    return sorted(path for pattern in libraries.GPU_NODES for path in glob.glob(pattern))


def uses_apt(release: Mapping[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Return whether `set_up` can get packages on this system."""
    if platform != "linux":
        return False
    release = os_release() if release is None else release
    families = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    return bool(families & {"debian", "ubuntu"}) or bool(shutil.which("apt-get") and shutil.which("dpkg-deb"))


def install_command(release: Mapping[str, str] | None = None, platform: str = sys.platform) -> str | None:
    """Return the one command that gets a software Vulkan driver on this system, or None where we know of none.

    Parameters
    ----------
    release : mapping, optional
        Fields of /etc/os-release.
    platform : str
        `sys.platform`.
    """
    if platform != "linux":
        return None
    release = os_release() if release is None else release
    if uses_apt(release, platform):
        return slanglab_command("setup-device")
    families = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return next((_OTHER_SYSTEMS[family] for family in families if family in _OTHER_SYSTEMS), None)


def _working(software: bool) -> tuple[probe.Answer | None, list[probe.Answer]]:
    """Return the first answer that will do, and all that were had up to it.

    With `software` only the software Vulkan driver will do.
    """
    answers = []
    for backend in ("vulkan",) if software else probe.backends_here():
        answer = probe.ask(backend, driver="software" if software else None)
        answers.append(answer)
        if answer.opened and (answer.software or not software):
            return answer, answers
    return None, answers


def set_up(say: Callable[[str], None], *, user: bool = False, software: bool = False) -> probe.Answer:
    """See to it that slangpy opens a device on this machine.

    Nothing is changed where one opens already.

    Parameters
    ----------
    say : callable
        Told, line by line, what happens.
    user : bool
        Unpack into the cache folder even if the caller is root.
    software : bool
        Install the software driver although a GPU answers.

    Returns
    -------
    probe.Answer
        The answer of the backend that opens a device.

    Raises
    ------
    DeviceError
        If no device could be had; says why and what to do.
    """
    working, answers = _working(software)
    if working is not None:
        return working
    if (mine := libraries.user_driver_files()) is not None:
        raise DeviceError(
            f"the Vulkan loader is told to use {mine} only (VK_DRIVER_FILES), and no device opens with it",
            hint="unset VK_DRIVER_FILES VK_ICD_FILENAMES",
        )
    if answers and not answers[0].imported and "No module named" in (answers[0].error or ""):
        raise DeviceError(
            "slangpy is not installed in this Python", hint=f"{sys.executable} -m pip install slangpy"
        )
    if not uses_apt():
        system = os_release().get("PRETTY_NAME") or sys.platform
        raise DeviceError(
            f"no device opens ({_reason(answers)}), and SlangLab does not know how to install one on {system}",
            hint=install_command()
            or "install the driver of your GPU, or Mesa's software Vulkan driver (lavapipe) 23.1 or newer",
        )
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(program) is None:
            raise DeviceError(
                f"{program} is not there, so the driver cannot be fetched",
                hint=_ASK,
            )

    small = [package for name, package in libraries.SYSTEM_LIBRARIES.items() if not libraries.available(name)]
    steps: list[list[str]] = []
    if small and gpu_nodes() and not software:
        steps.append(small)  # the GPU's own driver may lack nothing else
    steps.append([*small, _DRIVER])
    # Root in a container may have a system that is read-only or not to be changed; `user` is for that.
    install = _unpack if user or os.geteuid() != 0 else _install
    return install(steps, say, software)


def _reason(answers: Sequence[probe.Answer]) -> str:
    return (
        "; ".join(f"{a.backend}: {a.loader or a.error or 'no answer'}" for a in answers) or "none was asked"
    )


def _choose(
    apt: Apt, packages: Sequence[str], update: Callable[[list[Source]], None], sources: list[Source]
) -> str | None:
    """Return the suite to prefer so that the driver is new enough, None where apt's own choice is; may add backports."""
    if _DRIVER not in packages:
        return None
    if upstream_version(apt.candidate(_DRIVER) or "") >= LEAST_MESA:
        return None
    release = os_release()
    extra = backports(sources, release.get("VERSION_CODENAME", "")) if release.get("ID") == "debian" else None
    offer = newest_adequate(apt.offers(_DRIVER), LEAST_MESA)
    if offer is None and extra is not None:
        update([extra])
        offer = newest_adequate(apt.offers(_DRIVER), LEAST_MESA)
    if offer is not None:
        return offer.suite
    if apt.trouble:
        raise explain(AptError(apt.trouble))
    best = apt.candidate(_DRIVER)
    if best is None:
        raise DeviceError(f"the package archive of this system does not offer {_DRIVER}", hint=_ASK)
    least = ".".join(map(str, LEAST_MESA))
    raise DeviceError(
        f"this system offers Mesa {best}; slangpy needs {least} or newer",
        hint="upgrade the system (Debian 12 with backports, Debian 13 and Ubuntu 24.04 have it)",
    )


def _install(steps: Sequence[Sequence[str]], say: Callable[[str], None], software: bool) -> probe.Answer:
    """Install as root, step by step, until a device opens."""
    apt = Apt()
    sources = read_sources()

    def update(extra: list[Source]) -> None:
        if extra:
            say(f"adding {extra[0].suite} to the package sources: {_SOURCES_FILE}")
            _SOURCES_FILE.write_text(
                "# Added by `slanglab setup-device` for a newer Mesa.\n" + render_sources(extra)
            )
        say("reading the package lists")
        apt.update()

    update([])
    answers: list[probe.Answer] = []
    for packages in steps:
        try:
            suite = _choose(apt, packages, update, sources)
            say(f"installing {' '.join(packages)}{f' from {suite}' if suite else ''}")
            chosen = ["-t", suite] if suite else []
            apt.run(
                [
                    "apt-get",
                    "-oDPkg::Lock::Timeout=600",
                    "install",
                    "-y",
                    "--no-install-recommends",
                    *chosen,
                    *packages,
                ]
            )
        except AptError as error:
            raise explain(error) from error
        working, answers = _working(software)
        if working is not None:
            return working
    raise _still_nothing(answers)


def _unpack(steps: Sequence[Sequence[str]], say: Callable[[str], None], software: bool) -> probe.Answer:
    """Unpack into the user's cache, step by step, until a device opens."""
    release = os_release()
    codename = release.get("VERSION_CODENAME") or release.get("UBUNTU_CODENAME", "")
    every = read_sources()
    # Third-party archives may need keys or passwords that a plain user cannot read, and have nothing for us.
    sources = of_the_distribution(every, codename) or every
    if not sources:
        raise DeviceError(
            "this system names no package archive in /etc/apt",
            hint=_ASK,
        )
    unpacker = Unpacker(say)
    answers: list[probe.Answer] = []
    with exclusive(say):
        unpacker.update(sources)
        for packages in steps:
            suite = _choose(
                unpacker.apt, packages, lambda extra: unpacker.update([*sources, *extra]), sources
            )
            attempt = unpacker.build(packages, suite)
            with_driver = _DRIVER in packages
            say("trying it")
            # Only what opens a device takes the place of what is there.
            answer = probe.ask("vulkan", driver="software" if with_driver else None, cache=attempt)
            answers = [answer]
            if not answer.imported or (with_driver and not answer.opened):
                continue
            publish(attempt / "system", libraries.folder())
            working, answers = _working(software)
            if working is not None:
                unpacker.clear()
                return working
    raise _still_nothing(answers)


def _still_nothing(answers: Sequence[probe.Answer]) -> DeviceError:
    return DeviceError(
        f"the packages are there, and still no device opens ({_reason(answers)})",
        hint=f"`{slanglab_command('doctor')}` shows what each backend answers",
        details=f"cache folder: {paths.cache()}",
    )
