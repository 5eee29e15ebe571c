"""Notes of those who write files that nothing refers to yet."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from omnigraph.errors import ConflictError, ManifestCorrupt, ReadSetChanged
from omnigraph.settings import FenceMode, Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import WRITE_NOTES, make_write_note_path
from omnigraph.storage.writer_heartbeat import (
    WriteNote,
    _HeartbeatWriteNote,
    begin_write_note,
    continue_write_note,
    hold_write_note,
    list_notes,
    remove_dead_note,
)
from storage.memory_store import MemoryObjectStore

NAME = "01JB0000000000000000000000"


@pytest.fixture
def root(tmp_path):
    return GraphRoot.at(str(tmp_path))


def buried(root: GraphRoot, *, silent: bool = True) -> list[bool]:
    with root.hold() as hold:
        return [
            remove_dead_note(root.store, note, hold, lambda _: silent)
            for note in list_notes(root.store)
        ]


def changed(store: MemoryObjectStore, before: str | None) -> str | None:
    """Return the content of the one note once it has changed."""
    for _ in range(60_000):
        (note,) = list_notes(store)
        if note.content != before:
            return note.content
        threading.Event().wait(0.01)
    raise AssertionError("it never changed")


def test_a_note_is_there_as_long_as_the_work_goes_on(root):
    with hold_write_note(root) as note:
        assert len(list_notes(root.store)) == 1
        note.check()
    assert list_notes(root.store) == []


def test_a_note_whose_author_lives_is_not_removed(root):
    with hold_write_note(root) as note:
        assert buried(root) == [False]
        note.check()


def test_the_note_of_a_dead_author_is_removed(root):
    root.store.put(f"{WRITE_NOTES}/{NAME}", b"")
    assert buried(root) == [True]
    assert list_notes(root.store) == []


def test_what_is_no_note_is_left_alone(root):
    root.store.put(f"{WRITE_NOTES}/.keep", b"")
    root.store.put(f"{WRITE_NOTES}/readme.txt", b"")
    assert list_notes(root.store) == []


def test_an_author_whose_note_was_taken_away_is_told(root, tmp_path):
    with hold_write_note(root) as note:
        for file in (tmp_path / WRITE_NOTES).iterdir():
            file.unlink()
        with pytest.raises(ConflictError, match="retry it"):
            note.check()


def test_a_note_that_was_taken_back_protects_nothing(root):
    note = begin_write_note(root)
    note.end()
    note.end()
    with pytest.raises(ConflictError):
        note.check()


def test_where_files_cannot_be_locked_a_note_keeps_changing(tmp_path):
    root = GraphRoot.at(str(tmp_path), Settings(writer_fence=FenceMode.OFF))
    with hold_write_note(root) as note:
        (found,) = list_notes(root.store)
        assert found.content is not None
        assert buried(root, silent=False) == [False]
        note.check()


def beating(store: MemoryObjectStore) -> WriteNote:
    return _HeartbeatWriteNote.create(store, make_write_note_path(NAME), beat_s=0.01)


def test_a_beating_note_changes_as_long_as_its_author_lives():
    store = MemoryObjectStore()
    note = beating(store)
    first = changed(store, None)
    assert changed(store, first) != first
    note.end()
    assert list_notes(store) == []


def test_a_note_that_was_removed_does_not_come_back():
    root = GraphRoot(MemoryObjectStore())
    note = beating(root.store)
    assert buried(root) == [True]
    threading.Event().wait(0.1)
    assert list_notes(root.store) == []
    with pytest.raises(ConflictError):
        note.check()
    note.end()


def test_who_lost_the_fence_meanwhile_removes_nothing_after_the_note(root):
    root.store.put(f"{WRITE_NOTES}/{NAME}", b"")
    (note,) = list_notes(root.store)
    with root.hold() as hold:
        pass
    with pytest.raises(ReadSetChanged):
        remove_dead_note(root.store, note, hold, lambda _: True)


def test_two_notes_are_two(root):
    other = replace(root)
    with hold_write_note(root), hold_write_note(other):
        assert len(list_notes(root.store)) == 2


@pytest.mark.parametrize("named", ["__writer.lock", "../../outside", "__maintenance/at_work/", "é"])
def test_a_pointer_leads_to_notes_and_nowhere_else(root, named):
    root.store.put("__staging/work/note", named.encode())
    with pytest.raises(ManifestCorrupt, match="names no note"):
        continue_write_note(root, "__staging/work/note")
