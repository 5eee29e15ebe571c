"""Merging branches in DoltLite: SQLite with branches and commits. Runs among the peers."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.systems.clock import timed
from bench.systems.merge_rows import MAIN, WORK, base_items, changed_items, describe

if TYPE_CHECKING:
    from sqlite3 import Connection

_DATABASE = "items.db"


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """One table with a key, committed on `main`."""
    connection = _connect(Path(spec["root"]))
    connection.execute("CREATE TABLE item (slug TEXT PRIMARY KEY, amount INTEGER, text TEXT)")
    with connection:
        items = base_items(spec["parameters"]["rows"])
        connection.executemany("INSERT INTO item VALUES (?, ?, ?)", items)
    _commit(connection)
    connection.close()
    return {}


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Change both branches, then merge one into the other."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    shutil.copy(Path(spec["store"]) / _DATABASE, root)
    connection = _connect(root)
    start = _value(connection, "SELECT hash FROM dolt_branches WHERE name = 'main'")
    _value(connection, f"SELECT dolt_branch('{WORK}')")
    heads = {branch: _write(connection, branch, parameters) for branch in (WORK, MAIN)}
    _, merged = timed(lambda: _value(connection, f"SELECT dolt_merge('{WORK}')"))
    text = f"SELECT * FROM dolt_diff_item('{start}', '{heads[WORK]}')"
    diff, compared = timed(lambda: connection.execute(text).fetchall())
    rows, total = connection.execute("SELECT count(*), sum(amount) FROM item").fetchone()
    changed = connection.execute("SELECT slug, amount, text FROM item WHERE amount < 0").fetchall()
    version = _value(connection, "SELECT dolt_version()")
    connection.close()
    return {
        "timings": {"merge": merged.wall, "processor": merged.processor, "diff": compared.wall},
        **describe(rows, total, changed, len(diff)),
        "notes": {"doltlite": version, "settings": "as they come: WAL, synchronous = FULL"},
    }


def _write(connection: Connection, branch: str, parameters: dict[str, Any]) -> object:
    """The changes of a branch as one commit; the connection stays on the branch."""
    _value(connection, f"SELECT dolt_checkout('{branch}')")
    items = changed_items(parameters, branch)
    if not items:
        return None
    with connection:
        connection.executemany("INSERT OR REPLACE INTO item VALUES (?, ?, ?)", items)
    return _commit(connection)


def _commit(connection: Connection) -> object:
    return _value(connection, "SELECT dolt_commit('-A', '-m', 'changed')")


def _value(connection: Connection, statement: str) -> object:
    return connection.execute(statement).fetchone()[0]


def _connect(folder: Path) -> Connection:
    # It puts itself in the place of SQLite's library, before that is loaded.
    importlib.import_module("doltlite")
    sqlite3 = importlib.import_module("sqlite3")
    connection: Connection = sqlite3.connect(folder / _DATABASE)
    return connection
