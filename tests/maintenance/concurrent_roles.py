"""Processes that use one graph at the same time, each in its own way, for a given time.

Run as `python roles.py ROLE PLACE NUMBER SECONDS`; prints one JSON document at the end.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa

import omnigraph
from omnigraph.errors import HistoricalVersionReclaimed, OmniError
from omnigraph.settings import Settings

SCHEMA = """
node Counter { slug: String @key  value: I64 @index }
node Item { slug: String @key  owner: String @index  number: I64 }
edge Has: Counter -> Item
"""
ITEMS_OF_A_LOAD = 40
WINDOW = 5
"""A writer's newest items: each step adds one and deletes the oldest."""
RETRYABLE = {"read_set_changed", "writer_busy", "historical_version_reclaimed", "conflict"}
SETTINGS = Settings(cleanup_grace_s=60)
"""All of them agree on how long a write may take, which is as short as it can be."""
BRANCH_ERRORS = RETRYABLE | {"branch_not_found", "already_exists", "key_conflict"}

ITEMS = "query q($o: String) { match { $i: Item { owner: $o } } return { $i.number } }"
VALUE = "query q($o: String) { match { $c: Counter { slug: $o } } return { $c.value } }"
LINKED = "query q($o: String) { match { $c: Counter { slug: $o } $c has $i } return { $i.number } }"


def write(place: Path, number: int, seconds: float) -> dict[str, object]:
    """Count up, one step a commit; a step that was refused is done again."""
    graph, me = omnigraph.open(place, settings=SETTINGS), f"w{number}"
    refused: Counter[str] = Counter()
    step = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until or not step:
        statements = [
            f'update Counter set {{value: {step + 1}}} where slug = "{me}"',
            f'insert Item {{slug: "{me}-{step + 1}", owner: "{me}", number: {step + 1}}}',
            f'insert Has {{from: "{me}", to: "{me}-{step + 1}"}}',
        ]
        if not _try(graph, " ".join(statements), refused):
            continue
        step += 1
        while step > WINDOW and not _try(
            graph, f'delete Item where slug = "{me}-{step - WINDOW}"', refused
        ):
            continue
    return {"steps": step, "refused": dict(refused)}


def _try(graph: omnigraph.Graph, statements: str, refused: Counter[str]) -> bool:
    try:
        graph.mutate(f"query q() {{ {statements} }}")
    except OmniError as error:
        if error.code not in RETRYABLE:
            raise
        refused[error.code] += 1
        return False
    return True


def load(place: Path, number: int, seconds: float) -> dict[str, object]:
    """Load tables of items through the pipeline, each time the same ones with a higher number."""
    graph = omnigraph.open(place, settings=SETTINGS)
    refused: Counter[str] = Counter()
    loads = 0
    slugs = [f"l{number}-{n}" for n in range(ITEMS_OF_A_LOAD)]
    until = time.monotonic() + seconds
    while time.monotonic() < until or not loads:
        columns = {"slug": slugs, "owner": [f"l{number}"] * len(slugs)}
        rows = pa.table(columns | {"number": [loads + 1] * len(slugs)})
        try:
            graph.load(rows, "merge", type="Item")
        except OmniError as error:
            if error.code not in RETRYABLE:
                raise
            refused[error.code] += 1
            continue
        loads += 1
        time.sleep(0.2)  # not to be the only one who gets anything done
    return {"loads": loads, "refused": dict(refused)}


def read(place: Path, number: int, seconds: float) -> dict[str, object]:
    """Look at every counter with its items, in one snapshot each time."""
    graph = omnigraph.open(place, read_only=True, settings=SETTINGS)
    looks = reclaimed = 0
    last: dict[str, int] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until or not looks:
        owner = f"w{looks % 2}"
        view = graph.at()
        try:
            (value,) = [row["c.value"] for row in view.query(VALUE, params={"o": owner}).rows]
            items = sorted(row["i.number"] for row in view.query(ITEMS, params={"o": owner}).rows)
            linked = sorted(row["i.number"] for row in view.query(LINKED, params={"o": owner}).rows)
        except HistoricalVersionReclaimed:
            reclaimed += 1
            continue
        assert items == linked, f"{owner}: {items} but linked to {linked}"
        # The oldest goes in a commit of its own, right after a new one came.
        expected = list(range(max(1, value - WINDOW + 1), value + 1))
        assert items in (expected, [value - WINDOW, *expected]), f"{owner} at {value}: {items}"
        assert value >= last.get(owner, 0), "a counter went back"
        last[owner] = value
        looks += 1
    return {"looks": looks, "reclaimed": reclaimed, "number": number}


def branch(place: Path, number: int, seconds: float) -> dict[str, object]:
    """Start branches, write on them, and delete them again."""
    graph, chance = omnigraph.open(place, settings=SETTINGS), random.Random(number)
    done: Counter[str] = Counter()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        name = f"b{chance.randrange(4)}"
        try:
            kind = chance.choice(["create", "write", "write", "delete", "optimize"])
            if kind == "create":
                graph.create_branch(name)
            elif kind == "write":
                slug = f"{name}-{done.total()}"
                item = {"slug": slug, "owner": "nobody", "number": 1}
                graph.load([{"type": "Item", "data": item}], "append", branch=name)
            elif kind == "delete":
                graph.delete_branch(name)
            else:
                graph.optimize(branch=name)
        except OmniError as error:
            if error.code not in BRANCH_ERRORS:
                raise
            kind = error.code
        done[kind] += 1
    return {"done": dict(done)}


def maintain(place: Path, number: int, seconds: float) -> dict[str, object]:
    """Optimize and clean up, over and over, keeping as little as possible."""
    graph = omnigraph.open(place, settings=SETTINGS)
    turns = removed = committed = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until or not turns:
        committed += sum(table.committed for table in graph.optimize().tables)
        result = graph.cleanup(keep=2, confirm=True)
        errors = [row.error for row in result.tables if row.error]
        assert errors == [], errors
        removed += sum(table.old_versions_removed for table in result.tables)
        turns += 1
    return {"turns": turns, "removed": removed, "committed": committed, "number": number}


ROLES = {"write": write, "load": load, "read": read, "branch": branch, "maintain": maintain}

if __name__ == "__main__":
    role, place, number, seconds = sys.argv[1:]
    done = ROLES[role](Path(place), int(number), float(seconds))
    print(json.dumps(done))
