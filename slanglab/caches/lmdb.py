"""Reading an LMDB file without the library, to tell whether the library can read it.

LMDB maps its file into memory and trusts what is there: a page number beyond the end of the file is SIGBUS, a wrong offset SIGSEGV, in
the middle of the process. Here the same pages are read as data: the newer of the two metas, the trees of entries and of free
pages, the overflow pages of large values. The format is that of LMDB 0.9 on a 64-bit little-endian machine, with named databases of
single values, which is what slangpy uses.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

__all__ = ["BrokenDatabaseError", "Database", "Entry"]

_MAGIC = 0xBEEFC0DE
_BRANCH, _LEAF, _OVERFLOW, _META = 1, 2, 4, 8
_BIG, _TREE_INSIDE = (
    1,
    2,
)  # of a node: its value stands on overflow pages; it is the record of a named database
_NONE = 2**64 - 1
_HEADER = 16
_SMALLEST_PAGE, _LARGEST_PAGE = 512, 65536
_DEEPEST = 32

_PAGE = struct.Struct("<QHHHH")
_TREE = struct.Struct("<IHHQQQQQ")
_START = struct.Struct("<IIQQ")
_END = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")

_Tree = tuple[int | None, int, int]
"""Root page (None for an empty tree), depth and number of entries."""


class BrokenDatabaseError(ValueError):
    """The file is not what LMDB wrote; the text says in which way."""


@dataclass(frozen=True)
class Entry:
    """One key, and where in the file its value stands.

    Attributes
    ----------
    key : bytes
    place, length : int
        Of the value, in bytes from the beginning of the file.
    tree : bool
        True where the value is the record of a named database.
    """

    key: bytes
    place: int
    length: int
    tree: bool = False


@dataclass(frozen=True)
class _Meta:
    """The state of a database after a transaction."""

    page: int
    free: _Tree
    main: _Tree
    last: int
    transaction: int


class Database:
    """An LMDB file, open for reading as a plain file; a context manager.

    Parameters
    ----------
    path : Path
        The file `data.mdb`.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size
        self._used: set[int] = set()
        self._checks = True
        self._state: _Meta

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def read(self, place: int, length: int) -> bytes:
        """Return bytes of the file.

        Raises
        ------
        BrokenDatabaseError
            When it is too short.
        """
        if hasattr(os, "pread"):
            found = os.pread(self._file.fileno(), length, place)
        else:
            self._file.seek(place)
            found = self._file.read(length)
        if len(found) != length:
            raise BrokenDatabaseError("it is shorter than its pages")
        return found

    def reach(self) -> int:
        """Return how many bytes of the file LMDB has come to use, those that are free again among them; 0 for an empty file.

        Raises
        ------
        BrokenDatabaseError
            When it is no database.
        """
        if self._size == 0:
            return 0
        state = self._meta()
        return (state.last + 1) * state.page

    def walk(self) -> dict[str, list[Entry]]:
        """Follow every page that LMDB would follow.

        Returns
        -------
        dict of str to list of Entry
            The named databases, each in the order of its tree; none for an empty file.

        Raises
        ------
        BrokenDatabaseError
            When LMDB would refuse the file, or crash on it.
        """
        self._used = set()
        if self._size == 0:
            return {}
        self._state = self._meta()
        found: dict[str, list[Entry]] = {}
        for record in self._entries(self._state.main):
            if not record.tree or record.length != _TREE.size:
                raise BrokenDatabaseError("it has an entry outside of its databases")
            tree = _tree(_TREE.unpack(self.read(record.place, record.length)))
            found[record.key.decode("ascii", "replace")] = self._entries(tree)
        for entry in self._entries(self._state.free):
            self._check_free(entry)
        return found

    def entries(self, name: str) -> list[Entry]:
        """Return the entries of one database of a file that LMDB has just written: without a look at any other, or at the values.

        Raises
        ------
        BrokenDatabaseError
            When it cannot be read so, as when LMDB writes to it meanwhile.
        """
        self._used = set()
        if self._size == 0:
            return []
        self._state = self._meta()
        self._checks = False
        try:
            for record in self._entries(self._state.main):
                if record.key.decode("ascii", "replace") == name:
                    return self._entries(_tree(_TREE.unpack(self.read(record.place, _TREE.size))))
        finally:
            self._checks = True
        return []

    def _meta(self) -> _Meta:
        first = self._meta_at(0)
        second = self._meta_at(first.page)
        if first.page != second.page:
            raise BrokenDatabaseError("its two metas differ in the size of a page")
        return max(first, second, key=lambda m: m.transaction)

    def _meta_at(self, place: int) -> _Meta:
        block = self.read(place, _HEADER + _START.size + 2 * _TREE.size + _END.size)
        _, _, flags, _, _ = _PAGE.unpack_from(block)
        magic, version, _, _ = _START.unpack_from(block, _HEADER)
        trees_at = _HEADER + _START.size
        free = _TREE.unpack_from(block, trees_at)
        main = _TREE.unpack_from(block, trees_at + _TREE.size)
        last, transaction = _END.unpack_from(block, trees_at + 2 * _TREE.size)
        page = free[0]
        if magic != _MAGIC or version != 1 or not flags & _META:
            raise BrokenDatabaseError("it does not begin like a database")
        if not _SMALLEST_PAGE <= page <= _LARGEST_PAGE or page & (page - 1):
            raise BrokenDatabaseError("its pages have no size that can be")
        return _Meta(page, _tree(free), _tree(main), last, transaction)

    def _entries(self, tree: _Tree) -> list[Entry]:
        root, depth, count = tree
        if root is None:
            found = []
        elif 1 <= depth <= _DEEPEST:
            found = list(self._page(root, depth))
        else:
            raise BrokenDatabaseError("its tree has no depth that can be")
        if len(found) != count:
            raise BrokenDatabaseError(f"it has {len(found)} entries instead of {count}")
        return found

    def _take(self, number: int, count: int = 1) -> int:
        """Return where a page begins; it must be in use, and by one place only."""
        if number < 2 or count < 1 or number + count - 1 > self._state.last:
            raise BrokenDatabaseError(f"it names page {number} of {self._state.last + 1}")
        if (number + count) * self._state.page > self._size:
            raise BrokenDatabaseError("it is shorter than its pages")
        for taken in range(number, number + count):
            if taken in self._used:
                raise BrokenDatabaseError(f"it uses page {taken} twice")
            self._used.add(taken)
        return number * self._state.page

    def _page(self, number: int, depth: int) -> Iterator[Entry]:
        """Yield the entries on a page of a tree, and on those below it."""
        size = self._state.page
        start = self._take(number)
        page = self.read(start, size)
        own, _, flags, lower, upper = _PAGE.unpack_from(page)
        kind = _LEAF if depth == 1 else _BRANCH
        if own != number or flags & 0xF != kind or not _HEADER <= lower <= upper <= size or lower % 2:
            raise BrokenDatabaseError(f"page {number} is no page of its tree")
        for offset in struct.unpack_from(f"<{(lower - _HEADER) // 2}H", page, _HEADER):
            if not upper <= offset <= size - _NODE.size:
                raise BrokenDatabaseError(f"page {number} has an entry outside of it")
            low, high, node_flags, key_size = _NODE.unpack_from(page, offset)
            key_at = offset + _NODE.size
            if key_at + key_size > size:
                raise BrokenDatabaseError(f"page {number} has a key that leaves it")
            if kind == _BRANCH:
                yield from self._page(low | high << 16 | node_flags << 32, depth - 1)
                continue
            at, length = key_at + key_size, low | high << 16
            if node_flags == _BIG:
                place = self._large_value(page, at, length, number)
            elif node_flags not in (0, _TREE_INSIDE) or at + length > size:
                raise BrokenDatabaseError(f"page {number} has a value that cannot be")
            else:
                place = start + at
            yield Entry(bytes(page[key_at:at]), place, length, node_flags == _TREE_INSIDE)

    def _large_value(self, page: bytes, at: int, length: int, number: int) -> int:
        """Return where a value on pages of its own begins."""
        size = self._state.page
        if at + 8 > size:
            raise BrokenDatabaseError(f"page {number} has a value that leaves it")
        (first,) = struct.unpack_from("<Q", page, at)
        count = (_HEADER + length - 1) // size + 1
        begin = self._take(first, count)
        if not self._checks:
            return begin + _HEADER
        own, _, flags, low, high = _PAGE.unpack(self.read(begin, _HEADER))
        if own != first or flags & 0xF != _OVERFLOW or low | high << 16 != count:
            raise BrokenDatabaseError(f"page {first} is no page of a large value")
        return begin + _HEADER

    def _check_free(self, entry: Entry) -> None:
        """Check a list of pages that may be written over: none of them may be in use."""
        if len(entry.key) != 8 or entry.length % 8 or not entry.length:
            raise BrokenDatabaseError("its list of free pages is none")
        count, *pages = struct.unpack(f"<{entry.length // 8}Q", self.read(entry.place, entry.length))
        if count > len(pages):
            raise BrokenDatabaseError("its list of free pages is none")
        for number in pages[:count]:
            if not 2 <= number <= self._state.last or number in self._used:
                raise BrokenDatabaseError(f"page {number} is free and in use")
            self._used.add(number)


def _tree(fields: tuple[int, ...]) -> _Tree:
    """Return what is needed of the record of a tree."""
    _, _, depth, _, _, _, count, root = fields
    return (None if root == _NONE else root), depth, count
