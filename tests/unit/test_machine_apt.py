"""Package sources in both formats, versions, and what apt prints."""

from pathlib import Path

import pytest

from slanglab.machine.apt import (
    Available,
    Source,
    backports,
    newest_adequate,
    of_the_distribution,
    os_release,
    read_madison,
    read_sources,
    render_sources,
    upstream_version,
)
from slanglab.machine.unpack import announced_archives, announced_space


def write(root: Path, name: str, text: str) -> None:
    file = root / "etc/apt" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_one_line_format(tmp_path: Path) -> None:
    write(
        tmp_path,
        "sources.list",
        "# a comment\n"
        "deb http://mirror.example/debian bookworm main contrib # trailing\n"
        "deb-src http://mirror.example/debian bookworm main\n"
        "deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/k.gpg] https://other.example/d bookworm-updates main\n"
        "#deb http://mirror.example/debian off main\n",
    )
    write(tmp_path, "sources.list.d/flat.list", "deb http://flat.example/repo ./\n")
    write(tmp_path, "sources.list.d/old.list.save", "deb http://saved.example/debian bookworm main\n")
    assert read_sources(tmp_path) == [
        Source("http://mirror.example/debian", "bookworm", ("main", "contrib")),
        Source(
            "https://other.example/d",
            "bookworm-updates",
            ("main",),
            (("Architectures", "amd64 arm64"), ("Signed-By", "/usr/share/keyrings/k.gpg")),
        ),
        Source("http://flat.example/repo", "./", ()),
    ]


def test_deb822_format(tmp_path: Path) -> None:
    write(
        tmp_path,
        "sources.list.d/debian.sources",
        "Types: deb deb-src\n"
        "# a comment inside\n"
        "URIs: http://mirror.example/debian\n"
        "Suites: bookworm bookworm-updates\n"
        "Components: main\n"
        "Signed-By:\n"
        " -----BEGIN PGP PUBLIC KEY BLOCK-----\n"
        " .\n"
        " abc\n"
        "\n"
        "types: deb\n"
        "uris: http://off.example/debian\n"
        "suites: bookworm\n"
        "components: main\n"
        "enabled: no\n"
        "\n"
        "Types: deb-src\nURIs: http://source.example/debian\nSuites: bookworm\nComponents: main\n",
    )
    key = "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc"
    found = read_sources(tmp_path)
    assert found == [
        Source("http://mirror.example/debian", suite, ("main",), (("Signed-By", key),))
        for suite in ("bookworm", "bookworm-updates")
    ]
    write(tmp_path / "again", "sources.list.d/x.sources", render_sources(found))
    assert read_sources(tmp_path / "again") == found


def test_no_sources_and_unreadable_ones(tmp_path: Path) -> None:
    assert read_sources(tmp_path) == []
    (tmp_path / "etc/apt/sources.list.d/folder.list").mkdir(parents=True)
    write(tmp_path, "sources.list", "deb http://mirror.example/debian bookworm main\n")
    assert [source.suite for source in read_sources(tmp_path)] == ["bookworm"]


def test_backports_keep_mirror_key_and_options() -> None:
    own = Source(
        "http://mirror.example/debian",
        "bookworm",
        ("main", "non-free"),
        (("Signed-By", "/k.gpg"), ("Trusted", "no")),
    )
    third = Source("https://third.example/apt", "nodistro", ("main",))
    derived = backports([third, own], "bookworm")
    assert derived == Source(own.uri, "bookworm-backports", ("main",), own.options)
    assert backports([own, derived], "bookworm") is None, "they are there already"
    assert backports([third], "bookworm") is None, "nothing to derive them from"
    assert of_the_distribution([third, own, derived], "bookworm") == [own, derived]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("22.3.6-1+deb12u2", (22, 3, 6)),
        ("25.0.7-2~bpo12+1", (25, 0, 7)),
        ("1:15.0.6-4+b1", (15, 0, 6)),
        ("24.2.8-1ubuntu1~24.04.1", (24, 2, 8)),
        ("23.1", (23, 1)),
        ("git", ()),
        ("", ()),
    ],
)
def test_upstream_version(version: str, expected: tuple[int, ...]) -> None:
    assert upstream_version(version) == expected


def test_versions_compare_by_number_not_by_text() -> None:
    offers = [Available("9.9-1", "old"), Available("100.1-1", "new"), Available("23.0.9-1", "middle")]
    assert newest_adequate(offers, (23, 1)) == Available("100.1-1", "new")
    assert newest_adequate(offers, (23, 0)) == Available("100.1-1", "new")
    assert newest_adequate(offers[::2], (23, 1)) is None


def test_madison() -> None:
    text = (
        "N: a note\n"
        "mesa-vulkan-drivers | 25.0.7-2~bpo12+1 | http://deb.example/debian bookworm-backports/main amd64 Packages\n"
        "mesa-vulkan-drivers | 22.3.6-1+deb12u2 | http://deb.example/debian bookworm/main amd64 Packages\n"
    )
    assert read_madison(text) == [
        Available("25.0.7-2~bpo12+1", "bookworm-backports"),
        Available("22.3.6-1+deb12u2", "bookworm"),
    ]


def test_what_apt_announces() -> None:
    text = (
        "Need to get 54.5 MB of archives.\n"
        "After this operation, 1,253 kB of additional disk space will be used.\n"
        "'http://d.example/libz3-4_4.8_amd64.deb' libz3-4_4.8_amd64.deb 7216172 MD5Sum:123\n"
        "'http://d.example/mesa_25_amd64.deb' mesa_25_amd64.deb 11366132 \n"
    )
    assert announced_archives(text) == {"libz3-4_4.8_amd64.deb": 7216172, "mesa_25_amd64.deb": 11366132}
    assert announced_space(text) == 1_253_000
    assert announced_space("After this operation, 3 MB disk space will be freed.") == 0


def test_os_release(tmp_path: Path) -> None:
    assert os_release(tmp_path) == {}
    file = tmp_path / "usr/lib/os-release"
    file.parent.mkdir(parents=True)
    file.write_text(
        '# c\nID=debian\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n\n'
    )
    assert os_release(tmp_path)["PRETTY_NAME"] == "Debian GNU/Linux 12 (bookworm)"
    assert os_release(tmp_path)["VERSION_CODENAME"] == "bookworm"
