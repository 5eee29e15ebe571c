"""Parse JSON lines to Arrow columns, by the strict grammar of the loader.

A line is one record: `{"type": T, "data": {…}}` for a node, `{"edge": E, "from": …, "to": …,
"data": {…}}` for an edge. Lines end in LF or CRLF; blank ones are skipped, and so is a byte
order mark at the start of a file. Unknown, repeated and misplaced members are errors.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter, is_

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from omnigraph.errors import ResourceLimitExceeded, RowProblem
from omnigraph.identity import EntityKind, TableKey
from omnigraph.struct_decoding import find_decoder
from omnigraph.types.arrow import Flags, Integers
from omnigraph.types.column_values import convert_column, find_required_errors
from omnigraph.types.json_value import parse_json
from omnigraph.types.jsonl_records import (
    NO_DATA,
    EdgeEnvelope,
    LineLimits,
    LineOptions,
    LineRefused,
    NodeEnvelope,
    PropertySpec,
    RecordType,
    RecordTypes,
    TypeSpec,
    build_record_types,
    examine_line,
    make_bad_value,
    make_missing_value,
)
from omnigraph.types.row_problems import ProblemCode, ValueRefused

BLOCK_LINES = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_STRICT = LineOptions()


@dataclass(frozen=True, slots=True)
class TypedRows:
    """The valid rows of one type, in line order.

    `columns` holds `id` (null where the line has none), `src` and `dst` of edges, and the
    properties in the order of the specification; an omitted property is null. `presence` holds
    one boolean column per property; `None` unless requested, and for types without properties.
    """

    spec: TypeSpec
    columns: pa.Table
    lines: pa.ChunkedArray
    presence: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """The rows of a block of input by table key, and the problems of rejected lines.

    `problems` are the first ones in line order; `problem_counts` counts all of them by type (`None`
    if the line has none) and code. A row with a problem is in no table.
    """

    rows: Mapping[TableKey, TypedRows]
    line_count: int
    problems: tuple[RowProblem, ...] = ()
    problem_counts: Mapping[tuple[str | None, str], int] = field(default_factory=dict)

    @property
    def problem_count(self) -> int:
        return sum(self.problem_counts.values())


def parse_lines(
    data: bytes,
    specs: Sequence[TypeSpec],
    *,
    file: str | None = None,
    first_line: int = 1,
    at_file_start: bool = True,
    options: LineOptions = _STRICT,
) -> ParsedLines:
    """Parse whole lines of input to rows, and problems of invalid ones.

    Args:
        data: Whole lines, less than 2 GiB; the last one need not end in a line break.
        specs: The types of lines.
        file: The name to report.
        first_line: The number of the first line given.
        at_file_start: Whether a byte order mark is allowed at the start.
        options: Strictness about omitted properties, and reported details.
    """
    lines = _split(data, at_file_start=at_file_start)
    types = build_record_types(tuple(specs))
    collected = _Collected(options.max_problems)
    for start in range(0, len(lines), BLOCK_LINES):
        first = first_line + start
        batches, found = read_block(lines[start : start + BLOCK_LINES], types, options)
        collected.add_batches(batches, first)
        collected.add_problems(
            msgspec.structs.replace(p, file=file, line=first + at) for at, p in found
        )
    return collected.result(len(lines))


def _split(data: bytes, *, at_file_start: bool) -> list[bytes]:
    if at_file_start and data.startswith(_BYTE_ORDER_MARK):
        data = data[len(_BYTE_ORDER_MARK) :]
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


class _Collected:
    """Rows and problems of the blocks of one piece of input."""

    def __init__(self, max_problems: int) -> None:
        self._max_problems = max_problems
        self._batches: dict[TableKey, list[tuple[TypedBatch, pa.Array]]] = {}
        self._problems: list[RowProblem] = []
        self._counts: Counter[tuple[str | None, str]] = Counter()

    def add_batches(self, batches: Iterable[TypedBatch], first_line: int) -> None:
        for batch in batches:
            lines = pc.add(batch.indexes, first_line)
            self._batches.setdefault(batch.spec.table_key, []).append((batch, lines))

    def add_problems(self, problems: Iterable[RowProblem]) -> None:
        for problem in problems:
            self._counts[problem.type_key, problem.code] += 1
            if len(self._problems) < self._max_problems:
                self._problems.append(problem)

    def result(self, line_count: int) -> ParsedLines:
        rows = {key: _convert_typed_rows(self._batches[key]) for key in sorted(self._batches)}
        return ParsedLines(rows, line_count, tuple(self._problems), dict(self._counts))


def _convert_typed_rows(batches: list[tuple[TypedBatch, pa.Array]]) -> TypedRows:
    presence = [batch.presence for batch, _ in batches if batch.presence is not None]
    return TypedRows(
        batches[0][0].spec,
        pa.Table.from_batches([batch.columns for batch, _ in batches]),
        pa.chunked_array([lines for _, lines in batches]),
        pa.Table.from_batches(presence) if presence else None,
    )


# --- blocks of lines ------------------------------------------------------------------------------


_BLANK = b" \t\r"
_EDGE_START = b'{"edge"'
_ENVELOPE_MEMBERS = {EntityKind.NODE: 1, EntityKind.EDGE: 3}
_NOT_DECODED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError)

_decode_node = find_decoder(NodeEnvelope).decode
_decode_edge = find_decoder(EdgeEnvelope).decode

Envelope = NodeEnvelope | EdgeEnvelope


@dataclass(frozen=True, slots=True)
class TypedBatch:
    """The valid rows of one type in a block; `indexes` are the indexes of their lines in it."""

    spec: TypeSpec
    columns: pa.RecordBatch
    indexes: pa.Array
    presence: pa.RecordBatch | None


@dataclass(slots=True)
class _Block:
    """The lines of a block, with the problems found so far."""

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
        """Sort the rows by line, after late additions."""
        order = sorted(range(len(self.indexes)), key=self.indexes.__getitem__)
        return _Group(
            [self.indexes[index] for index in order],
            [self.envelopes[index] for index in order],
            [self.records[index] for index in order],
        )


def read_block(
    lines: Sequence[bytes], types: RecordTypes, options: LineOptions
) -> tuple[list[TypedBatch], list[tuple[int, RowProblem]]]:
    """Read a block: the valid rows by type, and the problems of other lines, in line order."""
    block = _Block(list(lines), types, options)
    _drop_oversized(block)
    groups = _decode(block)
    bounds = bound_members(block.lines)
    batches = [_build_batch(type, group, bounds, block) for type, group in groups.items()]
    # Sorting is stable: the problems of one line remain in the order of its properties.
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
    """Read a line again: an edge with other first members, or by the slow path."""
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
    """Build the columns of one type, without the rows that have a problem."""
    spec, indexes = type.spec, np.array(group.indexes, np.int64)
    ids, absent_id = _take(group.records, type.id)
    taken = [_take(group.records, value) for value in type.values]
    absent = [absent_id, *(missing for _, missing in taken)]
    refused = _find_repeated(group, bounds[indexes], absent, spec, block)
    repeated = frozenset(refused)
    columns = _build_structural_columns(spec, group, ids)
    for property_, (values, missing) in zip(spec.properties, taken, strict=True):
        excused = missing if property_.has_default or block.options.partial else None
        if property_.is_made:
            excused = np.ones(len(values), np.bool_)
        columns[property_.name], problems = _build_property(property_, values, excused)
        for row, problem in problems:
            if row not in repeated:
                id = columns["id"][row].as_py()
                known = msgspec.structs.replace(problem, type_key=spec.table_key, id=id)
                block.refuse(group.indexes[row], known)
                refused.add(row)
    batch = pa.RecordBatch.from_pydict(columns)
    presence = _read_presence(spec, absent[1:], len(ids)) if block.options.with_presence else None
    return _keep(TypedBatch(spec, batch, pa.array(indexes), presence), refused)


def _take(
    records: list[msgspec.Struct], value: Callable[[msgspec.Struct], object]
) -> tuple[list[object], Flags | None]:
    """Extract one member of every record, `None` where it was omitted, with a mask of those."""
    values = list(map(value, records))
    if UnsetType not in set(map(type, values)):
        return values, None
    absent = np.fromiter(map(is_, values, repeat(UNSET)), np.bool_, len(values))
    return [None if v is UNSET else v for v in values], absent


def _find_repeated(
    group: _Group, bounds: Integers, absent: list[Flags | None], spec: TypeSpec, block: _Block
) -> set[int]:
    """Find and reject the rows whose lines repeat a member."""
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
    property_: PropertySpec, values: list[object], excused: Flags | None
) -> tuple[pa.Array, list[tuple[int, RowProblem]]]:
    """Build the column of a property and its problems by row; `excused` rows may lack a value."""
    converted = convert_column(values, property_.type)
    wrong = dict(converted.errors)
    problems = [(row, make_bad_value(reason, property_)) for row, reason in wrong.items()]
    may_lack = None if excused is None else pa.array(excused)
    lacking = find_required_errors(converted.array, property_.name, property_.type, may_lack)
    problems += [(row, make_missing_value(property_)) for row, _ in lacking if row not in wrong]
    return converted.array, problems


def _read_presence(spec: TypeSpec, absent: list[Flags | None], count: int) -> pa.RecordBatch | None:
    if not absent:
        # A batch without columns has no rows either, and would not match the others.
        return None
    every = np.ones(count, np.bool_)
    given = [pa.array(every if missing is None else ~missing) for missing in absent]
    return pa.RecordBatch.from_arrays(given, names=[p.name for p in spec.properties])


def _keep(batch: TypedBatch, refused: set[int]) -> TypedBatch:
    """Return the batch without the refused rows."""
    if not refused:
        return batch
    flags = np.ones(len(batch.indexes), np.bool_)
    flags[list(refused)] = False
    kept = pa.array(flags)
    presence = batch.presence and batch.presence.filter(kept)
    return TypedBatch(batch.spec, batch.columns.filter(kept), batch.indexes.filter(kept), presence)


# --- limits, from the bytes of a line alone -------------------------------------------------------


_STRUCTURAL = (b"{", b"}", b"[", b"]", b",", b":")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)

_BEFORE_A_COLON = np.zeros(256, np.bool_)
_BEFORE_A_COLON[list(b'" \t\r')] = True
"""Bytes allowed directly before the colon of a member: the end of its name, or white space."""


def check_limits(line: bytes, limits: LineLimits) -> RowProblem | None:
    """Return the limit a line exceeds, if it does."""
    if len(line) > limits.line_bytes:
        return _make_problem("graph_batch_line_bytes", limits.line_bytes, len(line))
    slots = limits.structural_slots
    if _count(line) > slots and (exact := _count(_STRING.sub(b"", line))) > slots:
        return _make_problem("graph_batch_json_structural_slots", slots, exact)
    return None


def _count(text: bytes) -> int:
    return sum(text.count(character) for character in _STRUCTURAL)


def _make_problem(resource: str, limit: int, actual: int) -> RowProblem:
    return RowProblem(str(ResourceLimitExceeded(resource, limit, actual)), ProblemCode.LIMIT)


def bound_members(lines: Sequence[bytes]) -> Integers:
    """Compute for each line an upper bound of the number of its JSON members.

    Every member has a colon, and before the colon the quotation mark that ends its name, or white
    space. The inside of strings may match as well, so the bound can be too large, never too small.
    """
    text = np.frombuffer(b"\n".join(lines) + b"\n", np.uint8)
    colons = np.flatnonzero(text == ord(":"))
    candidates = colons[_BEFORE_A_COLON[text[colons - 1]]]
    ends = np.flatnonzero(text == ord("\n"))
    return np.diff(np.searchsorted(candidates, ends), prepend=0)
