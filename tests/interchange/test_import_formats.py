"""Files of other programs, as their documentation describes them, become graphs."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import BadRequest, MissingPackage, RowsRejected, TypeNotFound

FIXTURES = Path(__file__).parent / "fixtures"


def read_rows(graph):
    """Read the content of the graph by type, without generated ids."""
    found: dict[str, list[dict]] = {}
    for record in graph.export():
        data = dict(record["data"])
        if "edge" in record:
            if len(data["id"]) == 26:
                del data["id"]
            data = {"from": record["from"], "to": record["to"], **data}
        found.setdefault(record.get("type") or record["edge"], []).append(data)
    return found


def days(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def check_kuzu(done) -> None:
    assert read_rows(done.graph) == {
        "User": [
            {
                "id": "Adam",
                "name": "Adam",
                "age": 30,
                "joined": days("2020-01-02"),
                "tags": ["x", "y"],
                "face": [0.5, 0.25],
            },
            {
                "id": 'Kim, "K"',
                "name": 'Kim, "K"',
                "age": 40,
                "joined": None,
                "tags": [],
                "face": [1.5, 2.0],
            },
        ],
        "City": [{"id": "1", "population": 150000.0}, {"id": "2", "population": None}],
        "Follows": [{"from": "Adam", "to": 'Kim, "K"', "since": 2020}],
        "LivesIn": [{"from": "Adam", "to": "1"}],
    }
    assert done.lost == (
        "LivesIn: the multiplicity MANY_ONE is not carried over",
        "schema.cypher: CREATE MACRO addFive(x) AS x + 5",
        "User.home: Kuzu's type STRUCT(street STRING, no INT64) has no counterpart",
    )
    assert "face: Vector(2)" in done.graph.schema
    assert "name: String @key" in done.graph.schema


def test_an_export_of_kuzu_as_csv_is_imported(tmp_path):
    check_kuzu(omnigraph.import_files(tmp_path / "g.omni", FIXTURES / "kuzu-csv"))


def test_an_export_of_kuzu_as_parquet_is_imported(tmp_path):
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "schema.cypher").write_text((FIXTURES / "kuzu-csv/schema.cypher").read_text())
    (folder / "copy.cypher").write_text(
        'COPY `User` (`name`,`age`,`joined`,`tags`,`face`,`home`) FROM "User.parquet" ();\n'
        'COPY `City` (`id`,`population`) FROM "City.parquet" ();\n'
        "COPY `Follows` (`since`) FROM \"Follows_User_User.parquet\" (from='User', to='User');\n"
        "COPY `LivesIn` FROM \"LivesIn_User_City.parquet\" (from='User', to='City');\n"
    )
    users = {
        "a.name": ["Adam", 'Kim, "K"'],
        "a.age": pa.array([30, 40], pa.int64()),
        "a.joined": [date(2020, 1, 2), None],
        "a.tags": pa.array([["x", "y"], []], pa.list_(pa.string())),
        "a.face": pa.array([[0.5, 0.25], [1.5, 2.0]], pa.list_(pa.float32(), 2)),
        "a.home": [{"street": "Elm", "no": 1}, None],
    }
    pq.write_table(pa.table(users), folder / "User.parquet")
    pq.write_table(
        pa.table({"a.id": [1, 2], "a.population": [150000.0, None]}), folder / "City.parquet"
    )
    ends = {"a.name": ["Adam"], "b.name": ['Kim, "K"'], "r.since": [2020]}
    pq.write_table(pa.table(ends), folder / "Follows_User_User.parquet")
    pq.write_table(pa.table({"a": ["Adam"], "b": [1]}), folder / "LivesIn_User_City.parquet")
    check_kuzu(omnigraph.import_files(tmp_path / "g.omni", folder))


def test_a_database_of_kuzu_needs_its_package(tmp_path):
    database = tmp_path / "db.kuzu"
    database.write_bytes(b"KUZU" + b"\0" * 100)
    with pytest.raises(MissingPackage, match="pip install kuzu"):
        omnigraph.infer_schema(database)


def test_files_for_the_import_tool_of_neo4j_are_imported(tmp_path):
    done = omnigraph.import_files(tmp_path / "g.omni", FIXTURES / "neo4j")
    found = read_rows(done.graph)
    assert found["Movie"] == [
        {
            "id": "tt1",
            "movieId": "tt1",
            "title": "The Matrix",
            "year": 1999,
            "genres": ["action", "scifi"],
            "seen": True,
            "labels": None,
        },
        {
            "id": "tt2",
            "movieId": "tt2",
            "title": "The Matrix Reloaded",
            "year": 2003,
            "genres": ["action"],
            "seen": False,
            "labels": ["Movie", "Sequel"],
        },
    ]
    assert found["Actor"][1] == {
        "id": "laurence",
        "name": 'Laurence "Larry" Fishburne',
        "born": None,
        "where": None,
    }
    assert found["ACTED_IN"] == [
        {"from": "keanu", "to": "tt1", "role": "Neo"},
        {"from": "keanu", "to": "tt2", "role": "Neo"},
        {"from": "laurence", "to": "tt1", "role": "Morpheus"},
    ]
    assert found["LIKES"] == [{"from": "keanu", "to": "tt2"}]
    assert done.lost == ("where of actors.csv: the type point of Neo4j; values are kept as text",)


def test_headers_of_neo4j_may_be_files_of_their_own(tmp_path):
    done = omnigraph.import_files(tmp_path / "g.omni", FIXTURES / "neo4j-split")
    assert read_rows(done.graph) == {
        "Person": [{"id": "1", "name": "Ada"}, {"id": "2", "name": "Ben"}],
        "Company": [{"id": "3", "name": "Acme"}],
        "KNOWS_Person_Person": [{"from": "1", "to": "2"}],
        "KNOWS_Person_Company": [{"from": "1", "to": "3"}],
    }
    assert done.lost == ("1 of 3 rows of rels.csv: an end is not the id of any node",)


def test_json_of_apoc_is_imported(tmp_path):
    done = omnigraph.import_files(tmp_path / "g.omni", FIXTURES / "apoc.json")
    found = read_rows(done.graph)
    assert found["Admin"] == [{"id": "1", "age": 42, "labels": ["Admin", "User"], "name": "Jim"}]
    assert found["User"][0] == {
        "id": "0",
        "id_": "u-0",
        "age": 42.0,
        "born": instant("2015-07-04T19:32:24"),
        "kids": ["Sam", "Anna"],
        "male": True,
        "name": "Adam",
    }
    assert found["KNOWS_User_User"] == [
        {"id": "0", "from": "0", "to": "2", "since": 1993, "bffSince": "P5M1DT12H"}
    ]
    assert found["KNOWS_User_Admin"] == [
        {"id": "1", "from": "0", "to": "1", "since": None, "bffSince": None}
    ]
    assert len(done.lost) == 1
    assert done.lost[0].startswith("User.place of apoc.json: struct<")


def test_csv_of_apoc_is_imported(tmp_path):
    done = omnigraph.import_files(tmp_path / "g.omni", FIXTURES / "apoc.csv")
    assert read_rows(done.graph) == {
        "User": [{"id": "0", "age": 42, "name": "Adam"}],
        "Admin": [{"id": "1", "age": 30, "name": "Jim", "labels": ["Admin", "User"]}],
        "KNOWS": [{"from": "0", "to": "1", "since": 1993}],
    }


def test_graphml_with_keys_and_defaults_is_imported(tmp_path):
    done = omnigraph.import_files(tmp_path / "g.omni", FIXTURES / "plain.graphml")
    assert read_rows(done.graph) == {
        "Node": [
            {"id": "n0", "color": "green", "label": "The first", "size": None},
            {"id": "n1", "color": "yellow", "label": None, "size": 3},
        ],
        "Edge": [
            {"id": "e0", "from": "n0", "to": "n1", "weight": 1.0},
            {"id": "e1", "from": "n1", "to": "n1", "weight": None},
        ],
    }
    assert done.lost == (
        "plain.graphml: undirected edges keep the direction in which they are written",
    )


def test_graphml_of_neo4j_has_types(tmp_path):
    done = omnigraph.import_files(tmp_path / "g.omni", FIXTURES / "neo4j.graphml")
    assert read_rows(done.graph) == {
        "User": [{"id": "n0", "name": "Ada", "labels": ["User", "Person"]}],
        "City": [{"id": "n1", "name": "Oslo"}],
        "LIVES_IN": [{"id": "e0", "from": "n0", "to": "n1", "since": 1998}],
    }


def test_graphml_with_a_wrong_value_names_it(tmp_path):
    text = (FIXTURES / "plain.graphml").read_text().replace(">3<", ">three<")
    (tmp_path / "bad.graphml").write_text(text)
    with pytest.raises(BadRequest, match=r"'three' is not a valid int, the type declared for size"):
        omnigraph.infer_schema(tmp_path / "bad.graphml")


def test_a_graph_that_exists_takes_the_data_by_its_own_types(tmp_path):
    schema = "node Person { name: String  age: I32? }"
    graph = omnigraph.init(tmp_path / "g.omni", schema)
    people = [{"id": 1, "name": "Ada", "age": 36}, {"id": 2, "name": "Ben", "age": None}]
    done = omnigraph.import_files(graph, {"Person": people}, mode="merge")
    assert not done.created
    again = omnigraph.import_files(graph.uri, {"Person": people}, mode="merge")
    assert again.load.nodes == {"Person": 2}
    assert read_rows(graph)["Person"][0] == {"id": "1", "name": "Ada", "age": 36}


def test_a_graph_without_the_type_or_property_says_which_it_may_be(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", "node Person { name: String }")
    with pytest.raises(TypeNotFound, match="no node type 'Persons'; did you mean 'Person'"):
        omnigraph.import_files(graph, {"Persons": [{"id": 1, "name": "Ada"}]})
    with pytest.raises(BadRequest, match=r"column 'nam' is not a property .* did you mean 'name'"):
        omnigraph.import_files(graph, {"Person": [{"id": 1, "nam": "Ada"}]})


def test_a_value_that_its_header_does_not_allow_is_named(tmp_path):
    (tmp_path / "people.csv").write_text("id:ID,age:int,:LABEL\n1,36,Person\n2,old,Person\n")
    with pytest.raises(RowsRejected, match=r"people\.csv.*line 3.*expects I64, got 'old'"):
        omnigraph.import_files(tmp_path / "g.omni", tmp_path / "people.csv")
    assert not (tmp_path / "g.omni").exists()


def test_an_import_is_one_commit_with_all_of_it_or_none(tmp_path):
    done = omnigraph.import_files(tmp_path / "g.omni", FIXTURES / "plain", actor="maria")
    commits = done.graph.commits()
    assert [one.actor_id for one in commits].count("maria") >= 1
    assert done.load.commit is not None
    assert len(commits) == 2


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.xlsx", "", "not a supported format"),
        ("x.csv", "a,a\n1,2\n", "two columns are called 'a'"),
        ("x.jsonl", "[1, 2]", "expects objects"),
        ("x.jsonl", '{"a": 1', "as JSON"),
        ("x.parquet", "no", "as Parquet"),
        ("x.arrow", "no", "as Arrow"),
        ("x.graphml", "<graphml>", "as GraphML"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_plainly(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content)
    with pytest.raises(BadRequest, match=problem):
        omnigraph.infer_schema(tmp_path / name)


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        ("nowhere.csv", "no such file or folder"),
        ("https://host/people.csv", "download it first"),
        ({"Person": 7}, "'Person' is int"),
        ({}, "nothing to propose from"),
    ],
)
def test_a_value_that_is_no_source_is_reported_plainly(sources, problem):
    with pytest.raises(BadRequest, match=problem):
        omnigraph.infer_schema(sources)


def test_a_missing_networkx_is_reported_plainly(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingPackage, match="pip install networkx"):
        omnigraph.import_networkx(tmp_path / "g.omni", object())
