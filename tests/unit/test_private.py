"""Folders that are gone when their process is."""

import os
import subprocess
import sys
import tempfile

import pytest

from slanglab import private

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")

HOLD = """
import sys, time
from slanglab.private import PrivateFolder
folder = PrivateFolder("test")
(folder.path / "file").write_text("kept")
print(folder.path, flush=True)
time.sleep(60)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(private, "_YOUNG", 0.0)
    return tmp_path


def test_a_folder_is_its_users_alone_and_goes_when_told(temporary):
    folder = private.PrivateFolder("test")
    assert folder.path.parent == temporary
    assert folder.path.stat().st_mode & 0o777 == 0o700
    private.sweep()
    assert folder.path.exists()
    folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_that_of_a_killed_process_goes_with_the_next_one(temporary):
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    path = process.stdout.readline().strip()
    private.sweep()
    assert os.path.exists(path + "/file"), "a living process keeps its folder"
    process.kill()
    process.communicate()
    assert os.path.exists(path + "/file")
    other = private.PrivateFolder("test")
    assert not os.path.exists(path)
    other.remove()
    assert list(temporary.iterdir()) == []


def test_nothing_else_is_swept(temporary, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "file").write_text("mine")
    (temporary / f"{private.PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{private.PREFIX}file").write_text("no folder")
    (temporary / "slanglab-notes").mkdir()
    private.sweep()
    assert (elsewhere / "file").exists()
    assert len(list(temporary.iterdir())) == 3


def test_a_young_folder_may_not_be_locked_yet(temporary, monkeypatch):
    monkeypatch.setattr(private, "_YOUNG", 60.0)
    (temporary / f"{private.PREFIX}young").mkdir()
    private.sweep()
    assert (temporary / f"{private.PREFIX}young").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_child_does_not_remove_its_parents(temporary):
    folder = private.PrivateFolder("test")
    child = os.fork()
    if child == 0:
        folder.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.exists()
    folder.remove()
