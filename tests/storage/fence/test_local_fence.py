"""The lock file: its content, its damage, and where it is not supported."""

from __future__ import annotations

import errno
import fcntl
import json
import os

import pytest

from omnigraph.errors import ReadSetChanged, StorageFailure, StorageKind, WriterBusy
from omnigraph.storage.layout import WRITER_LOCK, WRITER_QUEUE_LOCK
from omnigraph.storage.local_fence import LocalFence, find_exclusion_problem
from omnigraph.storage.writer_fence import Holder


def test_the_lock_file_says_who_holds_it_and_stays(tmp_path):
    fence = LocalFence(tmp_path, holder=Holder("me", "here", 7))
    with fence.acquire(0):
        record = json.loads((tmp_path / WRITER_LOCK).read_text())
        assert record["holder"] == {"id": "me", "host": "here", "pid": 7}
        assert record["epoch"] == 1
    assert json.loads((tmp_path / WRITER_LOCK).read_text())["holder"] is None


def test_epochs_grow_from_hold_to_hold(tmp_path):
    epochs = []
    for _ in range(3):
        with LocalFence(tmp_path).acquire(0) as guard:
            epochs.append(guard.epoch)
    assert epochs == [1, 2, 3]


def test_a_lock_held_elsewhere_is_waited_for_and_named(tmp_path):
    now, pauses = [0.0], []

    def sleep(seconds):
        pauses.append(seconds)
        now[0] += seconds

    with (tmp_path / WRITER_LOCK).open("w") as other:
        other.write(json.dumps({"epoch": 4, "holder": None, "since": ""}))
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(WriterBusy) as raised:
            LocalFence(tmp_path, clock=lambda: now[0], sleep=sleep).acquire(2)
        assert raised.value.waited_s == 2
        assert len(set(pauses)) > 100
    with LocalFence(tmp_path).acquire(0) as guard:
        assert guard.epoch == 5


@pytest.mark.parametrize("content", [b"", b"\0" * 1024, b'{"epoch": 3, "hol', b"[1]"])
def test_a_damaged_record_does_not_stop_writers(tmp_path, content):
    (tmp_path / WRITER_LOCK).write_bytes(content)
    with LocalFence(tmp_path).acquire(0) as guard:
        guard.check()
        assert guard.took_over == bool(content.strip(b"\0"))
    with LocalFence(tmp_path).acquire(0) as guard:
        assert not guard.took_over


def test_the_record_of_a_dead_writer_is_distinguished_from_our_own(tmp_path):
    ours, other = LocalFence(tmp_path), LocalFence(tmp_path)
    with ours.acquire(0) as guard:
        assert guard.epoch == 1
    with other.acquire(0):
        unfinished = (tmp_path / WRITER_LOCK).read_bytes()
    (tmp_path / WRITER_LOCK).write_bytes(unfinished)
    with ours.acquire(0) as guard:
        assert (guard.epoch, guard.took_over) == (3, True)
    with ours.acquire(0) as guard:
        assert (guard.epoch, guard.took_over) == (4, False)


def test_a_lock_file_that_was_replaced_is_a_lost_fence(tmp_path):
    with LocalFence(tmp_path).acquire(0) as guard:
        (tmp_path / WRITER_LOCK).unlink()
        with pytest.raises(ReadSetChanged, match="writer_fence"):
            guard.check()
        (tmp_path / WRITER_LOCK).write_bytes(b"")
        with pytest.raises(ReadSetChanged, match="writer_fence"):
            guard.check()


def test_a_deleted_root_is_a_typed_failure_and_frees_the_turn(tmp_path):
    fence = LocalFence(tmp_path / "gone")
    for _ in range(2):
        with pytest.raises(StorageFailure) as raised:
            fence.acquire(0)
        assert raised.value.kind is StorageKind.NOT_FOUND


def test_a_file_system_that_excludes_passes_the_self_test(tmp_path):
    assert find_exclusion_problem(tmp_path) is None
    with (tmp_path / WRITER_QUEUE_LOCK).open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert find_exclusion_problem(tmp_path) is None


def test_a_file_system_that_lets_two_handles_in_fails_the_self_test(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    assert "two handles" in find_exclusion_problem(tmp_path)


def test_a_file_system_without_locks_fails_the_self_test(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert "no file locks" in find_exclusion_problem(tmp_path)
