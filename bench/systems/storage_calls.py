"""Count the storage calls of a commit, from outside the system that makes it.

Files that appear in the folders of tables are writes of Lance; its reads are counted by Lance
itself. Its listings of folders are not counted, so they are missing here. The control
objects of a graph (intents, branch records) are counted call by call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import lance

from bench.systems.changes import Change, Target
from bench.systems.small_graph import SmallGraph, counted

_COUNTED = 5


def calls_of_one(
    target: Target, path: Path, change: Callable[[int], Change], first_step: int
) -> dict[str, int]:
    """The calls of one warm commit to `path`, by kind: the median of five.

    A graph is opened again for this, so that counting stays out of what was timed. Six steps
    are used, `first_step` and those after it, for any target.
    """
    watched, control = _watched(target, path)
    # The first commit of a handle also reads what a warm one knows.
    watched.apply(change(first_step))
    seen: list[dict[str, int]] = []
    for step in range(first_step + 1, first_step + 1 + _COUNTED):
        files, reads, calls = _table_files(path), int(lance.iops_counter()), dict(control)
        watched.apply(change(step))
        seen.append(
            {
                "files written": len(_table_files(path) - files),
                "reads": int(lance.iops_counter()) - reads,
                **{f"control {name}": n - calls.get(name, 0) for name, n in control.items()},
            }
        )
    names = sorted({name for calls in seen for name in calls})
    usual = {name: round(median(calls.get(name, 0) for calls in seen)) for name in names}
    return {name: count for name, count in usual.items() if count}


def _watched(target: Target, path: Path) -> tuple[Target, Mapping[str, int]]:
    """The target, and the running count of its control calls; bare tables have none."""
    if not isinstance(target, SmallGraph):
        return target, {}
    graph, store = counted(path)
    return graph, store.calls


def _table_files(path: Path) -> set[Path]:
    """Every file of the tables in `path`: those in or below a folder that holds versions."""
    tables = [versions.parent for versions in path.rglob("_versions")]
    return {file for table in tables for file in table.rglob("*") if file.is_file()}
