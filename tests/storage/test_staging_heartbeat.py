"""Heartbeats of writers of unreferenced files."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from omnigraph.errors import ConflictError, ManifestCorrupt, ReadSetChanged
from omnigraph.settings import FenceMode, Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import HEARTBEATS, make_heartbeat_path
from omnigraph.storage.staging_heartbeat import (
    Heartbeat,
    _RenewedHeartbeat,
    continue_heartbeat,
    keep_heartbeat,
    list_heartbeats,
    remove_dead_heartbeat,
    start_heartbeat,
)
from storage.memory_store import MemoryObjectStore

NAME = "01JB0000000000000000000000"


@pytest.fixture
def root(tmp_path):
    return GraphRoot.at(str(tmp_path))


def buried(root: GraphRoot, *, silent: bool = True) -> list[bool]:
    with root.acquire_fence() as guard:
        return [
            remove_dead_heartbeat(root.store, heartbeat, guard, lambda _: silent)
            for heartbeat in list_heartbeats(root.store)
        ]


def changed(store: MemoryObjectStore, before: str | None) -> str | None:
    """Return the content of the one heartbeat once it has changed."""
    for _ in range(60_000):
        (heartbeat,) = list_heartbeats(store)
        if heartbeat.content != before:
            return heartbeat.content
        threading.Event().wait(0.01)
    raise AssertionError("it never changed")


def test_a_heartbeat_exists_as_long_as_the_work_continues(root):
    with keep_heartbeat(root) as heartbeat:
        assert len(list_heartbeats(root.store)) == 1
        heartbeat.check()
    assert list_heartbeats(root.store) == []


def test_a_heartbeat_of_a_live_writer_is_not_removed(root):
    with keep_heartbeat(root) as heartbeat:
        assert buried(root) == [False]
        heartbeat.check()


def test_the_heartbeat_of_a_dead_writer_is_removed(root):
    root.store.put(f"{HEARTBEATS}/{NAME}", b"")
    assert buried(root) == [True]
    assert list_heartbeats(root.store) == []


def test_a_file_that_is_no_heartbeat_is_left_alone(root):
    root.store.put(f"{HEARTBEATS}/.keep", b"")
    root.store.put(f"{HEARTBEATS}/readme.txt", b"")
    assert list_heartbeats(root.store) == []


def test_a_writer_whose_heartbeat_was_removed_is_stopped(root, tmp_path):
    with keep_heartbeat(root) as heartbeat:
        for file in (tmp_path / HEARTBEATS).iterdir():
            file.unlink()
        with pytest.raises(ConflictError, match="retry it"):
            heartbeat.check()


def test_a_released_heartbeat_protects_nothing(root):
    heartbeat = start_heartbeat(root)
    heartbeat.end()
    heartbeat.end()
    with pytest.raises(ConflictError):
        heartbeat.check()


def test_where_files_cannot_be_locked_a_heartbeat_keeps_changing(tmp_path):
    root = GraphRoot.at(str(tmp_path), Settings(writer_fence=FenceMode.OFF))
    with keep_heartbeat(root) as heartbeat:
        (found,) = list_heartbeats(root.store)
        assert found.content is not None
        assert buried(root, silent=False) == [False]
        heartbeat.check()


def renewed(store: MemoryObjectStore) -> Heartbeat:
    return _RenewedHeartbeat.create(store, make_heartbeat_path(NAME), beat_s=0.01)


def test_a_renewed_heartbeat_changes_as_long_as_its_writer_runs():
    store = MemoryObjectStore()
    heartbeat = renewed(store)
    first = changed(store, None)
    assert changed(store, first) != first
    heartbeat.end()
    assert list_heartbeats(store) == []


def test_a_removed_heartbeat_does_not_come_back():
    root = GraphRoot(MemoryObjectStore())
    heartbeat = renewed(root.store)
    assert buried(root) == [True]
    threading.Event().wait(0.1)
    assert list_heartbeats(root.store) == []
    with pytest.raises(ConflictError):
        heartbeat.check()
    heartbeat.end()


def test_a_writer_that_lost_the_fence_removes_nothing_after_the_heartbeat(root):
    root.store.put(f"{HEARTBEATS}/{NAME}", b"")
    (heartbeat,) = list_heartbeats(root.store)
    with root.acquire_fence() as guard:
        pass
    with pytest.raises(ReadSetChanged):
        remove_dead_heartbeat(root.store, heartbeat, guard, lambda _: True)


def test_two_heartbeats_are_two(root):
    other = replace(root)
    with keep_heartbeat(root), keep_heartbeat(other):
        assert len(list_heartbeats(root.store)) == 2


@pytest.mark.parametrize("named", ["__writer.lock", "../../outside", "__maintenance/at_work/", "é"])
def test_a_pointer_leads_to_heartbeats_and_nowhere_else(root, named):
    root.store.put("__staging/work/heartbeat", named.encode())
    with pytest.raises(ManifestCorrupt, match="names no heartbeat"):
        continue_heartbeat(root, "__staging/work/heartbeat")
