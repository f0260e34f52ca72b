"""`slanglab doctor`: what this machine has, what is missing, and the one command that mends each.

Nothing is imported or opened in this process: devices are asked in child processes (`probe`), versions are read from the
installed packages' own records.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from slanglab import paths
from slanglab.caches import usual as usual_caches
from slanglab.caches.examine import examine as examine_caches
from slanglab.machine import libraries, probe, vulkan
from slanglab.machine.apt import upstream_version
from slanglab.machine.commands import slanglab_command
from slanglab.machine.software_vulkan import LEAST_MESA, gpu_nodes, install_command

__all__ = ["Finding", "Findings", "Section", "examine", "mend_device"]

State = Literal["ok", "warning", "missing", "-"]

_PACKAGES = (
    "slanglab",
    "slangpy",
    "numpy",
    "ipython",
    "ipykernel",
    "jupyterlab",
    "notebook",
    "anywidget",
    "ipywidgets",
)
_FOR_THE_LAB = ("ipykernel", "jupyterlab")
_NEWEST_PYTHON_TRIED = (3, 14)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    name : str
        What it is.
    state : str
        "ok", "warning" (works, with a limit), "missing" (needed and not there) or "-" (not there, not needed).
    what : str
        What was found, in one line.
    command : str or None
        The one command that mends it.
    """

    name: str
    state: State
    what: str
    command: str | None = None


@dataclass(frozen=True)
class Section:
    """Findings that belong together, under one title."""

    title: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Findings:
    """All that the doctor found.

    Attributes
    ----------
    sections : tuple of Section
        The findings in the order in which they are shown.
    computes : bool
        Whether some device opens, so that cells can run.
    """

    sections: tuple[Section, ...]
    computes: bool

    def text(self) -> str:
        """Return the findings as aligned plain text; the words carry the meaning, there is no colour."""
        every = [finding for section in self.sections for finding in section.findings]
        width = max((len(finding.name) for finding in every), default=0)
        lines: list[str] = []
        for section in self.sections:
            lines += ["", section.title]
            for finding in section.findings:
                lines.append(f"  {finding.state:<8} {finding.name:<{width}}  {finding.what}".rstrip())
                if finding.command:
                    lines.append(f"  {'':<8} {'':<{width}}  mend: {finding.command}")
        commands = list(dict.fromkeys(f.command for f in every if f.command and f.state == "missing"))
        lines.append("")
        if self.computes:
            lines.append("Cells can run on this machine.")
        else:
            lines.append("Cells cannot run: no device opens.")
        if commands:
            lines.append(f"To mend: {'; '.join(commands)}")
        return "\n".join(lines[1:]) + "\n"


def mend_device() -> str:
    """Return the one command that gets a device on this machine, without looking at devices (for error messages)."""
    if libraries.user_driver_files() is not None:
        return "unset VK_DRIVER_FILES VK_ICD_FILENAMES"
    if libraries.driver_choice() == "system" and (libraries.folder() / "manifest.json").exists():
        return f"unset {libraries.DRIVER_VARIABLE}"
    return install_command() or "install the driver of the GPU, or Mesa's software Vulkan driver (lavapipe)"


def examine(ask: Callable[[str], probe.Answer] = probe.ask) -> Findings:
    """Look at the machine.

    Parameters
    ----------
    ask : callable
        Asks one backend; a child process for each, unless a test says otherwise.
    """
    answers = [ask(backend) for backend in probe.backends_here()]
    sections = (
        Section("Versions", (_python(), *_packages(_version), *_driver_versions(answers))),
        Section("Libraries", _libraries(answers)),
        Section("Backends", _backends(answers)),
        Section("Adapters", _adapters(answers)),
        Section("Caches", _caches()),
        Section("Front end", _front_end(Path(__file__).resolve().parents[1])),
    )
    return Findings(
        tuple(section for section in sections if section.findings), any(answer.opened for answer in answers)
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python(version: tuple[int, int] = sys.version_info[:2]) -> Finding:
    found = f"{platform.python_version()}, {sys.executable}"
    if version < (3, 11):
        return Finding("python", "missing", f"{found}; SlangLab needs 3.11", "install Python 3.11 or newer")
    if version > _NEWEST_PYTHON_TRIED:
        newest = ".".join(map(str, _NEWEST_PYTHON_TRIED))
        return Finding("python", "warning", f"{found}; newer than the newest that was tried, {newest}")
    return Finding("python", "ok", found)


def _packages(version: Callable[[str], str | None]) -> Iterable[Finding]:
    for package in _PACKAGES:
        found = version(package)
        if found is not None:
            yield Finding(package, "ok", found)
        elif package == "slanglab":
            yield Finding(
                package,
                "warning",
                "used from a folder, not installed",
                f"{sys.executable} -m pip install -e .",
            )
        elif package == "notebook":
            yield Finding(package, "-", "not installed; JupyterLab does without it")
        elif package in _FOR_THE_LAB:
            command = f"{sys.executable} -m pip install {package}"
            yield Finding(package, "warning", "not installed; needed to work in JupyterLab here", command)
        else:
            command = f"{sys.executable} -m pip install {package}"
            yield Finding(package, "missing", "not installed", command)


def _mesa(answers: Sequence[probe.Answer]) -> tuple[str, vulkan.PhysicalDevice] | None:
    for answer in answers:
        for device in answer.drivers:
            _, mesa, version = device.driver.partition("Mesa ")
            if mesa:
                return version.split()[0], device
    return None


def _driver_versions(answers: Sequence[probe.Answer]) -> Iterable[Finding]:
    if (found := _mesa(answers)) is None:
        if "vulkan" in {answer.backend for answer in answers} and sys.platform == "linux":
            yield Finding("Mesa", "-", "no Mesa driver answers")
        return
    version, device = found
    if upstream_version(version) < LEAST_MESA and not device.complete:
        least = ".".join(map(str, LEAST_MESA))
        what = f"{version} lacks {vulkan.REQUIRED_EXTENSION}; slangpy needs {least} or newer"
        yield Finding("Mesa", "missing", what, mend_device())
    else:
        yield Finding("Mesa", "ok", version)


def _libraries(answers: Sequence[probe.Answer]) -> tuple[Finding, ...]:
    if sys.platform != "linux":
        return ()
    findings = []
    unpacked = {name for answer in answers for name in answer.unpacked}
    for name in libraries.SYSTEM_LIBRARIES:
        if name in unpacked:
            findings.append(Finding(name, "ok", f"from {libraries.folder()}"))
        elif libraries.available(name):
            findings.append(Finding(name, "ok", "of the system"))
        else:
            loader = name == "libvulkan.so.1"
            use = "for the Vulkan backend" if loader else "to import slangpy"
            needed = not loader or not any(answer.opened for answer in answers)
            state: State = "missing" if needed else "-"
            findings.append(
                Finding(name, state, f"not there; needed {use}", mend_device() if needed else None)
            )
    for file in dict.fromkeys(answer.driver for answer in answers if answer.driver):
        findings.append(Finding("driver", "ok", f"the software driver that {file} names"))
    for problem in dict.fromkeys(answer.unusable for answer in answers if answer.unusable):
        findings.append(Finding("unpacked", "missing", problem, slanglab_command("setup-device")))
    return tuple(findings)


def _backends(answers: Sequence[probe.Answer]) -> tuple[Finding, ...]:
    anything = any(answer.opened for answer in answers)
    findings = [_backend(answer, anything) for answer in answers]
    asked = {answer.backend for answer in answers}
    findings += [Finding(b, "-", f"not on {platform.system()}") for b in probe.BACKENDS if b not in asked]
    return tuple(findings)


def _backend(answer: probe.Answer, anything: bool) -> Finding:
    if answer.opened:
        # llvmpipe, or another driver that computes on the CPU: right, but slower than a GPU
        kind = " (software, computes on the CPU)" if answer.software else ""
        return Finding(answer.backend, "ok", f"opens {answer.adapter}{kind}")
    if not answer.imported:
        return Finding(
            answer.backend, "missing", f"slangpy cannot be imported: {answer.error}", _mend_import(answer)
        )
    if answer.backend == "vulkan":
        what, command = _explain_vulkan(answer)
        if anything and command == slanglab_command("setup-device"):
            command += " --software"  # without it nothing is done where another backend answers
        return Finding("vulkan", "warning" if anything else "missing", what, command)
    if answer.backend == "cuda" and not answer.adapters:
        return Finding("cuda", "-", "no NVIDIA driver answers")
    return Finding(answer.backend, "-" if anything else "warning", f"no device opens: {answer.error}")


def _mend_import(answer: probe.Answer) -> str:
    if "No module named" in (answer.error or ""):
        return f"{sys.executable} -m pip install slangpy"
    if "cannot open shared object file" in (answer.error or ""):
        return mend_device()
    return f"{sys.executable} -m pip install --force-reinstall slangpy"


def _explain_vulkan(answer: probe.Answer) -> tuple[str, str]:
    """Say why Vulkan does not answer: the user's setting, the loader, no driver, or one that is too old."""
    mine = libraries.user_driver_files()
    software = (
        f"a GPU's driver, or the software driver (Mesa lavapipe {'.'.join(map(str, LEAST_MESA))} or newer)"
    )
    if mine is not None:
        lost = [file for file in mine.split(os.pathsep) if not Path(file).exists()]
        why = f"{lost[0]} does not exist" if lost else f"no driver in {mine} answers"
        what = f"the Vulkan loader is told to use VK_DRIVER_FILES={mine} only; {why}; it needs {software}"
        return what, mend_device()
    if answer.loader and ("libvulkan" in answer.loader or "vulkan-1" in answer.loader):
        return f"there is no Vulkan loader ({answer.loader}); it needs that and {software}", mend_device()
    if not answer.drivers:
        return f"the Vulkan loader finds no driver; it needs {software}", mend_device()
    lacking = [device for device in answer.drivers if not device.complete]
    if len(lacking) == len(answer.drivers):
        described = lacking[0].driver or lacking[0].name
        return f"the driver {described} lacks {vulkan.REQUIRED_EXTENSION}; it needs {software}", mend_device()
    names = ", ".join(device.name for device in answer.drivers)
    return f"{names}: the driver answers, but no device opens ({answer.error})", mend_device()


def _adapters(answers: Sequence[probe.Answer]) -> tuple[Finding, ...]:
    findings = []
    for answer in answers:
        known = {device.name: device for device in answer.drivers}
        for name in answer.adapters or tuple(known):
            device = known.get(name)
            what = f"{name}, {device.kind}, driver {device.driver}" if device else name
            findings.append(Finding(answer.backend, "ok" if answer.opened else "warning", what))
    listed = [node for node in gpu_nodes() if "/dri/" not in node]
    if listed and not findings:
        findings.append(
            Finding("device files", "warning", f"{', '.join(listed)}: a GPU is there, but no driver lists it")
        )
    return tuple(findings)


def _caches() -> tuple[Finding, ...]:
    findings = [_folder("cache", paths.cache()), _folder("settings", paths.config())]
    for state in examine_caches(usual_caches()):
        findings.append(Finding(state.name, "ok" if state.right else "warning", state.what))
    system = libraries.folder()
    if system.is_dir():
        findings.append(Finding("unpacked", "ok", f"{system}, {_megabytes(system)}"))
    return tuple(findings)


def _megabytes(folder: Path) -> str:
    total = 0
    for base, _, files in os.walk(folder):
        for file in files:
            try:
                total += os.lstat(os.path.join(base, file)).st_size
            except OSError:
                continue
    return f"{total / 1e6:.1f} MB"


def _folder(name: str, folder: Path) -> Finding:
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK) or not place.is_dir():
        owner = _owner(place)
        variable = "SLANGLAB_CACHE" if name == "cache" else "SLANGLAB_CONFIG"
        what = f"{folder} cannot be written ({place} belongs to {owner})"
        return Finding(name, "warning", what, f"export {variable}=FOLDER  # a folder of yours")
    if not folder.exists():
        return Finding(name, "ok", f"{folder}, not made yet")
    if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid() and os.getuid() != 0:
        return Finding(name, "warning", f"{folder} belongs to {_owner(folder)}, others can change it")
    free = shutil.disk_usage(folder).free
    return Finding(
        name, "ok" if free > 2e8 else "warning", f"{folder}, {_megabytes(folder)}, {free / 1e9:.1f} GB free"
    )


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except (KeyError, NotImplementedError, OSError):
        return "another user"


def _front_end(package: Path) -> tuple[Finding, ...]:
    bundles = sorted((package / "static").glob("*.js"))
    if bundles:
        size = sum(bundle.stat().st_size for bundle in bundles)
        return (Finding("widgets", "ok", f"{len(bundles)} bundles, {size / 1e3:.0f} kB"),)
    in_repository = (package.parent / "js" / "package.json").is_file()
    command = "make js" if in_repository else f"{sys.executable} -m pip install --force-reinstall slanglab"
    return (
        Finding("widgets", "warning", "no JavaScript bundle: widgets show static pictures only", command),
    )
