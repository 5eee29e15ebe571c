"""Mutations as changes of a graph."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.constraints.evaluate import require_valid
from omnigraph.errors import BadRequest, ReadSetChanged
from omnigraph.execution.committed import CommittedRows
from omnigraph.execution.fill_vectors import WriteVectors, makes_vectors
from omnigraph.execution.mutate import MutationInput, MutationRun, run_mutation
from omnigraph.execution.pending import PendingTable
from omnigraph.execution.stage_changes import Placement, stage_tables
from omnigraph.graph.guard import Guard
from omnigraph.graph.keyed_writes import WriteKey, write_once
from omnigraph.graph.results import MutationResult
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.nodes import MutationPlan
from omnigraph.storage.names import normalize_branch
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.staged import Ticket
from omnigraph.types.parameters import coerce_parameters
from omnigraph.writer.change import CatalogSnapshot, Prepared
from omnigraph.writer.driver import Writer


@dataclass(frozen=True, slots=True)
class MutationRequest:
    """A mutation, as a caller asks for it."""

    source: SourceText
    name: str | None
    parameters: Mapping[str, object] | None
    branch: str
    actor_id: str | None
    expected_head: str | None
    key: WriteKey | None = None
    guard: Guard = field(default_factory=Guard)
    message: str | None = None


def commit_mutation(writer: Writer, request: MutationRequest) -> MutationResult:
    """Run one mutation as one commit."""
    settings = writer.branches.root.settings.embed
    is_costly = makes_vectors(settings, lambda: writer.branches.read_newest(request.branch).catalog)
    mutation = Mutation(request, is_costly=is_costly)
    if request.expected_head is not None:
        # A mistake in the text is reported as such, wherever the head is.
        mutation.bind(writer.branches.read_newest(request.branch))
    written = write_once(
        writer,
        mutation,
        mutation.describe,
        request.key,
        branch=request.branch,
        actor=request.actor_id,
        expected_head=request.expected_head,
        message=request.message,
    )
    answer = mutation.describe() if written.kept is None else written.kept.answer
    return MutationResult(
        branch=normalize_branch(request.branch),
        query_name=str(answer["query_name"]),
        affected_nodes=int(str(answer["affected_nodes"])),
        affected_edges=int(str(answer["affected_edges"])),
        actor_id=request.actor_id,
        commit=written.commit,
        is_replayed=written.kept is not None,
    )


class Mutation:
    """The statements of a mutation, run on whatever the branch is when they are prepared."""

    kind = WriterKind.MUTATION

    def __init__(self, request: MutationRequest, *, is_costly: bool = False) -> None:
        self._request, self.is_costly = request, is_costly
        self._given: MutationInput | None = None
        self.done: tuple[MutationPlan, MutationRun] | None = None

    @property
    def name(self) -> str:
        """What it is called, once it is prepared."""
        assert self.done is not None, "what was written was prepared"
        return self.done[0].name

    def bind(self, view: CatalogSnapshot) -> tuple[MutationPlan, MutationInput]:
        """The plan for the schema of a view, and what it is given."""
        plan = _plan(view, self._request)
        if self._given is None:
            # Taken once: a retry must not see another moment or other parameters.
            self._given = _make_input(view.snapshot.root, plan, self._request)
        return plan, self._given

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        plan, given = self.bind(view)
        committed = CommittedRows(view.snapshot)
        run = run_mutation(plan, view.catalog, committed, given)
        self.done = plan, run
        changes = run.pending.changes()
        if not changes:
            return None
        require_valid(changes, view.catalog, committed)
        placed = [
            (changes[key], _find_placement(run.pending.tables[key])) for key in sorted(changes)
        ]
        staged = stage_tables(view.snapshot, ticket, placed)
        return Prepared(staged) if staged else None

    def describe(self) -> Mapping[str, object]:
        """What it did, once it is prepared."""
        assert self.done is not None, "what was written was prepared"
        plan, run = self.done
        return {
            "query_name": plan.name,
            "affected_nodes": run.affected_nodes,
            "affected_edges": run.affected_edges,
        }

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        """Always: run on what is there now, it does what it would have done a moment later.

        It carries nothing over from the state it was first run on. Who decided by an earlier read
        says so with an expected head.
        """
        return True


def _plan(view: CatalogSnapshot, request: MutationRequest) -> MutationPlan:
    plan = compile_plan(request.source, view.catalog, request.name)
    if not isinstance(plan, MutationPlan):
        raise BadRequest(f"query '{plan.name}' only reads; run it with `query`")
    request.guard.check_mutation(plan, view, request.actor_id)
    return plan


def _make_input(root: GraphRoot, plan: MutationPlan, request: MutationRequest) -> MutationInput:
    declared = [(p.name, p.type) for p in plan.parameters]
    parameters = coerce_parameters(declared, request.parameters)
    microseconds = root.now_us() // 1_000 * 1_000
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    now = epoch + datetime.timedelta(microseconds=microseconds)
    return MutationInput(parameters, now, root.ids, WriteVectors(root.settings.embed))


def _find_placement(table: PendingTable) -> Placement:
    only_new = table.are_all_new and not len(table.deleted)
    return Placement.FRESH if only_new else Placement.UPSERT
