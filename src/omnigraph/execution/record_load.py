"""Load records that are in memory: the stages of the pipeline on whole tables, without tasks.

Parse, complete, check and stage call the functions that the kernels call on their share of the
rows. Nothing is written down between the stages, so a load of few records costs few requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.constraints.constraint_checks import require_valid
from omnigraph.constraints.row_ids import check_repeated_ids, match_stored_ids
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
from omnigraph.identity import TableKey, UlidSource
from omnigraph.storage.prepared_write import StagedTable, Ticket
from omnigraph.storage.snapshot import Snapshot
from omnigraph.types.jsonl_parser import ParsedLines, TypedRows, parse_lines
from omnigraph.types.jsonl_records import LineOptions


@dataclass(frozen=True, slots=True)
class RecordInput:
    """Records as JSON lines in one piece, and the name of their file."""

    data: bytes
    file: str | None = None


class RecordLoad:
    """One load. Parsed once for each schema, then prepared on a snapshot as often as needed."""

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
            KeyConflict: an id is there already, or twice.
        """
        committed, parsed = CommittedRows(snapshot), self._parse(catalog)
        changes: dict[TableKey, TableChange] = {}
        placements: dict[TableKey, Placement] = {}
        for key, rows in parsed.rows.items():
            block = self._complete(catalog.by_table_key[key], rows, snapshot.root.ids, committed)
            change = TableChange(block.type, block.rows, lines=block.lines, file=self._given.file)
            change = self._keep_one_row_per_id(change)
            if self._mode is LoadMode.OVERWRITE:
                change = _find_replacements(change, committed)
            changes[key] = change
            placements[key] = _find_placement(self._mode, minted=block.all_minted)
        require_valid(changes, catalog, committed)
        self.counts = {key: rows.columns.num_rows for key, rows in parsed.rows.items()}
        if self._mode is LoadMode.APPEND:
            for key in sorted(changes):
                refuse_address(find_address(changes[key].rows))
                if placements[key] is not Placement.FRESH:
                    _require_new_ids(changes[key], committed)
                    placements[key] = Placement.FRESH
        return stage_tables(
            snapshot, ticket, [(changes[key], placements[key]) for key in sorted(changes)]
        )

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

    def _complete(
        self,
        type_: NodeType | EdgeType,
        rows: TypedRows,
        ids: UlidSource,
        committed: CommittedRows,
    ) -> RowBlock:
        """Complete the rows of a type; raise for records that cannot be."""
        key = type_.table_key
        merges = self._mode is LoadMode.MERGE
        match_key = find_match_key(type_) if merges else None
        find_edges = partial(committed.find, key)
        how = Completion(
            mint=lambda count: pa.array(ids.take(count), pa.string()),
            matches=None if match_key is None else Matches(match_key, find_edges),
        )
        block = complete_rows(type_, rows, build_logical_schema(type_), how)
        find_stored = partial(committed.table, key) if merges else None
        add_vectors(block, self._vectors, find_stored)
        if block.problems:
            file, total = self._given.file, len(block.problems)
            shown = [msgspec.structs.replace(one, file=file) for one in block.problems[:REPORTED]]
            raise RowsRejected(shown, total)
        return block

    def _keep_one_row_per_id(self, change: TableChange) -> TableChange:
        """Keep the last record of an id in a merge; any repeat is refused otherwise."""
        found = check_repeated_ids(change, last_wins=self._mode is LoadMode.MERGE)
        violations = list(found.violations)
        if violations:
            raise ConstraintViolated(violations[:REPORTED], len(violations))
        if found.conflict is not None:
            first, last = found.conflict
            assert change.lines is not None, "records have lines"
            line, first_line = change.lines[last].as_py(), change.lines[first].as_py()
            id = change.ids[first].as_py()
            raise KeyConflict(change.table_key, id, line, change.file, first_line, change.file)
        return change.without(found.dropped)


def _find_replacements(change: TableChange, committed: CommittedRows) -> TableChange:
    """Make the change the whole new image of its table: every other committed id is deleted."""
    stored = get_column(committed.table(change.table_key).scan(["id"]), "id")
    gone = stored.filter(mask_remaining(stored, change.ids)) if len(stored) else NO_IDS
    return replace(change, deleted=gone, replaces_all=True)


def _find_placement(mode: LoadMode, *, minted: bool) -> Placement:
    if mode is LoadMode.OVERWRITE:
        return Placement.OVERWRITE
    return Placement.FRESH if minted else Placement.UPSERT


def _require_new_ids(change: TableChange, committed: CommittedRows) -> None:
    """Raise for the first row whose id is stored.

    Raises:
        KeyConflict: an id is there already.
    """
    found = committed.find(change.table_key, "id", change.ids, ["id"])
    matched = match_stored_ids(change.ids, get_column(found, "id"))
    if matched.null_count < len(matched):
        index = pc.index(pc.is_valid(matched), True).as_py()
        line = None if change.lines is None else change.lines[index].as_py()
        raise KeyConflict(change.table_key, change.ids[index].as_py(), line, change.file)
