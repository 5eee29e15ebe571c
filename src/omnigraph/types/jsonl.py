"""JSON lines as Arrow columns, by the strict grammar of the loader.

A line is one record: `{"type": T, "data": {…}}` for a node, `{"edge": E, "from": …, "to": …,
"data": {…}}` for an edge. Lines end in LF or CRLF; blank ones are skipped, and so is a byte order
mark at the start of a file. Nothing unknown, repeated or out of place is let through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import RowProblem
from omnigraph.identity import TableKey
from omnigraph.types.jsonl_block import TypedBatch, read_block
from omnigraph.types.jsonl_types import LineOptions, TypeSpec, build_record_types

BLOCK_LINES = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_STRICT = LineOptions()


@dataclass(frozen=True, slots=True)
class TypedRows:
    """The good rows of one type, in the order of their lines.

    `columns` holds `id` (null where the line gave none), `src` and `dst` of edges, and the
    properties as the specification orders them; a property left out is null. `presence` holds
    one boolean column per property; it is `None` unless asked for, and for types without any.
    """

    spec: TypeSpec
    columns: pa.Table
    lines: pa.ChunkedArray
    presence: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """All lines of one piece of input: the good rows by table key, and what was wrong.

    `problems` are in line order, and the first ones only; `problem_counts` counts all of them
    by type (`None` when the line did not say) and code. A row with any problem is in no table.
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
    """The rows of whole lines of input, and the problems of those that do not fit.

    Args:
        data: Whole lines, less than 2 GiB of them; the last one need not end.
        specs: The types that lines may be of.
        file: The name to report.
        first_line: The number of the first line given.
        at_file_start: Whether a byte order mark may stand first.
        options: How strict to be about what is left out, and what to report.
    """
    lines = _split(data, at_file_start=at_file_start)
    types = build_record_types(tuple(specs))
    collected = _Collected(options.max_problems)
    for start in range(0, len(lines), BLOCK_LINES):
        first = first_line + start
        batches, found = read_block(lines[start : start + BLOCK_LINES], types, options)
        collected.add_batches(batches, first)
        collected.add_problems(replace(p, file=file, line=first + at) for at, p in found)
    return collected.result(len(lines))


def _split(data: bytes, *, at_file_start: bool) -> list[bytes]:
    if at_file_start and data.startswith(_BYTE_ORDER_MARK):
        data = data[len(_BYTE_ORDER_MARK) :]
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


class _Collected:
    """What the blocks of one piece of input gave so far."""

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
