"""Get packages without root: download them with apt, unpack them into the user's cache, and check them before use.

Everything is built in `cache() / "system.partial"` and takes its place by a rename, so that an interrupted run leaves what
was there before, and the next one goes on with the downloads it finds.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from slanglab import paths
from slanglab.errors import DeviceError
from slanglab.machine import elf, libraries
from slanglab.machine.apt import Apt, AptError, Source, render_sources
from slanglab.machine.commands import run

__all__ = [
    "Unpacker",
    "announced_archives",
    "announced_space",
    "assemble",
    "exclusive",
    "explain",
    "publish",
    "rewrite_icd",
]

_UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def announced_archives(text: str) -> dict[str, int]:
    """Read what `apt-get --print-uris install` would fetch: sizes in bytes by file name."""
    return {name: int(size) for name, size in re.findall(r"^'[^']+' (\S+\.deb) (\d+)", text, re.M)}


def announced_space(text: str) -> int:
    """Read from apt's announcement how many bytes the packages take when installed, 0 where it says nothing."""
    match = re.search(r"After this operation, ([\d.,]+) ([kMG]?B) of additional", text)
    return int(float(match[1].replace(",", "")) * _UNITS[match[2]]) if match else 0


def rewrite_icd(text: str, library: str) -> str:
    """Return a driver's ICD file with another library path, as the Vulkan loader reads it.

    Parameters
    ----------
    text : str
        The ICD file as the package has it; its path is a bare name that only the system's linker resolves.
    library : str
        The new path. A relative one is taken from the folder of the ICD file, which then can move together with it.

    Raises
    ------
    ValueError
        If `text` is no ICD file.
    """
    icd = json.loads(text)
    if not isinstance(icd, dict) or not isinstance(icd.get("ICD"), dict):
        raise ValueError("not an ICD file of a Vulkan driver")
    icd["ICD"]["library_path"] = library
    return json.dumps(icd, indent=2)


def assemble(tree: Path, target: Path, packages: dict[str, str]) -> None:
    """Make the folder that `libraries.preload` reads from a tree of unpacked packages.

    Of the 250 MB of all drivers and data files it keeps the software driver and what that needs. Files are moved.

    Parameters
    ----------
    tree : Path
        Root of the unpacked packages.
    target : Path
        The folder to make (libraries in `lib/`, `icd.json`, `manifest.json`).
    packages : dict of str to str
        Versions of the packages, kept in the manifest for `slanglab doctor`.
    """
    files = [path for path in tree.rglob("*.so*") if path.is_file()]  # follows links inside the tree
    found = {path.name: path for path in sorted(files, key=lambda path: len(path.parts), reverse=True)}
    driver = None
    icd = ""
    for description in sorted(tree.glob("usr/share/vulkan/icd.d/lvp_icd*.json")):
        icd = description.read_text()
        driver = Path(json.loads(icd)["ICD"]["library_path"]).name
        if driver not in found:
            raise DeviceError(f"{description.name} names {driver}, which is not among the unpacked packages")
    always = elf.load_order(libraries.SYSTEM_LIBRARIES, found)
    order = elf.load_order([*always, *([driver] if driver else [])], found)

    (target / "lib").mkdir(parents=True)
    for name in order:
        # A name is often a link to the file with the full version; the linker asks for the name.
        shutil.move(found[name].resolve(), target / "lib" / name)
    if driver:
        (target / "icd.json").write_text(rewrite_icd(icd, f"./lib/{driver}"))
    manifest = {
        "machine": platform.machine(),
        "import": always,
        "libraries": [name for name in order if name != driver],  # the driver is the Vulkan loader's to load
        "driver": driver,
        "packages": packages,
        # A library that was cut short (a full disk) ends the process that loads it; its length is looked at first.
        "sizes": {name: (target / "lib" / name).stat().st_size for name in order},
    }
    (target / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def publish(new: Path, final: Path) -> None:
    """Put a finished folder in its place; what was there before stays until the new one is complete."""
    old = final.with_name(f"{final.name}.old.{os.getpid()}")
    if final.exists():
        final.rename(old)
    try:
        new.rename(final)
    except OSError:
        if old.exists():
            old.rename(final)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def exclusive(say: Callable[[str], None]) -> Iterator[None]:
    """Let one process at a time unpack into the cache folder of a user."""
    import fcntl  # there is no such module on Windows, where nothing is unpacked

    with (paths.cache() / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is under way for this user; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Unpacker:
    """Downloads packages and unpacks them into the cache folder.

    Parameters
    ----------
    say : callable
        Told, line by line, what happens.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.folder = paths.cache() / "system.partial"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DeviceError(
                f"the cache folder {paths.cache()} cannot be written: {error.strerror}",
                hint="set SLANGLAB_CACHE to a folder of yours with 600 MB free and run `slanglab setup-device` again",
            ) from error
        self.apt = Apt(private=self.folder)

    def update(self, sources: Sequence[Source]) -> None:
        """Fetch the lists of these sources."""
        (self.folder / "sources" / "slanglab.sources").write_text(render_sources(sources))
        self._say(f"reading the package lists of {', '.join(dict.fromkeys(s.suite for s in sources))}")
        self.apt.update()

    def build(self, packages: Sequence[str], suite: str | None) -> Path:
        """Download `packages` with all that the system lacks for them and unpack them.

        Parameters
        ----------
        packages : sequence of str
            Names of packages.
        suite : str or None
            Suite to prefer (`apt-get -t`), or None for the usual choice.

        Returns
        -------
        Path
            A cache folder that holds nothing but the finished `system` folder, to be tried and then published.

        Raises
        ------
        DeviceError
            If the packages cannot be had, or the space does not suffice.
        """
        install = ["install", "-y", "--no-install-recommends", *(["-t", suite] if suite else []), *packages]
        # What lies in the archives already is not announced, so an empty folder is put in their place for that.
        nothing = self.folder / "nothing"
        (nothing / "partial").mkdir(parents=True, exist_ok=True)
        kept = self.folder / "archives"
        try:
            announced = self.apt.run(
                ["apt-get", f"-oDir::Cache::Archives={nothing}", "--print-uris", *install]
            )
            wanted = announced_archives(announced)
            fetch = sum(size for name, size in wanted.items() if not (kept / name).exists())
            unpacked = announced_space(announced)
            self._require_space(fetch + unpacked)
            self._say(f"downloading {fetch / 1e6:.0f} MB of packages, {unpacked / 1e6:.0f} MB unpacked")
            self.apt.run(["apt-get", "--download-only", *install])
        except AptError as error:
            raise explain(error) from error

        archives = [kept / name for name in wanted]
        tree, attempt = self.folder / "tree", self.folder / "try"
        for leftover in (tree, attempt):
            shutil.rmtree(leftover, ignore_errors=True)
        tree.mkdir()
        self._say(f"unpacking {len(archives)} packages into {libraries.folder()}")
        for archive in sorted(archives):
            code, text = run(["dpkg-deb", "-x", str(archive), str(tree)])
            if code:
                archive.unlink(missing_ok=True)  # fetched anew next time
                raise explain(AptError(text.strip() or f"dpkg-deb ends with status {code}"))
        versions = {}
        for archive in archives:
            package, version, *_ = archive.name.split("_")
            versions[package] = version.replace("%3a", ":")
        assemble(tree, attempt / "system", versions)
        shutil.rmtree(tree, ignore_errors=True)
        return attempt

    def _require_space(self, wanted: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < wanted:
            raise DeviceError(
                f"{self.folder} has {free / 1e6:.0f} MB free; the software Vulkan driver needs "
                f"{wanted / 1e6:.0f} MB while it is unpacked",
                hint="free some space, or set SLANGLAB_CACHE to a folder on another disk, "
                "and run `slanglab setup-device` again; it goes on where it stopped",
            )

    def clear(self) -> None:
        """Remove downloads and lists."""
        shutil.rmtree(self.folder, ignore_errors=True)


def explain(error: AptError) -> DeviceError:
    """Return what stopped apt as an error that says what to do."""
    text = str(error)
    if re.search(r"No space left|enough free space", text):
        return DeviceError(
            f"the disk of {paths.cache()} is full",
            hint="free 400 MB, or set SLANGLAB_CACHE to a folder on another disk, and run "
            "`slanglab setup-device` again; it goes on where it stopped",
            details=text,
        )
    if re.search(r"resolve|connect|Failed to fetch|timed out|Network is unreachable", text):
        return DeviceError(
            "the package archive of this system cannot be reached",
            hint="check the network (and the proxy that apt uses), then run `slanglab setup-device` again; "
            "it goes on where it stopped",
            details=text,
        )
    first = text.strip().splitlines()[0] if text.strip() else "no reason given"
    return DeviceError(
        f"the packages could not be had from this system's archive: {first}",
        hint="`slanglab doctor` says what is missing; `apt-get update` shows whether the archive answers",
        details=text,
    )
