"""Merge branches: the verb, its result, the change it makes, and decisions about conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import (
    BadOptions,
    BadRequest,
    BranchNotFound,
    MergeConflicts,
    OmniError,
    PreconditionFailed,
    ReadSetChanged,
)
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.engines import EngineOptions, GranularityName, MergeEngine, MergeEngineName
from omnigraph.graph.open_graph import GraphHandle
from omnigraph.graph.revisions import RevisionLike
from omnigraph.graph.schema_changes import adopt_schema
from omnigraph.identity import CommitId, TableKey
from omnigraph.policy.decision import Action
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.prepared_write import Merging, Ticket
from omnigraph.storage.write_plan import WriterKind
from omnigraph.wire.commit_results import RowCounts
from omnigraph.wire.merge_results import (
    MergeOutcome,
    MergeResult,
    TableCounts,
    list_conflicts,
    with_conflicts,
)
from omnigraph.writer.change import CatalogSnapshot, PlanContent, WriteOptions

if TYPE_CHECKING:
    from omnigraph.graph.idempotency import WriteKey
    from omnigraph.history.ancestry import Commits
    from omnigraph.history.conflict_resolution import Take
    from omnigraph.history.conflict_rules import Given
    from omnigraph.history.merge_plan import Decided, MergePlan, MergePolicy
    from omnigraph.history.table_sides import Granularity
    from omnigraph.writer.driver import Writer


_SIDES = ("source", "target", "base")


class MergeVerbs(GraphHandle):
    """The verb that merges branches."""

    def merge(
        self,
        source: str,
        into: str | None = None,
        *,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        granularity: GranularityName = "property",
        delete_branch: bool = False,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: MergeEngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge a branch into another one, as one commit or not at all.

        Args:
            source: The branch to merge; it is not changed.
            into: The branch to change.
            dry_run: Report the changes and the conflicts; write nothing.
            resolve: Rules for conflicts: `ours`, `theirs` or `newest` for everything or as
                `Type=rule`, and `Type.property=rule` with `max`, `min`, `sum`, `union` or `append`.
            decisions: Decisions about single conflicts, as a dry run lists them with a
                `source`, `target`, `base` or property values; or a file of them.
            granularity: `property` takes each property from the side that changed it; with `entity`
                a row that both sides changed conflicts, as it does for types with `@merge(entity)`.
            delete_branch: Delete the source afterwards; if that is refused, the result says so.
            expected_head: The commit `into` must be at.
            actor: The actor the commit is recorded for.
            message: The message of the commit.
            engine: Where rows are compared: `local`, in this process, `spark`, or `auto`, on Spark
                where many rows changed.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.
            idempotency_key: The key under which the merge is made once.

        Raises:
            MergeConflicts: the branches conflict and no rule or decision resolves it.

        >>> _ = graph.create_branch("review")
        >>> _ = graph.branch("review").mutate('query q() { insert Person { name: "Cy" } }')
        >>> str(graph.merge("review").outcome), len(graph.nodes("Person"))
        ('fast_forward', 3)
        """
        if not dry_run:
            self._open.require_writable()
        into = self._choose(into)
        self._guard.allow(Action.BRANCH_MERGE, branch=source, target_branch=into, actor=actor)
        if delete_branch:
            self._guard.allow(Action.BRANCH_DELETE, target_branch=source, actor=actor)
        request = MergeRequest(
            source=source,
            options=self._make_write_options(into, actor, message, expected_head, idempotency_key),
            conflicts=ConflictOptions(resolve, load_decisions(decisions), granularity),
            dry_run=dry_run,
            delete_branch=delete_branch,
            engine=EngineOptions(engine=engine, session=session, spark_conf=spark_conf or {}),
        )
        with self._hiding_conflicts(into, actor):
            result = merge_branches(self._open.views, self._open.writer, request)
        return with_conflicts(result, self._hide_values(result.conflicts, into, actor))


@dataclass(frozen=True, slots=True)
class ConflictOptions:
    """The options of a write that may conflict with a branch."""

    resolve: Given = None
    decisions: Sequence[Mapping[str, object]] = ()
    granularity: str = "property"

    @property
    def identity(self) -> tuple[object, ...]:
        """The members that an idempotency key covers."""
        return self.resolve, list(self.decisions), self.granularity

    def make_policy(self, catalog: Catalog) -> MergePolicy:
        """Return the policy for the types of a catalog.

        Raises:
            BadOptions: there is no such granularity.
            BadRequest: a rule or a decision does not fit the catalog.
        """
        from omnigraph.history.conflict_rules import parse_rules
        from omnigraph.history.merge_plan import MergePolicy

        rules = parse_rules(self.resolve, catalog)
        decided = read_decisions(self.decisions, catalog)
        return MergePolicy(rules, decided, parse_granularity(self.granularity))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """A merge of `source` into the branch of the options."""

    source: str
    options: WriteOptions
    conflicts: ConflictOptions = field(default_factory=ConflictOptions)
    dry_run: bool = False
    delete_branch: bool = False
    engine: EngineOptions = field(default_factory=EngineOptions)

    @property
    def target(self) -> str:
        return self.options.branch

    @property
    def key(self) -> WriteKey | None:
        """The key, with all that distinguishes two merges into a branch."""
        from omnigraph.graph.idempotency import WriteKey

        return WriteKey.of(self.options, "merge", self.source.strip(), *self.conflicts.identity)


def merge_branches(views: BranchSnapshots, writer: Writer, request: MergeRequest) -> MergeResult:
    """Merge one branch into another, as one commit or not at all.

    Raises:
        MergeConflicts: the branches conflict and no rule resolves it.
    """
    from omnigraph.graph.idempotency import find_result, write_once

    source, target = normalize_branch(request.source), normalize_branch(request.target)
    if source == target:
        raise BadRequest(f"branch '{source}' cannot be merged into itself")
    change = BranchMerge(views, request)
    if request.dry_run:
        change.plan_on(views.read_newest(target))
        return change.describe()
    key = request.key
    # Before any other step: the source of a repeated merge may be deleted.
    result = find_result(views, target, key, MergeResult)
    if result is None:
        options = _carry_schema(views, writer, change, request)
        result = write_once(writer, change, options, key, MergeResult, change.describe)
    return _delete_source_branch(views, result) if request.delete_branch else result


def _carry_schema(
    views: BranchSnapshots, writer: Writer, change: BranchMerge, request: MergeRequest
) -> WriteOptions:
    """Give the target the schema additions of the source, as a commit before the merge.

    Does nothing if the merge would be refused anyway. Returns the options of the merge, which
    expects the new head where the request expects one.
    """
    from omnigraph.history.branch_schemas import list_lacking_steps

    options, expected = request.options, request.options.expected_head
    source, target = views.read_newest(request.source), views.read_newest(request.target)
    if not list_lacking_steps(target, source):
        return options
    if expected is not None and target.snapshot.head != expected:
        raise PreconditionFailed(target.snapshot.branch, CommitId(expected), target.snapshot.head)
    plan = change.plan_on(target)
    if plan.relation.outcome is MergeOutcome.ALREADY_UP_TO_DATE:
        return options
    _require_no_conflicts(plan)
    commit = adopt_schema(writer, source, replace(options, message=None, idempotency_key=None))
    if expected is None or commit is None:
        return options
    return replace(options, expected_head=commit.commit_id)


def _require_no_conflicts(plan: MergePlan) -> None:
    if plan.changes.conflicts:
        doing = f"merging '{plan.source.branch}' into '{plan.target.branch}'"
        raise MergeConflicts(doing, plan.changes.conflicts)


class BranchMerge:
    """The change that merges one branch into another."""

    kind = WriterKind.BRANCH_MERGE
    is_costly = True

    def __init__(self, views: BranchSnapshots, request: MergeRequest) -> None:
        self._views, self._request = views, request
        self.engine = MergeEngine(request.engine, views.root.settings)
        self.plan: MergePlan | None = None
        """The latest plan."""

    def plan_on(self, target: CatalogSnapshot) -> MergePlan:
        from omnigraph.history.branch_schemas import list_lacking_steps
        from omnigraph.history.merge_plan import plan_merge

        source = self._views.read_newest(self._request.source)
        catalog = (source if list_lacking_steps(target, source) else target).catalog
        policy = replace(self._request.conflicts.make_policy(catalog), run=self.engine.run)
        commits = _list_commits(self._views, source, target)
        self.plan = plan_merge(source, target, commits, policy)
        return self.plan

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        from omnigraph.history.merge_staging import stage_merge

        plan = self.plan_on(view)
        if plan.relation.outcome is MergeOutcome.ALREADY_UP_TO_DATE:
            return None
        if plan.needs_schema:  # it got additions while those that it had were taken over
            theirs, ours = plan.source.state.contract_hash, plan.target.state.contract_hash
            raise ReadSetChanged(f"branch_merge_schema:{plan.source.branch}", ours, theirs)
        _require_no_conflicts(plan)
        changes = plan.changes
        return PlanContent(
            stage_merge(changes, view.snapshot, ticket),
            changes.adopted,
            details=self._encode_details(plan),
            merging=Merging(plan.source, plan.history),
            tables=list_row_counts(changes.counts),
        )

    def describe(self) -> MergeResult:
        """Return the result of the newest plan, without a commit."""
        plan, request = self.plan, self._request
        assert plan is not None, "what was written or tried was planned"
        return MergeResult(
            source=plan.source.branch,
            target=plan.target.branch,
            outcome=plan.relation.outcome,
            base_commit_ids=plan.relation.bases,
            tables=plan.changes.counts,
            listed_conflicts=list_conflicts(plan.changes.conflicts),
            resolved=plan.changes.resolved,
            actor_id=request.options.actor_id,
            dry_run=request.dry_run,
            engine=self.engine.used,
            commit=None,
        )

    def _encode_details(self, plan: MergePlan) -> dict[str, object]:
        return {
            "merge": {
                "source": plan.source.branch,
                "outcome": str(plan.relation.outcome),
                "granularity": self._request.conflicts.granularity,
                "resolved": dict(plan.changes.resolved),
            }
        }

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        """Return true: it is computed again from the current state of both branches."""
        return True


def list_row_counts(counts: Iterable[TableCounts]) -> tuple[RowCounts, ...]:
    """Return the counts of changed rows that the commit of a merge records."""
    every = (RowCounts(one.table_key, one.inserted, one.updated, one.deleted) for one in counts)
    return tuple(one for one in every if one.inserted or one.updated or one.deleted)


def _list_commits(
    views: BranchSnapshots, source: CatalogSnapshot, target: CatalogSnapshot
) -> Commits:
    """Return the commits visible on either branch, with all of their ancestors."""
    return {
        **views.commits_at(source.snapshot),
        **views.commits_at(target.snapshot),
    }


def _delete_source_branch(views: BranchSnapshots, result: MergeResult) -> MergeResult:
    """Delete the source and return the result with the outcome; a refusal does not raise."""
    from omnigraph.storage import graph_branches

    try:
        graph_branches.delete(views.root, result.source)
    except OmniError as error:
        if result.is_replayed and isinstance(error, BranchNotFound):
            return msgspec.structs.replace(result, branch_deleted=True)
        return msgspec.structs.replace(
            result, branch_deleted=False, branch_delete_error=error.message
        )
    return msgspec.structs.replace(result, branch_deleted=True)


# --- options --------------------------------------------------------------------------------------


def parse_granularity(name: str) -> Granularity:
    """Return the granularity of this name.

    Raises:
        BadOptions: there is no such granularity.
    """
    from omnigraph.history.table_sides import Granularity

    try:
        return Granularity(name)
    except ValueError as error:
        known = ", ".join(Granularity)
        raise BadOptions(f"granularity {name!r} is not one of {known}") from error


def load_decisions(
    given: str | Path | Sequence[Mapping[str, object]],
) -> Sequence[Mapping[str, object]]:
    """Return decisions, given as such or as a file."""
    return read_decision_file(given) if isinstance(given, str | Path) else given


def read_decision_file(path: str | Path) -> list[Mapping[str, object]]:
    """Read the conflicts in a file that a preview wrote, with the decision about each.

    Raises:
        BadRequest: the file is not such a list.
    """
    try:
        body = msgspec.json.decode(Path(path).read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read decisions from {path}: {error}") from error
    listed = body.get("conflicts") if isinstance(body, dict) else body
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise BadRequest(
            f"{path} does not hold a list of conflicts, as written by a preview with --json"
        )
    return listed


def read_decisions(given: Iterable[Mapping[str, object]], catalog: Catalog) -> Decided:
    """Return the decisions by table and id; conflicts whose `take` is null are undecided."""
    found: dict[tuple[TableKey, str], Take] = {}
    for one in given:
        if not isinstance(one, Mapping):
            raise BadRequest(f"a decision is a conflict as a preview lists it, not {one!r}")
        take = one.get("take")
        if take is None:
            continue
        key = TableKey(f"{one.get('entity_kind')}:{one.get('type_name')}")
        if key not in catalog.by_table_key:
            raise BadRequest(f"a decision refers to {key}: no such type")
        id = one.get("entity_id")
        if not isinstance(id, str):
            raise BadRequest(f"a decision about {key} has no entity_id")
        if (key, id) in found:
            raise BadRequest(f"there are two decisions about {key} '{id}'")
        found[key, id] = _check_take(take, key, id, catalog)
    return found


def _check_take(take: object, key: TableKey, id: str, catalog: Catalog) -> Take:
    if isinstance(take, str) and take in _SIDES:
        return take
    if not isinstance(take, Mapping):
        raise BadRequest(
            f"the decision about {key} '{id}' is {take!r}; it must be source, target, base or an "
            "object of property values"
        )
    for name in take:
        if catalog.by_table_key[key].property(name) is None:
            raise BadRequest(f"the decision about {key} '{id}': no such property '{name}'")
    return take
