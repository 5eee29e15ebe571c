"""The social network in DuckDB: a table for each type, and the questions in SQL.

Runs in the environment of the peers.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from bench.systems.questions import PARAMETERS, AskByName, Given, Rows, ask_all, texts

_DATABASE = "network.duckdb"


class Answer(Protocol):
    def fetchall(self) -> Rows: ...


class Connection(Protocol):
    """The part of a connection to DuckDB that is used; this project does not know its types."""

    def execute(self, statement: str, parameters: Given | None = None) -> Answer: ...

    def close(self) -> None: ...


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """Load every table from its Parquet file."""
    connection = _connect(importlib.import_module("duckdb"), Path(spec["root"]), read_only=False)
    for file in sorted(Path(spec["inputs"]).glob("*.parquet")):
        connection.execute(f"CREATE TABLE {file.stem} AS SELECT * FROM '{file}'")
    connection.close()
    return {}


def run_questions(spec: dict[str, Any]) -> dict[str, Any]:
    """The nine questions in SQL."""
    asked, duckdb = texts("social.sql"), importlib.import_module("duckdb")

    def open_it() -> AskByName:
        connection = _connect(duckdb, Path(spec["store"]))

        return lambda name: connection.execute(asked[name], PARAMETERS.get(name)).fetchall()

    return ask_all(spec, open_it)


def _connect(duckdb: ModuleType, folder: Path, *, read_only: bool = True) -> Connection:
    connection: Connection = duckdb.connect(str(folder / _DATABASE), read_only=read_only)
    return connection
