"""Every kind of input and output: a round trip, and positions of mistakes."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from omnigraph.errors import (
    BadRequest,
    ConstraintViolated,
    KeyConflict,
    RowsRejected,
    TypeNotFound,
)
from omnigraph.pipeline.check_stages import Sizes
from pipeline.load_engines import load
from pipeline.random_loads import normal

SCHEMA = """
node Person {
  name: String @key  age: I32?  score: F64?  born: Date?  seen: DateTime?  ok: Bool?
  tags: [String]?  place: Vector(2)?  photo: Blob?  level: I32 @default(7)
}
edge Knows: Person -> Person { since: Date? }
"""
RECORDS = [
    {"type": "Person", "data": {"name": "ada", "age": 3, "photo": "base64:AAEC", "tags": ["x"]}},
    {"type": "Person", "data": {"name": "ben", "place": [1, 0.5], "born": "1990-01-02"}},
    {"type": "Person", "data": {"name": "cy", "seen": "2020-01-01T00:00:00Z", "ok": True}},
    {"edge": "Knows", "from": "ada", "to": "ben", "data": {"id": "k1", "since": "2001-02-03"}},
    {"edge": "Knows", "from": "ben", "to": "cy", "data": {"id": "k2"}},
]
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)


@pytest.fixture
def wanted(new_graph):
    graph = new_graph(SCHEMA)
    graph.load(RECORDS, "append")
    return normal(graph.export())


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_a_compressed_file_is_read_like_a_plain_one(new_graph, tmp_path, wanted, suffix):
    path = tmp_path / f"in.{suffix}"
    if suffix.endswith("gz"):
        path.write_bytes(gzip.compress(LINES.encode()))
    elif suffix.endswith("zst"):
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(LINES.encode())
    else:
        path.write_text(LINES)
    graph = new_graph(SCHEMA)
    assert load(graph, path, "append", "inline").total_entities == 5
    assert normal(graph.export()) == wanted


def test_files_folders_and_patterns_are_loaded_together(new_graph, tmp_path, wanted):
    (tmp_path / "more").mkdir()
    for number, record in enumerate(RECORDS):
        folder = tmp_path / "more" if number % 2 else tmp_path
        (folder / f"part-{number}.jsonl").write_text(json.dumps(record))
    graph = new_graph(SCHEMA)
    load(graph, [str(tmp_path / "part-*.jsonl"), str(tmp_path / "more")], "append", "inline")
    assert normal(graph.export()) == wanted


def test_a_pattern_that_matches_nothing_is_a_mistake(new_graph, tmp_path):
    with pytest.raises(BadRequest, match="no file matches"):
        load(new_graph(SCHEMA), str(tmp_path / "*.jsonl"), "append", "inline")


@pytest.mark.parametrize("size", [1, 7, 40, 64, 200, 1000])
def test_lines_keep_their_numbers_wherever_a_file_is_cut(
    new_graph, tmp_path, wanted, size, monkeypatch
):
    monkeypatch.setattr("omnigraph.pipeline.bulk_load.SIZES", Sizes(split_bytes=size))
    path = tmp_path / "in.jsonl"
    path.write_text("\ufeff" + LINES.replace("\n", "\r\n"))
    graph = new_graph(SCHEMA)
    load(graph, path, "append", "inline")
    assert normal(graph.export()) == wanted
    lines = LINES.splitlines()
    bad = [*lines[:2], "", "{", lines[2], '{"type":"No"}', lines[3], "no end"]
    path.write_text("\n".join(bad))
    with pytest.raises(RowsRejected) as refused:
        load(graph, path, "merge", "inline")
    assert [(p.file, p.line) for p in refused.value.problems] == [
        (str(path), 4),
        (str(path), 6),
        (str(path), 8),
    ]


@pytest.mark.parametrize("size", [40, 1 << 20])
def test_a_file_that_is_given_twice_is_read_twice_with_its_own_lines(
    new_graph, tmp_path, monkeypatch, size
):
    monkeypatch.setattr("omnigraph.pipeline.bulk_load.SIZES", Sizes(split_bytes=size))
    path, other = tmp_path / "in.jsonl", tmp_path / "other.jsonl"
    path.write_text(LINES + "{\n")
    other.write_text("\n[]\n")
    graph = new_graph(SCHEMA)
    with pytest.raises(RowsRejected) as refused:
        load(graph, [path, path, other, path], "append", "inline")
    found = [(p.file, p.line) for p in refused.value.problems]
    assert found == [(str(path), 6), (str(path), 6), (str(other), 2), (str(path), 6)]
    path.write_text(LINES)
    with pytest.raises(ConstraintViolated) as broken:
        load(graph, [path, path], "merge", "inline")
    assert [(v.file, v.line) for v in broken.value.violations] == [
        (str(path), line) for line in (1, 2, 3)
    ]


def people_table() -> pa.Table:
    return pa.table(
        {
            "name": ["ada", "ben"],
            "age": pa.array([3, None], pa.int64()),
            "place": pa.array([[1.0, 0.5], None]),
            "photo": pa.array([b"\x00\x01", None]),
            "born": pa.array([10, None], pa.date32()),
        }
    )


@pytest.mark.parametrize("kind", ["table", "parquet", "csv"])
def test_rows_of_a_table_become_rows_of_a_type(new_graph, tmp_path, kind):
    graph = new_graph(SCHEMA)
    table = people_table()
    data: Any = table
    if kind == "parquet":
        data = tmp_path / "people.parquet"
        pq.write_table(table, data)
    elif kind == "csv":
        data = tmp_path / "people.csv"
        data.write_text(
            'name,age,place,photo,born\nada,3,"[1,0.5]",base64:AAE=,1970-01-11\nben,,,,\n'
        )
    load(graph, data, "append", "inline", type="Person")
    people = {r["data"]["name"]: r["data"] for r in graph.export(["Person"])}
    assert people["ada"] == {
        "id": "ada",
        "name": "ada",
        "age": 3,
        "born": 10,
        "level": 7,
        "ok": None,
        "photo": "base64:AAE=",
        "place": [1.0, 0.5],
        "score": None,
        "seen": None,
        "tags": None,
    }
    assert people["ben"]["age"] is None


def test_columns_are_renamed_and_selected(new_graph):
    graph = new_graph(SCHEMA)
    graph.load(RECORDS[:3], "append")
    table = pa.table({"a": ["ada"], "b": ["ben"], "when": ["2001-02-03"], "noise": [1]})
    columns = {"from": "a", "to": "b"}
    renamed = table.rename_columns(["a", "b", "since", "noise"])
    load(graph, renamed, "append", "inline", type="Knows", columns=columns, select=["since"])
    (record,) = graph.export(["Knows"])
    assert (record["from"], record["to"], record["data"]["since"]) == ("ada", "ben", 11356)


def test_renaming_a_column_keeps_the_others(new_graph):
    graph, table = new_graph(SCHEMA), pa.table({"who": ["ada"], "age": [36]})
    load(graph, table, "append", "inline", type="Person", columns={"name": "who"})
    (record,) = graph.export(["Person"])
    assert (record["data"]["name"], record["data"]["age"]) == ("ada", 36)


def test_a_broken_rule_and_an_existing_id_are_named_with_their_file(new_graph, tmp_path):
    graph = new_graph(SCHEMA)
    graph.load(RECORDS[:3], "append")
    for name, row in (("p1.csv", "zoe,1"), ("p2.csv", "ada,2"), ("k.csv", "ada,gone")):
        header = "from,to" if name == "k.csv" else "name,age"
        (tmp_path / name).write_text(f"{header}\n{row}\n")
    people = [tmp_path / "p1.csv", tmp_path / "p2.csv"]
    with pytest.raises(KeyConflict, match=r"p2\.csv:line 2: node:Person 'ada'"):
        graph.load(people, "append", type="Person")
    with pytest.raises(ConstraintViolated, match=r"k\.csv:line 2: .*'gone' not found"):
        graph.load(tmp_path / "k.csv", "append", type="Knows")


def test_a_duplicate_key_is_reported_with_both_positions(new_graph, tmp_path):
    graph = new_graph(SCHEMA)
    (tmp_path / "a.csv").write_text("name,age\nq1,1\nq2,2\n")
    (tmp_path / "b.csv").write_text("name,age\nq3,3\nq4,4\nq1,5\n")
    both = f"{tmp_path}/a.csv line 2 and {tmp_path}/b.csv line 4"
    with pytest.raises(ConstraintViolated, match=f"value 'q1' given twice, in {both}$"):
        graph.load([tmp_path / "a.csv", tmp_path / "b.csv"], "append", type="Person")
    (tmp_path / "a.csv").write_text("name,age\nq1,1\nq2,2\nq1,3\n")
    with pytest.raises(ConstraintViolated, match=r"given twice, in .*a\.csv line 2 and line 4$"):
        graph.load(tmp_path / "a.csv", "merge", type="Person")


def test_a_duplicate_id_is_reported_with_both_positions(new_graph, tmp_path):
    graph = new_graph(SCHEMA)
    graph.load(RECORDS[:3], "append")
    (tmp_path / "k.csv").write_text("id,from,to\ne1,ada,ben\n")
    (tmp_path / "l.csv").write_text("id,from,to\ne2,ada,ben\ne1,ben,ada\n")
    both = f"{tmp_path}/k.csv line 2 and {tmp_path}/l.csv line 3"
    with pytest.raises(KeyConflict, match=f"'e1' is given twice, in {both}$"):
        graph.load([tmp_path / "k.csv", tmp_path / "l.csv"], "append", type="Knows")


def test_a_selected_column_that_is_missing_is_a_mistake(new_graph):
    table = pa.table({"name": ["ada"]})
    with pytest.raises(BadRequest, match="has no column 'agee'"):
        load(new_graph(SCHEMA), table, "append", "inline", type="Person", select=["agee"])


def test_an_unnamed_column_is_a_mistake(new_graph):
    table = pa.table({"name": ["ada"], "noise": [1]})
    with pytest.raises(BadRequest, match="column 'noise' is not a property of Person"):
        load(new_graph(SCHEMA), table, "append", "inline", type="Person")


def test_an_edge_table_without_ends_is_a_mistake(new_graph):
    with pytest.raises(BadRequest, match="no column for 'from' of Knows"):
        load(new_graph(SCHEMA), pa.table({"to": ["a"]}), "append", "inline", type="Knows")


def test_a_table_must_say_its_type(new_graph):
    with pytest.raises(BadRequest, match="give it with type="):
        new_graph(SCHEMA).load(people_table(), "append")
    with pytest.raises(TypeNotFound, match="Nobody"):
        new_graph(SCHEMA).load(people_table(), "append", type="Nobody")


def test_a_file_that_needs_a_type_or_has_one_too_many_names_the_argument(new_graph, tmp_path):
    csv, lines = tmp_path / "people.csv", tmp_path / "people.jsonl"
    csv.write_text("name\nada\n")
    lines.write_text(LINES)
    graph, argument = new_graph(SCHEMA), r"--type \(in Python: type=…\)"
    with pytest.raises(BadRequest, match=rf"people\.csv holds columns; .*: give {argument}"):
        load(graph, csv, "append", "inline")
    with pytest.raises(BadRequest, match=f"named with the type of the rows; give {argument}"):
        load(graph, csv, "append", "inline", columns={"name": "name"})
    with pytest.raises(BadRequest, match=rf"people\.jsonl holds records, .* {argument}"):
        load(graph, lines, "append", "inline", type="Person")


def test_bad_cells_of_a_table_are_found_by_row(new_graph, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("name,age,ok\nada,x,true\n,1,\nben,2,maybe\ncy,99999999999,\n")
    with pytest.raises(RowsRejected) as refused:
        load(new_graph(SCHEMA), path, "append", "inline", type="Person")
    found = [(p.line, p.property) for p in refused.value.problems]
    assert found == [(2, "age"), (3, "name"), (4, "ok"), (5, "age")]
    assert refused.value.problems[0].file == str(path)


def test_a_broken_file_is_a_mistake_in_the_input(new_graph, tmp_path):
    for name in ("a.parquet", "b.jsonl.gz"):
        (tmp_path / name).write_bytes(b"not what it says")
    with pytest.raises(BadRequest, match=r"a\.parquet"):
        load(new_graph(SCHEMA), tmp_path / "a.parquet", "append", "inline", type="Person")
    with pytest.raises(BadRequest, match=r"b\.jsonl\.gz"):
        load(new_graph(SCHEMA), tmp_path / "b.jsonl.gz", "append", "inline")


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_export_in_files_loads_as_the_same_graph(new_graph, tmp_path, wanted, format):
    graph = new_graph(SCHEMA)
    graph.load(RECORDS, "append")
    result = graph.at().export_files(tmp_path / "out", format=format)
    assert (result.rows, result.engine) == (5, "local")
    again = new_graph(SCHEMA)
    again.load(str(tmp_path / "out"), "append", engine="local")
    assert normal(again.export()) == wanted
    with pytest.raises(BadRequest, match="not an empty folder"):
        graph.at().export_files(tmp_path / "out", format=format)


def test_an_export_in_files_of_an_earlier_commit_shows_that_commit(new_graph, tmp_path):
    graph = new_graph(SCHEMA)
    first = graph.load(RECORDS[:3], "append").commit.commit_id
    graph.load(RECORDS[3:], "append")
    result = graph.at(commit=first).export_files(tmp_path / "out", types=["Person"])
    assert result.rows == 3
    assert json.loads((tmp_path / "out" / "_export.json").read_text())["graph_commit_id"] == first
