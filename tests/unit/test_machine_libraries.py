"""Loading unpacked libraries: the order, the Vulkan loader's variables, and when to keep one's hands off."""

import importlib.util
import json
import os
import platform
import random
import struct
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from slanglab.errors import DeviceError
from slanglab.machine import elf, libraries, probe, unpack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="libraries are unpacked on Linux only")


def make_library(path: Path, needed: list[str], *, wide: bool = True, little: bool = True) -> Path:
    """Write an ELF file that holds nothing but a dynamic section naming `needed`."""
    order = "<" if little else ">"
    word = order + ("Q" if wide else "I")
    size = struct.calcsize(word)
    strings = b"\0"
    offsets = []
    for name in needed:
        offsets.append(len(strings))
        strings += name.encode() + b"\0"
    header, entry = (64, 56) if wide else (52, 32)
    dynamic_at = header + 2 * entry
    count = len(needed) + 3
    strings_at = dynamic_at + count * 2 * size
    base = 0x1000  # addresses differ from offsets, as in a real library
    tags = [(1, offset) for offset in offsets] + [(5, base + strings_at), (10, len(strings)), (0, 0)]
    dynamic = b"".join(struct.pack(word, tag) + struct.pack(word, value) for tag, value in tags)
    total = strings_at + len(strings)

    def segment(kind: int, offset: int, length: int) -> bytes:
        if wide:
            return struct.pack(order + "IIQQQQQQ", kind, 4, offset, base + offset, 0, length, length, 8)
        return struct.pack(order + "IIIIIIII", kind, offset, base + offset, 0, length, length, 4, 4)

    start = b"\x7fELF" + bytes([2 if wide else 1, 1 if little else 2, 1]) + bytes(9)
    rest = struct.pack(order + "HHI", 3, 62, 1)
    if wide:
        rest += struct.pack(order + "QQQIHHHHHH", 0, header, 0, 0, header, entry, 2, 0, 0, 0)
    else:
        rest += struct.pack(order + "IIIIHHHHHH", 0, header, 0, 0, header, entry, 2, 0, 0, 0)
    data = start + rest + segment(1, 0, total) + segment(2, dynamic_at, len(dynamic)) + dynamic + strings
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANGLAB_CACHE", str(tmp_path / "cache"))
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", libraries.DRIVER_VARIABLE):
        # set first, so that what preload sets is undone after the test
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    monkeypatch.setattr(libraries, "_state", libraries._State())
    monkeypatch.setattr(libraries, "available", lambda name: False)


def unpacked_tree(root: Path, *, driver: bool = True) -> Path:
    """Make what `dpkg -x` leaves of a driver's packages, multiarch folders, links and all."""
    lib = root / "usr/lib/aarch64-linux-gnu"
    make_library(lib / "libLLVM-15.so.1", ["libz3.so.4", "libxml2.so.2", "libc.so.6"])
    make_library(lib / "libz3.so.4", ["libstdc++.so.6"])
    make_library(lib / "libicudata.so.72.1", [])
    (lib / "libicudata.so.72").symlink_to("libicudata.so.72.1")
    make_library(lib / "libxml2.so.2.9.14", ["libicudata.so.72"])
    (lib / "libxml2.so.2").symlink_to("libxml2.so.2.9.14")
    make_library(lib / "libvulkan.so.1.3.239", ["libc.so.6"])
    (lib / "libvulkan.so.1").symlink_to("libvulkan.so.1.3.239")
    make_library(lib / "libatomic.so.1", [])
    make_library(lib / "libxcb.so.1", [])
    make_library(lib / "libX11.so.6", ["libxcb.so.1"])
    make_library(lib / "libunneeded.so.3", [])
    if driver:
        make_library(lib / "libvulkan_lvp.so", ["libLLVM-15.so.1", "libxcb.so.1"])
        make_library(lib / "libvulkan_radeon.so", ["libLLVM-15.so.1"])
        make_library(lib / "libVkLayer_overlay.so", [])
        icd = root / "usr/share/vulkan/icd.d/lvp_icd.aarch64.json"
        icd.parent.mkdir(parents=True)
        icd.write_text('{"ICD": {"api_version": "1.4.305", "library_path": "libvulkan_lvp.so"}}')
    return root


def prepare(tmp_path: Path, *, driver: bool = True) -> Path:
    """Unpack the tree into the cache folder."""
    unpack.assemble(unpacked_tree(tmp_path / "tree", driver=driver), libraries.folder(), {"mesa": "25"})
    return libraries.folder()


class Loader:
    """Stands in for ctypes.CDLL: notes what is loaded, refuses what needs something not loaded before."""

    def __init__(self, refused: str = "") -> None:
        self.loaded: list[str] = []
        self.refused = refused

    def __call__(self, path: str) -> object:
        name = Path(path).name
        own = {file.name for file in Path(path).parent.iterdir()}
        lacking = [other for other in elf.needed(Path(path)) if other in own and other not in self.loaded]
        if lacking or name == self.refused:
            raise OSError(f"{lacking or name}: cannot open shared object file")
        self.loaded.append(name)
        return object()


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("little", [True, False])
def test_needed_of_each_word_size_and_byte_order(tmp_path: Path, wide: bool, little: bool) -> None:
    path = make_library(tmp_path / "liba.so", ["libb.so.1", "libé.so"], wide=wide, little=little)
    assert elf.needed(path) == ["libb.so.1", "libé.so"]


def extension_with_a_library() -> tuple[str, str]:
    """Return an extension module of Python that needs a shared library, and that library's name."""
    for module, library in (("_sqlite3", "libsqlite3"), ("_lzma", "liblzma"), ("_bz2", "libbz2")):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin and Path(spec.origin).is_file():
            for name in elf.needed(Path(spec.origin)):
                if name.startswith(library):
                    return module, name
    pytest.skip("this Python's extension modules are built in or linked statically")


def test_needed_of_a_real_library() -> None:
    core = next(Path(path) for path in _loaded() if Path(path).name.startswith("libc.so"))
    assert any(name.startswith("ld-linux") for name in elf.needed(core))


def _loaded() -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if ".so" in line}


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    whole = make_library(tmp_path / "liba.so", ["libb.so.1"]).read_bytes()
    for length in (0, 3, 20, 70, len(whole) - 12):
        (tmp_path / "cut.so").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="ELF"):
            elf.needed(tmp_path / "cut.so")


def test_order_of_random_graphs(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for round_ in range(20):
        names = [f"lib{i}.so" for i in range(rng.randrange(1, 15))]
        edges = {name: rng.sample(names[:i], rng.randrange(0, i + 1)) for i, name in enumerate(names)}
        shuffled = rng.sample(names, len(names))
        files = {n: make_library(tmp_path / str(round_) / n, [*edges[n], "libc.so.6"]) for n in shuffled}
        root = rng.choice(names)
        order = elf.load_order([root], files)
        reachable, todo = set(), [root]
        while todo:
            name = todo.pop()
            if name not in reachable:
                reachable.add(name)
                todo += edges[name]
        assert set(order) == reachable
        assert len(order) == len(reachable)
        assert all(order.index(other) < order.index(name) for name in order for other in edges[name])


def test_a_cycle_is_cut(tmp_path: Path) -> None:
    files = {
        "a.so": make_library(tmp_path / "a.so", ["b.so"]),
        "b.so": make_library(tmp_path / "b.so", ["a.so"]),
    }
    assert elf.load_order(["a.so"], files) == ["b.so", "a.so"]


def test_the_icd_file_is_rewritten() -> None:
    text = '{"ICD": {"api_version": "1.4.305", "library_path": "libvulkan_lvp.so"}, "file_format_version": "1.0.0"}'
    assert json.loads(unpack.rewrite_icd(text, "./lib/libvulkan_lvp.so")) == {
        "ICD": {"api_version": "1.4.305", "library_path": "./lib/libvulkan_lvp.so"},
        "file_format_version": "1.0.0",
    }
    with pytest.raises(ValueError, match="ICD"):
        unpack.rewrite_icd('["not one"]', "x")


def test_assemble_keeps_what_the_software_driver_needs(tmp_path: Path) -> None:
    base = prepare(tmp_path)
    kept = {path.name for path in (base / "lib").iterdir()}
    assert kept == {
        "libLLVM-15.so.1",
        "libz3.so.4",
        "libicudata.so.72",
        "libxml2.so.2",
        "libvulkan.so.1",
        "libatomic.so.1",
        "libxcb.so.1",
        "libX11.so.6",
        "libvulkan_lvp.so",
    }
    assert not any(path.is_symlink() for path in (base / "lib").iterdir())
    icd = json.loads((base / "icd.json").read_text())
    assert (base / icd["ICD"]["library_path"]).resolve() == base / "lib/libvulkan_lvp.so"
    manifest = json.loads((base / "manifest.json").read_text())
    assert "libvulkan_lvp.so" not in manifest["libraries"]
    assert manifest["packages"] == {"mesa": "25"}


def test_assemble_names_a_driver_that_is_missing(tmp_path: Path) -> None:
    tree = unpacked_tree(tmp_path / "tree")
    (tree / "usr/lib/aarch64-linux-gnu/libvulkan_lvp.so").unlink()
    with pytest.raises(DeviceError, match=r"libvulkan_lvp\.so"):
        unpack.assemble(tree, tmp_path / "new", {})


def test_preload_loads_dependencies_first_and_points_the_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = prepare(tmp_path)
    monkeypatch.setattr(libraries, "_system_driver_answers", lambda: False)
    loader = Loader()
    done = libraries.preload(loader)
    assert done.problem is None
    assert set(loader.loaded) == {path.name for path in (base / "lib").iterdir()} - {"libvulkan_lvp.so"}
    assert done.libraries == tuple(loader.loaded)
    assert (
        os.environ["VK_DRIVER_FILES"]
        == os.environ["VK_ICD_FILENAMES"]
        == str(base / "icd.json")
        == done.driver
    )
    again = Loader()
    assert libraries.preload(again) is done
    assert again.loaded == []


def test_preload_does_nothing_where_nothing_is_unpacked() -> None:
    loader = Loader()
    assert libraries.preload(loader) == libraries.Preloaded()
    assert loader.loaded == []
    assert "VK_DRIVER_FILES" not in os.environ


def test_preload_leaves_a_system_alone_that_has_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    monkeypatch.setattr(libraries, "_system_driver_answers", lambda: True)
    monkeypatch.setattr(libraries, "available", lambda name: True)
    loader = Loader()
    assert libraries.preload(loader) == libraries.Preloaded()
    assert loader.loaded == []


def test_only_what_the_import_needs_beside_a_working_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    monkeypatch.setattr(libraries, "_system_driver_answers", lambda: True)
    monkeypatch.setattr(libraries, "available", lambda name: name != "libatomic.so.1")
    loader = Loader()
    assert libraries.preload(loader) == libraries.Preloaded(("libatomic.so.1",), None, None)
    assert "VK_DRIVER_FILES" not in os.environ


@pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
def test_the_users_driver_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    prepare(tmp_path)
    monkeypatch.setenv(variable, "/mine/icd.json")
    loader = Loader()
    done = libraries.preload(loader)
    assert done.driver is None
    assert "libatomic.so.1" in loader.loaded, "the import of slangpy needs it all the same"
    assert "libLLVM-15.so.1" not in loader.loaded
    others = {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"} - {variable}
    assert os.environ[variable] == "/mine/icd.json"
    assert not any(other in os.environ for other in others)


def test_a_child_of_a_preloaded_process_preloads_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = prepare(tmp_path)

    def never() -> bool:
        raise AssertionError("the parent has asked already")

    monkeypatch.setattr(libraries, "_system_driver_answers", never)
    monkeypatch.setenv("VK_DRIVER_FILES", str(base / "icd.json"))
    monkeypatch.setenv("VK_ICD_FILENAMES", str(base / "icd.json"))
    loader = Loader()
    assert libraries.preload(loader).driver == str(base / "icd.json")
    assert "libLLVM-15.so.1" in loader.loaded


def test_choices_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = prepare(tmp_path)
    monkeypatch.setattr(libraries, "_system_driver_answers", lambda: True)
    monkeypatch.setenv(libraries.DRIVER_VARIABLE, "software")
    assert libraries.preload(Loader()).driver == str(base / "icd.json")

    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(variable)
    monkeypatch.setattr(libraries, "_state", libraries._State())
    monkeypatch.setattr(libraries, "_system_driver_answers", lambda: False)
    monkeypatch.setenv(libraries.DRIVER_VARIABLE, "system")
    assert libraries.preload(Loader()).driver is None


def test_a_library_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    monkeypatch.setattr(libraries, "_system_driver_answers", lambda: False)
    done = libraries.preload(Loader(refused="libz3.so.4"))
    assert done.problem is not None
    assert "libz3.so.4" in done.problem
    assert "setup-device" in done.problem
    assert "VK_DRIVER_FILES" not in os.environ


def test_a_library_that_was_cut_short_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = prepare(tmp_path)
    monkeypatch.setattr(libraries, "_system_driver_answers", lambda: False)
    file = base / "lib/libxml2.so.2"
    file.write_bytes(file.read_bytes()[:-1])
    loader = Loader()
    problem = libraries.preload(loader).problem
    assert problem is not None
    assert "libxml2.so.2" in problem
    assert "libxml2.so.2" not in loader.loaded


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"machine": "x", "libraries": 3}', "\0"])
def test_a_broken_manifest_is_reported(tmp_path: Path, text: str) -> None:
    base = prepare(tmp_path)
    (base / "manifest.json").write_text(text)
    problem = libraries.preload(Loader()).problem
    assert problem is not None
    assert "manifest.json" in problem


def test_libraries_of_another_machine_are_left_alone(tmp_path: Path) -> None:
    base = prepare(tmp_path)
    manifest = json.loads((base / "manifest.json").read_text())
    (base / "manifest.json").write_text(json.dumps(manifest | {"machine": "vax"}))
    loader = Loader()
    problem = libraries.preload(loader).problem
    assert problem is not None
    assert "vax" in problem
    assert platform.machine() in problem
    assert loader.loaded == []


def test_libraries_that_others_can_change_are_left_alone(tmp_path: Path) -> None:
    base = prepare(tmp_path)
    base.chmod(0o777)
    loader = Loader()
    problem = libraries.preload(loader).problem
    assert problem is not None
    assert "other users" in problem
    assert loader.loaded == []


def test_the_system_is_asked_once_for_each_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    asked: list[str | None] = []

    def ask(backend: str, *, driver: str | None = None, **_: Any) -> probe.Answer:
        asked.append(driver)
        return probe.Answer(backend, opened=False)

    monkeypatch.setattr(probe, "ask", ask)
    state = ["one"]
    monkeypatch.setattr(libraries, "fingerprint", lambda: state[0])
    for expected, now in ((1, "one"), (1, "one"), (2, "two"), (2, "one")):
        state[0] = now
        monkeypatch.setattr(libraries, "_state", libraries._State())
        for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
            monkeypatch.delenv(variable, raising=False)
        libraries.preload(Loader())
        assert len(asked) == expected
    assert set(asked) == {"system"}, "else the child would ask in turn"


def test_fingerprint_changes_with_drivers_and_gpus(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "XDG_DATA_DIRS": str(tmp_path / "share"),
        "XDG_CONFIG_DIRS": str(tmp_path / "x"),
    }

    def now() -> str:
        return libraries.fingerprint(environ, nodes=[str(tmp_path / "dev/nvidia*")])

    bare = now()
    assert bare == now()
    icd = tmp_path / "share/vulkan/icd.d/nvidia_icd.json"
    icd.parent.mkdir(parents=True)
    icd.write_text("{}")
    with_driver = now()
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    with_gpu = now()
    icd.write_text("{ }")
    assert len({bare, with_driver, with_gpu, now()}) == 4


def test_the_table_of_system_libraries_is_slangpys() -> None:
    """What slangpy's own libraries ask for, less what they bring and what every Linux with Python has."""
    distribution = metadata.distribution("slangpy")
    files = [Path(str(distribution.locate_file(file))) for file in distribution.files or []]
    shared = [file for file in files if ".so" in file.suffixes and file.is_file()]
    assert shared
    brought = {file.name for file in shared}
    everywhere = (
        "libc.so",
        "libm.so",
        "libdl.so",
        "libpthread.so",
        "librt.so",
        "ld-linux",
        "libstdc++.so",
        "libgcc_s.so",
    )
    asked = {
        name for file in shared for name in elf.needed(file) if not name.startswith(everywhere)
    } - brought
    # libvulkan.so.1 is opened by name when a Vulkan device is, so it does not stand there.
    assert asked == set(libraries.SYSTEM_LIBRARIES) - {"libvulkan.so.1"}


def test_publish_replaces_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "final").mkdir()
    (tmp_path / "final/old").touch()
    (tmp_path / "new").mkdir()
    (tmp_path / "new/fresh").touch()
    unpack.publish(tmp_path / "new", tmp_path / "final")
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["final"]
    assert [path.name for path in (tmp_path / "final").iterdir()] == ["fresh"]


def test_publish_keeps_the_old_where_the_new_is_missing(tmp_path: Path) -> None:
    (tmp_path / "final").mkdir()
    (tmp_path / "final/old").touch()
    with pytest.raises(OSError, match="new"):
        unpack.publish(tmp_path / "new", tmp_path / "final")
    assert (tmp_path / "final/old").exists()


def test_a_real_process_preloads_from_the_cache() -> None:
    """A copy of a real library, loaded by the real loader in a process of its own, is the one that is used."""
    module, name = extension_with_a_library()
    find = f"import {module}\nprint(open('/proc/self/maps').read())"
    text = subprocess.run([sys.executable, "-c", find], capture_output=True, text=True, check=True).stdout
    original = next(
        line.split()[-1] for line in text.splitlines() if line.endswith(f"/{name}") or f"/{name}." in line
    )
    base = libraries.folder()
    copy = base / "lib" / name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(original).read_bytes())
    manifest = {
        "machine": platform.machine(),
        "import": [name],
        "libraries": [name],
        "driver": None,
        "packages": {},
        "sizes": {name: copy.stat().st_size},
    }
    (base / "manifest.json").write_text(json.dumps(manifest))
    # The package itself preloads when it is imported, which would ask the system first: a stand-in for it does not.
    package = Path(libraries.__file__).parents[1]
    program = (
        "import sys, types\n"
        f"sys.modules['slanglab'] = types.ModuleType('slanglab')\nsys.modules['slanglab'].__path__ = [{str(package)!r}]\n"
        "from slanglab.machine import libraries\n"
        "libraries.available = lambda name: False\n"
        f"assert libraries.preload().libraries == ({name!r},)\n"
        f"{find}\n"
    )
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert str(copy) in text
    assert original not in text, "the extension module took the system's library"
