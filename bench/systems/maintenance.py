"""Maintenance of a graph, beside that of Lance on the same tables.

Bytes on disk are reported among the storage calls, in kilobytes: what counts is that they follow
the current rows and not the commits that were made.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lance

import omnigraph
from bench.systems.bare_tables import NOTES, ChangeLog
from bench.systems.changes import (
    ITEM,
    KNOWS,
    NOTE,
    PERSON,
    Row,
    Target,
    base_rows,
    hash_of,
    insert,
    node_and_edge,
    preview_of,
    time_changes,
    update,
)
from bench.systems.clock import Seconds, timed
from bench.systems.prepared import copied
from bench.systems.small_graph import SmallGraph
from bench.systems.yardstick import Yardstick
from omnigraph.settings import Settings

_BASE_ROWS = 100
_FIRST_STEP = 1_000_000
_TURN = 100
"""Number of commits between two runs of maintenance."""
_COLUMNS = {"text": NOTE, "slug": ITEM, "born": PERSON, "src": KNOWS}


# --- optimizing -----------------------------------------------------------------------------------


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """A graph with indexes, and one-row commits after them; every second one adds an edge.

    Unless the parameters say otherwise no writer compacts fragments, so that all of them
    are left to the measured operation.
    """
    path = Path(spec["root"]) / "graph"
    SmallGraph.create(path, base_rows(_BASE_ROWS)).graph.optimize()
    settings = Settings(fold_after=spec["parameters"].get("fold_after", 0))
    graph = SmallGraph(omnigraph.open(path, actor="bench", settings=settings))
    for step in range(spec["parameters"]["commits"]):
        change = node_and_edge if step % 2 else insert
        graph.apply(change(_FIRST_STEP + step))
    return {}


def run_lance(spec: dict[str, Any]) -> dict[str, Any]:
    """The tables of the graph, compacted and indexed by Lance, one after the other."""
    path = copied(spec, "graph")
    tables = [lance.dataset(str(folder)) for folder in _table_folders(path)]
    _, took = timed(lambda: _optimize_all(tables))
    return _optimized(spec, took, list(_bare_rows(path)))


def _optimize_all(tables: Iterable[lance.LanceDataset]) -> None:
    for table in tables:
        table.optimize.compact_files()
        table.optimize.optimize_indices()


def run_ours(spec: dict[str, Any]) -> dict[str, Any]:
    graph = SmallGraph.open(copied(spec, "graph"))
    result, took = timed(graph.graph.optimize)
    assert result.commit is not None, "there was nothing to optimize"
    return _optimized(spec, took, list(graph.rows()))


def _optimized(spec: dict[str, Any], took: Seconds, rows: list[Row]) -> dict[str, Any]:
    return {
        "timings": {"optimize": took.wall, "processor": took.processor},
        "result_hash": hash_of(rows),
        "work": {"optimize": spec["parameters"]["commits"]},
        "preview": preview_of(rows),
        "notes": NOTES,
    }


def _table_folders(path: Path) -> list[Path]:
    return sorted([*(path / "nodes").iterdir(), *(path / "edges").iterdir()])


def _bare_rows(path: Path) -> Iterator[Row]:
    """Return the rows of the newest versions of the tables, regardless of the manifest."""
    for folder in _table_folders(path):
        rows = lance.dataset(str(folder)).to_table()
        name = next(table for column, table in _COLUMNS.items() if column in rows.schema.names)
        for row in rows.to_pylist():
            if name == KNOWS:
                yield Row(KNOWS, f"{row['src']}>{row['dst']}", row["since"])
            else:
                key, value = {
                    NOTE: ("text", "number"),
                    ITEM: ("slug", "amount"),
                    PERSON: ("name", "born"),
                }[name]
                yield Row(name, row[key], row[value])


# --- commits --------------------------------------------------------------------------------------


def prepare_histories(spec: dict[str, Any]) -> dict[str, Any]:
    """A graph without maintenance and one with it, with equal numbers of one-row commits.

    A log beside them, unless it is not wanted: every version of it lists all of its fragments, so
    that ten thousand of them take gigabytes.
    """
    root, rows = Path(spec["root"]), base_rows(_BASE_ROWS)
    neglected = SmallGraph.create(root / "neglected", rows)
    maintained = SmallGraph.create(root / "maintained", rows)
    targets: list[Target] = [neglected, maintained]
    if spec["parameters"].get("with_log", True):
        targets.append(ChangeLog.create(root / "log.lance", rows))
    for step in range(spec["parameters"]["commits"]):
        for target in targets:
            target.apply(insert(_FIRST_STEP + step))
        if step % _TURN == _TURN - 1:
            _look_after(maintained)
    _look_after(maintained)
    return {}


def _look_after(graph: SmallGraph) -> None:
    graph.graph.optimize()
    graph.graph.cleanup(keep=10, confirm=True)


def run_log(spec: dict[str, Any]) -> dict[str, Any]:
    log, opened = timed(lambda: ChangeLog.open(copied(spec, "log.lance")))
    return _committed(spec, log, opened)


def run_neglected(spec: dict[str, Any]) -> dict[str, Any]:
    return _run_graph(spec, "neglected")


def run_maintained(spec: dict[str, Any]) -> dict[str, Any]:
    return _run_graph(spec, "maintained")


def _run_graph(spec: dict[str, Any], name: str) -> dict[str, Any]:
    path = copied(spec, name)
    graph, opened = timed(lambda: SmallGraph.open(path))
    return _committed(spec, graph, opened) | {"calls": {"kilobytes on disk": _kilobytes(path)}}


def _committed(spec: dict[str, Any], target: Target, opened: Seconds) -> dict[str, Any]:
    parameters = spec["parameters"]
    yardstick = Yardstick(Path(spec["root"]))
    warm_up, repetitions = parameters["warm_up"], parameters["repetitions"]
    seconds = time_changes(target, "insert", warm_up, repetitions, yardstick.timed)
    rows = list(target.rows())
    return {
        "timings": {"open": opened.wall, **seconds, "yardstick": yardstick.seconds},
        "result_hash": hash_of(rows),
        "work": {"commit": 1},
        "preview": preview_of(rows),
        "notes": NOTES,
    }


# --- bytes ----------------------------------------------------------------------------------------


def prepare_rows(spec: dict[str, Any]) -> dict[str, Any]:
    """A graph after many updates, not yet cleaned, and one loaded with the rows it ended with."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    used = SmallGraph.create(root / "used", base_rows(parameters["rows"]))
    for step in range(parameters["commits"]):
        used.apply(update(step % parameters["rows"]))
    fresh = SmallGraph.create(root / "fresh", list(used.rows()))
    fresh.graph.optimize()
    return {}


def run_fresh(spec: dict[str, Any]) -> dict[str, Any]:
    return _cleaned(copied(spec, "fresh"), optimize=False)


def run_cleaned(spec: dict[str, Any]) -> dict[str, Any]:
    return _cleaned(copied(spec, "used"), optimize=True)


def _cleaned(path: Path, *, optimize: bool) -> dict[str, Any]:
    graph = SmallGraph.open(path)
    if optimize:
        graph.graph.optimize()
    _, took = timed(lambda: graph.graph.cleanup(keep=1, confirm=True))
    rows = list(graph.rows())
    kilobytes = _kilobytes(path)
    shutil.rmtree(path)
    return {
        "timings": {"cleanup": took.wall},
        "result_hash": hash_of(rows),
        "calls": {"kilobytes on disk": kilobytes},
        "preview": preview_of(rows),
        "notes": NOTES,
    }


def _kilobytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) // 1_000
