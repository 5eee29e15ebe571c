"""One commit after another on a warm handle: a graph, bare tables, and a log of changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.systems.bare_tables import NOTES, BareTables, ChangeLog
from bench.systems.changes import KINDS, Target, base_rows, hash_of, preview_of, time_changes
from bench.systems.small_graph import SmallGraph
from bench.systems.storage_calls import calls_of_one


def run_log(spec: dict[str, Any]) -> dict[str, Any]:
    """Every change as one append to one table."""
    path = Path(spec["root"]) / "log.lance"
    return _sample(spec, ChangeLog.create(path, base_rows(_rows(spec))), path)


def run_bare(spec: dict[str, Any]) -> dict[str, Any]:
    """Every change as Lance does it: append, merge, update, delete, or two appends."""
    path = Path(spec["root"]) / "tables"
    return _sample(spec, BareTables(path, base_rows(_rows(spec))), path)


def run_ours(spec: dict[str, Any]) -> dict[str, Any]:
    """Every change as a mutation: checked, recoverable, and one commit for all its tables."""
    path = Path(spec["root"]) / "graph"
    return _sample(spec, SmallGraph.create(path, base_rows(_rows(spec))), path)


def _rows(spec: dict[str, Any]) -> int:
    return int(spec["parameters"]["rows"])


def _sample(spec: dict[str, Any], target: Target, path: Path) -> dict[str, Any]:
    """Timed commits, then a few more whose calls are counted."""
    parameters = spec["parameters"]
    kind, warm_up, repetitions = (parameters[n] for n in ("kind", "warm_up", "repetitions"))
    seconds = time_changes(target, kind, warm_up, repetitions)
    calls = calls_of_one(target, path, KINDS[kind], warm_up + repetitions)
    rows = list(target.rows())
    return {
        "timings": seconds,
        "result_hash": hash_of(rows),
        "calls": calls,
        "work": {"commit": 1},
        "preview": preview_of(rows),
        "notes": NOTES,
    }
