"""Formatting of schema and query files: one layout, comments preserved, nothing else changed."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from commands.quick_command import quick_command
from omnigraph.errors import CompileError
from omnigraph.language.format import format_queries, format_schema
from omnigraph.language.lexer import find_comments, tokenize
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.schema_parser import parse_schema
from omnigraph.language.source import Problems, SourceText

CASES = Path(__file__).parents[2] / "cases"
SCHEMA = """\
// Music, as the tests know it.

/* People. */
node Artist{name:String @key // what they are called
  // when they were born
  born:I32?
  // nothing more is known
}
edge Made : Artist -> Album // who made it
/* Several
     lines. */
node Album { title: String @key }
// the end
"""
FORMATTED = """\
// Music, as the tests know it.

/* People. */
node Artist {
  name: String @key  // what they are called
  // when they were born
  born: I32?
  // nothing more is known
}

edge Made: Artist -> Album  // who made it

/* Several
     lines. */
node Album {
  title: String @key
}
// the end
"""
QUERIES = """\
query a($n: I32) { // first
  match { $a: Artist { born: $n } // bound
    // then
    $a made $b }
  return { $a.name, // one
           $b.title // two
  } }
"""


def comments_of(text: str) -> list[str]:
    """Every comment, without the space at the ends of its lines."""
    found = [text[span.start : span.end] for span in find_comments(text)]
    return sorted("\n".join(line.rstrip() for line in one.splitlines()) for one in found)


def test_a_schema_is_laid_out_with_its_comments_in_place() -> None:
    assert format_schema(SourceText(SCHEMA)) == FORMATTED


def test_queries_keep_every_comment_near_what_it_is_about() -> None:
    text = format_queries(SourceText(QUERIES))
    assert comments_of(text) == comments_of(QUERIES)
    assert "query a($n: I32) {  // first\n" in text
    assert "$a: Artist { born: $n }  // bound\n    // then\n    $a made $b\n" in text
    assert "  // one\n  return { $a.name, $b.title }  // two\n" in text


FILES = [
    *sorted(CASES.glob("**/*.pg")),
    *sorted(CASES.glob("**/*.gq")),
]
PARTS = {".pg": (parse_schema, format_schema), ".gq": (parse_query_file, format_queries)}


def is_sound(path: Path) -> bool:
    try:
        PARTS[path.suffix][0](SourceText(path.read_text("utf-8")))
    except (CompileError, UnicodeDecodeError):
        return False
    return True


SOUND_FILES = [path for path in FILES if is_sound(path)]


@pytest.mark.parametrize("path", SOUND_FILES, ids=lambda path: path.name)
def test_formatting_twice_changes_nothing_more(path: Path) -> None:
    _, formatter = PARTS[path.suffix]
    source = path.read_text("utf-8")
    once = formatter(SourceText(source))
    assert formatter(SourceText(once)) == once
    assert comments_of(once) == comments_of(source)


@pytest.mark.parametrize("seed", range(60))
def test_comments_anywhere_are_preserved_and_change_no_meaning(seed: int) -> None:
    chance = random.Random(seed)
    path = chance.choice(SOUND_FILES)
    parse, formatter = PARTS[path.suffix]
    plain = SourceText(path.read_text("utf-8"))
    commented, end = "", -1
    for number, token in enumerate(tokenize(plain, Problems(plain, "parse"))):
        comment = chance.choice([f"// {number}\n", f"/* {number} */", f"\n// {number} \n\n"])
        touches = token.span.start == end  # `-10` is one number only so
        commented += "" if touches else chance.choice([" ", "\n", comment])
        end = token.span.end
        commented += plain.text[token.span.start : token.span.end]
    text = formatter(SourceText(commented))
    assert comments_of(text) == comments_of(commented), f"seed {seed}, {path.name}"
    assert parse(SourceText(text)) == parse(plain)
    assert formatter(SourceText(text)) == text


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = quick_command("fmt", *arguments)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_command_rewrites_in_place_and_checks(tmp_path: Path) -> None:
    path = tmp_path / "s.pg"
    path.write_text(SCHEMA)
    path.chmod(0o640)
    checked = run(tmp_path, "--check", "s.pg")
    assert (checked.returncode, checked.stdout) == (1, "would reformat s.pg\n")
    assert path.read_text() == SCHEMA
    assert run(tmp_path, "s.pg").stdout == "reformatted s.pg\n"
    assert path.read_text() == FORMATTED
    assert path.stat().st_mode & 0o777 == 0o640
    assert run(tmp_path, "--check", "s.pg").returncode == 0


def test_no_file_is_written_if_one_has_mistakes(tmp_path: Path) -> None:
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "q.gq").write_text("query {")
    assert run(tmp_path, "s.pg", "q.gq").returncode == 1
    assert (tmp_path / "s.pg").read_text() == SCHEMA
    other = run(tmp_path, "music.txt")
    assert (other.returncode, "neither a schema" in other.stderr) == (2, True)
