"""The lock of a cluster: a file that one operator creates and takes back.

It keeps operators out of each other's way; what protects the ledger is that it is only replaced by
whoever read it last. A lock of a dead process stays until somebody removes it by its id.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_layout import LOCK_FILE, show_control_path
from omnigraph.cluster.cluster_report import ClusterReport, refuse
from omnigraph.cluster.recovery_sidecars import encode_document
from omnigraph.cluster.state_ledger import read_clock
from omnigraph.errors import ClusterError, Severity, StorageError
from omnigraph.identity import UlidSource
from omnigraph.typed_reading import convert_into
from omnigraph.types.problems import ValueRefused
from omnigraph.types.strict_json import parse_json

LOCK_VERSION = 1
_PLACE = show_control_path(LOCK_FILE)
_ids = UlidSource()


class StateLock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is changing the cluster."""

    version: int = LOCK_VERSION
    lock_id: str
    operation: str
    created_at: str
    pid: int


def find_lock(files: ClusterFiles) -> StateLock | None:
    """The lock that is held, if one is.

    Raises:
        ClusterError: it cannot be read, or is not a lock.
    """
    try:
        data = files.control.find(LOCK_FILE)
    except StorageError as error:
        raise refuse("state_lock_read_error", _PLACE, error.message) from error
    if data is None:
        return None
    try:
        value = parse_json(data)
        version = value.get("version") if isinstance(value, dict) else None
        if isinstance(version, int) and version != LOCK_VERSION:
            message = f"the lock has version {version}; this release reads {LOCK_VERSION}"
            raise refuse("unsupported_state_lock_version", _PLACE, message)
        return convert_into(value, StateLock)
    except (ValueRefused, msgspec.ValidationError) as error:
        message = f"not a lock: {error}; if no operator is working, remove the file"
        raise refuse("invalid_state_lock", _PLACE, message) from None


@contextmanager
def hold_lock(
    files: ClusterFiles, operation: str, *, is_wanted: bool
) -> Iterator[StateLock | None]:
    """Keep other operators out for the duration of a block.

    Raises:
        ClusterError: somebody else holds the lock, or it cannot be taken.
    """
    lock = _take_lock(files, operation) if is_wanted else None
    try:
        yield lock
    finally:
        if lock is not None:
            _release_lock(files, lock)


def describe_lock(lock: StateLock) -> str:
    """Who holds a lock, and what to do if they are gone."""
    return (
        f"'{lock.operation}' of process {lock.pid} has held the lock {lock.lock_id} since "
        f"{lock.created_at}; if it is gone, run `omnigraph cluster force-unlock {lock.lock_id}`"
    )


def warn_of_lock(files: ClusterFiles, report: ClusterReport) -> StateLock | None:
    """The lock of somebody at work; whatever is wrong with it is a warning for those who read."""
    try:
        lock = find_lock(files)
    except ClusterError as error:
        for one in error.diagnostics:
            report.add(one.code, one.path, one.message, Severity.WARNING)
        return None
    if lock is not None:
        report.add("state_lock_held", _PLACE, describe_lock(lock), Severity.WARNING)
    return lock


def remove_lock(files: ClusterFiles, lock_id: str) -> StateLock:
    """Remove the lock of somebody who is gone.

    Raises:
        ClusterError: there is none, or it has another id.
    """
    lock = find_lock(files)
    if lock is None:
        raise refuse("state_lock_missing", _PLACE, "there is no lock to remove")
    if lock.lock_id != lock_id:
        message = f"the lock has the id {lock.lock_id}, not {lock_id}"
        raise refuse("state_lock_id_mismatch", _PLACE, message)
    _delete_lock(files)
    return lock


def _take_lock(files: ClusterFiles, operation: str) -> StateLock:
    lock = StateLock(
        lock_id=_ids.next(), operation=operation, created_at=read_clock(), pid=os.getpid()
    )
    try:
        is_ours = files.control.put_if_absent(LOCK_FILE, encode_document(lock))
    except StorageError as error:
        # It may be ours all the same, and the answer was lost.
        if not _is_held(files, lock):
            raise refuse("state_lock_error", _PLACE, error.message) from error
        return lock
    if not is_ours:
        held = find_lock(files)
        message = describe_lock(held) if held else "another operator just had the lock; try again"
        raise refuse("state_lock_held", _PLACE, message)
    return lock


def _release_lock(files: ClusterFiles, lock: StateLock) -> None:
    """Take our own lock back; one that is not ours any more is left alone."""
    if _is_held(files, lock):
        _delete_lock(files)


def _is_held(files: ClusterFiles, lock: StateLock) -> bool:
    """Whether the lock that is held is this one; one that cannot be read is somebody else's."""
    try:
        held = find_lock(files)
    except ClusterError:
        return False
    return held is not None and held.lock_id == lock.lock_id


def _delete_lock(files: ClusterFiles) -> None:
    try:
        files.control.delete(LOCK_FILE)
    except StorageError as error:
        raise refuse("state_lock_error", _PLACE, error.message) from error
