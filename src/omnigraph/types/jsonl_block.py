"""A block of lines as record batches: decoded, checked for repeated members, converted by column.

Blocks are small, so that what one step makes is still in the processor's cache when the next one
takes it up. A line the decoder refuses is read again slowly, which is what finds the reason.
The decoder does not notice repeated members; a count does: a line in which as many members can be
as were decoded has none twice, and only the other lines are read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import attrgetter, is_

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, UnsetType

from omnigraph.errors import RowProblem
from omnigraph.identity import EntityKind
from omnigraph.typed_reading import find_decoder
from omnigraph.types.from_json import convert_column, find_required_errors
from omnigraph.types.jsonl_examine import (
    LineRefused,
    examine_line,
    make_bad_value,
    make_missing_value,
)
from omnigraph.types.jsonl_scan import bound_members, check_limits
from omnigraph.types.jsonl_types import (
    NO_DATA,
    EdgeEnvelope,
    LineOptions,
    NodeEnvelope,
    PropertySpec,
    RecordType,
    RecordTypes,
    TypeSpec,
)
from omnigraph.types.list_columns import Flags, Integers
from omnigraph.types.problems import ValueRefused
from omnigraph.types.strict_json import parse_json

_BLANK = b" \t\r"
_EDGE_START = b'{"edge"'
_ENVELOPE_MEMBERS = {EntityKind.NODE: 1, EntityKind.EDGE: 3}
_NOT_DECODED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError)

_decode_node = find_decoder(NodeEnvelope).decode
_decode_edge = find_decoder(EdgeEnvelope).decode

Envelope = NodeEnvelope | EdgeEnvelope


@dataclass(frozen=True, slots=True)
class TypedBatch:
    """The good rows of one type in a block; `indexes` are the places of their lines in it."""

    spec: TypeSpec
    columns: pa.RecordBatch
    indexes: pa.Array
    presence: pa.RecordBatch | None


@dataclass(slots=True)
class _Block:
    """The lines being read, and what was found wrong with them."""

    lines: list[bytes]
    types: RecordTypes
    options: LineOptions
    problems: list[tuple[int, RowProblem]] = field(default_factory=list)

    def refuse(self, index: int, problem: RowProblem) -> None:
        self.problems.append((index, problem))


@dataclass(slots=True)
class _Group:
    """The records of one type within a block, side by side."""

    indexes: list[int] = field(default_factory=list)
    envelopes: list[Envelope] = field(default_factory=list)
    records: list[msgspec.Struct] = field(default_factory=list)

    def add(self, index: int, envelope: Envelope, record: msgspec.Struct) -> None:
        self.indexes.append(index)
        self.envelopes.append(envelope)
        self.records.append(record)

    def sort_rows(self) -> _Group:
        """In the order of lines, after late additions."""
        order = sorted(range(len(self.indexes)), key=self.indexes.__getitem__)
        return _Group(
            [self.indexes[place] for place in order],
            [self.envelopes[place] for place in order],
            [self.records[place] for place in order],
        )


def read_block(
    lines: Sequence[bytes], types: RecordTypes, options: LineOptions
) -> tuple[list[TypedBatch], list[tuple[int, RowProblem]]]:
    """The good rows by type, and the problems of the other lines, in the order of lines."""
    block = _Block(list(lines), types, options)
    _drop_oversized(block)
    groups = _decode(block)
    bounds = bound_members(block.lines)
    batches = [_build_batch(type, group, bounds, block) for type, group in groups.items()]
    # Sorting is stable: the problems of one line stay in the order of its properties.
    return batches, sorted(block.problems, key=lambda found: found[0])


def _drop_oversized(block: _Block) -> None:
    limits = block.options.limits
    harmless = min(limits.line_bytes, limits.structural_slots)
    if max(map(len, block.lines), default=0) <= harmless:
        return
    for index, line in enumerate(block.lines):
        problem = check_limits(line, limits) if len(line) > harmless else None
        if problem:
            block.refuse(index, problem)
            block.lines[index] = b""


def _decode(block: _Block) -> dict[RecordType, _Group]:
    groups: dict[RecordType, _Group] = defaultdict(_Group)
    suspects: list[int] = []
    nodes, edges = block.types.nodes, block.types.edges
    for index, line in enumerate(block.lines):
        if not line:
            continue  # a file that expands to nothing but ends of lines has very many
        envelope: Envelope
        try:
            if line.startswith(_EDGE_START):
                envelope = _decode_edge(line)
                type = edges[envelope.edge]
            else:
                envelope = _decode_node(line)
                type = nodes[envelope.type]
            record = type.decode(envelope.data)
        except _NOT_DECODED:
            suspects.append(index)
        else:
            groups[type].add(index, envelope, record)
    late = {_add_suspect(index, groups, block) for index in suspects}
    return {type: group.sort_rows() if type in late else group for type, group in groups.items()}


def _add_suspect(index: int, groups: dict[RecordType, _Group], block: _Block) -> RecordType | None:
    """Read a line once more, as an edge that begins with another member; then slowly."""
    line = block.lines[index]
    if not line.strip(_BLANK):
        return None
    try:
        edge = _decode_edge(line)
        type = block.types.edges[edge.edge]
        record = type.decode(edge.data)
    except _NOT_DECODED:
        return _add_examined(index, groups, block)
    groups[type].add(index, edge, record)
    return type


def _add_examined(index: int, groups: dict[RecordType, _Group], block: _Block) -> RecordType | None:
    try:
        found = examine_line(block.lines[index], block.types, partial=block.options.partial)
    except LineRefused as refused:
        for problem in refused.problems:
            block.refuse(index, problem)
        return None
    name, src, dst = found.type.spec.name, found.src, found.dst
    envelope = NodeEnvelope(name) if src is None or dst is None else EdgeEnvelope(name, src, dst)
    groups[found.type].add(index, envelope, found.record)
    return found.type


def _build_batch(type: RecordType, group: _Group, bounds: Integers, block: _Block) -> TypedBatch:
    """The columns of one type, without the rows that have a problem."""
    spec, indexes = type.spec, np.array(group.indexes, np.int64)
    ids, absent_id = _take(group.records, type.id)
    taken = [_take(group.records, value) for value in type.values]
    absent = [absent_id, *(missing for _, missing in taken)]
    refused = _find_repeated(group, bounds[indexes], absent, spec, block)
    repeated = frozenset(refused)
    columns = _build_structural_columns(spec, group, ids)
    for wanted, (values, missing) in zip(spec.properties, taken, strict=True):
        excused = missing if wanted.has_default or block.options.partial else None
        if wanted.is_made:
            excused = np.ones(len(values), np.bool_)
        columns[wanted.name], problems = _build_property(wanted, values, excused)
        for row, problem in problems:
            if row not in repeated:
                id = columns["id"][row].as_py()
                known = replace(problem, type_key=spec.table_key, id=id)
                block.refuse(group.indexes[row], known)
                refused.add(row)
    batch = pa.RecordBatch.from_pydict(columns)
    presence = _read_presence(spec, absent[1:], len(ids)) if block.options.with_presence else None
    return _keep(TypedBatch(spec, batch, pa.array(indexes), presence), refused)


def _take(
    records: list[msgspec.Struct], value: Callable[[msgspec.Struct], object]
) -> tuple[list[object], Flags | None]:
    """One member of every record, `None` where it was left out, and which rows those are."""
    values = list(map(value, records))
    if UnsetType not in set(map(type, values)):
        return values, None
    absent = np.fromiter(map(is_, values, repeat(UNSET)), np.bool_, len(values))
    return [None if v is UNSET else v for v in values], absent


def _find_repeated(
    group: _Group, bounds: Integers, absent: list[Flags | None], spec: TypeSpec, block: _Block
) -> set[int]:
    """The rows whose lines have a member twice; those are refused here."""
    data = map(attrgetter("data"), group.envelopes)
    without_data = np.fromiter(map(is_, data, repeat(NO_DATA)), np.bool_, len(bounds))
    decoded = _ENVELOPE_MEMBERS[spec.kind] + len(absent) + ~without_data
    for missing in absent:
        if missing is not None:
            decoded = decoded - missing
    refused = set()
    for row in np.flatnonzero(bounds != decoded).tolist():
        index = group.indexes[row]
        try:
            parse_json(block.lines[index])
        except ValueRefused as found:
            block.refuse(index, RowProblem(found.reason, found.problem))
            refused.add(row)
    return refused


def _build_structural_columns(
    spec: TypeSpec, group: _Group, ids: list[object]
) -> dict[str, pa.Array]:
    columns = {"id": pa.array(ids, pa.string())}
    if spec.kind is EntityKind.EDGE:
        for end in ("src", "dst"):
            columns[end] = pa.array(list(map(attrgetter(end), group.envelopes)), pa.string())
    return columns


def _build_property(
    wanted: PropertySpec, values: list[object], excused: Flags | None
) -> tuple[pa.Array, list[tuple[int, RowProblem]]]:
    """The column of one property, and its problems by row; `excused` rows may lack a value."""
    converted = convert_column(values, wanted.type)
    wrong = dict(converted.errors)
    problems = [(row, make_bad_value(reason, wanted)) for row, reason in wrong.items()]
    may_lack = None if excused is None else pa.array(excused)
    lacking = find_required_errors(converted.array, wanted.name, wanted.type, may_lack)
    problems += [(row, make_missing_value(wanted)) for row, _ in lacking if row not in wrong]
    return converted.array, problems


def _read_presence(spec: TypeSpec, absent: list[Flags | None], count: int) -> pa.RecordBatch | None:
    if not absent:
        # A batch without columns has no rows either, and would not match the others.
        return None
    every = np.ones(count, np.bool_)
    given = [pa.array(every if missing is None else ~missing) for missing in absent]
    return pa.RecordBatch.from_arrays(given, names=[p.name for p in spec.properties])


def _keep(batch: TypedBatch, refused: set[int]) -> TypedBatch:
    """The batch without the refused rows."""
    if not refused:
        return batch
    flags = np.ones(len(batch.indexes), np.bool_)
    flags[list(refused)] = False
    kept = pa.array(flags)
    presence = batch.presence and batch.presence.filter(kept)
    return TypedBatch(batch.spec, batch.columns.filter(kept), batch.indexes.filter(kept), presence)
