"""The likeliest mistakes: what went wrong, where, what to do, and never a trace of the code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as library
from cli.child_process import run_command

SCHEMA = "node Artist { slug: String @key  name: String }\nedge Knows: Artist -> Artist"
QUERY = "query named($slug: String) { match { $a: Artist { slug: $slug } } return { $a.name } }"
ADD = 'query q() { insert Artist { slug: "x", name: "X" } }'
NAMES = "query q() { match { $a: Artist } return { $a.name } }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("mistakes")
    graph = library.init(path / "g.omni", SCHEMA)
    first = graph.load([{"type": "Artist", "data": {"slug": "ada", "name": "Ada"}}], "append")
    (path / "first").write_text(first.commit.commit_id)
    for name in ("B", "Ada"):
        graph.mutate(f'query q() {{ update Artist set {{ name: "{name}" }} where slug = "ada" }}')
    graph.cleanup(keep=1, confirm=True)
    library.init(path / "pictures.omni", "node Picture { slug: String @key  bytes: Blob }")
    (path / "elsewhere.jsonl").write_text(
        '{"type": "Picture", "data": {"slug": "p", "bytes": "s3://bucket/p.png"}}\n'
    )
    (path / "q.gq").write_text(QUERY)
    (path / "s.pg").write_text(SCHEMA)
    (path / "same.jsonl").write_text('{"type": "Artist", "data": {"slug": "ada", "name": "A"}}\n')
    (path / "bad.jsonl").write_text(
        '{"type": "Artist", "data": {"slug": "c", "name": \n'
        '{"type": "Artst", "data": {"slug": "c", "name": "C"}}\n'
        '{"type": "Artist", "data": {"slug": "c", "nme": "C"}}\n'
    )
    (path / "orphans.jsonl").write_text(
        "".join(json.dumps({"edge": "Knows", "from": "ada", "to": f"n{i}"}) + "\n" for i in "123")
    )
    return path


MISTAKES = {
    "a graph that is not there": (("snapshot", "nowhere.omni"), 1, ["no graph at", "init"]),
    "no schema": (("init", "new.omni"), 2, ["--schema", "init --help"]),
    "no address": (("init", "--schema", "s.pg"), 2, ["Missing argument 'URI'"]),
    "a graph that is there": (
        ("init", "--store", "g.omni", "--schema", "s.pg"),
        1,
        ["already holds a graph", "hint: choose another address"],
    ),
    "a type that is misspelt": (
        ("query", "g.omni", "-e", "query q() { match { $a: Artst } return { $a.name } }"),
        1,
        ["<query>:1:25", "did you mean `Artist`?"],
    ),
    "a property that is misspelt": (
        ("query", "g.omni", "-e", "query q() { match { $a: Artist } return { $a.nme } }"),
        1,
        ["<query>:1:46", "did you mean `name`?"],
    ),
    "parameters that are no JSON": (
        ("query", "g.omni", "--query", "q.gq", "--params", "slug=ada"),
        2,
        ["--params: invalid JSON at character 1", """write one such as '{"name": "Ada"}'"""],
    ),
    "parameters that are no object": (
        ("query", "g.omni", "--query", "q.gq", "--params", "[1]"),
        2,
        ["--params: params must be a JSON object"],
    ),
    "no parameter": (("query", "g.omni", "--query", "q.gq"), 1, ["'slug'", "missing"]),
    "lines that do not fit": (
        ("load", "g.omni", "--data", "bad.jsonl", "--mode", "append"),
        1,
        [
            "3 rows do not fit; nothing was changed",
            "bad.jsonl:line 1: invalid JSON",
            "bad.jsonl:line 2: unknown node type 'Artst'",
            "bad.jsonl:line 3: ",
        ],
    ),
    "edges that lead nowhere": (
        ("load", "g.omni", "--data", "orphans.jsonl", "--mode", "append"),
        1,
        ["3 rules are broken; nothing was changed", "line 2: edge:Knows dst 'n2' not found"],
    ),
    "a key that is there": (
        ("load", "g.omni", "--data", "same.jsonl", "--mode", "append"),
        1,
        ["'ada' already has this id", "hint: `load --mode merge`"],
    ),
    "a type that is not there": (
        ("export", "g.omni", "--type", "Artst"),
        1,
        ["Artst", "hint: `omnigraph schema show`"],
    ),
    "a commit that cleanup took": (
        ("query", "g.omni", "--snapshot", "{first}", "-e", NAMES),
        1,
        ["was removed by cleanup", "hint: read a newer commit"],
    ),
    "a branch that has moved": (
        ("mutate", "g.omni", "-e", ADD, "--if-commit", "{first}"),
        4,
        ["not at the expected", "hint: read the branch again"],
    ),
    "a blob kept elsewhere": (
        ("load", "pictures.omni", "--data", "elsewhere.jsonl", "--mode", "append"),
        1,
        ["is not allowed", "hint: write the bytes themselves"],
    ),
    "no file": (("load", "g.omni", "--data", "no.jsonl", "--mode", "append"), 1, ["no.jsonl"]),
    "no branch": (("snapshot", "g.omni", "--branch", "x"), 1, ["'x' not found", "branch list"]),
    "no commit": (("commit", "show", "x", "g.omni"), 1, ["'x' not found", "commit list"]),
    "no profile": (("snapshot", "--profile", "x"), 1, ["no such profile 'x'", "names none"]),
    "no retention": (("cleanup", "g.omni"), 2, ["--keep 10 is a good choice"]),
    "no consent": (("recover", "g.omni", "--quarantine", "x"), 2, ["add --confirm"]),
    "the branch after the graph": (
        ("branch", "create", "g.omni", "new"),
        2,
        ["the address of the graph comes last"],
    ),
    "a server": (("query", "--server", "lab", "-e", NAMES), 2, ["no such server 'lab'", "none"]),
    "a graph for no use": (("version", "--store", "x"), 2, ["names a graph's storage", "no graph"]),
    "a folder that cannot be one": (
        ("init", "s.pg/g.omni", "--schema", "s.pg"),
        1,
        ["Not a directory", "hint: check the owner"],
    ),
    "an unsupported store": (("snapshot", "gs://x/y"), 1, ["gs:// is not supported"]),
    "a wrong setting": (("snapshot", "g.omni"), 1, ["OMNIGRAPH_WRITER_WAIT must be"]),
}


@pytest.mark.parametrize(("arguments", "code", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_what_to_do(folder: Path, arguments, code: int, words) -> None:
    wrong = {"OMNIGRAPH_WRITER_WAIT": "soon"} if "WRITER_WAIT" in words[0] else {}
    first = (folder / "first").read_text()
    given = [first if word == "{first}" else word for word in arguments]
    done = run_command(*given, cwd=folder, **wrong)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_the_address_may_stand_before_the_name_of_a_query(folder: Path) -> None:
    arguments = ("query", "g.omni", "named", "--query", "q.gq", "--params", '{"slug": "ada"}')
    assert run_command(*arguments, "--format", "csv", cwd=folder).stdout == "a.name\nAda\n"


def test_a_bucket_that_denies_access_says_where_to_look(folder: Path) -> None:
    closed = {
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "s3cret-key",
    }
    done = run_command("snapshot", "s3://bucket/g.omni", "--json", cwd=folder, **closed)
    assert done.returncode == 1
    assert json.loads(done.stdout)["kind"] == "storage_failure"
    assert "s3cret-key" not in done.stdout + done.stderr


@pytest.mark.parametrize("shown", ["", "1"], ids=["for people", "with its trace"])
def test_an_unexpected_error_is_one_line_and_one_document(folder: Path, shown: str) -> None:
    program = (
        "import sys\n"
        "from omnigraph.cli import main\n"
        "import omnigraph.graph.graph as graph\n"
        "def fail(*a, **k): raise ZeroDivisionError('half a graph')\n"
        "graph.open = fail\n"
        "main.main(['snapshot', 'g.omni', '--json'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "OMNIGRAPH_HOME": str(folder), "OMNIGRAPH_TRACEBACK": shown},
        check=False,
        timeout=600,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "error": "unexpected: ZeroDivisionError: half a graph",
        "code": "internal",
        "kind": "internal",
    }
    assert ("Traceback" in done.stderr) is bool(shown)
