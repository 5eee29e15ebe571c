"""Writes that are made once, however often they are sent.

A write may be given an idempotency key. The key is kept with the commit, together with a digest of
what was asked and with the answer: whoever did not get the answer sends the write again, or looks
it up. A commit that comes between the look and the publish moves the branch, and then the write is
prepared again and finds it; so two writes with one key never both become commits of a branch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from omnigraph.errors import (
    BadRequest,
    ConflictError,
    IdempotencyKeyReused,
    ReadSetChanged,
    WriteNotFound,
)
from omnigraph.storage.manifest import Commit
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.request_records import find_request
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import Ticket
from omnigraph.writer.change import BranchReader, CatalogSnapshot, Change, Prepared
from omnigraph.writer.driver import Writer

_MEMBER = "request"
"""The member of a commit's details."""
_LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class WriteKey:
    """The key of a write. Keys of different actors have nothing to do with each other."""

    key: str
    operation: str
    actor: str | None
    digest: str

    @classmethod
    def of(
        cls, key: str | None, operation: str, actor: str | None, *asked: object
    ) -> WriteKey | None:
        """The key of a write that asks for this; None without one."""
        if key is None:
            return None
        if not 1 <= len(key) <= _LONGEST_KEY:
            raise BadRequest(f"an idempotency key has 1 to {_LONGEST_KEY} characters")
        digest = hashlib.sha256(operation.encode())
        for one in asked:
            digest.update(one if isinstance(one, bytes) else msgspec.json.encode(one, enc_hook=str))
            digest.update(b"\0")
        return cls(key, operation, actor, digest.hexdigest())


@dataclass(frozen=True, slots=True)
class KeptWrite:
    """A write that was made under a key: what it was answered, and its commit if it made one."""

    key: str
    operation: str
    digest: str
    answer: Mapping[str, object]
    commit: Commit | None

    def wire(self) -> dict[str, object]:
        return {
            "key": self.key,
            "operation": self.operation,
            "commit": self.commit.wire() if self.commit else None,
            "answer": dict(self.answer),
        }


@dataclass(frozen=True, slots=True)
class KeyedWrite:
    """What became of a write: a commit, none, or one that was made before."""

    commit: Commit | None
    kept: KeptWrite | None = None


def write_once(
    writer: Writer,
    change: Change,
    describe: Callable[[], Mapping[str, object]],
    key: WriteKey | None,
    *,
    branch: str,
    actor: str | None,
    expected_head: str | None,
    message: str | None,
) -> KeyedWrite:
    """Make a change, or find the commit that was made under its key before.

    Args:
        writer: What makes it.
        change: The change.
        describe: The answer, once the change is prepared.
        key: Its key, if it has one.
        branch: The branch to change.
        actor: Who the commit is recorded for.
        expected_head: Only if the branch is at this commit.
        message: What is said about it; kept with the commit.

    Raises:
        IdempotencyKeyReused: something else was asked for under this key.
    """
    if key is None:
        published = writer.write(
            change, branch=branch, actor=actor, expected_head=expected_head, message=message
        )
        return KeyedWrite(published.commit if published else None)
    branches = writer.branches
    kept = _find(branches, branches.read_newest(branch).snapshot, key)
    if kept is not None:
        return KeyedWrite(kept.commit, kept)
    keyed = _KeyedChange(branches, change, key, describe)
    try:
        published = writer.write(
            keyed, branch=branch, actor=actor, expected_head=expected_head, message=message
        )
    except ConflictError:
        # The other one with this key may be what came in between.
        kept = _find(branches, branches.read_newest(branch).snapshot, key)
        if kept is None:
            raise
        return KeyedWrite(kept.commit, kept)
    if keyed.kept is not None:
        return KeyedWrite(keyed.kept.commit, keyed.kept)
    return KeyedWrite(published.commit if published else None)


class _KeyedChange:
    """A change that looks for its key first, and leaves it with its commit."""

    def __init__(
        self,
        branches: BranchReader,
        change: Change,
        key: WriteKey,
        describe: Callable[[], Mapping[str, object]],
    ) -> None:
        self._branches, self._change, self._key = branches, change, key
        self._describe = describe
        self.kept: KeptWrite | None = None

    @property
    def kind(self) -> WriterKind:
        return self._change.kind

    @property
    def is_costly(self) -> bool:
        return self._change.is_costly

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        self.kept = _find(self._branches, view.snapshot, self._key)
        if self.kept is not None:
            return None
        prepared = self._change.prepare(view, ticket)
        if prepared is None:
            return None
        key = self._key
        record = {
            "key": key.key,
            "operation": key.operation,
            "digest": key.digest,
            "answer": dict(self._describe()),
        }
        return replace(prepared, details={**prepared.details, _MEMBER: record})

    def may_retry(self, cause: ReadSetChanged) -> bool:
        return self._change.may_retry(cause)


def find_write(branches: BranchReader, key: str, actor: str | None, branch: str) -> KeptWrite:
    """The write an actor made on a branch under a key.

    Raises:
        WriteNotFound: there is none: nothing was made, or not yet.
    """
    commit = branches.find_commit(branches.read_newest(branch).snapshot, _is_of(key, actor))
    if commit is not None:
        return _decode(commit)
    record = find_request(branches.root.store, key, actor)
    if record is None or record.answer is None:
        raise WriteNotFound(key)
    return KeptWrite(record.key, record.operation, record.digest, record.answer, None)


def find_kept(branches: BranchReader, branch: str, key: WriteKey | None) -> KeptWrite | None:
    """The write that was made on a branch under this key, if there is one."""
    return None if key is None else _find(branches, branches.read_newest(branch).snapshot, key)


def _find(branches: BranchReader, snapshot: Snapshot, key: WriteKey) -> KeptWrite | None:
    commit = branches.find_commit(snapshot, _is_of(key.key, key.actor))
    kept = None if commit is None else _decode(commit)
    if kept is not None and kept.digest != key.digest:
        raise IdempotencyKeyReused(key.key, kept.commit.commit_id if kept.commit else None)
    return kept


def _is_of(key: str, actor: str | None) -> Callable[[Commit], bool]:
    def is_wanted(commit: Commit) -> bool:
        record = commit.details.get(_MEMBER)
        return isinstance(record, Mapping) and record.get("key") == key and commit.actor_id == actor

    return is_wanted


def _decode(commit: Commit) -> KeptWrite:
    record = commit.details[_MEMBER]
    assert isinstance(record, Mapping), "it was found by its key"
    answer = record.get("answer")
    return KeptWrite(
        key=str(record.get("key")),
        operation=str(record.get("operation")),
        digest=str(record.get("digest")),
        answer=answer if isinstance(answer, Mapping) else {},
        commit=commit,
    )
