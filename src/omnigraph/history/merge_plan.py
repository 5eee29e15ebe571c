"""Plan how to apply the changes between two states to a third one, table by table.

A plan is made from three states: the source, the target, and their common base. It has, for every
table, the rows to take over and the conflicts; the constraints are checked on the result. Merge,
revert and cherry-pick differ only in the choice of states. Staging then writes the rows to the
target's tables. Nothing is published here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.constraints.constraint_checks import find_violations
from omnigraph.constraints.table_changes import TableChange
from omnigraph.errors import (
    BadRequest,
    MergeConflict,
    ReadSetChanged,
    SchemaContractMismatch,
)
from omnigraph.execution.pending_rows import CommittedRows
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.history.ancestry import (
    Commits,
    PastState,
    PastStates,
    Relation,
    find_relation,
    list_ancestors,
    open_kept,
    translate_reclaimed,
)
from omnigraph.history.branch_schemas import (
    ColumnWidening,
    find_merged_schema,
    get_first_version,
    show_missing_types,
)
from omnigraph.history.conflict_report import MERGE_WORDS, ConflictWords, describe
from omnigraph.history.conflict_resolution import (
    FindNewer,
    ResolvedConflicts,
    Resolver,
    Take,
)
from omnigraph.history.conflict_rules import Rules
from omnigraph.history.latest_change import LatestChange
from omnigraph.history.property_merge import CombinedRows
from omnigraph.history.table_sides import Entities, Granularity, TableSides
from omnigraph.history.three_way import RunComparison, compare_locally, merge_table
from omnigraph.history.virtual_base import make_base_finder
from omnigraph.identity import CommitId, TableKey
from omnigraph.storage.manifest import CommitRecord, SetVersion, TableEntry
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import ADDRESSES_PER_READ, Table, read_rows_at_addresses
from omnigraph.storage.write_plan import WriterKind
from omnigraph.types.arrow import BLOB
from omnigraph.wire.merge_results import MergeOutcome, TableCounts
from omnigraph.writer.change import CatalogSnapshot

_KEPT_ROWS = 16_384
"""Up to this many changed rows of each side are cached, to be compared, checked and written."""
_KEPT_BYTES = 64 << 20
"""Maximum size of the rows cached until they are written."""

Decided = Mapping[tuple[TableKey, str], Take]
"""The decisions about single entities."""


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """The options of a merge: rules, decisions, granularity, and the engine that compares rows."""

    rules: Rules
    decided: Decided
    granularity: Granularity = Granularity.PROPERTY
    run: RunComparison = compare_locally
    words: ConflictWords = MERGE_WORDS
    merged_by_entity: frozenset[TableKey] = frozenset()
    """Types whose rows merge as a whole, by the schema of either side."""

    def with_types_of(self, *catalogs: Catalog) -> MergePolicy:
        """Return the policy with the types that merge by entity in any of the schemas."""
        types = (type_ for catalog in catalogs for type_ in catalog.by_table_key.values())
        keys = frozenset(type_.table_key for type_ in types if type_.merges_by_entity)
        return replace(self, merged_by_entity=keys)

    def get_granularity(self, type_: NodeType | EdgeType) -> Granularity:
        """Return the strictest granularity: that of the type or of the caller."""
        if type_.table_key in self.merged_by_entity:
            return Granularity.ENTITY
        return self.granularity

    def make_resolver(self, type_: NodeType | EdgeType, find_newer: FindNewer) -> Resolver:
        own = {id: take for (key, id), take in self.decided.items() if key == type_.table_key}
        return Resolver(type_, self.rules, own, find_newer, self.get_granularity(type_))


@dataclass(frozen=True, slots=True)
class TableMergePlan:
    """The plan of one table: its three versions, and the changes to take over."""

    type: NodeType | EdgeType
    entry: TableEntry
    sides: TableSides
    resolved: ResolvedConflicts
    taken: Entities
    combined: tuple[CombinedRows, ...]
    """Rows with properties of both sides."""
    conflicts: tuple[MergeConflict, ...]
    """The conflicts that no rule decided."""
    adopted: SetVersion | None
    """The source's own version, if the target may show it directly."""
    found: int
    """The number of entities that conflicted, before rules and decisions."""

    @property
    def written(self) -> Entities:
        """Entities whose row is taken from the source."""
        return self.taken.filter(self.taken.has("source"))

    @property
    def deleted(self) -> pa.Array:
        gone = self.taken.filter(~self.taken.has("source")).ids
        return pa.concat_arrays([gone, self.resolved.deleted])

    @property
    def rows_combined(self) -> int:
        return sum(map(len, self.combined))

    @property
    def is_empty(self) -> bool:
        has_rows = self.resolved.rows.num_rows or self.rows_combined
        return not len(self.taken) and not has_rows and not len(self.deleted)

    @property
    def counts(self) -> TableCounts:
        was, now, resolved = self.taken.has("target"), self.taken.has("source"), self.resolved
        updated = int((was & now).sum()) + self.rows_combined
        return TableCounts.of(
            self.entry.table_key,
            int((~was & now).sum()) + resolved.added,
            updated + resolved.rows.num_rows - resolved.added,
            len(self.deleted),
            len(resolved.undecided),
        )


@dataclass(frozen=True, slots=True)
class StatePlan:
    """The changes that apply one state to another; conflicts block them."""

    tables: tuple[TableMergePlan, ...] = ()
    conflicts: tuple[MergeConflict, ...] = ()

    @property
    def resolved(self) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for table in self.tables:
            counts.update(table.resolved.counts)
        return dict(sorted(counts.items()))

    @property
    def counts(self) -> tuple[TableCounts, ...]:
        return tuple(t.counts for t in self.tables if not t.is_empty or t.found)

    @property
    def is_empty(self) -> bool:
        """True if no row would change."""
        return all(table.is_empty for table in self.tables)

    @property
    def adopted(self) -> tuple[SetVersion, ...]:
        return tuple(t.adopted for t in self.tables if t.adopted is not None)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The plan of merging a branch."""

    relation: Relation
    source: Snapshot
    target: Snapshot
    changes: StatePlan = StatePlan()
    history: tuple[CommitRecord, ...] = ()
    """Commits of the source that the target does not contain yet."""
    needs_schema: bool = False
    """True if the target must get the schema of the source first."""


def plan_merge(
    source: CatalogSnapshot,
    target: CatalogSnapshot,
    commits: Commits,
    policy: MergePolicy,
) -> MergePlan:
    """Plan a merge; writes nothing.

    Raises:
        BadRequest: the branches have no common ancestor, or a decision matches no conflict.
        SchemaContractMismatch: neither schema contains the other.
        MergeBaseUnavailable: cleanup removed the base.
    """
    from_, into = source.snapshot, target.snapshot
    if from_.head is None or into.head is None:
        branch = (from_ if from_.head is None else into).branch
        raise BadRequest(f"branch '{branch}' has no commit; a merge needs one on both branches")
    relation = find_relation(commits, from_.head, into.head)
    if relation.outcome is MergeOutcome.ALREADY_UP_TO_DATE:
        return MergePlan(relation, from_, into)
    schema = find_merged_schema(source, target)
    past = PastStates(into.root, commits, (from_.ref, into.ref), into.state)
    bases = [_choose_base(into, past, base) for base in relation.bases]
    brought = PastState(from_.head, from_.entries, is_head=True)
    history = _list_unseen(commits, from_, into)
    changes = plan_changes(
        bases,
        brought,
        show_missing_types(target, source, schema),
        past,
        policy.with_types_of(source.catalog, target.catalog),
        checks_rules=not _is_proven(relation, history, source, target),
        schema=schema,
    )
    needs_schema = schema is not target.catalog
    return MergePlan(relation, from_, into, changes, history, needs_schema)


_CHECKED = frozenset(
    kind.commit_kind
    for kind in (
        WriterKind.MUTATION,
        WriterKind.LOAD,
        WriterKind.BRANCH_MERGE,
        WriterKind.REVERT,
        WriterKind.CHERRY_PICK,
    )
)
"""Kinds of commits whose rows were checked; a forced repair, for one, is not."""


def _is_proven(
    relation: Relation,
    history: Sequence[CommitRecord],
    source: CatalogSnapshot,
    target: CatalogSnapshot,
) -> bool:
    """Return whether the result satisfies the schema's rules without reading a row.

    A fast-forward gives the target exactly the rows of the source: the target has changed nothing
    since the base. Both have one schema, and every commit since the base left values, keys and
    endpoints that satisfy it, as far as it wrote any.
    Cardinality is not covered: a commit checks only the nodes whose edges it writes, so a node that
    was deleted with its edges and then inserted again may have too few, and no commit has
    reported it.
    """
    is_whole = relation.outcome is MergeOutcome.FAST_FORWARD
    is_same = source.snapshot.state.contract_hash == target.snapshot.state.contract_hash
    is_checked = all(commit.kind in _CHECKED for commit in history)
    counts_edges = any(edge.has_cardinality for edge in target.catalog.edges.values())
    return is_whole and is_same and is_checked and not counts_edges


def plan_changes(
    bases: Sequence[PastState],
    source: PastState,
    target: CatalogSnapshot,
    past: PastStates,
    policy: MergePolicy,
    *,
    checks_rules: bool = True,
    schema: Catalog | None = None,
) -> StatePlan:
    """Plan to apply the source's changes since the bases to the target.

    `past` has every ancestor of the source and the target.
    Without `checks_rules` the schema's rules are assumed, because the result is a state that
    satisfied them. With `schema`, which contains those of all states, a property that a state lacks
    is read as if it had been added; otherwise all states must have one schema.

    Raises:
        BadRequest: a decision matches no conflict.
        SchemaContractMismatch: one of the states has another schema.
        MergeBaseUnavailable: cleanup removed one of the states.
    """
    into = target.snapshot
    keys = set(into.entries)
    if schema is None:
        _require_types(bases, source, into)
    else:
        keys &= source.entries.keys()
    tables: list[TableMergePlan] = []
    kept_bytes = 0
    for key in sorted(keys):
        if _is_concerned(source, into.entries[key], bases, key):
            table = _plan_table(bases, source, target, key, past, policy, schema)
            tables.append(table)
            kept_bytes += table.sides.release_rows(
                _KEPT_BYTES - kept_bytes, keeps_target=bool(table.combined)
            )
    _require_conflicts(policy.decided, tables)
    conflicts = [one for table in tables for one in table.conflicts]
    if checks_rules:
        conflicts += _find_broken_rules(tables, target)
    return StatePlan(tuple(tables), tuple(conflicts))


def require_one_schema(source: CatalogSnapshot, target: CatalogSnapshot) -> None:
    """Raise unless both have the same types with the same ids."""
    counter = target.catalog.next_identity_id
    if replace(source.catalog, next_identity_id=counter) != target.catalog:
        from_, into = source.snapshot, target.snapshot
        theirs, ours = from_.state.contract_hash, into.state.contract_hash
        advice = "apply the schema of that commit first"
        if from_.contract.source == into.contract.source:
            advice = "something was dropped and added again since: load the rows that are wanted"
        raise SchemaContractMismatch(
            f"commit {from_.head} of branch '{from_.branch}' has schema {theirs[:12]} and branch "
            f"'{into.branch}' has {ours[:12]}; {advice}"
        )


def _choose_base(target: Snapshot, past: PastStates, base: CommitId) -> PastState:
    if base == target.head:
        return PastState(base, target.entries, is_head=True)
    return past.read(base)


def _list_unseen(commits: Commits, source: Snapshot, target: Snapshot) -> tuple[CommitRecord, ...]:
    """List the ancestors of the source that the target lacks, parents first."""
    assert source.head is not None, "what is merged has a head"
    assert target.head is not None, "what is merged into has a head"
    fresh = list_ancestors(commits, source.head) - list_ancestors(commits, target.head)
    return tuple(sorted((commits[id] for id in fresh if id in commits), key=lambda c: c.order))


# --- tables ---------------------------------------------------------------------------------------


def _is_concerned(
    source: PastState, target: TableEntry, bases: Sequence[PastState], key: TableKey
) -> bool:
    """Return whether the source may have changes of a table that the target lacks."""
    theirs = source.entries.get(key)
    is_unchanged = len(bases) == 1 and bases[0].entries.get(key) == theirs
    return theirs != target and not is_unchanged


def _plan_table(
    bases: Sequence[PastState],
    source: PastState,
    target: CatalogSnapshot,
    key: TableKey,
    past: PastStates,
    policy: MergePolicy,
    schema: Catalog | None,
) -> TableMergePlan:
    type_, into, ours = (
        (schema or target.catalog).by_table_key[key],
        target.snapshot,
        target.snapshot.entry(key),
    )
    states = [*bases, source]
    *entries, theirs = (_find_entry(state, key, ours, schema) for state in states)
    known = [open_kept(into, *one) for one in zip([*entries, theirs], states, strict=True)]
    known = [table.remember_rows(_KEPT_ROWS) for table in known]
    is_base = len(entries) == 1 and entries[0] == ours
    target_table = known[0] if is_base else into.open_entry(ours).remember_rows(_KEPT_ROWS)
    if schema is None:
        _require_columns(key, target_table, list(zip(known, states, strict=True)))
    widening = ColumnWidening(type_, max([*known, target_table], key=lambda t: len(t.schema)))
    known = [widening.apply(table) for table in known]
    sides = TableSides(known[0], known[-1], known[0] if is_base else widening.apply(target_table))
    assert into.head is not None, "a graph is created with a commit"
    newest = LatestChange(past, into, source.commit_id, into.head)
    resolver = policy.make_resolver(type_, newest.source_is_newer)
    with translate_reclaimed(known, states):
        parts = merge_table(
            sides,
            target_is_base=is_base,
            other_bases=known[1:-1],
            find_base=make_base_finder(
                bases, into, key, past, widening, sides.columns, resolver.granularity
            ),
            granularity=resolver.granularity,
            run=policy.run,
        )
        resolved = [resolver.resolve(part.sides, part.conflicts) for part in parts]
        conflicts = [
            conflict
            for part, some in zip(parts, resolved, strict=True)
            for conflict in describe(resolver, part.sides, some.undecided, policy.words)
        ]
    every = ResolvedConflicts.concatenate(resolved, type_)
    return TableMergePlan(
        type_,
        ours,
        sides,
        every,
        Entities.concatenate([every.taken, *(part.taken for part in parts)]),
        (*(part.combined for part in parts if len(part.combined)), *every.combined),
        tuple(sorted(conflicts, key=lambda one: one.id or "")),
        _find_adopted(theirs, ours, into) if is_base else None,
        sum(len(part.conflicts) for part in parts),
    )


def _find_entry(
    state: PastState, key: TableKey, ours: TableEntry, schema: Catalog | None
) -> TableEntry:
    """Return a table of a state; raise unless the target has the same one."""
    found = state.entries.get(key)
    if found is None and schema is not None:
        return get_first_version(ours)
    if found is not None and found.identity == ours.identity:
        return found
    if state.is_head:
        seen = None if found is None else str(found.identity)
        raise ReadSetChanged(f"branch_merge_table_identity:{key}", str(ours.identity), seen)
    raise SchemaContractMismatch(
        f"{key} was dropped and created again since commit {state.commit_id}"
    )


def _require_types(bases: Sequence[PastState], source: PastState, target: Snapshot) -> None:
    """Raise if the source changed a type that the target does not have."""
    for base in bases:
        for key in (source.entries.keys() | base.entries.keys()) - target.entries.keys():
            if source.entries.get(key) != base.entries.get(key):
                raise SchemaContractMismatch(
                    f"branch '{target.branch}' has no {key}, which commit {source.commit_id} "
                    f"declares differently than commit {base.commit_id}"
                )


def _require_columns(key: TableKey, ours: Table, known: Sequence[tuple[Table, PastState]]) -> None:
    """Raise if a table had other columns in one of the states."""
    for table, state in known:
        if table.schema != ours.schema:
            raise SchemaContractMismatch(
                f"{key} has other properties now than at commit {state.commit_id}; "
                "write what is wanted of it with a mutation or a load"
            )


def _find_adopted(theirs: TableEntry, ours: TableEntry, target: Snapshot) -> SetVersion | None:
    """Return the source's version if the target may adopt it, because it only inherited the table.

    A table that the target owns continues from its own newest version.
    """
    incarnation = target.ref.incarnation
    if incarnation in (ours.owner, theirs.owner):
        return None
    return SetVersion(
        theirs.identity,
        theirs.table_key,
        theirs.version,
        theirs.owner_branch,
        theirs.row_count,
        theirs.owner,
    )


def _require_conflicts(decided: Decided, tables: Iterable[TableMergePlan]) -> None:
    """Raise if a decision matches no conflict, because it was made for another state."""
    used = sum(table.resolved.counts.get("decision", 0) for table in tables)
    if used != len(decided):
        raise BadRequest(
            f"{len(decided) - used} of {len(decided)} decisions are about entities that do not "
            "conflict; preview the merge again and decide about what it lists"
        )


# --- rules of the schema --------------------------------------------------------------------------


def _find_broken_rules(
    tables: Iterable[TableMergePlan], target: CatalogSnapshot
) -> list[MergeConflict]:
    """Find the rules of the schema that the merged graph would break."""
    changes = {t.entry.table_key: _make_change(t) for t in tables if not t.is_empty}
    found = find_violations(changes, target.catalog, CommittedRows(target.snapshot))
    return [MergeConflict.of(str(v.kind), v.type_key, v.message, v.id) for v in found]


def _make_change(table: TableMergePlan) -> TableChange:
    """Return the change without vectors and blobs, which no rule refers to."""
    fields = [f for f in build_logical_schema(table.type) if not _is_bulky(f.type)]
    schema = pa.schema(fields)
    written = read_rows_at_addresses(table.sides.source, table.written.source, schema.names)
    parts = [part.cast(schema) for part in written]
    for combined in table.combined:
        found = combined.read(schema.names, batch_rows=ADDRESSES_PER_READ)
        parts += [part.cast(schema) for part in found]
    parts.append(table.resolved.rows.select(schema.names))
    return TableChange(table.type, pa.concat_tables(parts), table.deleted)


def _is_bulky(type: pa.DataType) -> bool:
    return bool(type == BLOB or pa.types.is_fixed_size_list(type))
