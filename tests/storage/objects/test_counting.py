"""Observing writes, and ending a process at an exact write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.systems.small_graph import CountingStore
from omnigraph.storage.objects.object_store import install_observer
from omnigraph.storage.objects.open_store import ObservedStore, open_store
from storage.memory_store import MemoryObjectStore

WORKER = Path(__file__).with_name("store_kill_worker.py")


class Recorder:
    def __init__(self):
        self.seen = []

    def before(self, action, path):
        self.seen.append(("before", action, path))

    def after(self, action, path):
        self.seen.append(("after", action, path))


def test_calls_are_counted_by_kind_and_refused_writes_are_not_durable():
    recorder = Recorder()
    counting = CountingStore(MemoryObjectStore())
    store = ObservedStore(counting, recorder)
    store.put("a", b"")
    store.put_if_absent("a", b"")
    store.find("a")
    store.find("b")
    store.delete("a")
    assert counting.calls == {"put": 1, "put_if_absent": 1, "find": 2, "delete": 1}
    assert [moment for moment, _, _ in recorder.seen].count("after") == 2


def test_an_observer_hears_of_a_write_before_it_and_after_its_effect():
    recorder = Recorder()
    store = ObservedStore(MemoryObjectStore(), recorder)
    store.put_if_absent("a", b"")
    store.put_if_absent("a", b"")
    assert recorder.seen == [
        ("before", "put_if_absent", "a"),
        ("after", "put_if_absent", "a"),
        ("before", "put_if_absent", "a"),
    ]


def test_a_store_is_observed_only_while_an_observer_is_installed(tmp_path):
    recorder = Recorder()
    install_observer(recorder)
    try:
        open_store(str(tmp_path)).put("a", b"")
    finally:
        install_observer(None)
    open_store(str(tmp_path)).put("b", b"")
    assert [path for _, _, path in recorder.seen] == ["a", "a"]


@pytest.mark.parametrize(
    ("writes", "left", "printed"),
    [
        (0, {}, ""),
        (1, {"1": b""}, ""),
        (2, {"1": b"", "2": b""}, ""),
        (3, {"1": b"", "2": b"changed"}, ""),
        (4, {"2": b"changed"}, ""),
        (5, {"2": b"changed"}, "committed\n"),
        (6, {"2": b"changed"}, "committed\ndone\n"),
    ],
)
def test_a_process_ends_after_exactly_so_many_writes(tmp_path, writes, left, printed):
    done = subprocess.run(
        [sys.executable, str(WORKER), str(tmp_path), str(writes)],
        env=os.environ | {"PYTHONPATH": str(WORKER.parents[2])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == (0 if writes == 6 else -signal.SIGKILL), done.stderr
    assert done.stdout == printed
    store = open_store(str(tmp_path))
    assert {name: store.get(name) for name in store.list("")} == left
