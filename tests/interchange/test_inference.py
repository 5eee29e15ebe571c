"""Inference of a schema from data: types, keys, edges, nulls, and comments where it is a guess."""

from __future__ import annotations

import datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pytest

import omnigraph

FIXTURES = Path(__file__).parent / "fixtures"

PLAIN = """\
// Proposed from data. Lines that say `guess` are worth a look.

// companies.tsv, 2 rows
// id: column "id"
node Company {
  name: String
}

// notes.jsonl, 2 rows
node Note {
  slug: String @key
  when: Date?
  n: F64
}

// people.csv, 2 rows
// id: column "id"
// column "company_id" became an edge
node Person {
  full_name: String  // column "Full Name"
  born: Date?
  score: F64
  active: Bool
  embedding: Vector(2)  // guess: lists of one length
  tags: [String]
  code: String
  seen: DateTime
}

// knows.csv, 1 row
// from: column "from", to: column "to"
edge Knows: Person -> Person {
  since: I64
}

// people.csv, 1 row
// from: column "id", to: column "company_id"
// guess: column "company_id" holds ids of Company
edge PersonCompany: Person -> Company
"""


def test_a_folder_of_tables_suggests_a_schema():
    proposal = omnigraph.infer_schema(FIXTURES / "plain")
    assert proposal.source == PLAIN
    assert str(proposal) == PLAIN
    assert len(proposal.guesses) == 2


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2"], "I64"),
        (["1", None], "I64?"),
        (["01", "2"], "String"),
        (["1", "2.5"], "F64"),
        (["99999999999999999999", "1"], "String"),
        (["99999999999999999999", "1.5"], "String"),
        (["1e400", "1"], "String"),
        (["true", "FALSE"], "Bool"),
        (["true", "yes"], "String"),
        (["2024-02-29", "2023-01-01"], "Date"),
        (["2023-02-29"], "String"),
        (["2024-01-01T10:00:00Z", "2024-01-01 10:00:00"], "DateTime"),
        (["2024-01-01", "2024-01-01T10:00:00Z"], "String"),
        (["[1, 2]", "[3]"], "[I64]"),
        (['["a"]', "[]"], "[String]"),
        (["[1, 2.5]", "[3]"], "[F64]"),
        (["[1", "2]"], "String"),
        (["[1, null]"], None),
        ([None, None], "String?  // guess: no row has a value"),
    ],
)
def test_the_type_of_text_is_the_narrowest_that_holds_all_values(tmp_path, values, expected):
    cells = "".join(f"k{i},{quote(value)}\n" for i, value in enumerate(values))
    (tmp_path / "things.csv").write_text("key,value\n" + cells)
    proposal = omnigraph.infer_schema(tmp_path / "things.csv")
    if expected is None:
        assert "lists with nulls inside" in proposal.lost[0]
        assert "value:" not in proposal.source
    else:
        assert f"  value: {expected}\n" in proposal.source


def quote(value: str | None) -> str:
    return "" if value is None else '"' + value.replace('"', '""') + '"'


def test_a_delimiter_may_be_given(tmp_path):
    (tmp_path / "things.csv").write_text("key|n\na|1\nb|2\n")
    proposal = omnigraph.infer_schema(tmp_path / "things.csv", delimiter="|")
    assert "  n: I64\n" in proposal.source


def test_types_of_arrow_are_preserved():
    table = pa.table(
        {
            "key": ["a", "b"],
            "small": pa.array([1, 2], pa.int16()),
            "big": pa.array([1, 2], pa.uint64()),
            "half": pa.array([1.5, None], pa.float32()),
            "day": [datetime.date(2020, 1, 1)] * 2,
            "at": pa.array([0, 1], pa.timestamp("us")),
            "raw": pa.array([b"x", None]),
            "vector": pa.array([[1.0, 2.0, 3.0]] * 2, pa.list_(pa.float32(), 3)),
            "word": pa.array(["x", "y"]).dictionary_encode(),
            "deep": [[{"a": 1}], None],
        }
    )
    proposal = omnigraph.infer_schema({"Thing": table})
    for line in (
        "key: String @key",
        "small: I32",
        "big: U64",
        "half: F32?",
        "day: Date",
        "at: DateTime  // timestamps in us are cut to milliseconds",
        "raw: Blob?",
        "vector: Vector(3)",
        "word: String",
    ):
        assert f"  {line}\n" in proposal.source
    assert proposal.lost == ("Thing.deep of Thing: lists of lists or objects have no type here",)


def test_frames_files_and_records_suggest_the_same(tmp_path):
    rows = [{"slug": "a", "n": 1}, {"slug": "b", "n": None}]
    table = pa.Table.from_pylist(rows)
    feather.write_feather(table, tmp_path / "things.arrow", compression="uncompressed")
    (tmp_path / "things.jsonl").write_text('{"slug": "a", "n": 1}\n{"slug": "b", "n": null}\n')
    wanted = "node Thing {\n  slug: String @key\n  n: I64?\n}\n"
    for source in (
        {"Thing": rows},
        {"Thing": table},
        {"Thing": pl.DataFrame(rows)},
        {"Thing": pl.LazyFrame(rows)},
        tmp_path / "things.arrow",
        tmp_path / "things.jsonl",
    ):
        assert omnigraph.infer_schema(source).source.endswith(wanted)


def test_parts_of_a_table_are_one_type(tmp_path):
    (tmp_path / "people-1.csv").write_text("name,age\nAda,36\n")
    (tmp_path / "people-2.csv").write_text("name,town\nBen,Oslo\n")
    proposal = omnigraph.infer_schema(tmp_path)
    assert [one.name for one in proposal.nodes] == ["Person"]
    assert "  age: I64?\n  town: String?\n" in proposal.source


def test_a_list_of_edges_alone_names_its_nodes(tmp_path):
    (tmp_path / "links.tsv").write_text("source\ttarget\tweight\na\tb\t0.5\nb\tc\t1\n")
    done = omnigraph.import_files(tmp_path / "g.omni", tmp_path / "links.tsv")
    assert (done.load.nodes, done.load.edges) == ({"Node": 3}, {"Link": 2})


def test_a_table_of_two_references_is_a_table_of_edges(tmp_path):
    (tmp_path / "authors.csv").write_text("id,name\na1,Ada\na2,Ben\n")
    (tmp_path / "books.csv").write_text("id,title\nb1,Tides\n")
    (tmp_path / "wrote.csv").write_text("author_id,book_id,year\na1,b1,1998\na2,b1,1999\n")
    proposal = omnigraph.infer_schema(tmp_path)
    assert [(one.name, one.source, one.target) for one in proposal.edges] == [
        ("Wrote", "Author", "Book")
    ]


def test_a_reference_to_rows_that_are_not_there_stays_a_property(tmp_path):
    (tmp_path / "authors.csv").write_text("id,name\na1,Ada\n")
    (tmp_path / "books.csv").write_text("id,title,author_id\nb1,Tides,a1\nb2,Waves,a9\n")
    proposal = omnigraph.infer_schema(tmp_path)
    assert proposal.edges == ()
    assert "  author_id: String\n" in proposal.source


def test_rows_without_an_identifier_are_reported(tmp_path):
    (tmp_path / "events.csv").write_text("kind,n\na,1\na,1\n")
    proposal = omnigraph.infer_schema(tmp_path / "events.csv")
    assert "guess: no column identifies a row" in proposal.source


def test_an_export_suggests_the_schema_it_was_written_with(tmp_path):
    schema = "node Person { name: String @key  age: I64? }\nedge Knows: Person -> Person"
    graph = omnigraph.init(tmp_path / "g.omni", schema)
    graph.load(
        [
            {"type": "Person", "data": {"name": "Ada", "age": 36}},
            {"type": "Person", "data": {"name": "Ben"}},
            {"edge": "Knows", "from": "Ada", "to": "Ben"},
        ],
        "append",
    )
    (tmp_path / "all.jsonl").write_bytes(b"".join(graph.at().export_jsonl()))
    graph.at().export_files(tmp_path / "folder", format="parquet")
    for source in (tmp_path / "all.jsonl", tmp_path / "folder"):
        again = omnigraph.import_files(tmp_path / f"{source.name}.omni", source)
        assert again.load.nodes == {"Person": 2}
        assert [(one.name, one.source, one.target) for one in again.proposal.edges] == [
            ("Knows", "Person", "Person")
        ]
