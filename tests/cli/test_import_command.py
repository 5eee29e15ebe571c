"""`schema infer`, `init --from`, `import`, and files with other delimiters."""

import json
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "interchange" / "fixtures"


def test_a_schema_is_inferred_used_and_filled(omnigraph, tmp_path):
    printed = omnigraph("schema", "infer", str(FIXTURES / "neo4j")).out
    assert "edge ACTED_IN: Actor -> Movie {" in printed
    made = omnigraph("init", "g.omni", "--from", str(FIXTURES / "neo4j"))
    assert made.code == 0
    assert made.out.endswith(printed)
    done = omnigraph("import", "g.omni", "--data", str(FIXTURES / "neo4j"), "--as", "maria")
    assert done.code == 0, done.err
    assert "imported 4 nodes and 4 edges into main (local, commit " in done.out
    assert "not carried over: where of actors.csv: the type point of Neo4j" in done.err


def test_an_import_creates_the_graph_and_reports_it_as_a_document(omnigraph):
    done = omnigraph("import", "g.omni", "--data", str(FIXTURES / "kuzu-csv"), "--json")
    body = json.loads(done.out)
    assert (body["created"], body["total_entities"], body["engine"]) == (True, 6, "local")
    assert len(body["lost"]) == 3
    again = omnigraph("import", "g.omni", "--data", str(FIXTURES / "kuzu-csv"))
    assert again.code == 1
    assert "error: " in again.err


def test_the_proposal_is_a_document_too(omnigraph):
    body = json.loads(omnigraph("schema", "infer", str(FIXTURES / "plain"), "--json").out)
    assert [one["name"] for one in body["nodes"]] == ["Company", "Note", "Person"]
    assert body["edges"][0] == {"name": "Knows", "from": "Person", "to": "Person", "rows": 1}
    assert len(body["guesses"]) == 2
    assert body["schema_source"].startswith("// Proposed from data.")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("init", "g.omni"), "Missing option '--schema' or '--from'"),
        (("init", "g.omni", "--schema", "a.pg", "--from", "b"), "give the schema once"),
        (("schema", "infer"), "Missing argument"),
    ],
)
def test_wrong_usage_is_reported(omnigraph, arguments, problem):
    done = omnigraph(*arguments)
    assert done.code == 2
    assert problem in done.err


def test_a_load_takes_tabs_and_other_delimiters(omnigraph, tmp_path, schema_file):
    omnigraph("init", "music.omni", "--schema", str(schema_file))
    (tmp_path / "artists.tsv").write_text("slug\tname\tborn\nada\tAda, the first\t1970\n")
    (tmp_path / "more.csv").write_text("slug;name;born\nben;Ben;\n")
    (tmp_path / "rest").write_text("slug\tname\tborn\ncy\tCy\t1990\n")
    load = ("load", "music.omni", "--type", "Artist", "--mode", "append", "--data")
    for extra in (("artists.tsv",), ("more.csv", "--delimiter", ";"), ("rest", "--format", "tsv")):
        done = omnigraph(*load, *extra)
        assert done.code == 0, done.err
    query = "query q() { match { $a: Artist } return { $a.name, $a.born } order { $a.slug } }"
    rows = json.loads(omnigraph("query", "music.omni", "-e", query, "--json").out)["rows"]
    assert [tuple(row.values()) for row in rows] == [
        ("Ada, the first", 1970),
        ("Ben", None),
        ("Cy", 1990),
    ]
    wrong = omnigraph(*load, "more.csv", "--delimiter", ";;")
    assert "a delimiter is one character, not ';;'" in wrong.err


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        (("--type", "Artst"), "the schema has no type 'Artst'; did you mean 'Artist'?"),
        (("--type", "Artist"), "did you mean 'name'?"),
        (("--type", "Artist", "--column", "nme=Name"), "no property 'nme'; did you mean 'name'?"),
        (("--typ", "Artist"), "Did you mean"),
    ],
)
def test_an_unknown_name_is_reported_with_a_suggestion(
    omnigraph, tmp_path, schema_file, extra, problem
):
    omnigraph("init", "music.omni", "--schema", str(schema_file))
    (tmp_path / "artists.csv").write_text("slug,Name\nada,Ada\n")
    done = omnigraph("load", "music.omni", "--data", "artists.csv", "--mode", "append", *extra)
    assert done.code != 0
    assert problem in done.err


def test_records_of_unknown_types_and_fields_are_reported_with_suggestions(omnigraph, schema_file):
    omnigraph("init", "music.omni", "--schema", str(schema_file))
    for record, problem in (
        ({"type": "Artst", "data": {}}, "unknown node type 'Artst'; did you mean 'Artist'?"),
        ({"edge": "Mde", "from": "a", "to": "b"}, "unknown edge type 'Mde'; did you mean 'Made'?"),
        (
            {"type": "Artist", "data": {"slug": "a", "nme": "b"}},
            "unknown input field 'nme'; did you mean 'name'?",
        ),
    ):
        load = ("load", "music.omni", "--data", "-", "--mode", "append")
        assert problem in omnigraph(*load, stdin=json.dumps(record)).err
