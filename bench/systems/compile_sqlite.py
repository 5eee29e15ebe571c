"""SQLite preparing the same question as SQL: a compiler in C that parses, binds and plans."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from bench.systems.compile_texts import read_input, time_compiles

_PARAMETERS = {"country": "Canada", "since": "2020-01-01", "max_age": 60}


class _Database:
    """Empty tables, created on first use, like our catalog. Statements are not cached."""

    @cached_property
    def connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", cached_statements=0)
        connection.executescript(read_input("tables.sql"))
        return connection

    def columns(self, text: str) -> Sequence[str]:
        """The column names of the prepared statement; running it on no rows is nearly free."""
        cursor = self.connection.execute(text, _PARAMETERS)
        return [name for name, *_ in cursor.description]


def run(spec: dict[str, Any]) -> dict[str, Any]:
    return time_compiles(spec, read_input("query.sql"), _Database().columns)
