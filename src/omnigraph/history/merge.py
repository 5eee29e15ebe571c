"""Merging one branch into another: what to do with each table, and staging it.

The plan is made from three states: the source, the target, and the one both started from. It says
for every table what to take over and what conflicts; the constraints are checked on the result.
Staging then writes the rows onto the target's tables. Nothing becomes visible here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.evaluate import find_violations
from omnigraph.constraints.table_changes import TableChange
from omnigraph.errors import (
    BadRequest,
    MergeConflict,
    ReadSetChanged,
    SchemaContractMismatch,
)
from omnigraph.execution.committed import CommittedRows
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.history.conflict_resolution import ResolvedConflicts, Resolver, Take
from omnigraph.history.conflict_rules import Rules
from omnigraph.history.conflicts import describe
from omnigraph.history.merge_bases import (
    Commits,
    MergeOutcome,
    Relation,
    find_relation,
    list_ancestors,
)
from omnigraph.history.states import Entries, open_kept, read_entries_at, translate_reclaimed
from omnigraph.history.three_way import Entities, TableSides, merge_table
from omnigraph.identity import CommitId, TableKey
from omnigraph.storage.manifest.commits import Commit
from omnigraph.storage.manifest.manifest_changes import SetVersion
from omnigraph.storage.manifest.state import TableEntry
from omnigraph.storage.recovery.resolve_intents import hash_contract
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.delta import read_rows_at_addresses
from omnigraph.types.arrow import BLOB
from omnigraph.writer.change import CatalogSnapshot

Decided = Mapping[tuple[TableKey, str], Take]
"""What was decided about single entities."""


@dataclass(frozen=True, slots=True)
class TableCounts:
    """What a merge does to one table."""

    table_key: TableKey
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    conflicts: int = 0

    def wire(self) -> dict[str, object]:
        entity_kind, _, type_name = self.table_key.partition(":")
        return {
            "entity_kind": entity_kind,
            "type_name": type_name,
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "conflicts": self.conflicts,
        }


@dataclass(frozen=True, slots=True)
class Deciding:
    """All that decides about conflicts."""

    rules: Rules
    decided: Decided
    source_is_newer: bool

    def make_resolver(self, type_: NodeType | EdgeType) -> Resolver:
        own = {id: take for (key, id), take in self.decided.items() if key == type_.table_key}
        return Resolver(type_, self.rules, own, self.source_is_newer)


@dataclass(frozen=True, slots=True)
class TableMergePlan:
    """One table of a merge: its three versions, and what is taken over from the source."""

    type: NodeType | EdgeType
    entry: TableEntry
    sides: TableSides
    settled: ResolvedConflicts
    taken: Entities
    adopted: SetVersion | None
    """The source's own version, where the target may show just that."""
    found: int
    """How many entities conflicted, before any rule decided."""

    @property
    def written(self) -> Entities:
        """Entities whose row comes from the source."""
        return self.taken.filter(self.taken.has("source"))

    @property
    def deleted(self) -> pa.Array:
        gone = self.taken.filter(~self.taken.has("source")).ids
        return pa.concat_arrays([gone, self.settled.deleted])

    @property
    def is_empty(self) -> bool:
        return not len(self.taken) and not self.settled.rows.num_rows and not len(self.deleted)

    @property
    def counts(self) -> TableCounts:
        was, now = self.taken.has("base"), self.taken.has("source")
        return TableCounts(
            self.entry.table_key,
            int((~was & now).sum()),
            int((was & now).sum()) + self.settled.rows.num_rows,
            len(self.deleted),
            len(self.settled.undecided),
        )


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What merging comes to; with conflicts it cannot be carried out."""

    relation: Relation
    source: Snapshot
    target: Snapshot
    tables: tuple[TableMergePlan, ...] = ()
    conflicts: tuple[MergeConflict, ...] = ()
    history: tuple[Commit, ...] = ()
    """Commits of the source that the target cannot see yet."""

    @property
    def resolved(self) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for table in self.tables:
            counts.update(table.settled.counts)
        return dict(sorted(counts.items()))

    @property
    def counts(self) -> tuple[TableCounts, ...]:
        return tuple(t.counts for t in self.tables if not t.is_empty or t.found)


def plan_merge(
    source: CatalogSnapshot,
    target: CatalogSnapshot,
    commits: Commits,
    rules: Rules,
    decided: Decided,
) -> MergePlan:
    """Everything about a merge that can be known before anything is written.

    Raises:
        BadRequest: the branches have nothing in common, or a decision is about no conflict.
        SchemaContractMismatch: they have different schemas.
        MergeBaseUnavailable: what both started from was cleaned away.
    """
    from_, into = source.snapshot, target.snapshot
    if from_.head is None or into.head is None:
        raise BadRequest("a branch without a commit cannot be merged")
    relation = find_relation(commits, from_.head, into.head)
    if relation.outcome is MergeOutcome.ALREADY_UP_TO_DATE:
        return MergePlan(relation, from_, into)
    _require_one_schema(from_, into)
    bases = [_read_entries_at(from_, into, commits, base) for base in relation.bases]
    newer = commits[from_.head].created_at > commits[into.head].created_at
    tables = tuple(
        _plan_table(
            source,
            into,
            key,
            [base.get(key) for base in bases],
            relation.bases,
            Deciding(rules, decided, newer),
        )
        for key in sorted(into.entries)
        if _is_concerned(from_.entries[key], into.entries[key], bases, key)
    )
    _require_conflicts(decided, tables)
    conflicts = [
        one for table in tables for one in describe(table.type, table.sides, table.settled)
    ]
    conflicts += _find_broken_rules(tables, target)
    return MergePlan(
        relation, from_, into, tables, tuple(conflicts), _list_unseen(commits, from_, into)
    )


def _require_one_schema(source: Snapshot, target: Snapshot) -> None:
    theirs, ours = hash_contract(source.state), hash_contract(target.state)
    if theirs != ours:
        raise SchemaContractMismatch(
            f"branch '{source.branch}' has schema {theirs[:12]} and branch '{target.branch}' has "
            f"{ours[:12]}; apply the same schema to both before merging"
        )


def _read_entries_at(
    source: Snapshot, target: Snapshot, commits: Commits, base: CommitId
) -> Entries:
    if base == target.head:
        return target.entries
    refs = (source.ref, target.ref)
    return read_entries_at(target.root, base, commits, refs, target.state)


def _list_unseen(commits: Commits, source: Snapshot, target: Snapshot) -> tuple[Commit, ...]:
    """The commits the source came from and the target did not, each after its parents."""
    assert source.head is not None, "what is merged has a head"
    assert target.head is not None, "what is merged into has a head"
    fresh = list_ancestors(commits, source.head) - list_ancestors(commits, target.head)
    return tuple(sorted((commits[id] for id in fresh if id in commits), key=lambda c: c.order))


# --- tables ---------------------------------------------------------------------------------------


def _is_concerned(
    source: TableEntry, target: TableEntry, bases: Sequence[Entries], key: TableKey
) -> bool:
    """Whether the source has anything of a table that the target might lack."""
    is_unchanged = len(bases) == 1 and bases[0].get(key) == source
    return source != target and not is_unchanged


def _plan_table(
    source: CatalogSnapshot,
    target: Snapshot,
    key: TableKey,
    bases: Sequence[TableEntry | None],
    ids: Sequence[CommitId],
    deciding: Deciding,
) -> TableMergePlan:
    type_, ours, theirs = (
        source.catalog.by_table_key[key],
        target.entries[key],
        (source.snapshot.entries[key]),
    )
    present = [base for base in bases if base is not None]
    if len(present) < len(bases) or {e.identity for e in (*present, ours)} != {theirs.identity}:
        member = f"branch_merge_table_identity:{key}"
        raise ReadSetChanged(member, str(ours.identity), str(theirs.identity))
    opened = [open_kept(target, base, id) for base, id in zip(present, ids, strict=True)]
    sides = TableSides(
        opened[0],
        target.open_entry(theirs),
        target.open_entry(ours),
        tuple(opened[1:]),
    )
    is_base = len(present) == 1 and present[0] == ours
    with translate_reclaimed(opened, ids):
        merged = merge_table(sides, target_is_base=is_base)
        settled = deciding.make_resolver(type_).settle(sides, merged.conflicts)
    taken = Entities.concatenate([merged.taken, settled.taken])
    adopted = _find_adopted(theirs, ours, target) if is_base else None
    return TableMergePlan(type_, ours, sides, settled, taken, adopted, len(merged.conflicts))


def _find_adopted(theirs: TableEntry, ours: TableEntry, target: Snapshot) -> SetVersion | None:
    """The source's version, if the target only inherited the table and so may inherit this one.

    A table the target writes itself must go on from its own newest version.
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
    """Raise if a decision is about no conflict: it was made about another state."""
    used = sum(table.settled.counts.get("decision", 0) for table in tables)
    if used != len(decided):
        raise BadRequest(
            f"{len(decided) - used} of {len(decided)} decisions are about entities that do not "
            "conflict; preview the merge again and decide about what it lists"
        )


# --- rules of the schema --------------------------------------------------------------------------


def _find_broken_rules(
    tables: Iterable[TableMergePlan], target: CatalogSnapshot
) -> list[MergeConflict]:
    """What the merged graph would break of the schema."""
    changes = {t.entry.table_key: _make_change(t) for t in tables if not t.is_empty}
    found = find_violations(changes, target.catalog, CommittedRows(target.snapshot))
    return [MergeConflict(str(v.kind), v.type_key, v.message, v.id) for v in found]


def _make_change(table: TableMergePlan) -> TableChange:
    """The change without vectors and blobs, which no rule speaks of and which may be large."""
    fields = [f for f in build_logical_schema(table.type) if not _is_bulky(f.type)]
    schema = pa.schema(fields)
    written = read_rows_at_addresses(table.sides.source, table.written.source, schema.names)
    parts = [part.cast(schema) for part in written]
    parts.append(table.settled.rows.select(schema.names))
    return TableChange(table.type, pa.concat_tables(parts), table.deleted)


def _is_bulky(type: pa.DataType) -> bool:
    return bool(type == BLOB or pa.types.is_fixed_size_list(type))
