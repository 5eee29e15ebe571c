"""Cleans a graph up on a disk that is full, after a write to it was interrupted.

full_disk.py FOLDER, which must be a tmpfs of its own. Prints one line of JSON: how each step ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import omnigraph
from crash.crash_checks import content_of
from crash.crash_scenario import create, run
from crash.fault_points import MANIFEST, At, Stopped, stop, watched
from crash.resource_limits import ROOMY, outcome, remount
from omnigraph.settings import Settings

HISTORY = 30
BLOCK = 1 << 12


def interrupt(place: Path) -> None:
    """Leave a write that moved two tables and did not publish them."""
    with watched(At("before", "commit", MANIFEST, stop)):
        graph = omnigraph.open(place, actor="interrupted")
        try:
            run(
                graph,
                'insert Person {slug: "eve", name: "Eve"}  insert Knows {from: "eve", to: "ada"}',
            )
        except Stopped:
            return
    raise AssertionError("it was to be interrupted")


def fill(folder: Path) -> None:
    """Take all the room there is, to the last byte."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(BLOCK))
        except OSError:
            return


def main(folder: Path) -> None:
    place = folder / "graph"
    graph = create(place)
    for number in range(HISTORY):
        run(graph, f'update Person set {{age: {number}}} where slug = "ada"')
    expected = content_of(graph)
    interrupt(place)
    remount(folder, "size=4m")
    fill(folder)
    reported = {
        "insert": outcome(lambda: run(omnigraph.open(place), 'delete Person where slug = "cy"'))
    }
    settings = Settings(cleanup_grace_s=0.0)

    def clean() -> None:
        with omnigraph.open(place, settings=settings) as opened:
            result = opened.cleanup(keep=2, confirm=True)
        reported["removed"] = sum(table.old_versions_removed for table in result.tables)
        reported["bytes"] = sum(table.bytes_removed for table in result.tables)
        reported["errors"] = [table.error for table in result.tables if table.error]

    reported["cleanup"] = outcome(clean)
    remount(folder, ROOMY)
    with omnigraph.open(place) as opened:
        found = content_of(opened)
        reported["pending"] = len(opened.recovery_pending())
        reported["findings"] = [
            one.message for one in opened.verify(deep=True, history=True).findings
        ]
    reported["is_old"] = found == expected
    with omnigraph.open(place) as opened:
        rows = opened.query("query q() { match { $p: Person } return { $p.slug as slug } }").rows
    reported["has_eve"] = "eve" in {row["slug"] for row in rows}
    print(json.dumps(reported))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
