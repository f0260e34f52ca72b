"""The readers of the caches' files, on files made by hand and by LMDB's own rules."""

import random
import struct
import warnings

import pytest

from slanglab import caches
from slanglab.caches import examine, folders, seals
from slanglab.caches.lmdb import BrokenDatabaseError, Database

PAGE = 4096
NONE = 2**64 - 1


def tree(depth, entries, root, pad=0):
    return struct.pack("<IHHQQQQQ", pad, 0, depth, 0, 1, 0, entries, root)


def leaf(number, nodes):
    """Return a leaf page; a node is (flags, key, bytes of its value, length that it says)."""
    body, offsets, upper = b"", [], PAGE
    for flags, key, value, length in nodes:
        node = struct.pack("<HHHH", length & 0xFFFF, length >> 16, flags, len(key)) + key + value
        node += bytes(len(node) % 2)
        upper -= len(node)
        offsets.append(upper)
        body = node + body
    lower = 16 + 2 * len(offsets)
    head = struct.pack("<QHHHH", number, 0, 2, lower, upper) + struct.pack(f"<{len(offsets)}H", *offsets)
    return head + bytes(upper - lower) + body


def overflow(number, value):
    count = (16 + len(value) - 1) // PAGE + 1
    page = struct.pack("<QHHI", number, 0, 4, count) + value
    return page + bytes(count * PAGE - len(page))


def meta(number, main_root, free_root, transaction, last, free_entries=1):
    body = struct.pack("<QHHHH", number, 0, 8, 0, 0) + struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 2**27)
    body += tree(1 if free_root != NONE else 0, free_entries if free_root != NONE else 0, free_root, PAGE)
    body += tree(1, 2, main_root) + struct.pack("<QQ", last, transaction)
    return body + bytes(PAGE - len(body))


def spirv(rng, instructions=40):
    words = [0x07230203, 0x00010300, 0, 100, 0]
    for _ in range(instructions):
        length = rng.randrange(1, 6)
        words += [length << 16 | 17, *(rng.randrange(2**32) for _ in range(length - 1))]
    return struct.pack(f"<{len(words)}I", *words)


KEYS = [bytes([k]) * 20 for k in (1, 2)]


def database(rng):
    """Return a file with a small kernel on its leaf and a large one on pages of its own, and the kernels."""
    small, large = spirv(rng, 20), spirv(rng, 3000)
    count = (16 + len(large) - 1) // PAGE + 1
    data = leaf(3, [(0, KEYS[0], small, len(small)), (1, KEYS[1], struct.pack("<Q", 6), len(large))])
    times = leaf(4, [(0, key, struct.pack("<Q", 7), 8) for key in KEYS])
    main = leaf(2, [(2, b"data", tree(1, 2, 3), 48), (2, b"meta", tree(1, 2, 4), 48)])
    last = 6 + count
    free = leaf(5, [(0, struct.pack("<Q", 3), struct.pack("<QQ", 1, last), 16)])
    pages = main + data + times + free + overflow(6, large) + bytes(PAGE)
    return meta(0, 2, 5, 4, last) + meta(1, 99, NONE, 3, last) + pages, (small, large)


@pytest.fixture
def rng():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


def walked(path):
    with Database(path) as opened:
        found = opened.walk()
        return {name: [(e.key, opened.read(e.place, e.length)) for e in es] for name, es in found.items()}


def test_every_value_is_found(tmp_path, rng):
    content, kernels = database(rng)
    (tmp_path / "data.mdb").write_bytes(content)
    found = walked(tmp_path / "data.mdb")
    assert found["data"] == list(zip(KEYS, kernels, strict=True))
    assert found["meta"] == [(key, struct.pack("<Q", 7)) for key in KEYS]


def test_an_empty_file_is_a_database_that_has_not_begun(tmp_path):
    (tmp_path / "data.mdb").write_bytes(b"")
    assert walked(tmp_path / "data.mdb") == {}


def test_no_cut_and_no_changed_byte_gets_by(tmp_path, rng):
    """Whatever is cut off or changed is refused, or changes nothing that LMDB would follow or that is not summed."""
    content, kernels = database(rng)
    file = tmp_path / "rhi" / "data.mdb"
    file.parent.mkdir()
    file.write_bytes(content)
    seal = seals.make(tmp_path / "none", tmp_path, seals.Seal())
    assert len(seal.values) == 2
    right = dict(zip(KEYS, kernels, strict=True))
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        if rng.random() < 0.3:
            del damaged[rng.randrange(1, len(damaged)) :]
        else:
            damaged[rng.randrange(len(damaged))] ^= rng.randrange(1, 256)
        file.write_bytes(damaged)
        if seals.broken_shaders(tmp_path, seal):
            refused += 1
        else:
            found = walked(file)  # a changed name or key is one that nobody asks for
            assert "data" in found or damaged.count(b"data") < content.count(b"data")
            assert all(right.get(key, value) == value for key, value in found.get("data", []))
    assert refused > 100


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c[: 6 * PAGE], "shorter"),
        (lambda c: b"\0" * PAGE + c[PAGE:], "begin"),
        (lambda c: c[:100], "shorter"),
        (lambda c: meta(0, 2, 5, 4, 6) + c[PAGE:], "names page"),
        (lambda c: meta(0, 2, 5, 4, len(c) // PAGE - 1, free_entries=2) + c[PAGE:], "entries instead of"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, rng, change, says):
    content, _ = database(rng)
    (tmp_path / "data.mdb").write_bytes(change(content))
    with pytest.raises(BrokenDatabaseError, match=says), Database(tmp_path / "data.mdb") as opened:
        opened.walk()


def test_a_kernel_that_nobody_sealed_has_to_be_one(tmp_path, rng):
    file = tmp_path / "rhi" / "data.mdb"
    file.parent.mkdir()
    content, (small, _) = database(rng)
    file.write_bytes(content)
    assert seals.broken_shaders(tmp_path, seals.Seal()) == ""
    at = content.index(small)
    file.write_bytes(
        content[: at + 20] + struct.pack("<I", 0) + content[at + 24 :]
    )  # an instruction without length
    assert "no kernel" in seals.broken_shaders(tmp_path, seals.Seal())


def test_a_seal_comes_back_as_it_was_written(tmp_path, rng):
    content, _ = database(rng)
    (tmp_path / "rhi").mkdir()
    (tmp_path / "rhi" / "data.mdb").write_bytes(content)
    (tmp_path / "modules" / "0").mkdir(parents=True)
    (tmp_path / "modules" / "0" / "ä.slang-module").write_bytes(rng.randbytes(1000))
    seal = seals.make(tmp_path / "modules", tmp_path, seals.Seal())
    assert seals.save(seal, tmp_path / "seal")
    assert seals.load(tmp_path / "seal") == seal
    raw = (tmp_path / "seal").read_bytes()
    for _ in range(50):
        (tmp_path / "seal").write_bytes(raw[: rng.randrange(len(raw))])
        assert seals.load(tmp_path / "seal") is None
    for text in (
        b"",
        b"[]\n",
        b"null\n",
        b'{"version":1}\n',
        b'{"version":1,"sum":0,"modules":[],"shaders":3}\n',
    ):
        (tmp_path / "seal").write_bytes(text)
        assert seals.load(tmp_path / "seal") is None


def test_a_module_that_changed_is_told_from_one_that_was_touched(tmp_path, rng):
    module = tmp_path / "slangpy.slang-module"
    module.write_bytes(rng.randbytes(5000))
    seal = seals.make(tmp_path, tmp_path, seals.Seal())
    module.touch()
    assert seals.broken_modules(tmp_path, seal) == {}
    module.write_bytes(rng.randbytes(5000))
    assert "not those" in seals.broken_modules(tmp_path, seal)[module]
    module.write_bytes(rng.randbytes(4999))
    assert "4999" in seals.broken_modules(tmp_path, seal)[module]
    (tmp_path / "other.slang-module").write_bytes(b"")
    assert seals.broken_modules(tmp_path, seal)[tmp_path / "other.slang-module"] == ""


@pytest.mark.skipif(not hasattr(folders, "fcntl"), reason="a system without these locks")
def test_a_folder_is_held_alone_or_shared(tmp_path):
    first, second = (folders.InUse(tmp_path / "in-use") for _ in range(2))
    assert first.take_alone()
    assert not second.share()
    assert not second.take_alone()
    first.share()
    assert second.share()
    assert not second.take_alone()
    first.close()
    assert second.take_alone()
    second.close()


def test_the_first_message_about_a_cache_is_a_warning_and_the_rest_are_silent(tmp_path, monkeypatch):
    monkeypatch.setenv("SLANGLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(caches, "_place", None)
    caches.prepare()
    caches.settle()
    said = 'Failed to write to cache in "/x/rhi": Failed to commit transaction (No space left on device)'
    full = 'Failed to write to cache in "/x/rhi": Failed to write data (MDB_MAP_FULL: Environment mapsize limit reached)'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert caches.heard(full)
        assert caches.heard(full)
    assert ["is full" in note for note in caches.report()] == [True]
    with pytest.warns(caches.CacheWarning, match="No space left on device"):
        assert caches.heard(said)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert caches.heard(said)
        assert not caches.heard("warning: variable is never read")
    assert len(caches.report()) == 2


def test_a_full_cache_of_kernels_is_made_anew_by_who_has_it_alone(tmp_path, rng, monkeypatch):
    monkeypatch.setenv("SLANGLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(caches, "_place", None)
    file = caches.usual() / "shaders" / "rhi" / "data.mdb"
    content, _ = database(rng)

    def prepared(size, other=False):
        monkeypatch.setattr(caches, "SHADERS_SIZE", size)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        caches.usual().chmod(0o700)
        file.write_bytes(content)
        shaders = file.parent.parent
        seals.save(seals.make(caches.usual() / "modules", shaders, seals.Seal()), caches.usual() / "seal")
        beside = folders.InUse(caches.usual() / "in-use") if other else None
        assert beside is None or beside.share()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert caches.prepare().shaders == shaders
        caches.settle()
        if beside is not None:
            beside.close()
        return file.exists()

    (tmp_path / "data.mdb").write_bytes(content)
    with Database(tmp_path / "data.mdb") as opened:
        reach = opened.reach()
    assert reach == len(content) - len(content) % PAGE
    assert prepared(reach * 2)
    # A device of this process may have it open now, and LMDB would go on with what was set aside.
    assert prepared(reach)
    caches._place.lock.close()
    monkeypatch.setattr(caches, "_place", None)
    assert prepared(reach, other=True)
    caches._place.lock.close()
    monkeypatch.setattr(caches, "_place", None)
    assert not prepared(reach)
    caches._place.lock.close()


def test_the_doctor_looks_without_touching(tmp_path, rng):
    assert examine.examine(tmp_path / "none") == ()
    (tmp_path / "modules").mkdir()
    (tmp_path / "shaders" / "rhi").mkdir(parents=True)
    module, data = tmp_path / "modules" / "m.slang-module", tmp_path / "shaders" / "rhi" / "data.mdb"
    module.write_bytes(rng.randbytes(5000))
    data.write_bytes(database(rng)[0])
    seals.save(seals.make(tmp_path / "modules", tmp_path / "shaders", seals.Seal()), tmp_path / "seal")
    assert [(s.name, s.right) for s in examine.examine(tmp_path)] == [("modules", True), ("kernels", True)]
    module.write_bytes(b"short")
    data.write_bytes(data.read_bytes()[:9000])
    states = examine.examine(tmp_path)
    assert [s.right for s in states] == [False, False]
    assert "5 bytes instead of 5000" in states[0].what
    assert "shorter" in states[1].what
    assert module.read_bytes() == b"short"


def test_the_entries_of_one_database_are_those_of_the_walk(tmp_path, rng):
    content, _ = database(rng)
    (tmp_path / "data.mdb").write_bytes(content)
    with Database(tmp_path / "data.mdb") as opened:
        found = opened.walk()
        for name in ("data", "meta"):
            assert opened.entries(name) == found[name]
        assert opened.entries("other") == []
    (tmp_path / "empty.mdb").write_bytes(b"")
    with Database(tmp_path / "empty.mdb") as opened:
        assert opened.entries("data") == []


def test_a_cache_that_is_written_to_meanwhile_keeps_its_seal(tmp_path, rng, monkeypatch):
    content, _ = database(rng)
    file = tmp_path / "rhi" / "data.mdb"
    file.parent.mkdir()
    file.write_bytes(content)
    before = seals.make(tmp_path / "none", tmp_path, seals.Seal())
    read = seals._values

    def read_and_write(path, known):
        found = read(path, known)
        path.write_bytes(content + b"more")
        return found

    monkeypatch.setattr(seals, "_values", read_and_write)
    file.write_bytes(content + b"some")
    assert seals.make(tmp_path / "none", tmp_path, before) == before
    monkeypatch.undo()
    file.unlink()
    assert seals.make(tmp_path / "none", tmp_path, before) == seals.Seal()
