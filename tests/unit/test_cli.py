"""The command line: arguments, exit states, and that it runs where slangpy does not."""

import os
import subprocess
import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from slanglab import cli
from slanglab.errors import DeviceError
from slanglab.machine import doctor, self_test, software_vulkan
from slanglab.machine.probe import Answer


@pytest.mark.parametrize(
    "arguments", [["--help"], ["doctor", "--help"], ["setup-device", "-h"], ["lab", "--help"]]
)
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 0
    assert "usage: slanglab" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["doctor", "--what"], ["self-test", "--backend", "abacus"]]
)
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: slanglab" in capsys.readouterr().err


@pytest.mark.parametrize("computes", [True, False])
def test_doctor_prints_and_ends_with_what_it_found(
    computes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = doctor.Section("Backends", (doctor.Finding("vulkan", "ok", "a <b>driver</b>"),))
    monkeypatch.setattr(doctor, "examine", lambda: doctor.Findings((section,), computes))
    assert cli.main(["doctor"]) == (0 if computes else 1)
    assert "a <b>driver</b>" in capsys.readouterr().out


def test_setup_device_passes_its_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[dict[str, bool]] = []

    def set_up(say: Any, **options: bool) -> Answer:
        given.append(options)
        return Answer("vulkan", opened=True, adapter="llvmpipe")

    monkeypatch.setattr(software_vulkan, "set_up", set_up)
    assert cli.main(["setup-device"]) == 0
    assert cli.main(["setup-device", "--user", "--software"]) == 0
    assert given == [{"user": False, "software": False}, {"user": True, "software": True}]
    assert "llvmpipe answers" in capsys.readouterr().out


def test_errors_are_messages_not_tracebacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(say: Any, **_: bool) -> Answer:
        raise DeviceError("the archive cannot be reached", hint="check the network", details="apt's own text")

    monkeypatch.setattr(software_vulkan, "set_up", fail)
    assert cli.main(["setup-device"]) == 1
    told = capsys.readouterr().err
    for words in ("the archive cannot be reached", "hint: check the network", "apt's own text"):
        assert words in told
    assert "Traceback" not in told

    def interrupt(say: Any, **_: bool) -> Answer:
        raise KeyboardInterrupt

    monkeypatch.setattr(software_vulkan, "set_up", interrupt)
    assert cli.main(["setup-device"]) == 130


def test_self_test_passes_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str | None] = []

    def main(backend: str | None) -> int:
        given.append(backend)
        return 1

    monkeypatch.setattr(self_test, "main", main)
    assert cli.main(["self-test"]) == 1
    assert cli.main(["self-test", "--backend", "cuda"]) == 1
    assert given == [None, "cuda"]


def test_lab_passes_everything_to_jupyterlab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(util, "find_spec", lambda name: object())
    monkeypatch.setattr(os, "execv", lambda program, command: started.append(command))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    cli.main(["lab", "--no-browser", "--port=9999", "--", "-x"])
    (command,) = started
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert command[4:] == ["--no-browser", "--port=9999", "--", "-x"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    cli.main(["lab", "--no-browser"])
    assert started[1][4:] == ["--allow-root", "--no-browser"]
    cli.main(["lab", "--allow-root"])
    assert started[2][4:] == ["--allow-root"]


def test_lab_without_jupyterlab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    assert cli.main(["lab"]) == 1
    assert "-m pip install jupyterlab" in capsys.readouterr().err


def test_what_lab_opens(tmp_path: Path) -> None:
    package, here = tmp_path / "lib/slanglab", tmp_path / "work"
    package.mkdir(parents=True)
    here.mkdir()
    assert cli._course(package, here) == here, "no notebooks anywhere"

    shipped = package / "notebooks"
    (shipped / "data").mkdir(parents=True)
    (shipped / "01-first-cell.ipynb").write_text("first")
    (shipped / "data/x.txt").write_text("x")
    opened = cli._course(package, here)
    assert opened == here / "slanglab-course/01-first-cell.ipynb"
    assert opened.read_text() == "first"
    assert (opened.parent / "data/x.txt").read_text() == "x"

    opened.write_text("the user's work")
    cli._course(package, here)
    assert opened.read_text() == "the user's work"

    (package.parent / "notebooks").mkdir()
    (package.parent / "notebooks/01-first-cell.ipynb").write_text("in the repository")
    assert cli._course(package, here) == package.parent / "notebooks/01-first-cell.ipynb"


def test_doctor_and_setup_run_without_slangpy(tmp_path: Path) -> None:
    """The commands are for machines where slangpy cannot be imported: nothing of ours may import it on the way."""
    (tmp_path / "slangpy.py").write_text(
        "raise ImportError('libatomic.so.1: cannot open shared object file')\n"
    )
    package = str(Path(cli.__file__).parents[1])
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), package]),
        "SLANGLAB_CACHE": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "slanglab.cli", "doctor"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "slangpy cannot be imported: libatomic.so.1" in done.stdout
    assert "Cells cannot run" in done.stdout
    assert done.stderr == ""
