"""Idempotent writes: a write under a key is made once, and its result is returned again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from omnigraph.errors import (
    BadRequest,
    ConflictError,
    IdempotencyKeyReused,
    ManifestCorrupt,
    OmniError,
    OutcomeUnknown,
    ReadSetChanged,
    WriteNotFound,
)
from omnigraph.result import WriteResult
from omnigraph.storage.branch_requests import (
    KnownRequest,
    RequestRecord,
    begin_request,
    find_known_request,
    find_request,
    finish_request,
    name_request,
    withdraw_request,
)
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest import CommitRecord, with_commit
from omnigraph.storage.prepared_write import Ticket
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.write_plan import WriterKind
from omnigraph.struct_decoding import convert_into
from omnigraph.wire.write_results import RecordedWrite
from omnigraph.writer.change import BranchReader, CatalogSnapshot, Change, PlanContent, WriteOptions

if TYPE_CHECKING:
    from omnigraph.writer.driver import Writer

R = TypeVar("R", bound=WriteResult)

_MEMBER = "request"
"""The member of the details of a commit that holds the record."""
_MAX_KEY_LENGTH = 200


@dataclass(frozen=True, slots=True)
class WriteKey:
    """The key of a write; each actor has a namespace of its own."""

    key: str
    operation: str
    actor_id: str | None
    digest: str

    @classmethod
    def of(cls, options: WriteOptions, operation: str, *members: object) -> WriteKey | None:
        """Return the key of a write with a digest of the request; None without a key."""
        key = options.idempotency_key
        if key is None:
            return None
        if not 1 <= len(key) <= _MAX_KEY_LENGTH:
            raise BadRequest(f"an idempotency key has 1 to {_MAX_KEY_LENGTH} characters")
        digest = hashlib.sha256(operation.encode())
        for one in (options.branch.strip(), options.expected_head, options.message, *members):
            digest.update(one if isinstance(one, bytes) else msgspec.json.encode(one, enc_hook=str))
            digest.update(b"\0")
        return cls(key, operation, options.actor_id, digest.hexdigest())


class _WriteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a write under a key, stored in the details of its commit."""

    key: str
    operation: str
    digest: str
    answer: Mapping[str, Any]
    """The document of its result, without the commit."""


def write_once(
    writer: Writer,
    change: Change,
    options: WriteOptions,
    key: WriteKey | None,
    kind: type[R],
    describe: Callable[[], R],
) -> R:
    """Make a change and return its result, or that of the write made under its key before.

    Args:
        writer: The writer of the graph.
        change: The change.
        options: The branch, the actor, and the preconditions of the commit.
        key: The key of the write, if it has one.
        kind: The type of the result.
        describe: Returns the result without its commit, once the change is prepared.

    Raises:
        IdempotencyKeyReused: a different write was made under this key.
    """
    keyed = None if key is None else _KeyedChange(writer.branches, change, key, describe)
    found = find_result(writer.branches, options.branch, key, kind)
    if found is not None:
        return found
    try:
        published = writer.write(keyed or change, options)
    except ConflictError:
        # A concurrent write under this key may be the cause.
        found = find_result(writer.branches, options.branch, key, kind)
        if found is None:
            raise
        return found
    if keyed is not None and keyed.recorded is not None:
        return _replay(keyed.recorded, kind)
    return with_commit(describe(), published.commit if published else None)


class _KeyedChange:
    """A change that looks for its key first, and records it with its commit."""

    def __init__(
        self,
        branches: BranchReader,
        change: Change,
        key: WriteKey,
        describe: Callable[[], WriteResult],
    ) -> None:
        self._branches, self._change, self._key = branches, change, key
        self._describe = describe
        self.recorded: CommitRecord | None = None
        """The commit that was made under the key before."""

    @property
    def kind(self) -> WriterKind:
        return self._change.kind

    @property
    def is_costly(self) -> bool:
        return self._change.is_costly

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        self.recorded = _find(self._branches, view.snapshot, self._key)
        if self.recorded is not None:
            return None
        prepared = self._change.prepare(view, ticket)
        if prepared is None:
            return None
        key, answer = self._key, self._describe().wire()
        del answer["commit"]
        record = _WriteRecord(
            key=key.key, operation=key.operation, digest=key.digest, answer=answer
        )
        return replace(prepared, details={**prepared.details, _MEMBER: msgspec.to_builtins(record)})

    def may_retry(self, cause: ReadSetChanged) -> bool:
        return self._change.may_retry(cause)


def find_write(branches: BranchReader, key: str, actor: str | None, branch: str) -> RecordedWrite:
    """Return the write that an actor made on a branch under a key.

    Raises:
        WriteNotFound: there is none, or none that is finished.
    """
    commit = branches.find_commit(branches.read_newest(branch).snapshot, _is_of(key, actor))
    found = (
        find_request(branches.root.store, key, actor) if commit is None else _read_record(commit)
    )
    if found is None or found.answer is None:
        raise WriteNotFound(key)
    return RecordedWrite(
        key=found.key,
        operation=found.operation,
        commit=None if commit is None else commit.shown,
        answer=found.answer,
    )


def find_result(
    branches: BranchReader, branch: str, key: WriteKey | None, kind: type[R]
) -> R | None:
    """Return the result of the write made on a branch under this key, if there is one.

    Raises:
        IdempotencyKeyReused: a different write was made under this key.
    """
    if key is None:
        return None
    commit = _find(branches, branches.read_newest(branch).snapshot, key)
    return None if commit is None else _replay(commit, kind)


def _find(branches: BranchReader, snapshot: Snapshot, key: WriteKey) -> CommitRecord | None:
    commit = branches.find_commit(snapshot, _is_of(key.key, key.actor_id))
    if commit is not None and _read_record(commit).digest != key.digest:
        raise IdempotencyKeyReused(key.key, commit.commit_id)
    return commit


def _is_of(key: str, actor: str | None) -> Callable[[CommitRecord], bool]:
    def is_wanted(commit: CommitRecord) -> bool:
        record = commit.details.get(_MEMBER)
        return isinstance(record, Mapping) and record.get("key") == key and commit.actor_id == actor

    return is_wanted


def _replay(commit: CommitRecord, kind: type[R]) -> R:
    """Return the result recorded with a commit."""
    document = {**_read_record(commit).answer, "commit": None}
    result = with_commit(convert_into(document, kind), commit)
    return msgspec.structs.replace(result, is_replayed=True)


def _read_record(commit: CommitRecord) -> _WriteRecord:
    try:
        return convert_into(commit.details[_MEMBER], _WriteRecord)
    except msgspec.ValidationError as error:
        raise ManifestCorrupt(f"commit {commit.commit_id!r} has a malformed request") from error


Planned = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BranchRequest(Generic[R]):
    """A request to create, rename or delete a branch."""

    kind: type[R]
    """The type of its result."""
    plan: Callable[[], dict[str, str]]
    """Returns what distinguishes the branch from others of its name."""
    perform: Callable[[Planned], R]
    find_done: Callable[[Planned], R | None]
    """Returns the result if the request was carried out."""
    plan_again: Callable[[Planned], dict[str, str]] = dict
    """Returns the plan of the next attempt if it was not."""


def do_once(root: GraphRoot, key: WriteKey | None, request: BranchRequest[R]) -> R:
    """Carry out a request and return its result; under a key, once.

    Raises:
        IdempotencyKeyReused: a different request was made under this key.
    """
    if key is None:
        return request.perform({})
    result, is_replayed = _perform_once(root, key, request)
    return msgspec.structs.replace(result, is_replayed=is_replayed)


def _perform_once(root: GraphRoot, key: WriteKey, request: BranchRequest[R]) -> tuple[R, bool]:
    """Return the result, and whether it was recorded before."""
    while True:
        known = _find_known(root, key)
        if known is None or known.record.is_withdrawn:
            record = _make_record(root, key, request.plan())
            if begin_request(root.store, record, known):
                return _perform(root, record, request)
            continue  # a concurrent request began under this key
        done = _find_done(known.record, request)
        if done is not None:
            _finish(root, known.record, done)
            return done, True
        # It was interrupted, or another process is carrying it out.
        record = replace(known.record, planned=request.plan_again(known.record.planned))
        if record == known.record or begin_request(root.store, record, known):
            return _perform_or_find(root, record, request)


def _find_known(root: GraphRoot, key: WriteKey) -> KnownRequest | None:
    known = find_known_request(root.store, name_request(key.key, key.actor_id))
    is_used = known is not None and not known.record.is_withdrawn
    if known is not None and is_used and known.record.digest != key.digest:
        raise IdempotencyKeyReused(key.key)
    return known


def _find_done(record: RequestRecord, request: BranchRequest[R]) -> R | None:
    if record.answer is not None:
        return convert_into(record.answer, request.kind)
    return request.find_done(record.planned)


def _make_record(root: GraphRoot, key: WriteKey, planned: dict[str, str]) -> RequestRecord:
    return RequestRecord(
        name=name_request(key.key, key.actor_id),
        key=key.key,
        operation=key.operation,
        digest=key.digest,
        actor_id=key.actor_id,
        created_at=root.now_us(),
        planned=planned,
    )


def _perform(root: GraphRoot, record: RequestRecord, request: BranchRequest[R]) -> tuple[R, bool]:
    """Carry out a new request; another process that finds its record may be first."""
    try:
        return _perform_or_find(root, record, request)
    except OutcomeUnknown:
        raise
    except OmniError:
        with suppress(OmniError):  # a record that stays is continued by the next attempt
            withdraw_request(root, record)  # a refused request may be repeated
        raise


def _perform_or_find(
    root: GraphRoot, record: RequestRecord, request: BranchRequest[R]
) -> tuple[R, bool]:
    found = None
    try:
        done = request.perform(record.planned)
    except OmniError:
        found = _find_done(_read_again(root, record), request)
        if found is None:
            raise
        done = found
    _finish(root, record, done)
    return done, found is not None


def _read_again(root: GraphRoot, record: RequestRecord) -> RequestRecord:
    """Return the current record of a request; another process may carry it out."""
    known = find_known_request(root.store, record.name)
    return known.record if known and known.record.digest == record.digest else record


def _finish(root: GraphRoot, record: RequestRecord, done: object) -> None:
    finish_request(root.store, replace(record, answer=msgspec.to_builtins(done)))
