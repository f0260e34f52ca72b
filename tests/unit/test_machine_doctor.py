"""The doctor's findings, the commands that mend, and what a probe's child may do."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slanglab.errors import DeviceError
from slanglab.machine import apt, doctor, libraries, probe, self_test, software_vulkan, unpack, vulkan

LLVMPIPE = vulkan.PhysicalDevice(
    "llvmpipe (LLVM 15)", "software (CPU)", "llvmpipe, Mesa 25.0.7-2 (LLVM 15)", True
)
OLD = dataclasses.replace(LLVMPIPE, driver="llvmpipe, Mesa 22.3.6-1 (LLVM 15)", complete=False)
WORKS = probe.Answer(
    "vulkan", True, True, "0.43.1", LLVMPIPE.name, (LLVMPIPE.name,), drivers=(LLVMPIPE,), driver="/c/icd.json"
)
NO_CUDA = probe.Answer("cuda", imported=True, slangpy="0.43.1", error="Failed to create device!")
CUDA = probe.Answer("cuda", True, True, "0.43.1", "NVIDIA H200", ("NVIDIA H200",))
DEBIAN = {"ID": "debian", "VERSION_CODENAME": "bookworm"}


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANGLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SLANGLAB_CONFIG", str(tmp_path / "config"))
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", libraries.DRIVER_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(libraries, "available", lambda name: True)
    monkeypatch.setattr(software_vulkan, "os_release", lambda: DEBIAN)


def examine(*answers: probe.Answer) -> doctor.Findings:
    by_backend = {answer.backend: answer for answer in answers}
    return doctor.examine(lambda backend: by_backend[backend])


def find(findings: doctor.Findings, section: str, name: str) -> doctor.Finding:
    (wanted,) = (s for s in findings.sections if s.title == section)
    return next(finding for finding in wanted.findings if finding.name == name)


def vulkan_fails(**facts: Any) -> probe.Answer:
    facts = {"imported": True, "slangpy": "0.43.1", "error": "Failed to create device!", **facts}
    return probe.Answer("vulkan", **facts)


def test_a_machine_that_computes() -> None:
    findings = examine(WORKS, NO_CUDA)
    assert findings.computes
    assert find(findings, "Backends", "vulkan").what.startswith("opens llvmpipe")
    assert "CPU" in find(findings, "Backends", "vulkan").what
    assert find(findings, "Backends", "cuda").state == "-"
    assert find(findings, "Backends", "metal") == doctor.Finding("metal", "-", "not on Linux")
    assert find(findings, "Versions", "Mesa") == doctor.Finding("Mesa", "ok", "25.0.7-2")
    assert "software (CPU)" in find(findings, "Adapters", "vulkan").what
    assert findings.text().endswith("Cells can run on this machine.\n")


def test_no_driver_at_all() -> None:
    findings = examine(vulkan_fails(loader="vkCreateInstance answers -9 (VkResult)"), NO_CUDA)
    found = find(findings, "Backends", "vulkan")
    assert not findings.computes
    assert found.state == "missing"
    assert "Vulkan loader finds no driver" in found.what
    assert "Mesa lavapipe" in found.what
    assert found.command is not None
    assert found.command.endswith("setup-device")
    assert findings.text().splitlines()[-1] == f"To mend: {found.command}"
    assert "Cells cannot run" in findings.text()


def test_no_loader() -> None:
    told = "libvulkan.so.1: cannot open shared object file: No such file or directory"
    found = find(examine(vulkan_fails(loader=told), NO_CUDA), "Backends", "vulkan")
    assert "there is no Vulkan loader" in found.what
    assert told in found.what


def test_a_driver_that_is_too_old() -> None:
    findings = examine(vulkan_fails(drivers=(OLD,), adapters=(OLD.name,)), NO_CUDA)
    assert vulkan.REQUIRED_EXTENSION in find(findings, "Backends", "vulkan").what
    assert "22.3.6" in find(findings, "Versions", "Mesa").what
    assert find(findings, "Versions", "Mesa").state == "missing"
    assert find(findings, "Adapters", "vulkan").state == "warning"


def test_driver_files_of_the_user_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case DV-01: names Vulkan, the loader, what is needed, and the way back to the software driver."""
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
    found = find(examine(vulkan_fails(loader="vkCreateInstance answers -9"), NO_CUDA), "Backends", "vulkan")
    for words in ("Vulkan loader", "VK_DRIVER_FILES=/nonexistent.json", "does not exist", "software driver"):
        assert words in found.what
    assert found.command == "unset VK_DRIVER_FILES VK_ICD_FILENAMES"


def test_the_same_by_the_real_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
    answer = probe.ask("vulkan")
    assert not answer.opened
    assert answer.drivers == ()
    assert answer.loader or answer.error
    assert (
        find(examine(answer, NO_CUDA), "Backends", "vulkan").command
        == "unset VK_DRIVER_FILES VK_ICD_FILENAMES"
    )


def test_slangpy_that_cannot_be_imported() -> None:
    told = "libatomic.so.1: cannot open shared object file: No such file or directory"
    answer = probe.Answer("vulkan", error=told)
    found = find(examine(answer, dataclasses.replace(answer, backend="cuda")), "Backends", "vulkan")
    assert told in found.what
    assert found.command is not None
    assert found.command.endswith("setup-device")
    absent = probe.Answer("vulkan", error="No module named 'slangpy'")
    found = find(examine(absent, dataclasses.replace(absent, backend="cuda")), "Backends", "vulkan")
    assert found.command == f"{sys.executable} -m pip install slangpy"


def test_a_gpu_without_vulkan_still_computes() -> None:
    findings = examine(vulkan_fails(loader="vkCreateInstance answers -9 (VkResult)"), CUDA)
    assert findings.computes
    found = find(findings, "Backends", "vulkan")
    assert found.state == "warning"
    assert found.command is not None
    assert found.command.endswith("setup-device --software"), (
        "plain setup-device leaves a working machine alone"
    )
    assert found.command not in findings.text().splitlines()[-1]


def test_a_choice_that_hides_the_unpacked_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries.folder().mkdir(parents=True)
    (libraries.folder() / "manifest.json").write_text("{}")
    monkeypatch.setenv(libraries.DRIVER_VARIABLE, "system")
    assert doctor.mend_device() == f"unset {libraries.DRIVER_VARIABLE}"


def test_unpacked_libraries_that_cannot_be_used() -> None:
    broken = vulkan_fails(loader="vkCreateInstance answers -9", unusable="libz3.so.4 cannot be loaded")
    found = find(examine(broken, NO_CUDA), "Libraries", "unpacked")
    assert (found.state, found.what) == ("missing", "libz3.so.4 cannot be loaded")


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    found = find(examine(WORKS, NO_CUDA), "Caches", "cache")
    assert found.state == "warning"
    assert found.command is not None
    assert "SLANGLAB_CACHE" in found.command


def test_text_is_aligned_and_says_what_mends() -> None:
    findings = doctor.Findings(
        (
            doctor.Section("One", (doctor.Finding("a", "ok", "fine"),)),
            doctor.Section("Two", (doctor.Finding("longer", "missing", "not there", "get it"),)),
        ),
        computes=False,
    )
    assert findings.text() == (
        "One\n"
        "  ok       a       fine\n"
        "\n"
        "Two\n"
        "  missing  longer  not there\n"
        "                   mend: get it\n"
        "\n"
        "Cells cannot run: no device opens.\n"
        "To mend: get it\n"
    )


def test_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "slanglab").mkdir()
    (missing,) = doctor._front_end(tmp_path / "slanglab")
    assert missing.state == "warning"
    assert missing.command is not None
    assert "pip install" in missing.command
    (tmp_path / "js").mkdir()
    (tmp_path / "js/package.json").touch()
    assert doctor._front_end(tmp_path / "slanglab")[0].command == "make js"
    (tmp_path / "slanglab/static").mkdir()
    (tmp_path / "slanglab/static/inspector.js").write_text("x" * 2000)
    assert doctor._front_end(tmp_path / "slanglab")[0].what == "1 bundles, 2 kB"


@pytest.mark.parametrize("version", [(3, 10), (3, 11), (3, 99)])
def test_python_versions(version: tuple[int, int]) -> None:
    expected = {(3, 10): "missing", (3, 11): "ok", (3, 99): "warning"}
    assert doctor._python(version).state == expected[version]


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ({"ID": "fedora"}, "dnf install mesa-vulkan-drivers"),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "dnf install"),
        ({"ID": "manjaro", "ID_LIKE": "arch"}, "pacman -S vulkan-swrast"),
        ({"ID": "opensuse-tumbleweed", "ID_LIKE": "opensuse suse"}, "zypper install"),
        ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "setup-device"),
        (DEBIAN, "setup-device"),
    ],
)
def test_the_command_of_each_system(
    release: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(software_vulkan.shutil, "which", lambda name: None)
    command = software_vulkan.install_command(release)
    assert command is not None
    assert words in command


def test_systems_without_a_known_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software_vulkan.shutil, "which", lambda name: None)
    assert software_vulkan.install_command({"ID": "nixos"}) is None
    assert software_vulkan.install_command(DEBIAN, "darwin") is None


def test_set_up_says_what_to_install_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software_vulkan, "os_release", lambda: {"ID": "fedora", "PRETTY_NAME": "Fedora 44"})
    monkeypatch.setattr(software_vulkan.shutil, "which", lambda name: None)
    monkeypatch.setattr(probe, "ask", lambda backend, **_: vulkan_fails(loader="no driver"))
    with pytest.raises(DeviceError, match="Fedora 44") as caught:
        software_vulkan.set_up(print)
    assert caught.value.hint is not None
    assert "dnf install" in caught.value.hint


def test_set_up_changes_nothing_where_a_device_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> probe.Answer:
        raise AssertionError("nothing is to be installed")

    monkeypatch.setattr(software_vulkan, "_install", never)
    monkeypatch.setattr(software_vulkan, "_unpack", never)
    monkeypatch.setattr(probe, "ask", lambda backend, **_: WORKS)
    assert software_vulkan.set_up(print) is WORKS
    assert software_vulkan.set_up(print, software=True) is WORKS


@pytest.mark.parametrize(
    ("user", "uid", "expected"), [(False, 0, "_install"), (True, 0, "_unpack"), (False, 1000, "_unpack")]
)
def test_root_installs_and_others_unpack(
    monkeypatch: pytest.MonkeyPatch, user: bool, uid: int, expected: str
) -> None:
    called: list[tuple[str, list[list[str]]]] = []

    def note(name: str) -> Any:
        def install(steps: list[list[str]], *_: Any) -> probe.Answer:
            called.append((name, steps))
            return WORKS

        return install

    for name in ("_install", "_unpack"):
        monkeypatch.setattr(software_vulkan, name, note(name))
    monkeypatch.setattr(software_vulkan.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(libraries, "available", lambda name: name == "libX11.so.6")
    monkeypatch.setattr(probe, "ask", lambda backend, **_: vulkan_fails(loader="no driver"))
    monkeypatch.setattr(software_vulkan, "gpu_nodes", lambda: [])
    software_vulkan.set_up(print, user=user)
    assert called == [(expected, [["libatomic1", "libvulkan1", "mesa-vulkan-drivers"]])]
    # Where there is a GPU, its own driver may lack nothing but the small libraries.
    monkeypatch.setattr(software_vulkan, "gpu_nodes", lambda: ["/dev/nvidia0"])
    software_vulkan.set_up(print, user=user)
    assert called[-1][1] == [
        ["libatomic1", "libvulkan1"],
        ["libatomic1", "libvulkan1", "mesa-vulkan-drivers"],
    ]


def test_set_up_refuses_driver_files_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/mine.json")
    monkeypatch.setattr(probe, "ask", lambda backend, **_: vulkan_fails(loader="no driver"))
    with pytest.raises(DeviceError, match=r"/mine\.json"):
        software_vulkan.set_up(print)


class Archive:
    """Stands in for apt: what the archives offer before and after a further source is read."""

    def __init__(self, candidate: str | None, offers: list[apt.Available], trouble: str = "") -> None:
        self._candidate = candidate
        self._offers = offers
        self.trouble = trouble
        self.added: list[apt.Source] = []

    def candidate(self, package: str) -> str | None:
        return self._candidate

    def offers(self, package: str) -> list[apt.Available]:
        more = [apt.Available("25.0.7-2~bpo12+1", source.suite) for source in self.added]
        return [*self._offers, *more]


def choose(archive: Archive, sources: list[apt.Source]) -> str | None:
    return software_vulkan._choose(
        archive,  # type: ignore[arg-type]
        ["libvulkan1", "mesa-vulkan-drivers"],
        archive.added.extend,
        sources,
    )


BOOKWORM = apt.Source("http://deb.example/debian", "bookworm", ("main",))


def test_a_new_enough_mesa_is_taken_as_it_is() -> None:
    archive = Archive("24.2.8-1ubuntu1", [apt.Available("24.2.8-1ubuntu1", "noble")])
    assert choose(archive, [BOOKWORM]) is None
    assert archive.added == []


def test_backports_that_are_there_are_preferred() -> None:
    archive = Archive(
        "22.3.6-1", [apt.Available("22.3.6-1", "bookworm"), apt.Available("25.0.7", "bookworm-backports")]
    )
    assert choose(archive, [BOOKWORM]) == "bookworm-backports"
    assert archive.added == []


def test_backports_are_added_where_mesa_is_too_old() -> None:
    archive = Archive("22.3.6-1", [apt.Available("22.3.6-1", "bookworm")])
    assert choose(archive, [BOOKWORM]) == "bookworm-backports"
    assert [source.suite for source in archive.added] == ["bookworm-backports"]


def test_no_new_enough_mesa_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software_vulkan, "os_release", lambda: {"ID": "ubuntu", "VERSION_CODENAME": "focal"})
    with pytest.raises(DeviceError, match=r"21\.2\.6"):
        choose(Archive("21.2.6-0", [apt.Available("21.2.6-0", "focal")]), [])
    with pytest.raises(DeviceError, match="does not offer"):
        choose(Archive(None, []), [])
    with pytest.raises(DeviceError, match="cannot be reached"):
        choose(Archive(None, [], trouble="W: Failed to fetch http://deb.example"), [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("E: Write error - write (28: No space left on device)", "full"),
        ("E: You don't have enough free space in /x", "full"),
        ("E: Failed to fetch http://d.example  Temporary failure resolving 'd.example'", "cannot be reached"),
        ("E: Unable to correct problems, you have held broken packages.", "held broken packages"),
        ("", "no reason given"),
    ],
)
def test_what_stopped_apt(text: str, words: str) -> None:
    error = unpack.explain(apt.AptError(text))
    assert words in error.message
    assert error.hint


def test_a_child_that_prints_and_dies_is_read_as_far_as_it_came() -> None:
    output = 'noise\nmore noise slanglab-probe: {"imported": true, "slangpy": "0.43.1"}\nslanglab-probe: {"broken\n'
    answer = probe.read_answer("vulkan", output, "ended by signal 11")
    assert answer.imported
    assert not answer.opened
    assert answer.error == "ended by signal 11"
    opened = probe.read_answer("vulkan", '\nslanglab-probe: {"opened": true}\n', "ended by signal 11")
    assert not opened.opened, "a driver that crashes on the way out is no working driver"


def test_a_child_ended_by_a_signal_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run
    program = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"

    def crash(command: list[str], **options: Any) -> Any:
        return run([sys.executable, "-c", program], **options)

    monkeypatch.setattr(subprocess, "run", crash)
    assert probe.ask("vulkan").error == "the process was ended by signal 11 inside the driver"


def test_backends_of_each_system() -> None:
    assert probe.backends_here("linux") == ("vulkan", "cuda")
    assert probe.backends_here("darwin") == ("metal",)
    assert probe.backends_here("win32")[0] == "d3d12"
    assert {b for p in ("linux", "darwin", "win32") for b in probe.backends_here(p)} == set(probe.BACKENDS)


def test_the_self_test_refuses_wrong_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np

    wrong = self_test.Outcome(
        "x", "vulkan", np.zeros(4, np.float32), np.array([12, 16, 20, 23], np.float32), False
    )
    monkeypatch.setattr(self_test, "polynomial_backward", lambda backend: wrong)
    assert self_test._child("vulkan") == 1
    assert "wrong gradients" in capsys.readouterr().out
