"""Convert the columns of a table to the rows of a type; bad values are refused row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import BadRequest, RowProblem
from omnigraph.execution.load_options import build_type_spec
from omnigraph.pipeline.input_splits import ColumnMapping
from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.column_values import (
    Converted,
    convert_array,
    convert_column,
    find_required_errors,
)
from omnigraph.types.jsonl_parser import ParsedLines, TypedRows
from omnigraph.types.jsonl_records import (
    LineOptions,
    PropertySpec,
    make_bad_value,
    make_missing_value,
)
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.types.row_problems import ProblemCode, describe_closest

_ALIASES = {"src": ("from", "src"), "dst": ("to", "dst"), "id": ("id",)}


def resolve_columns(
    type_: NodeType | EdgeType, mapping: ColumnMapping, names: Sequence[str], where: str
) -> dict[str, str]:
    """Assign columns to `id`, the ends and each property; raise for an unassigned one."""
    chosen = dict(mapping.columns)
    given = names
    for column in mapping.selected:
        if column not in given:
            raise BadRequest(f"{where} has no column '{column}'")
    if mapping.selected:
        names = [name for name in names if name in mapping.selected]
    wanted = [p.name for p in type_.properties] + ["id"]
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    for name in (*wanted, *ends):
        if name in chosen:
            continue
        found = [alias for alias in _ALIASES.get(name, (name,)) if alias in names]
        if found:
            chosen[name] = found[0]
    for name, column in chosen.items():
        if column not in given:
            raise BadRequest(f"{where} has no column '{column}' for {type_.name}.{name}")
    for end in ends:
        if end not in chosen:
            shown = "from" if end == "src" else "to"
            raise BadRequest(f"{where} has no column for '{shown}' of {type_.name}")
    unknown = [name for name in names if name not in chosen.values()]
    if unknown:
        free = frozenset(name for name in wanted if name not in chosen)
        hint = describe_closest(unknown[0], free)
        raise BadRequest(
            f"{where}: column '{unknown[0]}' is not a property of {type_.name}; name the property "
            "it holds (--column, in Python columns=…), or select the columns to read (--select, "
            f"in Python select=…){hint}"
        )
    return chosen


def convert_table_rows(
    type_: NodeType | EdgeType,
    rows: pa.Table | pa.RecordBatch,
    chosen: dict[str, str],
    first_line: int,
    options: LineOptions,
    *,
    is_text: bool = False,
) -> ParsedLines:
    """Convert rows; return the valid ones, and the problems of the others.

    With `is_text` every column is text, as in CSV, and numbers are parsed.
    """
    count = rows.num_rows
    problems: list[tuple[int, RowProblem]] = []
    columns = _convert_structural(type_, rows, chosen, problems)
    presence: dict[str, pa.Array] = {}
    for wanted in build_type_spec(type_).properties:
        given = wanted.name in chosen
        values = _convert_column(rows, chosen[wanted.name]) if given else None
        columns[wanted.name] = _convert_property(
            wanted, values, count, problems, options, is_text=is_text
        )
        presence[wanted.name] = pa.array(np.full(count, given))
    lines = pa.array(np.arange(first_line, first_line + count, dtype=np.int64))
    return _keep_rows(type_, columns, presence, lines, problems, count, options)


def _keep_rows(
    type_: NodeType | EdgeType,
    columns: dict[str, pa.Array],
    presence: dict[str, pa.Array],
    lines: pa.Array,
    problems: list[tuple[int, RowProblem]],
    count: int,
    options: LineOptions,
) -> ParsedLines:
    table = pa.table(columns)
    given = pa.table(presence) if presence else None
    ids = columns["id"]
    key = type_.table_key
    located = [
        msgspec.structs.replace(p, line=lines[row].as_py(), type_key=key, id=ids[row].as_py())
        for row, p in sorted(problems, key=lambda found: found[0])
    ]
    if problems:
        flags = np.ones(count, np.bool_)
        flags[[row for row, _ in problems]] = False
        keep = pa.array(flags)
        table, lines = table.filter(keep), lines.filter(keep)
        given = given.filter(keep) if given is not None else None
    typed = TypedRows(build_type_spec(type_), table, pa.chunked_array([lines]), given)
    counts = Counter((p.type_key, p.code) for p in located)
    rows = {type_.table_key: typed} if table.num_rows else {}
    return ParsedLines(rows, count, tuple(located[: options.max_problems]), dict(counts))


def _convert_structural(
    type_: NodeType | EdgeType,
    rows: pa.Table | pa.RecordBatch,
    chosen: dict[str, str],
    problems: list[tuple[int, RowProblem]],
) -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = {}
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    for name in ("id", *ends):
        if name not in chosen:
            columns[name] = pa.nulls(rows.num_rows, pa.string())
            continue
        converted = convert_array(_convert_column(rows, chosen[name]), PropertyType(Scalar.STRING))
        shown = {"src": "from", "dst": "to"}.get(name, name)
        for row, _ in converted.errors:
            reason = f"'{shown}' must be a string"
            problems.append((row, RowProblem(reason, ProblemCode.ENVELOPE)))
        columns[name] = converted.array
    for end in ends:
        refused = {row for row, _ in problems}
        for row in pc.indices_nonzero(columns[end].is_null()).to_pylist():
            if row not in refused:
                shown = "from" if end == "src" else "to"
                reason = f"an edge record needs '{shown}'"
                problems.append((row, RowProblem(reason, ProblemCode.ENVELOPE)))
    return columns


def _convert_column(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    found = rows.column(name)
    if isinstance(found, pa.ChunkedArray):
        return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
    return found


def _convert_property(
    wanted: PropertySpec,
    values: pa.Array | None,
    count: int,
    problems: list[tuple[int, RowProblem]],
    options: LineOptions,
    *,
    is_text: bool,
) -> pa.Array:
    if values is None:
        array = pa.nulls(count, to_arrow_type(wanted.type))
        if wanted.type.nullable or wanted.has_default or wanted.is_made or options.partial:
            return array
        problems += [(row, make_missing_value(wanted)) for row in range(count)]
        return array
    converted = parse_texts(values, wanted.type) if is_text else convert_array(values, wanted.type)
    wrong = dict(converted.errors)
    problems += [(row, make_bad_value(reason, wanted)) for row, reason in wrong.items()]
    lacking = find_required_errors(converted.array, wanted.name, wanted.type)
    lacking = [] if wanted.is_made else lacking
    problems += [(row, make_missing_value(wanted)) for row, _ in lacking if row not in wrong]
    return converted.array


def parse_texts(values: pa.Array, wanted: PropertyType) -> Converted:
    """Parse texts to the column of a property type."""
    if wanted.is_list or wanted.is_vector:
        return _from_json_text(values, wanted)
    if wanted.scalar is Scalar.BOOL:
        return _parse_booleans(values, wanted)
    if wanted.scalar in INTEGERS | FLOATS:
        return _parse_numbers(values, wanted)
    return convert_array(values, wanted)


def _parse_booleans(values: pa.Array, wanted: PropertyType) -> Converted:
    words = pc.utf8_lower(values)
    known = pc.or_(pc.equal(words, "true"), pc.equal(words, "false"))
    wrong = pc.invert(pc.fill_null(known, True))
    array = pc.if_else(pc.fill_null(known, False), pc.equal(words, "true"), None)
    return Converted(array.cast(pa.bool_()), _find_text_errors(values, wrong, wanted))


def _parse_numbers(values: pa.Array, wanted: PropertyType) -> Converted:
    target = to_arrow_type(wanted)
    try:
        numbers = values.cast(pa.float64() if wanted.scalar in FLOATS else target)
    except pa.ArrowInvalid:
        return _convert_one_by_one(values, wanted)
    return convert_array(numbers, wanted)


def _convert_one_by_one(values: pa.Array, wanted: PropertyType) -> Converted:
    parsed: list[object] = []
    unread: list[tuple[int, str]] = []
    for row, text in enumerate(values.to_pylist()):
        number = _number(text, is_float=wanted.scalar in FLOATS)
        if text is not None and number is None:
            unread.append((row, f"expects {wanted.display(nullable=False)}, got '{text}'"))
        parsed.append(number)
    converted = convert_column(parsed, wanted)
    return Converted(converted.array, tuple(sorted([*unread, *converted.errors])))


def _number(text: str | None, *, is_float: bool) -> int | float | None:
    if text is None:
        return None
    try:
        return float(text) if is_float else int(text)
    except ValueError:
        return None


def _from_json_text(values: pa.Array, wanted: PropertyType) -> Converted:
    parsed: list[object] = []
    unread: list[tuple[int, str]] = []
    for row, text in enumerate(values.to_pylist()):
        try:
            parsed.append(None if text is None else msgspec.json.decode(text))
        except msgspec.DecodeError:
            parsed.append(None)
            unread.append((row, "expects a JSON array"))
    converted = convert_column(parsed, wanted)
    return Converted(converted.array, tuple(sorted([*unread, *converted.errors])))


def _find_text_errors(
    values: pa.Array, wrong: pa.Array, wanted: PropertyType
) -> tuple[tuple[int, str], ...]:
    expected = wanted.display(nullable=False)
    rows: Iterable[int] = pc.indices_nonzero(wrong).to_pylist()
    return tuple((row, f"expects {expected}, got '{values[row]}'") for row in rows)
