"""Maintenance in one process while others write, read and branch, without an effect on them.

`SOAK_SECONDS` makes the long run longer or shorter than an hour.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from crash.harness import environment
from maintenance.concurrent_roles import ITEMS, ITEMS_OF_A_LOAD, SCHEMA, VALUE, WINDOW
from maintenance.reference_marker import reach, substance
from omnigraph.settings import Settings

CAST = (
    ("write", 0),
    ("write", 1),
    ("load", 0),
    ("read", 0),
    ("branch", 0),
    ("maintain", 0),
)


def play(place: Path, seconds: float) -> dict[str, dict[str, object]]:
    """Return the reports of all processes; none may fail."""
    graph = omnigraph.init(place, SCHEMA)
    graph.load(
        [{"type": "Counter", "data": {"slug": f"w{n}", "value": 0}} for n in range(2)], "append"
    )
    script = str(Path(__file__).with_name("concurrent_roles.py"))
    running = {
        f"{role} {number}": subprocess.Popen(
            [sys.executable, script, role, str(place), str(number), str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for role, number in CAST
    }
    reported = {}
    for name, process in running.items():
        out, err = process.communicate(timeout=seconds + 600)
        assert process.returncode == 0, f"{name}:\n{err}"
        reported[name] = json.loads(out)
    return reported


def check(place: Path, reported: dict[str, dict[str, object]]) -> None:
    print(json.dumps(reported))
    graph = omnigraph.open(place, settings=Settings(cleanup_grace_s=0))
    assert graph.recovered_on_open == [], "a process left an interrupted write"
    for number in range(2):
        steps = reported[f"write {number}"]["steps"]
        owner = {"o": f"w{number}"}
        assert [row["c.value"] for row in graph.query(VALUE, params=owner).rows] == [steps]
        items = sorted(row["i.number"] for row in graph.query(ITEMS, params=owner).rows)
        assert items == list(range(max(1, steps - WINDOW + 1), steps + 1))
        assert steps > 0
    loads = reported["load 0"]["loads"]
    loaded = [row["i.number"] for row in graph.query(ITEMS, params={"o": "l0"}).rows]
    assert loaded == [loads] * ITEMS_OF_A_LOAD
    assert reported["maintain 0"]["turns"] > 0
    assert reported["read 0"]["looks"] > 0
    assert graph.verify(deep=True).findings == ()
    for _ in range(3):
        graph.cleanup(keep=1, confirm=True)
    found = reach(place, 1)
    assert all(path.exists() for path in found.needed)
    assert substance(place) - found.needed - found.tolerated == set()
    assert graph.verify(deep=True).findings == ()


def test_other_processes_are_unaffected_for_a_while(tmp_path):
    check(tmp_path / "busy.omni", play(tmp_path / "busy.omni", 12))


@pytest.mark.slow
def test_other_processes_are_unaffected_for_a_minute(tmp_path):
    """Longer than unreferenced files are left alone: cleanup removes some of them."""
    check(tmp_path / "busy.omni", play(tmp_path / "busy.omni", 90))


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.soak
def test_other_processes_are_unaffected_for_an_hour(tmp_path):
    seconds = float(os.environ.get("SOAK_SECONDS", "3600"))
    check(tmp_path / "busy.omni", play(tmp_path / "busy.omni", seconds))
