"""Rows of a query in a file, in every format."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as library
from cli.terminal_process import on_a_terminal

SCHEMA = "node Artist { slug: String @key  born: I32?  genres: [String]?  at: DateTime? }"
ROWS = (
    "query q() { match { $a: Artist } "
    "return { $a.slug, $a.born, $a.genres, $a.at } order { $a.slug } }"
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    graph = library.init(tmp_path / "g.omni", SCHEMA)
    first = {"slug": "ada", "born": 1970, "genres": ["dub"], "at": "2020-01-02T03:04:05.678Z"}
    graph.load([{"type": "Artist", "data": d} for d in (first, {"slug": "béa"})], "append")
    return tmp_path / "g.omni"


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize("query", [ROWS, ROWS.replace("Artist }", 'Artist { slug: "nobody" } }')])
def test_binary_formats_hold_the_typed_rows(omnigraph, place, tmp_path, kind, query) -> None:
    out = tmp_path / "rows"
    outcome = omnigraph("query", str(place), "-e", query, "--format", kind, "--out", str(out))
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    read = pa.ipc.open_file(out).read_all() if kind == "arrow" else parquet.read_table(out)
    expected = library.open(place).query(query).to_arrow()
    assert read.to_pylist() == expected.to_pylist()
    assert read.schema.types == expected.schema.types


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv", "kv", "table"])
def test_text_in_a_file_is_what_the_terminal_would_show(omnigraph, place, tmp_path, kind) -> None:
    command = ("query", str(place), "-e", ROWS, "--format", kind)
    shown = omnigraph(*command).out
    assert omnigraph(*command, "--out", str(tmp_path / "rows")).out == ""
    assert (tmp_path / "rows").read_text() == shown
    assert omnigraph(*command, "--out", "-").out == shown
    assert "béa" in shown


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "arrow", "parquet"])
def test_the_name_of_the_file_says_its_format(omnigraph, place, tmp_path, kind) -> None:
    by_name, by_flag = tmp_path / f"rows.{kind}", tmp_path / "rows"
    command = ("query", str(place), "-e", ROWS)
    assert omnigraph(*command, "--out", str(by_name)).code == 0
    assert omnigraph(*command, "--format", kind, "--out", str(by_flag)).code == 0
    assert by_name.read_bytes() == by_flag.read_bytes()


TEXTS = [
    "",
    " ",
    "a\nb",
    "a\r\nb",
    "\n",
    'say "hi"',
    ",",
    "NULL",
    "null",
    " padded ",
    "é🌊",
    "'",
    '""',
    None,
]


def test_csv_of_a_query_loads_back_as_equal_rows(omnigraph, tmp_path) -> None:
    schema = "node T { k: I64 @key  s: String?  l: [String]?  x: F64?  on: Bool?  d: Date? }"
    rows = [
        {"k": k, "s": s, "l": [s or ""] if k % 2 else None, "x": k / 3, "on": k % 3 == 0 or None}
        for k, s in enumerate(TEXTS)
    ]
    first, second = (library.init(tmp_path / f"{n}.omni", schema) for n in "ab")
    first.load(rows, "append", type="T")
    columns = ", ".join(f"$t.{name} as {name}" for name in ("k", "s", "l", "x", "on", "d"))
    out = tmp_path / "rows.csv"
    text = f"query q() {{ match {{ $t: T }} return {{ {columns} }} }}"
    assert omnigraph("query", str(tmp_path / "a.omni"), "-e", text, "--out", str(out)).code == 0
    second.load(out, "append", type="T")
    assert list(second.export()) == list(first.export())


def test_a_terminal_gets_no_binary(place: Path, tmp_path: Path) -> None:
    command = ("query", str(place), "-e", ROWS, "--format", "parquet")
    with on_a_terminal(*command, home=tmp_path) as terminal:
        assert terminal.end() == 2
    assert b"cannot be written to a terminal" in terminal.seen


def test_a_query_that_fails_leaves_the_file_alone(omnigraph, place, tmp_path: Path) -> None:
    out = tmp_path / "rows"
    out.write_text("before")
    bad = "query q() { match { $a: Nobody } return { $a.slug } }"
    for kind in ("csv", "parquet"):
        command = ("query", str(place), "-e", bad, "--format", kind, "--force", "--out", str(out))
        assert (omnigraph(*command).code, out.read_text()) == (1, "before")


@pytest.mark.parametrize(
    "command",
    [
        ("query", "-e", ROWS, "--format", "csv", "--out", "rows"),
        ("query", "-e", ROWS, "--format", "parquet", "--out", "rows"),
        ("export", "--out", "rows"),
        ("load", "--data", "in.jsonl", "--mode", "merge", "--engine", "local", "--on-error",
         "skip", "--rejects", "rows"),
    ],
    ids=lambda command: " ".join(command[:1] + command[-2:]),
)  # fmt: skip
def test_a_file_is_replaced_only_on_request(
    omnigraph, place, tmp_path, monkeypatch, command
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text('{"type": "Artist", "data": {"slug": "cy"}}\nno record\n')
    Path("rows").write_text("before")
    outcome = omnigraph(*command, "--store", str(place))
    assert (outcome.code, outcome.err) == (1, "error: rows exists; give --force to replace it\n")
    assert Path("rows").read_text() == "before"
    assert len(library.open(place).commits()) == 2, "the work was not begun"
    assert omnigraph(*command, "--force", "--store", str(place)).code == 0
    assert Path("rows").read_bytes() != b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.omni", "in.jsonl", "rows"]


def test_a_folder_is_never_replaced(omnigraph, place: Path, tmp_path: Path) -> None:
    command = ("export", str(place), "--format", "jsonl", "--out", str(tmp_path / "new"), "--force")
    outcome = omnigraph(*command)
    assert outcome.code == 2
    assert "--force replaces a file; a folder must be new" in outcome.err


def test_a_folder_that_is_not_there_is_one_error(omnigraph, place: Path) -> None:
    outcome = omnigraph("export", str(place), "--out", "nowhere/rows")
    assert outcome.code == 1
    assert outcome.err == "error: cannot write nowhere/rows: No such file or directory\n"


def test_parameters_and_queries_come_from_standard_input(omnigraph, place: Path) -> None:
    query = "query q($s: String) { match { $a: Artist { slug: $s } } return { $a.born } }"
    given = json.dumps({"s": "ada"})
    by_params = omnigraph("query", str(place), "-e", query, "--params-file", "-", stdin=given)
    by_query = omnigraph("query", str(place), "--query", "-", "--params", given, stdin=query)
    assert by_params.out == by_query.out
    assert "1970" in by_params.out


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_come_from_standard_input_too(omnigraph, place: Path, kind: str) -> None:
    if kind == "csv":
        data = b"slug,born\nfrom-stdin,1971\n"
    else:
        rows = io.BytesIO()
        parquet.write_table(pa.table({"slug": ["from-stdin"], "born": [1971]}), rows)
        data = rows.getvalue()
    flags = ("--data", "-", "--format", kind, "--type", "Artist", "--mode", "append")
    done = omnigraph("load", str(place), *flags, "--engine", "local", "--json", stdin=data)
    assert json.loads(done.out)["nodes"] == [{"name": "Artist", "entities_loaded": 1}], done.err
