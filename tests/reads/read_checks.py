"""Comparing what a graph gives as a whole with the rows it should have."""

from __future__ import annotations

from collections.abc import Iterator

from reads.questions import multiset_difference
from reads.read_conditions import Row
from reads.read_model import COLUMNS, EDGES, TABLES, State


class Wrong(AssertionError):
    """An answer that its rows do not give."""


def check_rows(rows: object, table: str, state: State) -> None:
    """All rows of a type, and its reported row count."""
    columns = COLUMNS[table]
    found = rows.to_arrow().select(list(columns)).to_pylist()  # type: ignore[attr-defined]
    wanted = [row_values(row, table) for row in state[table].values()]
    problem = multiset_difference(wanted, [row_values(row, table) for row in found])
    if problem is None and len(rows) != len(wanted):  # type: ignore[arg-type]
        problem = f"says that it has {len(rows)} rows instead of {len(wanted)}"  # type: ignore[arg-type]
    if problem is not None:
        raise Wrong(f"{table}: {problem}")


def row_values(row: Row, table: str) -> tuple[object, ...]:
    values = (row[name] for name in COLUMNS[table])
    return tuple(tuple(v) if isinstance(v, list) else v for v in values)


def check_export(records: Iterator[dict[str, object]], state: State) -> None:
    found: dict[str, list[tuple[object, ...]]] = {table: [] for table in TABLES}
    for record in records:
        table = str(record.get("type") or record["edge"])
        row: Row = dict(record["data"])  # type: ignore[call-overload]
        if table in EDGES:
            row |= {"src": record["from"], "dst": record["to"]}
        else:
            row["id"] = row["key"]
        found[table].append(row_values(dict.fromkeys(COLUMNS[table]) | row, table))
    for table in TABLES:
        wanted = [row_values(row, table) for row in state[table].values()]
        problem = multiset_difference(wanted, found[table])
        if problem is not None:
            raise Wrong(f"export of {table}: {problem}")
