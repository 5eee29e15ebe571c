"""Running mutations: prepare on a snapshot, commit, and prepare again when that is safe."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.constraints.evaluate import require_valid
from omnigraph.errors import BadRequest, PreconditionFailed, ReadSetChanged
from omnigraph.execution.committed import CommittedRows
from omnigraph.execution.mutate import MutationInput, MutationRun, run_mutation
from omnigraph.execution.pending import PendingTable
from omnigraph.execution.stage import Placement, stage_tables
from omnigraph.graph.preparing import MAX_PREPARATIONS, CommitWindow, prepared_on
from omnigraph.graph.results import MutationResult
from omnigraph.graph.view import View, Views
from omnigraph.identity import CommitId
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.nodes import InsertEntity, MutationPlan
from omnigraph.storage.publish import Published
from omnigraph.storage.recovery.intent import WriterKind
from omnigraph.storage.write import (
    NO_ROW_CHANGED,
    WriteRequest,
    commit_write,
    mint_ticket,
    revalidate,
)
from omnigraph.types.parameters import coerce_parameters


@dataclass(frozen=True, slots=True)
class MutationRequest:
    source: SourceText
    name: str | None
    parameters: Mapping[str, object] | None
    branch: str
    actor_id: str | None
    expected_head: str | None


def mutate(views: Views, request: MutationRequest) -> MutationResult:
    """Run one mutation as one commit.

    A mutation of inserts alone is prepared again when the branch moved meanwhile; one that read
    rows to change them is not, because what it read may be what changed.
    """
    given: MutationInput | None = None
    with CommitWindow(views.root) as window:
        for attempt in range(MAX_PREPARATIONS):
            view = views.newest(request.branch)
            plan = _plan(view, request)
            if given is None:
                # Taken once: a retry must not see another moment or other parameters.
                given = _input(views, plan, request)
            _check_head(view, request)
            try:
                with prepared_on(view.snapshot):
                    run = run_mutation(plan, view.catalog, CommittedRows(view.snapshot), given)
                    published = _commit(view, run, request, window)
            except ReadSetChanged as change:
                if not _may_retry(plan, request, change) or attempt + 1 == MAX_PREPARATIONS:
                    raise
                window.lost()
                continue
            if published is not None:
                views.remember(view.snapshot.ref, window.conclude(view.snapshot, published))
            return _result(view, plan, run, request, published)
    raise AssertionError("the last attempt returns or raises")


def _plan(view: View, request: MutationRequest) -> MutationPlan:
    plan = compile_plan(request.source, view.catalog, request.name)
    if not isinstance(plan, MutationPlan):
        raise BadRequest(f"query '{plan.name}' only reads; run it with `query`")
    return plan


def _input(views: Views, plan: MutationPlan, request: MutationRequest) -> MutationInput:
    declared = [(p.name, p.type) for p in plan.parameters]
    parameters = coerce_parameters(declared, request.parameters)
    microseconds = views.root.now_us() // 1_000 * 1_000
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    now = epoch + datetime.timedelta(microseconds=microseconds)
    return MutationInput(parameters, now, views.root.ids)


def _check_head(view: View, request: MutationRequest) -> None:
    if request.expected_head is not None and view.snapshot.head != request.expected_head:
        snapshot = view.snapshot
        raise PreconditionFailed(snapshot.branch, request.expected_head, snapshot.head)


def _may_retry(plan: MutationPlan, request: MutationRequest, change: ReadSetChanged) -> bool:
    only_inserts = all(isinstance(s, InsertEntity) for s in plan.statements)
    return change.member in NO_ROW_CHANGED or (only_inserts and request.expected_head is None)


def _commit(
    view: View, run: MutationRun, request: MutationRequest, window: CommitWindow
) -> Published | None:
    snapshot = view.snapshot
    expected = None if request.expected_head is None else CommitId(request.expected_head)
    changes = run.pending.changes()
    if not changes:
        if expected is not None:
            revalidate(snapshot, expected)
        return None
    require_valid(changes, view.catalog, CommittedRows(snapshot))
    ticket = mint_ticket(snapshot)
    placed = [(changes[key], _placement(run.pending.tables[key])) for key in sorted(changes)]
    staged = stage_tables(snapshot, ticket, placed)
    if not staged:
        return None
    write = WriteRequest(snapshot, ticket, WriterKind.MUTATION, staged, request.actor_id, expected)
    return commit_write(write, window.hold)


def _placement(table: PendingTable) -> Placement:
    only_new = table.are_all_new and not len(table.deleted)
    return Placement.FRESH if only_new else Placement.UPSERT


def _result(
    view: View,
    plan: MutationPlan,
    run: MutationRun,
    request: MutationRequest,
    published: Published | None,
) -> MutationResult:
    return MutationResult(
        branch=view.snapshot.branch,
        query_name=plan.name,
        affected_nodes=run.affected_nodes,
        affected_edges=run.affected_edges,
        actor_id=request.actor_id,
        commit=published.commit if published else None,
    )
