"""Stage a piece of input, the first stage of a load: one pass for all its types."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.catalog.catalog import Constraint
from omnigraph.constraints.table_changes import REPORTED
from omnigraph.embedding.text_vectors import TextVectors
from omnigraph.errors import BadRequest, RowProblem
from omnigraph.execution.load_options import (
    LoadMode,
    LoadOptions,
    Matches,
    build_type_specs,
    find_match_key,
)
from omnigraph.execution.stored_rows import find_address
from omnigraph.identity import TableKey
from omnigraph.pipeline.input_splits import (
    ColumnMapping,
    Format,
    InputFile,
    InputSplit,
    open_filesystem,
    store_path,
)
from omnigraph.pipeline.kernels.input_blocks import (
    BLOCK_BYTES,
    open_whole,
    read_line_blocks,
    read_lines_between,
)
from omnigraph.pipeline.kernels.staged_blocks import BlockOptions, find_edges, make_block
from omnigraph.pipeline.kernels.tabular import convert_table_rows, resolve_columns
from omnigraph.pipeline.staging_area import REJECTS, decode_catalog_cached, encode_position
from omnigraph.pipeline.tasks import Partition
from omnigraph.settings import AwsSettings, InputSettings
from omnigraph.storage.tables import Table, TableLocation, write_fragments
from omnigraph.types.jsonl_parser import ParsedLines, parse_lines
from omnigraph.types.jsonl_records import LineOptions, TypeSpec

if TYPE_CHECKING:
    from pyarrow.csv import ParseOptions

SHOWN_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """Settings shared by every task of the stage."""

    ir: str
    locations: Mapping[TableKey, TableLocation]
    aws: AwsSettings = field(repr=False)
    options: LoadOptions
    input: InputSettings = field(default_factory=InputSettings)
    limit: int = REPORTED
    rejects: TableLocation | None = None
    """Table of rejects for all refused records, if requested."""
    vectors: TextVectors | None = None
    """Requests the vectors that records leave out."""
    matched: Mapping[TableKey, Table | None] | None = None
    """The stored edges of types whose edges without ids are matched with them. None
    leaves matching to the process that commits the rows: they are staged without ids."""
    stored: Mapping[TableKey, Table] = field(default_factory=dict)
    """The stored rows of types whose rows may keep their vectors."""


@dataclass
class StagedBlock:
    """The valid rows of one type in one piece of input."""

    rows: int = 0
    fragments: list[str] = field(default_factory=list)
    all_minted: bool = True
    address: str | None = None


@dataclass
class StagedSplit:
    """Result of staging one split; lines are counted from its start."""

    split: int
    lines: int = 0
    bytes: int = 0
    tables: dict[TableKey, StagedBlock] = field(default_factory=dict)
    problems: list[RowProblem] = field(default_factory=list)
    problem_count: int = 0
    mismatches: dict[TableKey, list[RowProblem]] = field(default_factory=dict)
    """Records whose id contradicts their key, checked once all records can be read."""
    mismatch_counts: Counter[TableKey] = field(default_factory=Counter)
    rejects: list[str] = field(default_factory=list)


def stage_split(spec: StageSpec, split: InputSplit) -> StagedSplit:
    """Stage the rows of one piece of a file."""
    # Millions of small objects live for moments; looking for cycles among them is all loss.
    gc.disable()
    try:
        stager = _Stager(spec, split.number)
        match split.file.format:
            case Format.JSONL:
                _stage_lines(stager, split)
            case Format.PARQUET:
                _stage_parquet(stager, split)
            case Format.CSV | Format.TSV:
                _stage_csv(stager, split)
        return stager.result
    finally:
        gc.enable()


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePiece:
    """Some fragments of an input table."""

    number: int
    table: Table
    fragments: tuple[int, ...]
    mapping: ColumnMapping


def stage_table(spec: StageSpec, piece: TablePiece) -> StagedSplit:
    """Stage the rows of a table in memory, which the driver wrote to the staging area."""
    stager = _Stager(spec, piece.number)
    batches = piece.table.batches(fragments=piece.fragments)
    _stage_batches(stager, batches, piece.mapping, "the table")
    return stager.result


@dataclass(frozen=True, slots=True)
class FrameSpec:
    """Settings of the tasks that stage a data frame."""

    stage: StageSpec
    mapping: ColumnMapping


def stage_partition(spec: FrameSpec, task: Partition) -> StagedSplit:
    """Stage the rows of one partition of a data frame."""
    stager = _Stager(spec.stage, task.number)
    _stage_batches(stager, task.batches, spec.mapping, "the data frame")
    return stager.result


class _Stager:
    """Collects the rows and problems of one piece of input."""

    def __init__(self, spec: StageSpec, number: int) -> None:
        self.spec, self.result = spec, StagedSplit(number)
        self.catalog = decode_catalog_cached(spec.ir)
        keep = spec.limit if spec.rejects is None else 1 << 62
        self.options = LineOptions(
            partial=spec.options.partial, with_presence=True, max_problems=keep
        )
        self.types: tuple[TypeSpec, ...] = build_type_specs(self.catalog)

    def add(self, parsed: ParsedLines, records: Iterable[bytes] | None = None) -> None:
        result = self.result
        result.problem_count += parsed.problem_count
        room = max(0, self.spec.limit - len(result.problems))
        result.problems += parsed.problems[:room]
        refused = list(parsed.problems)
        for key, rows in parsed.rows.items():
            options = BlockOptions(
                split=result.split,
                partial=self.spec.options.partial,
                skips=self.spec.options.skips,
                matches=self._find_matches(key),
                leave_ids=self.spec.matched is None and self._find_match_key(key) is not None,
            )
            type_, stored = self.catalog.by_table_key[key], self.spec.stored.get(key)
            block = make_block(type_, rows, options, self.spec.vectors, stored)
            self._note_mismatches(key, block.problems)
            refused += block.problems
            kept = result.tables.setdefault(key, StagedBlock())
            kept.rows += block.rows.num_rows
            kept.all_minted = kept.all_minted and block.all_minted
            kept.address = kept.address or find_address(block.rows)
            if block.rows.num_rows:
                kept.fragments += write_fragments(self.spec.locations[key], block.rows)
        if self.spec.rejects is not None and refused:
            first = result.lines + 1
            self._write_rejects(refused, None if records is None else list(records), first)
        result.lines += parsed.line_count

    def _find_matches(self, key: TableKey) -> Matches | None:
        match_key = self._find_match_key(key)
        if match_key is None or self.spec.matched is None:
            return None
        return Matches(match_key, partial(find_edges, self.spec.matched[key]))

    def _find_match_key(self, key: TableKey) -> Constraint | None:
        if self.spec.options.mode is not LoadMode.MERGE:
            return None
        return find_match_key(self.catalog.by_table_key[key], self.spec.options.match)

    def _note_mismatches(self, key: TableKey, problems: list[RowProblem]) -> None:
        if problems:
            self.result.mismatch_counts[key] += len(problems)
            kept = self.result.mismatches.setdefault(key, [])
            kept += problems[: max(0, self.spec.limit - len(kept))]

    def _write_rejects(
        self, problems: list[RowProblem], records: list[bytes] | None, first: int
    ) -> None:
        assert self.spec.rejects is not None
        rows = [
            {
                "at": encode_position(self.result.split, problem.line or 0),
                "code": problem.code,
                "reason": problem.reason,
                "type_key": problem.type_key,
                "id": problem.id,
                "property": problem.property,
                "record": _parse_record(records, (problem.line or 0) - first),
            }
            for problem in problems
        ]
        table = pa.Table.from_pylist(rows, REJECTS)
        self.result.rejects += write_fragments(self.spec.rejects, table)


def _parse_record(records: list[bytes] | None, index: int) -> str | None:
    if records is None or not 0 <= index < len(records):
        return None
    return records[index][:SHOWN_BYTES].decode("utf-8", "replace")


# --- JSON lines ----------------------------------------------------------------------------------


def _stage_lines(stager: _Stager, split: InputSplit) -> None:
    for data, is_start in _read_blocks(split, stager.spec, stager.options.limits.line_bytes):
        parsed = parse_lines(
            data,
            stager.types,
            first_line=stager.result.lines + 1,
            at_file_start=is_start,
            options=stager.options,
        )
        stager.result.bytes += len(data)
        wants_records = stager.spec.rejects is not None and (parsed.problem_count or parsed.rows)
        stager.add(parsed, data.split(b"\n") if wants_records else None)


def _read_blocks(split: InputSplit, spec: StageSpec, longest: int) -> Iterator[tuple[bytes, bool]]:
    """Yield blocks of whole lines, each with True if it is the first of the file."""
    try:
        if split.file.compression is None:
            store = open_filesystem(split.file.path, spec.aws)
            with store.open_input_file(store_path(split.file.path)) as stream:
                yield read_lines_between(stream, split.start, split.end, longest), split.start == 0
            return
        with open_whole(split.file, spec.aws, spec.input) as stream:
            yield from read_line_blocks(stream, longest)
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(f"cannot read {split.file.name}: {error}") from error


# --- tables --------------------------------------------------------------------------------------


def _stage_parquet(stager: _Stager, split: InputSplit) -> None:
    # Only where a Parquet file is given.
    from omnigraph.pipeline.kernels.input_blocks import ParquetRows  # noqa: PLC0415

    assert split.file.mapping is not None
    store = open_filesystem(split.file.path, stager.spec.aws)
    try:
        with store.open_input_file(store_path(split.file.path)) as stream:
            rows = ParquetRows(stream, split, stager.spec.input)
            type_ = stager.catalog.by_table_key[TableKey(split.file.mapping.table_key)]
            chosen = resolve_columns(type_, split.file.mapping, rows.names, split.file.name)
            batches = rows.batches(sorted(set(chosen.values())))
            _stage_chosen(stager, batches, split.file.mapping, chosen)
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(f"cannot read {split.file.name}: {error}") from error


def _stage_csv(stager: _Stager, split: InputSplit) -> None:
    import pyarrow.csv as csv  # noqa: PLC0415 - only where a CSV file is given

    assert split.file.mapping is not None
    try:
        with open_whole(split.file, stager.spec.aws, stager.spec.input) as stream:
            names = _read_csv_names(split.file, stager.spec)
            convert = csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            )
            parse = _list_parse_options(split.file, stager.spec)
            reader = csv.open_csv(stream, convert_options=convert, parse_options=parse)
            mapping = split.file.mapping
            type_ = stager.catalog.by_table_key[TableKey(mapping.table_key)]
            chosen = resolve_columns(type_, mapping, names, split.file.name)
            stager.result.lines = 1  # the header
            _stage_chosen(stager, reader, mapping, chosen, is_text=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(f"cannot read {split.file.name}: {error}") from error
    stager.result.bytes = split.file.size


def _read_csv_names(file: InputFile, spec: StageSpec) -> list[str]:
    """Read the names in the header, by which every column is declared to be text."""
    import pyarrow.csv as csv  # noqa: PLC0415 - only where a CSV file is given

    with open_whole(file, spec.aws, spec.input) as stream:
        parse = _list_parse_options(file, spec)
        names: list[str] = csv.open_csv(stream, parse_options=parse).schema.names
    return names


def _list_parse_options(file: InputFile, spec: StageSpec) -> ParseOptions:
    import pyarrow.csv as csv  # noqa: PLC0415 - as above

    delimiter = spec.options.delimiter or ("\t" if file.format is Format.TSV else ",")
    return csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _stage_batches(
    stager: _Stager, batches: Iterable[pa.RecordBatch], mapping: ColumnMapping, where: str
) -> None:
    type_ = stager.catalog.by_table_key[TableKey(mapping.table_key)]
    rest = iter(batches)
    first = next(rest, None)
    if first is not None:
        chosen = resolve_columns(type_, mapping, first.schema.names, where)
        _stage_chosen(stager, chain([first], rest), mapping, chosen)


def _stage_chosen(
    stager: _Stager,
    batches: Iterable[pa.RecordBatch],
    mapping: ColumnMapping,
    chosen: dict[str, str],
    *,
    is_text: bool = False,
) -> None:
    """Gather rows into batches worth a file each, convert and stage them."""
    type_ = stager.catalog.by_table_key[TableKey(mapping.table_key)]
    for rows in _gather_batches(batches):
        parsed = convert_table_rows(
            type_, rows, chosen, stager.result.lines + 1, stager.options, is_text=is_text
        )
        stager.result.bytes += rows.nbytes
        stager.add(parsed)


def _gather_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        waiting.append(batch)
        size, rows = size + batch.nbytes, rows + batch.num_rows
        if size >= BLOCK_BYTES or rows >= 1 << 20:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, size, rows = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()
