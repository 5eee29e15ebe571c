"""Bad input of every kind: one typed error with its place, the right exit code, no traceback."""

import json
from pathlib import Path

import pytest


def test_a_mistake_in_a_schema_is_drawn_under_its_line(omnigraph, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pg"
    bad.write_text("node A {\n  x: Sring\n}\n")
    outcome = omnigraph("explain", "--schema", str(bad), "--query", str(bad))
    assert outcome.code == 1
    assert outcome.out == ""
    assert f"--> {bad}:2:6" in outcome.err
    assert "   |      ^^^^^" in outcome.err


def test_all_mistakes_of_a_file_come_at_once(omnigraph, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pg"
    bad.write_text("node A { x: Sring }\nnode B { y: Vector(0) }\nnode C { z: I33? }\n")
    outcome = omnigraph("explain", "--schema", str(bad), "--query", "-", "--json")
    lines = [d["line"] for d in json.loads(outcome.out)["diagnostics"]]
    assert lines == [1, 2, 3]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xff\xfe\x00binary\x00", id="binary"),
        pytest.param(b"node A { x: String " + b"a" * 10_000_000 + b" }", id="10 MB line"),
        pytest.param(b"{" * 100_000, id="deep nesting"),
        pytest.param(b'node A @description("\\q") { }', id="unknown escape"),
        pytest.param(b"node A { }\nnode A { }\n", id="duplicate names"),
        pytest.param(b'node A @description("never closed', id="open string"),
        pytest.param(b"/* never closed", id="open comment"),
    ],
)
def test_bad_files_give_a_typed_error_with_a_position(
    omnigraph, tmp_path: Path, content: bytes
) -> None:
    bad = tmp_path / "bad.pg"
    bad.write_bytes(content)
    outcome = omnigraph("explain", "--schema", str(bad), "--query", "-", "--json")
    body = json.loads(outcome.out)
    assert outcome.code == 1
    assert body["kind"] == "compile_error"
    assert all(d["line"] >= 1 and d["column"] >= 1 for d in body["diagnostics"])
    assert "Traceback" not in outcome.err


def test_deep_nesting_in_a_query_is_refused_with_a_position(omnigraph, schema_file: Path) -> None:
    query = "query q() { match { $a: Artist " + "not { " * 50_000
    outcome = omnigraph(
        "explain", "--schema", str(schema_file), "--query", "-", "--json", stdin=query
    )
    body = json.loads(outcome.out)
    assert (outcome.code, body["kind"]) == (1, "compile_error")


def test_a_missing_file_is_one_line(omnigraph, schema_file: Path) -> None:
    outcome = omnigraph("lint", "--schema", str(schema_file), "--query", "nowhere.gq")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "error: cannot read nowhere.gq: No such file or directory\n"
    as_json = omnigraph("lint", "--schema", str(schema_file), "--query", "nowhere.gq", "--json")
    assert (as_json.code, as_json.err) == (1, outcome.err)
    assert json.loads(as_json.out)["code"] == "bad_request"


@pytest.mark.parametrize(
    "arguments",
    [["nope"], ["lint"], ["lint", "--nope"], ["schema", "nope"], ["explain", "a", "b"]],
    ids=" ".join,
)
def test_wrong_usage_exits_with_two(omnigraph, arguments: list[str]) -> None:
    outcome = omnigraph(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")


def test_wrong_usage_with_json_is_still_one_document(omnigraph) -> None:
    outcome = omnigraph("lint", "--json")
    assert outcome.code == 2
    assert json.loads(outcome.out)["code"] == "bad_request"


def test_a_mistyped_command_gets_a_hint(omnigraph) -> None:
    assert "Did you mean 'version'?" in omnigraph("verson").err
