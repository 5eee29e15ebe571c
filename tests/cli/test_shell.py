"""`omnigraph shell`: typed at a terminal, and piped in."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import pytest

import omnigraph as library
from cli.terminal_process import on_a_terminal
from omnigraph.cli.commands.query_command import complete_query, list_types
from omnigraph.cli.commands.shell_command import COMMANDS, Completer, StatementReader, is_whole
from omnigraph.language.query_parser import QUERY_WORDS

SCHEMA = "node Artist { slug: String @key  name: String }\nedge Knows: Artist -> Artist"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    graph = library.init(tmp_path / "g.omni", SCHEMA)
    graph.load([{"type": "Artist", "data": {"slug": "ada", "name": "Ada"}}], "append")
    return tmp_path / "g.omni"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("// only a remark", True),
        ("match { $a: Artist } return { $a.name }", True),
        ("match { $a: Artist }", False),
        ("match { $a: Artist }\nreturn { $a.name }", False),
        ("match { $a: Artist }\nreturn { $a.name }\n\n", True),
        ("match { $a: Artist }\nreturn { $a.name }\n  \n", True),
        ("match {\n\n", False),
        ("query q() {", False),
        ("query q() { match { $a: Artist }\n return { $a.name } }", True),
        ("query q()", False),
        ('insert Artist { slug: "a" }', True),
        ('merge Artist { slug: "a" }', True),
        ('update Artist set { name: "a" } where slug = "a"', True),
        ('delete Artist where slug = "a"', True),
        ("merge Artist", False),
        ("delete Artist", False),
        ('update Artist set { name: "a" }', False),
        ("matc { $a: Artist } return { $a }", True),
        ('insert Artist { slug: "}', False),
        ("/* not closed", False),
        ("match { } } return", True),
    ],
)
def test_a_statement_is_whole_when_nothing_more_belongs_to_it(text, whole) -> None:
    assert is_whole(text) is whole


def read_statements(*lines: str) -> list[str]:
    reader = StatementReader(COMMANDS)
    found = [statement for line in lines for statement in reader.add(line)]
    return [*found, *reader.finish()]


def test_lines_become_statements() -> None:
    lines = ["\n", ".types\n", "query q() {\n", "  match { }\n", "}\n", "match { }\n"]
    assert read_statements(*lines) == [".types", "query q() {\n  match { }\n}", "match { }"]


def test_a_semicolon_ends_a_statement_wherever_it_stands() -> None:
    assert read_statements("insert A {x: 1}; merge A", "{x: 2};") == [
        "insert A {x: 1}",
        "merge A\n{x: 2}",
    ]
    assert read_statements("match {;") == ["match {"], "nothing waits for a brace for ever"
    assert read_statements('insert A {x: ";" } // ; not here') == [
        'insert A {x: ";" } // ; not here'
    ]
    assert read_statements(";;", "// nothing ;", "") == []


def test_a_command_works_within_a_statement(omnigraph, place: Path) -> None:
    assert read_statements("match {", ".types;", "$a: Artist } return { $a }") == [
        ".types",
        "match {\n$a: Artist } return { $a }",
    ]
    script = "match {\n.types\n$a: Artist }\n.format csv\nreturn { $a.name };\n"
    outcome = omnigraph("shell", str(place), stdin=script)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "edge:Knows  0 rows\nnode:Artist  1 rows\ncsv\na.name\nAda\n"


def test_a_body_becomes_a_query() -> None:
    def complete(text: str) -> str:
        return complete_query(text, "shell", None, len)

    assert complete("match { } return { }") == "query shell() { match { } return { }\n}"
    assert complete("// remark\nmatch { }") == "query shell() { // remark\nmatch { }\n}"
    assert complete("query q() { }") == "query q() { }"
    assert complete("// remark\nquery q() { }") == "// remark\nquery q() { }"


@pytest.mark.parametrize(
    ("value", "types"),
    [
        (True, "Bool"),
        ("a", "String"),
        (3, "I64"),
        (0.5, "F64"),
        ([0.5, 1], "[F64]"),
        ([], "[String]"),
        (None, "String?"),
    ],
)
def test_the_first_guess_at_a_type(value: object, types: str) -> None:
    assert list_types(value)[0] == types


def test_words_come_from_the_grammar() -> None:
    page = Path(__file__).parents[2] / "docs/reference/query-grammar.md"
    rules = re.findall(r"```ebnf\n(.*?)```", page.read_text(), re.DOTALL)
    words = {word for rule in rules for word in re.findall(r'"([a-z][a-z_0-9]+)"', rule)}
    known = {word.removeprefix("@") for word in QUERY_WORDS}
    assert known == words | {"description", "instruction"}


def test_words_are_completed() -> None:
    complete = Completer([".help", ".branch"], lambda: ["Artist", "name"])
    assert complete.matching(".b") == [".branch"]
    assert complete.matching("Art") == ["Artist"]
    assert complete.matching("a.na") == ["a.name"]
    assert "match" in complete.matching("ma")
    assert (complete("Art", 0), complete("Art", 1)) == ("Artist", None)


def test_piped_statements_are_run_in_order(omnigraph, place: Path) -> None:
    script = (
        'insert Artist { slug: "ben", name: "Ben" }\n'
        "match { $a: Artist }\nreturn { $a.name }\norder { $a.name }\n\n"
        ".format csv\n"
        '.params {"s": "ada"}\n'
        "query q($s: String) { match { $a: Artist { slug: $s } } return { $a.name } }\n"
    )
    outcome = omnigraph("shell", str(place), stdin=script)
    assert (outcome.code, outcome.err) == (0, "")
    changed, *table, last = outcome.out.split("\n", 5)
    assert re.fullmatch(r"changed main via shell: 1 nodes, 0 edges \(\d+ ms\)", changed)
    assert table[:4] == ["a.name", "------", "Ada", "Ben"]
    assert re.fullmatch(r"\(2 rows, \d+ ms\)\ncsv\n\{\n.*\}\na.name\nAda\n", last, re.DOTALL)


def test_parameters_apply_to_bare_statements(omnigraph, place: Path) -> None:
    script = (
        ".format csv\n"
        '.params {"s": "ada", "n": "Ada B.", "unused": 1}\n'
        "update Artist set { name: $n } where slug = $s\n"
        "match { $a: Artist { slug: $s } } return { $a.name }\n"
        "match { $a: Artist } return { count($a) as n }\n"
    )
    outcome = omnigraph("shell", str(place), stdin=script)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.endswith("a.name\nAda B.\nn\n1\n")


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("Date", "2001-02-03"),
        ("DateTime", "2001-02-03T04:05:06Z"),
        ("I32", 7),
        ("U64", 7),
        ("F32", 0.5),
        ("Bool", True),
        ("[String]", ["a", "b"]),
        ("Vector(2)", [0.5, 1.0]),
    ],
)
def test_a_parameter_has_the_type_that_fits(omnigraph, tmp_path: Path, type, value) -> None:
    library.init(tmp_path / "g.omni", f"node N {{ k: String @key  v: {type}? }}")
    given = ("--params", json.dumps({"v": value, "k": "a"}))
    place = str(tmp_path / "g.omni")
    added = omnigraph("mutate", place, "-e", "insert N { k: $k, v: $v }", *given)
    assert added.code == 0, added.err
    found = omnigraph(
        "query",
        place,
        "-e",
        "match { $n: N { k: $k } } return { $n.v }",
        *given[:1],
        '{"k": "a"}',
        "--json",
    )
    assert (
        json.loads(found.out)["rows"] == [{"n.v": json.loads(given[1])["v"]}] or type == "DateTime"
    )


def test_a_statement_on_the_command_line_needs_no_query_around_it(omnigraph, place: Path) -> None:
    text = "match { $a: Artist } return { $a.name }"
    found = omnigraph("query", str(place), "-e", text, "--format", "csv")
    assert (found.code, found.out) == (0, "a.name\nAda\n")
    named = omnigraph("query", "mine", str(place), "-e", text, "--json")
    assert json.loads(named.out)["query_name"] == "mine"
    plan = omnigraph("explain", str(place), "-e", text)
    assert plan.out.startswith("query statement()\n")
    wrong = omnigraph("query", str(place), "-e", "match { $a: Artst } return { $a.name }")
    assert wrong.code == 1
    assert "did you mean `Artist`?" in wrong.err


def test_wide_characters_take_two_columns(omnigraph, place: Path) -> None:
    script = (
        'insert Artist { slug: "b", name: "日本" }\n'
        "match { $a: Artist } return { $a.name, $a.slug } order { $a.slug }\n"
    )
    outcome = omnigraph("shell", str(place), stdin=script)
    assert "Ada    | ada\n日本   | b\n" in outcome.out


def test_help_says_how_a_statement_ends(omnigraph, place: Path) -> None:
    outcome = omnigraph("shell", str(place), stdin=".help\n")
    assert "A statement ends with a semicolon or an empty line" in outcome.out


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("match { $a: Artst } return { $a.name }", "did you mean `Artist`?"),
        (".nope", "no such command '.nope'"),
        (".branch nowhere", "branch 'nowhere' not found"),
        (".format xml", "the format must be one of"),
        (".commits many", "must be an integer"),
        (".explain", "give the query"),
    ],
)
def test_a_piped_mistake_ends_the_shell(omnigraph, place: Path, script: str, problem: str) -> None:
    outcome = omnigraph("shell", str(place), stdin=f"{script}\n.types\n")
    assert (outcome.code, outcome.out) == (1, "")
    assert problem in outcome.err


def test_every_command_answers(omnigraph, place: Path) -> None:
    script = ".help\n.schema\n.types\n.branch main\n.commits 1\n.format\n.params\n.quit\n.nope\n"
    outcome = omnigraph("shell", str(place), stdin=script)
    assert (outcome.code, outcome.err) == (0, "")
    assert "node:Artist  1 rows" in outcome.out
    assert "* main" in outcome.out


def test_a_read_only_shell_changes_nothing(omnigraph, place: Path) -> None:
    outcome = omnigraph(
        "shell", str(place), "--read-only", stdin='insert Artist { slug: "x", name: "X" }\n'
    )
    assert (outcome.code, outcome.out) == (1, "")
    assert "read-only" in outcome.err


def test_at_a_terminal_mistakes_and_interrupts_do_not_end_it(place: Path, tmp_path: Path) -> None:
    with on_a_terminal("shell", str(place), home=tmp_path) as terminal:
        terminal.wait_for("omnigraph> ")
        terminal.type(".nope\n")
        terminal.wait_for("no such command")
        terminal.wait_for("omnigraph> ")
        terminal.type("match { $a: Arti\t } return { count($a) as n }\n")
        terminal.wait_for("(1 row, ")
        terminal.wait_for("omnigraph> ")
        terminal.type("match {\n")
        terminal.wait_for("...> ")
        terminal.interrupt("omnigraph> ")
        terminal.type(".types\n")
        terminal.wait_for("node:Artist  1 rows")
        terminal.wait_for("omnigraph> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    history = (tmp_path / "history").read_text().splitlines()
    assert history[:2] == [".nope", "match { $a: Artist } return { count($a) as n }"]
    assert (tmp_path / "history").stat().st_mode & 0o077 == 0


def test_an_interrupt_ends_the_statement_and_not_the_shell(tmp_path: Path) -> None:
    graph = library.init(tmp_path / "g.omni", SCHEMA)
    people = [{"type": "Artist", "data": {"slug": f"a{n}", "name": "A"}} for n in range(300)]
    graph.load(people, "append")
    # Four in a row of 300, compared by native code: longer than a user waits.
    names = ("a", "b", "c", "d")
    found = " ".join(f"${name}: Artist" for name in names)
    compared = " ".join(f"${a}.slug < ${b}.slug" for a, b in combinations(names, 2))
    with on_a_terminal("shell", str(tmp_path / "g.omni"), home=tmp_path) as terminal:
        terminal.wait_for("omnigraph> ")
        terminal.type(f"match {{ {found} {compared} }} return {{ count($d) as n }}\n")
        terminal.wait_until_busy()
        terminal.type("\x03")
        terminal.wait_for("^C\r\ninterrupted\r\n")
        terminal.wait_for("omnigraph> ")
        terminal.insist(".types\n", "node:Artist  300 rows")
        terminal.wait_for("omnigraph> ")
        terminal.type("match {\n")
        terminal.wait_for("...> ")
        terminal.interrupt("omnigraph> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert b"Traceback" not in terminal.seen
    assert terminal.seen.count(b"interrupted") == 1, "nothing ran while something was typed"
