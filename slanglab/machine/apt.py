"""Read a Debian or Ubuntu machine's package sources, and ask apt with lists and caches of our own.

`sources.list(5)` describes both formats. Where a driver has to come from the backports suite, the source is derived from
the machine's own: same archive, mirror, keyring and options, another suite.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slanglab.machine.commands import run

__all__ = [
    "Apt",
    "AptError",
    "Available",
    "Source",
    "backports",
    "newest_adequate",
    "of_the_distribution",
    "os_release",
    "read_sources",
    "render_sources",
    "upstream_version",
]

_ONE_LINE = re.compile(
    r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<components>(?:\s+\S+)*)\s*$"
)
# Option names of the one-line format and the fields of the other that mean the same; the rest differ in case only.
_FIELDS = {"arch": "Architectures", "lang": "Languages", "target": "Targets", "signed-by": "Signed-By"}


class AptError(Exception):
    """apt could not do what it was asked; the text is apt's own."""


@dataclass(frozen=True)
class Source:
    """One binary archive of the machine's package sources.

    Attributes
    ----------
    uri, suite : str
        The archive and the suite ("bookworm", "bookworm-backports").
    components : tuple of str
        "main", "universe", ...
    options : tuple of (str, str)
        Further deb822 fields ("Signed-By", "Architectures", ...). An embedded key keeps its line breaks.
    """

    uri: str
    suite: str
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Available:
    """A version of a package that an archive offers."""

    version: str
    suite: str


def os_release(root: Path = Path("/")) -> dict[str, str]:
    """Return the fields of /etc/os-release, empty where there is none."""
    for file in (root / "etc/os-release", root / "usr/lib/os-release"):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        return {key.strip(): value.strip().strip("\"'") for key, value in pairs}
    return {}


def read_sources(root: Path = Path("/")) -> list[Source]:
    """Return the binary archives in /etc/apt, in both formats; files that cannot be read are passed over.

    Parameters
    ----------
    root : Path
        Root of the file system to read.
    """
    folder = root / "etc/apt"
    found: list[Source] = []
    for file in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        if file.suffix == ".sources":
            found += _read_deb822(text)
        elif file.suffix == ".list":
            found += _read_one_line(text)
    return found


def _read_one_line(text: str) -> list[Source]:
    found = []
    for line in text.splitlines():
        match = _ONE_LINE.match(line.split("#", 1)[0].strip())
        if match is None:
            continue
        options = []
        for option in (match["options"] or "").split():
            name, _, value = option.partition("=")
            field = _FIELDS.get(name.lower(), "-".join(part.capitalize() for part in name.split("-")))
            options.append((field, value.replace(",", " ")))
        components = tuple(match["components"].split())
        found.append(Source(match["uri"], match["suite"], components, tuple(options)))
    return found


def _read_deb822(text: str) -> list[Source]:
    found = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        fields: dict[str, str] = {}
        last = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in {" ", "\t"} and last:
                fields[last] += f"\n{line}"
            elif ":" in line:
                name, _, value = line.partition(":")
                last = "-".join(part.capitalize() for part in name.strip().split("-"))
                fields[last] = value.strip()
        if "deb" not in fields.get("Types", "").split() or fields.get("Enabled", "yes").lower() in {
            "no",
            "false",
        }:
            continue
        known = {"Types", "Uris", "Suites", "Components", "Enabled"}
        options = tuple((name, value) for name, value in fields.items() if name not in known)
        components = tuple(fields.get("Components", "").split())
        found += [
            Source(uri, suite, components, options)
            for uri in fields.get("Uris", "").split()
            for suite in fields.get("Suites", "").split()
        ]
    return found


def render_sources(sources: Iterable[Source]) -> str:
    """Return sources in the deb822 format, ready for a file named `*.sources`."""
    stanzas = []
    for source in sources:
        lines = ["Types: deb", f"URIs: {source.uri}", f"Suites: {source.suite}"]
        if source.components:
            lines.append(f"Components: {' '.join(source.components)}")
        lines += [f"{name}: {value}".replace(": \n", ":\n") for name, value in source.options]
        stanzas.append("\n".join(lines) + "\n")
    return "\n".join(stanzas)


def of_the_distribution(sources: Iterable[Source], codename: str) -> list[Source]:
    """Return the archives of the distribution itself: suite `codename` and its updates, security and backports."""
    suites = {codename, *(f"{codename}-{kind}" for kind in ("updates", "security", "backports"))}
    return [source for source in sources if source.suite in suites and source.components]


def backports(sources: Iterable[Source], codename: str) -> Source | None:
    """Derive the backports source of a Debian release from the machine's own source of that release.

    Returns None where the machine has no source for `codename` with the component "main", or has backports already.
    """
    sources = list(sources)
    suite = f"{codename}-backports"
    if any(source.suite == suite for source in sources):
        return None
    for source in sources:
        if source.suite == codename and "main" in source.components:
            return replace(source, suite=suite, components=("main",))
    return None


def upstream_version(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a package version: "25.0.7-2~bpo12+1" is (25, 0, 7), an epoch is left out."""
    match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def newest_adequate(offers: Iterable[Available], least: tuple[int, ...]) -> Available | None:
    """Return the offer with the highest upstream version that is at least `least`, the first one of equals."""
    adequate = [offer for offer in offers if upstream_version(offer.version) >= least]
    return max(adequate, key=lambda offer: upstream_version(offer.version), default=None)


class Apt:
    """apt with the machine's sources, or with private ones for a user who may not install.

    Parameters
    ----------
    private : Path, optional
        Folder for lists, archives and sources of our own. Without it the machine's are used, which needs root.
    """

    def __init__(self, private: Path | None = None) -> None:
        self.private = private
        self.trouble = ""
        """What `update` reported about sources that could not be read."""
        self.options: list[str] = ["-oAcquire::Languages=none", "-oAPT::Color=0", "-oAcquire::Retries=3"]
        if private is not None:
            for part in ("lists/partial", "archives/partial", "sources", "log"):
                (private / part).mkdir(parents=True, exist_ok=True)
            self.options += [
                f"-oDir::State::Lists={private / 'lists'}",
                f"-oDir::Cache={private}",
                f"-oDir::Cache::Archives={private / 'archives'}",
                f"-oDir::Log={private / 'log'}",
                "-oDir::Etc::SourceList=/dev/null",
                f"-oDir::Etc::SourceParts={private / 'sources'}",
                "-oDebug::NoLocking=1",  # the lock belongs to root; nothing here writes what it protects
            ]

    def run(self, command: Sequence[str], *, check: bool = True) -> str:
        """Run `apt-get` or `apt-cache` with these sources and return what it printed.

        Raises
        ------
        AptError
            With the last lines of apt's own text, if it fails and `check` is true.
        """
        tool, *rest = command
        code, text = run([tool, *self.options, *rest], {"DEBIAN_FRONTEND": "noninteractive"})
        if check and code:
            errors = [line for line in text.splitlines() if line.startswith(("E:", "Err:"))]
            raise AptError("\n".join(errors or text.strip().splitlines()[-5:]))
        return text

    def update(self) -> None:
        """Fetch the lists. Sources that cannot be reached are kept in `trouble`: the others may suffice."""
        text = self.run(["apt-get", "update"], check=False)
        lines = [line for line in text.splitlines() if line.startswith(("E:", "W:", "Err:"))]
        self.trouble = "\n".join(lines)

    def offers(self, package: str) -> list[Available]:
        """Return the versions of a package that the archives offer."""
        return read_madison(self.run(["apt-cache", "madison", package], check=False))

    def candidate(self, package: str) -> str | None:
        """Return the version that apt would install by itself, or None."""
        match = re.search(
            r"^\s*Candidate: (\S+)", self.run(["apt-cache", "policy", package], check=False), re.M
        )
        return match[1] if match and match[1] != "(none)" else None


def read_madison(text: str) -> list[Available]:
    """Read what `apt-cache madison` prints: package | version | archive suite/component architecture Packages."""
    found = []
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == 3 and len(place := columns[2].split()) >= 2:
            found.append(Available(columns[1], place[1].rsplit("/", 1)[0]))
    return found
