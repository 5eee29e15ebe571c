"""Opening and writing a graph of ever more node types, only one of which is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance

from bench.systems.bare_tables import FORMAT, NOTES, table_of
from bench.systems.changes import NOTE, Change, Row, hash_of, insert, preview_of, time_changes
from bench.systems.clock import timed
from bench.systems.prepared import copied
from bench.systems.small_graph import SmallGraph
from bench.systems.storage_calls import calls_of_one
from bench.systems.yardstick import Yardstick

_BASE_ROWS = tuple(Row(NOTE, f"note-{number}", number) for number in range(100))
_TYPE = "node {name} {{ text: String  number: I64 }}\n"


class TableFolder:
    """A folder of bare tables, all of them open."""

    def __init__(self, folder: Path) -> None:
        paths = sorted(folder.iterdir())
        self._tables = {path.stem: lance.dataset(str(path)) for path in paths}

    def apply(self, change: Change) -> None:
        (row,) = change.puts
        self._tables[row.table].insert(table_of([row]))

    def rows(self) -> list[Row]:
        lines = self._tables[NOTE].to_table().to_pylist()
        return [Row(NOTE, line["id"], line["value"]) for line in lines]


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """A graph and a folder of tables, `Note` with some rows and all others empty."""
    root = Path(spec["root"])
    names = [NOTE, *(f"Other{number}" for number in range(1, spec["parameters"]["types"]))]
    for name in names:
        rows = table_of(_BASE_ROWS if name == NOTE else [])
        lance.write_dataset(rows, str(root / "tables" / f"{name}.lance"), **FORMAT)
    schema = "".join(_TYPE.format(name=name) for name in names)
    SmallGraph.create(root / "graph", _BASE_ROWS, schema)
    return {}


def run_tables(spec: dict[str, Any]) -> dict[str, Any]:
    path = copied(spec, "tables")
    tables, opened = timed(lambda: TableFolder(path))
    return _sample(spec, tables, path, opened.wall)


def run_graph(spec: dict[str, Any]) -> dict[str, Any]:
    path = copied(spec, "graph")
    graph, opened = timed(lambda: SmallGraph.open(path))
    return _sample(spec, graph, path, opened.wall)


def _sample(
    spec: dict[str, Any], target: TableFolder | SmallGraph, path: Path, opened: float
) -> dict[str, Any]:
    warm_up, repetitions = (spec["parameters"][name] for name in ("warm_up", "repetitions"))
    yardstick = Yardstick(path.parent)
    seconds = time_changes(target, "insert", warm_up, repetitions, yardstick.timed)
    calls = calls_of_one(target, path, insert, warm_up + repetitions)
    rows = list(target.rows())
    return {
        "timings": {"open": opened, **seconds, "yardstick": yardstick.seconds},
        "result_hash": hash_of(rows),
        "calls": calls,
        "preview": preview_of(rows),
        "notes": NOTES,
    }
