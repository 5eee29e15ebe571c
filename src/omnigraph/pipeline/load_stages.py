"""The checks of a load in one order, and the load of records in memory: stages on whole tables.

Parse, complete, check and stage call the functions that the kernels call on their share of the
rows. Nothing is written down between the stages, so a load of few records costs few requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import msgspec
import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.constraints.constraint_checks import require_valid
from omnigraph.constraints.row_ids import check_repeated_ids, check_stored_ids
from omnigraph.constraints.table_changes import (
    NO_IDS,
    REPORTED,
    TableChange,
    get_column,
    mask_remaining,
)
from omnigraph.embedding.text_vectors import TextVectors
from omnigraph.errors import ConstraintViolated, KeyConflict, RowsRejected
from omnigraph.execution.load_options import LoadMode, Matches, build_type_specs, find_match_key
from omnigraph.execution.pending_rows import CommittedRows, Placement, stage_tables
from omnigraph.execution.row_completion import Completion, RowBlock, add_vectors, complete_rows
from omnigraph.execution.stored_rows import build_logical_schema, find_address, refuse_address
from omnigraph.identity import TableKey
from omnigraph.storage.prepared_write import StagedTable, Ticket
from omnigraph.storage.snapshot import Snapshot
from omnigraph.types.jsonl_parser import ParsedLines, TypedRows, parse_lines
from omnigraph.types.jsonl_records import LineOptions


class LoadChecks(Protocol):
    """The checks of rows that were read, on one state of the branch."""

    def check_ids(self) -> None:
        """Raise for records that are incomplete, contradict their key, or repeat an id."""
        ...

    def check_rules(self) -> None:
        """Raise for rows that break a rule of the schema."""
        ...

    def require_new_ids(self) -> None:
        """Raise for blobs that are addresses, and for ids that are stored in an append."""
        ...


def run_checks(checks: LoadChecks) -> None:
    """Run the checks of a load in the order in which every load reports problems.

    Raises:
        RowsRejected: records cannot be completed.
        ConstraintViolated: a rule of the schema is broken.
        KeyConflict: an id is stored already, or given twice.
    """
    checks.check_ids()
    checks.check_rules()
    checks.require_new_ids()


@dataclass(frozen=True, slots=True)
class RecordInput:
    """Records as JSON lines in one piece, and the name of their file."""

    data: bytes
    file: str | None = None


class RecordLoad:
    """One load: parsed once for each schema, then prepared on a snapshot as often as needed."""

    def __init__(self, given: RecordInput, mode: LoadMode, vectors: TextVectors) -> None:
        self._given, self._mode, self._vectors = given, mode, vectors
        self._parsed: tuple[Catalog, ParsedLines] | None = None
        self.counts: Mapping[TableKey, int] = {}
        """Number of records of each type that were loaded."""

    def prepare(
        self, snapshot: Snapshot, catalog: Catalog, ticket: Ticket
    ) -> tuple[StagedTable, ...]:
        """Stage one transaction for each table the load changes.

        Raises:
            RowsRejected: records cannot be read.
            ConstraintViolated: a rule of the schema is broken.
            KeyConflict: an id is stored already, or given twice.
        """
        parsed = self._parse(catalog)
        checks = _RecordChecks(
            parsed, catalog, CommittedRows(snapshot), self._mode, self._given.file, self._vectors
        )
        run_checks(checks)
        self.counts = {key: rows.columns.num_rows for key, rows in parsed.rows.items()}
        changes = ((checks.changes[key], checks.placements[key]) for key in sorted(checks.changes))
        return stage_tables(snapshot, ticket, changes)

    def _parse(self, catalog: Catalog) -> ParsedLines:
        """Parse the input; raise with the first bad lines and the number of all."""
        if self._parsed is None or self._parsed[0] is not catalog:
            options = LineOptions(with_presence=True, max_problems=REPORTED)
            specs, file = build_type_specs(catalog), self._given.file
            parsed = parse_lines(self._given.data, specs, file=file, options=options)
            if parsed.problem_count:
                raise RowsRejected(parsed.problems, parsed.problem_count)
            self._parsed = catalog, parsed
        return self._parsed[1]


@dataclass
class _RecordChecks:
    """The checks of parsed records, and the changes they make."""

    parsed: ParsedLines
    catalog: Catalog
    committed: CommittedRows
    mode: LoadMode
    file: str | None
    vectors: TextVectors
    changes: dict[TableKey, TableChange] = field(default_factory=dict)
    placements: dict[TableKey, Placement] = field(default_factory=dict)

    def check_ids(self) -> None:
        for key, rows in self.parsed.rows.items():
            block = self._complete(self.catalog.by_table_key[key], rows)
            change = TableChange(block.type, block.rows, lines=block.lines, file=self.file)
            change = self._keep_one_row_per_id(change)
            if self.mode is LoadMode.OVERWRITE:
                change = _find_replacements(change, self.committed)
            self.changes[key] = change
            self.placements[key] = _find_placement(self.mode, minted=block.all_minted)

    def check_rules(self) -> None:
        require_valid(self.changes, self.catalog, self.committed)

    def require_new_ids(self) -> None:
        if self.mode is not LoadMode.APPEND:
            return
        for key in sorted(self.changes):
            change = self.changes[key]
            refuse_address(find_address(change.rows))
            if self.placements[key] is not Placement.FRESH:
                stored = self.committed.find(key, "id", change.ids, ["id"])
                found = check_stored_ids(change, get_column(stored, "id"), must_be_new=True)
                if len(found.taken):
                    raise _make_conflict(change, int(found.taken[0]))
                self.placements[key] = Placement.FRESH

    def _complete(self, type_: NodeType | EdgeType, rows: TypedRows) -> RowBlock:
        """Complete the rows of a type; raise for records that cannot be."""
        key, ids = type_.table_key, self.committed.snapshot.root.ids
        merges = self.mode is LoadMode.MERGE
        match_key = find_match_key(type_) if merges else None
        find_edges = partial(self.committed.find, key)
        how = Completion(
            mint=lambda count: pa.array(ids.take(count), pa.string()),
            matches=None if match_key is None else Matches(match_key, find_edges),
        )
        block = complete_rows(type_, rows, build_logical_schema(type_), how)
        find_stored = partial(self.committed.table, key) if merges else None
        add_vectors(block, self.vectors, find_stored)
        if block.problems:
            total = len(block.problems)
            shown = [msgspec.structs.replace(p, file=self.file) for p in block.problems[:REPORTED]]
            raise RowsRejected(shown, total)
        return block

    def _keep_one_row_per_id(self, change: TableChange) -> TableChange:
        """Keep the last record of an id in a merge; any repeat is refused otherwise."""
        found = check_repeated_ids(change, last_wins=self.mode is LoadMode.MERGE)
        violations = list(found.violations)
        if violations:
            raise ConstraintViolated(violations[:REPORTED], len(violations))
        if found.conflict is not None:
            first, last = found.conflict
            raise _make_conflict(change, last, first)
        return change.without(found.dropped)


def _make_conflict(change: TableChange, index: int, first: int | None = None) -> KeyConflict:
    """Make the refusal of a row whose id is taken: by a stored row, or by the row at `first`."""
    assert change.lines is not None, "records have lines"
    id, line = change.ids[index].as_py(), change.lines[index].as_py()
    if first is None:
        return KeyConflict(change.table_key, id, line, change.file)
    first_line = change.lines[first].as_py()
    return KeyConflict(change.table_key, id, line, change.file, first_line, change.file)


def _find_replacements(change: TableChange, committed: CommittedRows) -> TableChange:
    """Make the change the whole new image of its table: every other committed id is deleted."""
    stored = get_column(committed.table(change.table_key).scan(["id"]), "id")
    gone = stored.filter(mask_remaining(stored, change.ids)) if len(stored) else NO_IDS
    return replace(change, deleted=gone, replaces_all=True)


def _find_placement(mode: LoadMode, *, minted: bool) -> Placement:
    if mode is LoadMode.OVERWRITE:
        return Placement.OVERWRITE
    return Placement.FRESH if minted else Placement.UPSERT
