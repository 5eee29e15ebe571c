"""`omnigraph queries`: files of queries are listed and checked."""

from __future__ import annotations

import json
from pathlib import Path


def test_queries_of_a_file_are_listed(omnigraph, schema_file: Path, query_file: Path) -> None:
    call = ("queries", "list", "--schema", str(schema_file), "--queries", str(query_file))
    done = omnigraph(*call)
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["read      albums($s: string)", "mutation  born()"]
    body = json.loads(omnigraph(*call, "--json").out)
    assert [one["name"] for one in body["queries"]] == ["albums", "born"]
    assert body["queries"][0]["params"] == [{"name": "s", "kind": "string", "nullable": False}]


def test_queries_are_checked_against_a_graph(
    omnigraph, tmp_path: Path, schema_file: Path, query_file: Path
) -> None:
    assert omnigraph("init", "g.omni", "--schema", str(schema_file)).code == 0
    call = ("queries", "validate", "g.omni", "--queries", str(query_file))
    done = omnigraph(*call)
    assert (done.code, done.out) == (0, "OK     albums\nOK     born\n"), done.err
    (tmp_path / "more.gq").write_text(
        "query bad($v: Vector(2)) { match { $a: Artst } return { $a.name } }"
    )
    done = omnigraph(*call, "--queries", "more.gq")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[1].startswith("ERROR  bad: ")
    assert "Artst" in lines[1]
    assert lines[-1].startswith("WARN   bad: ")
    done = omnigraph(*call, "--queries", "more.gq", "--json")
    body = json.loads(done.out)
    assert done.code == 1
    assert body["ok"] is False
    assert body["breakages"][0]["query"] == "bad"


def test_a_name_in_two_files_is_a_mistake(omnigraph, schema_file: Path, query_file: Path) -> None:
    copy = query_file.with_name("copy.gq")
    copy.write_text(query_file.read_text())
    done = omnigraph(
        *("queries", "list", "--schema", str(schema_file)),
        *("--queries", str(query_file), "--queries", str(copy)),
    )
    assert done.code == 1
    assert "also defined" in done.err
