"""The sdist and the wheel: what they hold, and that the wheel works where there is no node."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python(*words, **environment):
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, made from the checkout, and the wheel, made from the sdist with no node on the path."""
    folder = tmp_path_factory.mktemp("dist")
    python("-m", "build", "--sdist", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)  # our own archive; `filter` came with Python 3.11.4
    source = folder / sdist.name.removesuffix(".tar.gz")
    bare = (
        str(Path(sys.executable).parent)
        if not (Path(sys.executable).parent / "node").exists()
        else "/nonexistent"
    )
    python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source), PATH=bare)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def test_the_wheel_holds_what_it_runs_on(built):
    names = zipfile.ZipFile(built[1]).namelist()
    for needed in (
        "slanglab/static/inspector.js",
        "slanglab/shaders/statistics.slang",
        "slanglab/shaders/print_state.slang",
        "slanglab/look/tokens.json",
        "slanglab/look/style.css",
        "slanglab/py.typed",
    ):
        assert needed in names
    assert not [n for n in names if n.startswith(("tests/", "js/")) or "node_modules" in n]


def test_the_sdist_holds_the_sources_of_the_widgets(built):
    with tarfile.open(built[0]) as archive:
        names = [n.split("/", 1)[-1] for n in archive.getnames()]
    assert {"js/package.json", "js/package-lock.json", "js/src/inspector.widget.ts"} <= set(names)
    assert not [n for n in names if "node_modules" in n]


def test_the_wheel_works_from_its_own_folder(built, tmp_path):
    """Unpacked beside the environment and imported from there, so that nothing of the checkout is in reach."""
    zipfile.ZipFile(built[1]).extractall(tmp_path)
    code = (
        "import slanglab, slanglab.paths\n"
        "assert slanglab.__file__.startswith(PLACE), slanglab.__file__\n"
        "assert str(slanglab.paths.shaders()).startswith(PLACE)\n"
        "m = slanglab.compile('[Differentiable] float f(float x) { return x * x; }', 'm')\n"
        "x = slanglab.tensor([1, 2, 3], grad=True)\n"
        "y = m.f(x, _result='tensor').with_grads()\n"
        "slanglab.assign(y.grad, 1.0)\n"
        "m.f.bwds(x, _result=y)\n"
        "assert x.grad.to_numpy().tolist() == [2, 4, 6]\n"
        "assert slanglab.summary(x).value.maximum == 3\n"
        "bundle = slanglab.inspect(x)._repr_mimebundle_()\n"
        "print('works')\n"
    ).replace("PLACE", repr(str(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "works"
