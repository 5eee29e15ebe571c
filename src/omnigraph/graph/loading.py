"""Loading records as one commit, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from omnigraph.constraints.evaluate import require_valid
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    KeyConflict,
    PreconditionFailed,
    ReadSetChanged,
)
from omnigraph.execution.committed import CommittedRows
from omnigraph.execution.load import LoadMode, LoadPlan, parse_records, plan_load
from omnigraph.execution.stage import stage_tables
from omnigraph.graph.mutating import MAX_PREPARATIONS
from omnigraph.graph.results import LoadResult
from omnigraph.graph.view import View, Views
from omnigraph.identity import CommitId, EntityKind, TableKey
from omnigraph.storage import branches
from omnigraph.storage.names import normalize_branch
from omnigraph.storage.publish import Published
from omnigraph.storage.recovery.intent import WriterKind
from omnigraph.storage.refs import find_ref
from omnigraph.storage.write import WriteRequest, commit_write, drop_forks, mint_ticket

REPORTED_PROBLEMS = 100

Records = str | Path | bytes | Iterable[Mapping[str, object]]
"""A file of JSON lines, its content, or the records themselves."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    data: bytes
    file: str | None
    mode: LoadMode
    branch: str
    base: str | None
    actor_id: str | None
    expected_head: str | None


def read_records(records: Records) -> tuple[bytes, str | None]:
    """The bytes of the input, and the name errors should give it."""
    if isinstance(records, bytes):
        return records, None
    if isinstance(records, str | Path):
        try:
            return Path(records).read_bytes(), str(records)
        except OSError as error:
            raise BadRequest(f"cannot read {records}: {error.strerror or error}") from error
    return msgspec.json.Encoder().encode_lines(list(records)), None


def load(views: Views, request: LoadRequest) -> LoadResult:
    """Load every record or none.

    Appends and merges are prepared again when the branch moved meanwhile; an overwrite is not.
    """
    created = _ensure_branch(views, request)
    for attempt in range(MAX_PREPARATIONS):
        view = views.newest(request.branch)
        if request.expected_head is not None and view.snapshot.head != request.expected_head:
            snapshot = view.snapshot
            raise PreconditionFailed(snapshot.branch, request.expected_head, snapshot.head)
        parsed = parse_records(request.data, view.catalog, request.file, REPORTED_PROBLEMS)
        committed = CommittedRows(view.snapshot)
        plan = plan_load(
            parsed, view.catalog, request.mode, committed, views.root.ids, request.file
        )
        require_valid(plan.table_changes(), view.catalog, committed)
        try:
            published = _commit(view, plan, request)
        except ReadSetChanged:
            retryable = request.mode is not LoadMode.OVERWRITE and request.expected_head is None
            if retryable and attempt + 1 < MAX_PREPARATIONS:
                continue
            raise
        views.remember(view.snapshot.ref, published.manifest)
        return _result(view, plan, request, published, created=created)
    raise AssertionError("the last attempt returns or raises")


def _ensure_branch(views: Views, request: LoadRequest) -> bool:
    """Create the branch if it is missing and a base was given; tells whether it did."""
    name = normalize_branch(request.branch)
    if find_ref(views.root.store, name) is not None:
        return False
    if request.base is None:
        raise BranchNotFound(name)
    branches.create(views.newest(request.base).snapshot, name, request.actor_id)
    return True


def _commit(view: View, plan: LoadPlan, request: LoadRequest) -> Published:
    snapshot = view.snapshot
    expected = None if request.expected_head is None else CommitId(request.expected_head)
    ticket = mint_ticket(snapshot)
    changes = [plan.changes[key] for key in sorted(plan.changes)]
    try:
        staged = stage_tables(snapshot, ticket, changes)
    except KeyConflict as conflict:
        raise _with_line(conflict, plan) from conflict
    write = WriteRequest(snapshot, ticket, WriterKind.LOAD, staged, request.actor_id, expected)
    try:
        return commit_write(write)
    except ReadSetChanged:
        drop_forks(snapshot, staged)
        raise


def _with_line(conflict: KeyConflict, plan: LoadPlan) -> KeyConflict:
    """The conflict with the line of the record that caused it."""
    found = plan.changes.get(TableKey(conflict.table_key))
    if found is None or conflict.line is not None or conflict.id is None:
        return conflict
    change = found[0]
    at = change.ids.index(conflict.id).as_py()
    line = change.lines[at].as_py() if at >= 0 and change.lines is not None else None
    return KeyConflict(conflict.table_key, conflict.id, line)


def _result(
    view: View, plan: LoadPlan, request: LoadRequest, published: Published, *, created: bool
) -> LoadResult:
    assert published.commit is not None, "a load always commits"
    counts: dict[EntityKind, dict[str, int]] = {EntityKind.NODE: {}, EntityKind.EDGE: {}}
    for key, count in plan.counts.items():
        kind, _, name = key.partition(":")
        counts[EntityKind(kind)][name] = count
    return LoadResult(
        branch=view.snapshot.branch,
        base_branch=request.base,
        branch_created=created,
        mode=str(request.mode),
        engine="local",
        nodes=counts[EntityKind.NODE],
        edges=counts[EntityKind.EDGE],
        actor_id=request.actor_id,
        commit=published.commit,
    )
