"""The command `slanglab`: doctor, setup-device, self-test, lab.

slangpy is not imported here: `slanglab doctor` must work where that fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata, util
from pathlib import Path

from slanglab.errors import SlangLabError

__all__ = ["main"]

_COURSE = "slanglab-course"
_FIRST = "01-first-cell.ipynb"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slanglab",
        description="Slang's automatic differentiation, live in a Jupyter notebook.",
        epilog="environment: SLANGLAB_DRIVER=auto|system|software chooses the Vulkan driver, SLANGLAB_CACHE and "
        "SLANGLAB_CONFIG the folders of caches and settings.",
    )
    try:
        version = metadata.version("slanglab")
    except metadata.PackageNotFoundError:
        version = "used from a folder, not installed"
    parser.add_argument("--version", action="version", version=f"slanglab {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    doctor = commands.add_parser(
        "doctor",
        help="say what this machine has, what is missing, and the command that mends it",
        description="Look at backends, adapters, versions and caches. The exit status is 1 if no device opens.",
    )
    doctor.set_defaults(run=_doctor)

    setup = commands.add_parser(
        "setup-device",
        help="install a software Vulkan driver where no device opens",
        description="See to it that a device opens. Where one does already, nothing is changed. As root on Debian and "
        "Ubuntu this installs Mesa's software Vulkan driver with apt (Debian 12: from backports, which it adds to the "
        "package sources); without root it unpacks the same packages into your cache folder, about 55 MB to download.",
    )
    setup.add_argument("--user", action="store_true", help="unpack into the cache folder even as root")
    setup.add_argument(
        "--software",
        action="store_true",
        help="get the software driver although a GPU answers (SLANGLAB_DRIVER=software)",
    )
    setup.set_defaults(run=_setup_device)

    test = commands.add_parser(
        "self-test",
        help="run a backward call on the device and compare the gradient",
        description="Run f(x) = 2x² + 8x - 1 forward and backward at 1, 2, 3, 4 and print the gradient, "
        "[12. 16. 20. 24.]. The exit status is 1 if it differs or cannot be computed.",
    )
    test.add_argument("--backend", choices=("vulkan", "cuda", "d3d12", "metal"), help="the backend to test")
    test.set_defaults(run=_self_test)

    lab = commands.add_parser(
        "lab",
        help="start JupyterLab on the first notebook",
        description="Start JupyterLab on the first notebook of the course. All further arguments go to JupyterLab, for "
        "example --no-browser or --port=9999. An installed package without the repository copies the course into "
        f"./{_COURSE} first; files that are there already are left as they are.",
    )
    lab.set_defaults(run=_lab)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after the program's name; `sys.argv[1:]` by default.

    Returns
    -------
    int
        The exit status.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    # JupyterLab's options are not ours to parse: argparse would refuse --no-browser.
    rest: list[str] = []
    if given[:1] == ["lab"] and given[1:2] not in (["-h"], ["--help"]):
        given, rest = given[:1], given[1:]
    options = _parser().parse_args(given)
    options.rest = rest
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except SlangLabError as error:
        print(f"slanglab: {error}", file=sys.stderr)
        if error.details:
            print(error.details, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("slanglab: interrupted", file=sys.stderr)
        return 130


def _doctor(options: argparse.Namespace) -> int:
    from slanglab.machine.doctor import examine

    findings = examine()
    print(findings.text(), end="")
    return 0 if findings.computes else 1


def _say(line: str) -> None:
    print(f"setup-device: {line}", flush=True)


def _setup_device(options: argparse.Namespace) -> int:
    from slanglab.machine.software_vulkan import set_up

    answer = set_up(_say, user=options.user, software=options.software)
    _say(f"{answer.adapter} answers ({answer.backend})")
    return 0


def _self_test(options: argparse.Namespace) -> int:
    from slanglab.machine import self_test

    return self_test.main(options.backend)


def _course(package: Path, here: Path) -> Path:
    """Return what JupyterLab opens: the first notebook, else the folder `here`."""
    repository = package.parent / "notebooks" / _FIRST
    if repository.is_file():
        return repository
    shipped = package / "notebooks"
    if not (shipped / _FIRST).is_file():
        return here
    target = here / _COURSE
    for source in sorted(path for path in shipped.rglob("*") if path.is_file()):
        copy = target / source.relative_to(shipped)
        if not copy.exists():  # it may hold the user's work
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    return target / _FIRST


def _lab_command(opened: Path, arguments: Sequence[str], *, root: bool) -> list[str]:
    """Return the command that starts JupyterLab."""
    command = [sys.executable, "-m", "jupyterlab", str(opened)]
    if root and "--allow-root" not in arguments:
        command.append("--allow-root")
    return [*command, *arguments]


def _lab(options: argparse.Namespace) -> int:
    if util.find_spec("jupyterlab") is None:
        raise SlangLabError(
            "JupyterLab is not installed in this Python",
            hint=f"{sys.executable} -m pip install jupyterlab ipykernel",
        )
    opened = _course(Path(__file__).resolve().parent, Path.cwd())
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    command = _lab_command(opened, options.rest, root=root)
    print(f"slanglab: opening {opened}", flush=True)
    if sys.platform == "win32":
        return subprocess.call(command)  # noqa: S603  (execv on Windows returns to the shell at once)
    os.execv(command[0], command)  # noqa: S606  (signals, such as Ctrl-C, go to JupyterLab itself)


if __name__ == "__main__":
    sys.exit(main())
