"""Revert, cherry-pick and restore: new commits of a branch, made from its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BadRequest,
    CommitHasNoParent,
    MergeConflicts,
    ReadSetChanged,
    SchemaContractMismatch,
)
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.engines import GranularityName
from omnigraph.graph.merges import ConflictOptions, list_row_counts, load_decisions
from omnigraph.graph.open_graph import GraphHandle
from omnigraph.graph.revisions import RevisionLike, find_commit, format_revision, resolve_revision
from omnigraph.identity import CommitId
from omnigraph.policy.decision import Action
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.manifest import CommitRecord
from omnigraph.storage.prepared_write import Ticket
from omnigraph.storage.refs import find_ref
from omnigraph.storage.write_plan import WriterKind
from omnigraph.wire.merge_results import ApplyOutcome, ApplyResult, list_conflicts, with_conflicts
from omnigraph.writer.change import CatalogSnapshot, PlanContent, WriteOptions

if TYPE_CHECKING:
    from omnigraph.graph.idempotency import WriteKey
    from omnigraph.history.ancestry import PastState, PastStates
    from omnigraph.history.conflict_report import ConflictWords
    from omnigraph.history.merge_plan import StatePlan
    from omnigraph.writer.driver import Writer


class UndoVerbs(GraphHandle):
    """The verbs that revert, pick and restore commits."""

    def revert(
        self,
        commit: RevisionLike,
        *,
        branch: str | None = None,
        parent: int | None = None,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        granularity: GranularityName = "property",
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ApplyResult:
        """Undo the changes of one commit, as a new commit; later changes stay.

        A later change of the same rows is a conflict, decided as in a merge: `theirs` and
        `source` are the state before the commit, `ours` and `target` the current one.

        Args:
            commit: An id or a prefix of it, a tag or any other revision that names a commit.
            branch: The branch to change.
            parent: Of a merge, the parent its changes are relative to: 1 is the branch it was
                merged into, 2 the merged one.
            dry_run: Report the changes and the conflicts; write nothing.
            resolve: Rules that decide conflicts; see `merge`.
            decisions: Decisions about single conflicts; see `merge`.
            granularity: `property` or `entity`; see `merge`.
            expected_head: The commit the branch must be at.
            actor: The actor the new commit is recorded for.
            message: The message of the new commit.
            idempotency_key: The key under which the write is made once.

        Raises:
            MergeConflicts: a later commit changed the same, and no rule or decision resolves it.

        >>> _ = graph.mutate('query q() { insert Person { name: "Cy" } }')
        >>> _ = graph.mutate('query q() { insert Person { name: "Di" } }')
        >>> str(graph.revert(graph.commits()[1].commit_id).outcome)
        'reverted'
        >>> sorted(graph.nodes("Person").to_arrow()["name"].to_pylist())
        ['Ada', 'Ben', 'Di']
        """
        options = self._make_write_options(branch, actor, message, expected_head, idempotency_key)
        conflicts = ConflictOptions(resolve, load_decisions(decisions), granularity)
        request = ApplyRequest(
            _REVERT, format_revision(commit), options, parent, conflicts, dry_run
        )
        return self._apply(request)

    def cherry_pick(
        self,
        commit: RevisionLike,
        *,
        branch: str | None = None,
        parent: int | None = None,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        granularity: GranularityName = "property",
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ApplyResult:
        """Apply the changes of a commit of any branch to this branch, as a new commit.

        The parameters are those of `revert`; `theirs` and `source` are the state after the commit.

        Raises:
            MergeConflicts: the branch conflicts with the commit, and no rule resolves it.

        >>> _ = graph.create_branch("review")
        >>> review = graph.branch("review")
        >>> _ = review.mutate('query q() { insert Person { name: "Cy" } }')
        >>> _ = review.mutate('query q() { insert Person { name: "Di" } }')
        >>> str(graph.cherry_pick(review.commits()[0].commit_id).outcome)
        'cherry_picked'
        >>> sorted(graph.nodes("Person").to_arrow()["name"].to_pylist())
        ['Ada', 'Ben', 'Di']
        """
        options = self._make_write_options(branch, actor, message, expected_head, idempotency_key)
        conflicts = ConflictOptions(resolve, load_decisions(decisions), granularity)
        request = ApplyRequest(
            _CHERRY_PICK, format_revision(commit), options, parent, conflicts, dry_run
        )
        return self._apply(request)

    def restore(
        self,
        revision: RevisionLike,
        *,
        branch: str | None = None,
        dry_run: bool = False,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ApplyResult:
        """Set a branch to an earlier state, as a new commit; no commit is lost.

        Args:
            revision: A commit, a prefix of its id, a tag, a time, or any other revision; see `at`.
            branch: The branch to change; versions and times are those of this branch.
            dry_run: Report the changes; write nothing.
            expected_head: The commit the branch must be at.
            actor: The actor the new commit is recorded for.
            message: The message of the new commit.
            idempotency_key: The key under which the write is made once.

        >>> _ = graph.tag("before")
        >>> _ = graph.mutate('query q() { delete Person where name = "Ben" }')
        >>> str(graph.restore("before").outcome), len(graph.nodes("Person"))
        ('restored', 2)
        """
        options = self._make_write_options(branch, actor, message, expected_head, idempotency_key)
        return self._apply(
            ApplyRequest(_RESTORE, format_revision(revision), options, dry_run=dry_run)
        )

    def _apply(self, request: ApplyRequest) -> ApplyResult:
        """Apply a commit if the actor may change the branch and read that of the commit."""
        from omnigraph.graph.idempotency import find_result

        views, branch, actor = self._open.views, request.options.branch, request.options.actor_id
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        if not request.dry_run:
            # Before the commit is resolved: the revision may name another commit by now.
            found = find_result(views, branch, request.key, ApplyResult)
            if found is not None:
                return found
        if self.policy is not None:
            if request.operation is _RESTORE:  # accepts any revision, and names a missing one
                resolve_revision(views, request.commit, branch)
            authored = find_commit(views, request.commit, branch).branch
            self._guard.allow(Action.READ, branch=authored, actor=actor)
        if not request.dry_run:
            self._open.require_writable()
        with self._hiding_conflicts(branch, actor):
            result = apply_commit(views, self._open.writer, request)
        return with_conflicts(result, self._hide_values(result.conflicts, branch, actor))


@dataclass(frozen=True, slots=True)
class _Operation:
    kind: WriterKind
    doing: str
    name: str
    outcome: ApplyOutcome

    @property
    def words(self) -> ConflictWords:
        """The words that describe its conflicts."""
        from omnigraph.history import conflict_report

        if self.kind is WriterKind.REVERT:
            return conflict_report.REVERT_WORDS
        is_pick = self.kind is WriterKind.CHERRY_PICK
        return conflict_report.CHERRY_PICK_WORDS if is_pick else conflict_report.MERGE_WORDS


_REVERT = _Operation(WriterKind.REVERT, "reverting", "revert", ApplyOutcome.REVERTED)
_CHERRY_PICK = _Operation(
    WriterKind.CHERRY_PICK, "cherry-picking", "cherry_pick", ApplyOutcome.CHERRY_PICKED
)
_RESTORE = _Operation(WriterKind.RESTORE, "restoring", "restore", ApplyOutcome.RESTORED)


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """A request to apply a commit to the branch of the options; `commit` is any revision."""

    operation: _Operation
    commit: str
    options: WriteOptions
    parent: int | None = None
    """The parent of a merge its changes are relative to: 1 or 2."""
    conflicts: ConflictOptions = field(default_factory=ConflictOptions)
    dry_run: bool = False

    @property
    def key(self) -> WriteKey | None:
        """The key, with all that distinguishes two requests to a branch."""
        from omnigraph.graph.idempotency import WriteKey

        members = (self.commit.strip(), self.parent, *self.conflicts.identity)
        return WriteKey.of(self.options, self.operation.name, *members)


def apply_commit(views: BranchSnapshots, writer: Writer, request: ApplyRequest) -> ApplyResult:
    """Revert, pick or restore a commit, as a new commit of a branch.

    Raises:
        MergeConflicts: the branch contradicts the commit, and no rule decides.
        SchemaContractMismatch: the commit changed the schema, or the branch has another schema of
            the types that the commit wrote.
    """
    from omnigraph.graph.idempotency import write_once

    change = _make_change(views, request)
    if request.dry_run:
        views.with_newest(request.options.branch, change.plan_on)
        return change.describe()
    return write_once(writer, change, request.options, request.key, ApplyResult, change.describe)


def _make_change(views: BranchSnapshots, request: ApplyRequest) -> CommitChange:
    if request.operation is _RESTORE:
        return _make_restore(views, request)
    commit, parent = _find_commit_and_parent(views, request)
    is_revert = request.operation is _REVERT
    base, source = (commit, parent) if is_revert else (parent, commit)
    return CommitChange(views, request, commit.commit_id, base=base, source=source)


def _make_restore(views: BranchSnapshots, request: ApplyRequest) -> CommitChange:
    from omnigraph.history.ancestry import PastState
    from omnigraph.history.merge_plan import require_one_schema

    view = resolve_revision(views, request.commit, request.options.branch).view
    require_one_schema(view, views.read_newest(request.options.branch))
    head = view.snapshot.head
    assert head is not None, "a graph is created with a commit"
    state = PastState(head, view.snapshot.entries)
    return CommitChange(views, request, head, base=None, source=state)


# --- states ---------------------------------------------------------------------------------------


def _find_commit_and_parent(
    views: BranchSnapshots, request: ApplyRequest
) -> tuple[PastState, PastState]:
    """Return the states right after a commit and before it."""
    commit = find_commit(views, request.commit, request.options.branch)
    _require_no_schema_change(commit)
    parent = _choose_parent(commit, request.parent)
    past = _collect_past(views, commit.commit_id, views.read_newest(request.options.branch))
    return past.read(commit.commit_id), past.read(parent)


def _require_no_schema_change(commit: CommitRecord) -> None:
    """Raise if a commit changed the schema: only rows are applied."""
    recorded = commit.details.get("schema")
    if isinstance(recorded, dict):
        raise SchemaContractMismatch(
            f"commit {commit.commit_id} changed the schema of branch '{commit.branch}' "
            f"({', '.join(recorded['steps'])}), which is neither undone nor repeated this way; "
            "apply the schema you want instead"
        )


def _collect_past(
    views: BranchSnapshots, commit_id: CommitId, target: CatalogSnapshot
) -> PastStates:
    """Return the ancestors of a commit and of a branch."""
    from omnigraph.history.ancestry import PastStates

    snapshot = target.snapshot
    commits = views.commits_with(commit_id, snapshot.branch)
    commits |= views.commits_at(snapshot)
    refs = [snapshot.ref]
    author = find_ref(views.root.store, normalize_branch(commits[commit_id].branch))
    if author is not None:
        refs.append(author)
    return PastStates(views.root, commits, refs, snapshot.state)


def _choose_parent(commit: CommitRecord, number: int | None) -> CommitId:
    parents = commit.parents
    if not parents:
        raise CommitHasNoParent(commit.commit_id)
    if number is None:
        if len(parents) > 1:
            raise BadRequest(
                f"commit {commit.commit_id} is a merge; say against which parent to compare it: "
                f"1 is {parents[0]}, 2 is {parents[1]}, the merged commit"
            )
        return parents[0]
    if not 1 <= number <= len(parents):
        raise BadRequest(f"commit {commit.commit_id} has no parent {number}; it has {len(parents)}")
    return parents[number - 1]


# --- the change -----------------------------------------------------------------------------------


class CommitChange:
    """The change that applies the difference between two states to a branch.

    Without a base the branch becomes equal to the source.
    """

    is_costly = True

    def __init__(
        self,
        views: BranchSnapshots,
        request: ApplyRequest,
        applied: CommitId,
        *,
        base: PastState | None,
        source: PastState,
    ) -> None:
        from omnigraph.history.merge_plan import StatePlan

        self.views, self.request, self.applied = views, request, applied
        self._base, self._source = base, source
        self.plan = StatePlan()
        """The latest plan."""

    @property
    def operation(self) -> _Operation:
        return self.request.operation

    @property
    def kind(self) -> WriterKind:
        return self.operation.kind

    def plan_on(self, target: CatalogSnapshot) -> StatePlan:
        from omnigraph.history.merge_plan import plan_changes

        policy = self.request.conflicts.make_policy(target.catalog)
        policy = replace(policy, words=self.operation.words)
        self.plan = plan_changes(
            [self._base or _make_head_state(target)],
            self._source,
            target,
            _collect_past(self.views, self.applied, target),
            policy.with_types_of(target.catalog),
            checks_rules=self._base is not None,
        )
        return self.plan

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        from omnigraph.history.merge_staging import stage_merge

        plan = self.plan_on(view)
        if plan.conflicts:
            doing = f"{self.operation.doing} commit {self.applied} on '{view.snapshot.branch}'"
            raise MergeConflicts(doing, plan.conflicts)
        if plan.is_empty:
            return None
        staged = stage_merge(plan, view.snapshot, ticket)
        tables = list_row_counts(plan.counts)
        return PlanContent(staged, plan.adopted, details=self._details(plan), tables=tables)

    def describe(self) -> ApplyResult:
        """Return the result of the newest plan, without a commit."""
        plan, request = self.plan, self.request
        is_unchanged = plan.is_empty and not plan.conflicts
        return ApplyResult(
            branch=normalize_branch(request.options.branch),
            outcome=ApplyOutcome.UNCHANGED if is_unchanged else self.operation.outcome,
            applied_commit_id=self.applied,
            tables=plan.counts,
            listed_conflicts=list_conflicts(plan.conflicts),
            resolved=plan.resolved,
            actor_id=request.options.actor_id,
            dry_run=request.dry_run,
            commit=None,
        )

    def _details(self, plan: StatePlan) -> dict[str, object]:
        recorded: dict[str, object] = {"commit_id": self.applied}
        if self._base is not None:
            both = (self._base.commit_id, self._source.commit_id)
            recorded["parent_commit_id"] = next(id for id in both if id != self.applied)
            recorded["granularity"] = self.request.conflicts.granularity
            recorded["resolved"] = dict(plan.resolved)
        return {self.operation.name: recorded}

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        """Return true: it is computed again from the current state of the branch."""
        return True


def _make_head_state(view: CatalogSnapshot) -> PastState:
    from omnigraph.history.ancestry import PastState

    head = view.snapshot.head
    assert head is not None, "a graph is created with a commit"
    return PastState(head, view.snapshot.entries, is_head=True)
