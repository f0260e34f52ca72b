"""Resets and edits leave nothing behind; `memory.runs` has ten resets and hundreds of edits."""

import memory
import pytest
from memory import SWITCH, WAYS


@pytest.mark.parametrize("way", WAYS)
def test_resets_leave_memory_flat(way):
    row = memory.resets(way, count=4)
    assert row.ok, row.detail


def test_switches_leave_memory_flat():
    row = memory.resets("tensors and structs by name, made again after each", count=4, step=SWITCH)
    assert row.ok, row.detail


def test_edits_grow_by_little():
    row = memory.edits(60)
    assert row.ok, row.detail
