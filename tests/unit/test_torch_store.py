"""Where `--torch` cells are kept: by content, in a folder of the user's own, not too many; and how the code view shows them."""

import os
import stat
import subprocess
import sys

import pytest

from slanglab.torch.entry_points import store
from slanglab.torch.entry_points.generated import Generated
from slanglab.widgets import code

FILES = {"a.slang": "float f() { return 1; }\n"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SLANGLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_same_content_has_the_same_folder():
    one = store.entry("a.slang", FILES, {"slang": "1"})
    times = one.file.stat().st_mtime_ns
    again = store.entry("a.slang", dict(FILES), {"slang": "1"})
    assert again.path == one.path
    assert again.file.stat().st_mtime_ns == times  # slangtorch goes by it
    for files, versions in (
        ({"a.slang": "other"}, {"slang": "1"}),
        (FILES, {"slang": "2"}),
        ({**FILES, "b.slang": ""}, {"slang": "1"}),
    ):
        assert store.entry("a.slang", files, versions).path != one.path


@pytest.mark.skipif(os.name != "posix", reason="permissions of files")
def test_only_the_user_looks_into_it():
    found = store.entry("a.slang", FILES, {})
    for folder in (found.path, found.path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_source_that_was_changed_is_written_again():
    found = store.entry("a.slang", FILES, {})
    found.file.write_text("something else")
    assert store.entry("a.slang", FILES, {}).file.read_text() == FILES["a.slang"]


def test_texts_and_builds_are_kept():
    found = store.entry("a.slang", FILES, {})
    assert found.texts() is None
    found.keep_texts({"cuda": "c", "host": "h", "messages": "", "failed": False})
    assert store.entry("a.slang", FILES, {}).texts()["cuda"] == "c"
    for broken in ("", "{", "[]", '{"cuda": 1}'):
        (found.path / "texts.json").write_text(broken)
        assert found.texts() is None
    assert not found.is_built
    found.built()
    assert store.entry("a.slang", FILES, {}).is_built
    (found.path / ".slangtorch_cache" / "a").mkdir(parents=True)
    found.forget_build()
    assert not found.is_built
    assert not (found.path / ".slangtorch_cache").exists()


def test_what_was_used_longest_ago_goes(monkeypatch):
    monkeypatch.setattr(store, "_MOST", 3)
    made = [store.entry("a.slang", {"a.slang": str(n)}, {}) for n in range(3)]
    for n, one in enumerate(made):
        os.utime(one.path, (n, n))
    store.entry("a.slang", {"a.slang": "0"}, {})  # used again
    store.entry("a.slang", {"a.slang": "new"}, {})
    assert [one.path.exists() for one in made] == [True, False, True]


def test_a_folder_that_cannot_be_used_is_done_without(cache):
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file where the folder should be")
    found = store.entry("a.slang", FILES, {})
    assert found.file.read_text() == FILES["a.slang"]
    assert not found.path.is_relative_to(cache)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process is not told of its parent's end")
def test_what_a_build_starts_ends_with_it():
    program = (
        "import subprocess, sys; from slanglab.torch.entry_points import worker; worker._tie()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True); child.wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert os.path.exists(f"/proc/{pid}")
    parent.kill()
    parent.wait()
    while _runs(pid):
        pass


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_code_view_escapes_and_is_bounded():
    found = Generated(
        '#line 1 "a"\n' + "x<b>&\u202e;\n" * 5000,
        '#line 1 "a"\n</pre><script>alert(1)</script>',
        "<i>name</i>",
    )
    html = code.html(found)
    assert "<script" not in html
    assert "<b>&" not in html
    assert "<i>name" not in html
    assert "\u202e" not in html
    assert "3,0" in html or "more lines" in html
    text = code.text(found)
    assert "\u202e" not in text
    assert len(text.split("\n")) < 2100
    assert len(html) < 400_000


def test_an_empty_code_view():
    assert "CUDA" in code.text(Generated("", "", "nothing"))
    assert "<section" in code.html(Generated("", "", "nothing"))
