"""The `.gq` texts of the page about Cypher and SQL give what the SQL beside them gives.

Each is run on a graph, and the SQL on SQLite with the same rows.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import omnigraph

PAGE = (Path(__file__).parents[2] / "docs/how-to/from-cypher-and-sql.md").read_text()
(SCHEMA,) = re.findall(r"```pg\n(.*?)```", PAGE, re.DOTALL)
TABLES = {
    "person": ("name", "age", "city"),
    "film": ("title", "year"),
    "knows": ("src", "dst", "since"),
    "trusts": ("src", "dst"),
    "likes": ("src", "dst", "stars"),
}
ROWS: dict[str, list[tuple[object, ...]]] = {
    "person": [
        ("Ada", 36, "Oslo"),
        ("Ben", 29, "Oslo"),
        ("Bo", 41, "Rome"),
        ("Cy", None, None),
        ("Dee", 58, "Rome"),
        ("Eve", 33, "Oslo"),
    ],
    "film": [("Tides", 1999), ("Embers", 2007)],
    "knows": [
        ("Ada", "Ben", 2010),
        ("Ben", "Ada", None),
        ("Ben", "Bo", 2015),
        ("Bo", "Dee", 2001),
        ("Dee", "Ada", 2019),
        ("Cy", "Ada", 2011),
    ],
    "trusts": [("Ada", "Ben"), ("Ada", "Dee")],
    "likes": [
        ("Ada", "Tides", 5),
        ("Ben", "Tides", 4),
        ("Ben", "Embers", None),
        ("Dee", "Tides", 3),
    ],
}


class Translation(NamedTuple):
    title: str
    sql: str
    gq: str


def read_translations(section: str) -> list[Translation]:
    part = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    found = []
    for line in part.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[2].startswith("`"):
            title, _, sql, gq = cells
            code = [re.match(r"`(.*?)`", text)[1].replace("\\|", "|") for text in (sql, gq)]
            found.append(Translation(title, *code))
    return found


READING, CHANGING = read_translations("Reading"), read_translations("Changing")


def make_graph(folder: Path) -> omnigraph.Graph:
    graph = omnigraph.init(folder / "g.omni", SCHEMA)
    records: list[dict[str, object]] = []
    for table, rows in ROWS.items():
        for row in rows:
            data = dict(zip(TABLES[table], row, strict=True))
            name = table.capitalize()
            if "src" in data:
                ends = {"from": data.pop("src"), "to": data.pop("dst")}
                records.append({"edge": name, **ends, "data": data})
            else:
                records.append({"type": name, "data": data})
    graph.load(records, "append")
    return graph


def make_database() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("PRAGMA case_sensitive_like = ON")
    for table, columns in TABLES.items():
        kinds = {
            c: "INTEGER" if c in ("age", "year", "since", "stars") else "TEXT" for c in columns
        }
        if "src" in columns:
            target = "film(title)" if table == "likes" else "person(name)"
            kinds["src"] += " REFERENCES person(name) ON DELETE CASCADE"
            kinds["dst"] += f" REFERENCES {target} ON DELETE CASCADE"
        else:
            kinds[columns[0]] += " PRIMARY KEY"
        database.execute(
            f"CREATE TABLE {table} ({', '.join(f'{c} {k}' for c, k in kinds.items())})"
        )
        marks = ", ".join("?" for _ in columns)
        database.executemany(f"INSERT INTO {table} VALUES ({marks})", ROWS[table])
    return database


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> omnigraph.Graph:
    return make_graph(tmp_path_factory.mktemp("translations"))


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    connection = make_database()
    yield connection
    connection.close()


@pytest.mark.parametrize("given", READING, ids=lambda given: given.title)
def test_a_question_has_the_same_answer(graph, database, given: Translation) -> None:
    result = graph.query(f"query q() {{ {given.gq} }}")
    ours = [tuple(row[name] for name in result.columns) for row in result.rows]
    theirs = database.execute(given.sql).fetchall()
    assert ours, "a question whose answer is empty shows nothing"
    if "ORDER BY" in given.sql:
        assert ours == theirs
    else:
        assert Counter(ours) == Counter(theirs)


def test_changes_do_the_same_one_after_the_other(tmp_path: Path) -> None:
    graph, database = make_graph(tmp_path), make_database()
    try:
        for given in CHANGING:
            before = read_tables(database)
            database.execute(given.sql)
            assert graph.mutate(f"query q() {{ {given.gq} }}").commit is not None, given.title
            assert read_tables(database) != before, given.title
            assert read_graph(graph) == read_tables(database), given.title
    finally:
        database.close()


def read_tables(database: sqlite3.Connection) -> dict[str, Counter[tuple[object, ...]]]:
    return {
        table: Counter(database.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall())
        for table, columns in TABLES.items()
    }


def read_graph(graph: omnigraph.Graph) -> dict[str, Counter[tuple[object, ...]]]:
    found: dict[str, Counter[tuple[object, ...]]] = {table: Counter() for table in TABLES}
    for record in graph.export():
        data = {**record["data"], "src": record.get("from"), "dst": record.get("to")}
        table = str(record.get("type") or record["edge"]).lower()
        found[table][tuple(data.get(name) for name in TABLES[table])] += 1
    return found


def test_the_page_has_translations() -> None:
    assert len(READING) > 20
    assert len(CHANGING) > 6
