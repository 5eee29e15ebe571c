"""`omnigraph shell`: typed at a terminal, and piped in."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

import omnigraph as library
from cli.terminal_process import on_a_terminal
from omnigraph.cli.shell_input import Completer, is_whole, split_statements, wrap_as_query

SCHEMA = "node Artist { slug: String @key  name: String }\nedge Knows: Artist -> Artist"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    graph = library.init(tmp_path / "g.omni", SCHEMA)
    graph.load([{"type": "Artist", "data": {"slug": "ada", "name": "Ada"}}], "append")
    return tmp_path / "g.omni"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        (".help", True),
        ("match { $a: Artist } return { $a.name }", True),
        ("match { $a: Artist }", False),
        ("match { $a: Artist }\nreturn { $a.name }", False),
        ("match { $a: Artist }\nreturn { $a.name }\n\n", True),
        ("match { $a: Artist }\nreturn { $a.name };", True),
        ("query q() {", False),
        ("query q() { match { $a: Artist }\n return { $a.name } }", True),
        ("query q()", False),
        ('insert Artist { slug: "a" }', True),
        ('insert Artist { slug: "}', False),
        ("/* not closed", False),
        ("match { } } return", True),
    ],
)
def test_a_statement_is_whole_when_nothing_more_belongs_to_it(text, whole) -> None:
    assert is_whole(text) is whole


def test_lines_become_statements() -> None:
    lines = iter(["\n", ".types\n", "query q() {\n", "  match { }\n", "}\n", "match { }\n"])
    assert list(split_statements(lines)) == [".types", "query q() {\n  match { }\n}", "match { }"]


def test_a_body_becomes_a_query() -> None:
    assert wrap_as_query("match { } return { };") == "query shell() { match { } return { }\n}"
    assert wrap_as_query("query q() { }") == "query q() { }"


def test_words_are_completed() -> None:
    complete = Completer([".help", ".branch"], lambda: ["Artist", "name"])
    assert complete.matching(".b") == [".branch"]
    assert complete.matching("Art") == ["Artist"]
    assert complete.matching("a.na") == ["a.name"]
    assert "match" in complete.matching("ma")
    assert (complete("Art", 0), complete("Art", 1)) == ("Artist", None)


def test_what_is_piped_in_is_run_in_order(omnigraph, place: Path) -> None:
    script = (
        'insert Artist { slug: "ben", name: "Ben" }\n'
        "match { $a: Artist }\nreturn { $a.name }\norder { $a.name }\n\n"
        ".format csv\n"
        '.params {"s": "ada"}\n'
        "query q($s: String) { match { $a: Artist { slug: $s } } return { $a.name } }\n"
    )
    outcome = omnigraph("shell", str(place), stdin=script)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("changed main via shell: 1 nodes, 0 edges\n2 rows from ")
    assert outcome.out.endswith("a.name\nAda\n")


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
        terminal.wait_for("1 rows from branch main via shell")
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
    # Four in a row of 300, compared by native code: more than anybody waits for.
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
