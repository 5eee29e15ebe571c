"""The social network in Kuzu or Ladybug, which share an interface but not a process.

Runs in the environment of the peers. Files are loaded with `COPY`, as their guide recommends.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from bench.systems.neighbourhoods import Ask, ask_around
from bench.systems.questions import PARAMETERS, AskByName, Given, Rows, ask_all, texts

_DATABASE = "network.db"


class Answer(Protocol):
    def get_all(self) -> Rows: ...


class Connection(Protocol):
    """The part of a connection that is used; both packages give one of this shape."""

    def execute(self, statement: object, parameters: Given | None = None) -> Answer: ...

    def prepare(self, text: str) -> object: ...

    def close(self) -> None: ...


NODES = {
    "Person": "name STRING, gender STRING, birthday DATE, age INT32, is_married BOOL",
    "City": "name STRING, population INT64, latitude DOUBLE, longitude DOUBLE",
    "State": "name STRING",
    "Country": "name STRING",
    "Interest": "name STRING",
}
EDGES = {
    "Follows": "FROM Person TO Person",
    "LivesIn": "FROM Person TO City, since DATE",
    "HasInterest": "FROM Person TO Interest",
    "CityIn": "FROM City TO State",
    "StateIn": "FROM State TO Country",
}


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """Load every table from its Parquet file."""
    copy_network(_package(spec), Path(spec["inputs"]), Path(spec["root"])).close()
    return {}


def copy_network(package: ModuleType, inputs: Path, folder: Path) -> Connection:
    """A new database with every table copied from its Parquet file, and a connection to it."""
    connection = _connect(package, folder, read_only=False)
    for name, members in NODES.items():
        connection.execute(f"CREATE NODE TABLE {name}(number INT64 PRIMARY KEY, {members})")
    for name, members in EDGES.items():
        connection.execute(f"CREATE REL TABLE {name}({members})")
    for name in (*NODES, *EDGES):
        connection.execute(f"COPY {name} FROM '{inputs / name}.parquet'")
    return connection


def run_questions(spec: dict[str, Any]) -> dict[str, Any]:
    """The nine questions in Cypher."""
    asked, package = texts("social.cypher"), _package(spec)

    def open_it() -> AskByName:
        connection = _connect(package, Path(spec["store"]))
        return lambda name: _rows(connection, asked[name], PARAMETERS.get(name))

    return ask_all(spec, open_it)


def run_neighbourhoods(spec: dict[str, Any]) -> dict[str, Any]:
    """Look-ups by key, and neighbourhoods by shortest distance, as prepared statements."""
    package = _package(spec)

    def open_it() -> Ask:
        connection = _connect(package, Path(spec["store"]))

        @cache
        def statement(question: str) -> object:
            return connection.prepare(_text(question))

        return lambda question, person: _rows(connection, statement(question), {"number": person})

    return ask_around(spec, open_it)


def _text(question: str) -> str:
    asked = texts("social.cypher")
    if question == "point":
        return asked["point"]
    return asked["hops"].replace("HOPS", question.removeprefix("hops"))


def _package(spec: dict[str, Any]) -> ModuleType:
    return importlib.import_module(spec["parameters"]["package"])


def _connect(package: ModuleType, folder: Path, *, read_only: bool = True) -> Connection:
    database = package.Database(str(folder / _DATABASE), read_only=read_only)
    connection: Connection = package.Connection(database)
    return connection


def _rows(connection: Connection, statement: object, parameters: Given | None) -> Rows:
    return connection.execute(statement, parameters or {}).get_all()
