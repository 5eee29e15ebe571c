"""Every refusal of an apply says what, where in the schema file, and what to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import omnigraph
from crash.harness import environment
from crash.windows import At, fail, watched
from evolution.library import SCHEMA, changed
from omnigraph.errors import (
    CompileError,
    ConstraintViolated,
    OmniError,
    ReadSetChanged,
    SchemaBreaksQueries,
    UnsupportedSchemaChange,
)
from omnigraph.language.source import SourceText
from omnigraph.stored_queries import parse_registry


def as_file(text: str) -> SourceText:
    return SourceText(text, "next.pg")


def place_of(text: str, schema: str) -> str:
    """Where a text stands first."""
    before, _, _ = schema.partition(text)
    return f"next.pg:{before.count(chr(10)) + 1}:{len(before.rpartition(chr(10))[2]) + 1}"


@pytest.mark.parametrize(
    ("wanted", "at", "code", "advice"),
    [
        (changed("Author -> Book", "Book -> Author"), "Wrote", None, "add another edge type"),
        (changed("born: I32?", "born: Bool?"), "born", "OG-MF-106", "give an expression"),
        (changed("born: I32?", "born: I32?  died: I32"), "died", "OG-MF-103", "a @default"),
        (changed("title: String", "title: Vector(3)"), "title", "OG-MF-106", "another property"),
        (
            changed("slug: String @key  title", "slug: String  title"),
            "Book {",
            None,
            "add another type",
        ),
    ],
)
def test_a_step_that_cannot_be_taken_names_its_place_and_another_way(
    library, wanted, at, code, advice
):
    with pytest.raises(UnsupportedSchemaChange) as refused:
        library.apply_schema(as_file(wanted))
    error = refused.value
    assert error.place == place_of(at, wanted)
    assert error.details()["unsupported_change"]["place"] == error.place
    assert error.place in error.message
    assert (error.lint_code, advice in error.message) == (code, True)


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        ("price: F32?", "price: F32", "price"),
        ("genre: enum(novel, poem)?", "genre: enum(poem)?", "genre"),
        ("pages: I32?", "pages: I32?  @range(pages, 0..100)", "pages"),
        ("genre: enum(novel, poem)?", "genre: enum(novel, poem)? @unique", "genre"),
        ("genre: enum(novel, poem)? }", "genre: enum(novel, poem)?  @unique(genre) }", "genre"),
        ("-> Book", "-> Book @card(0..1)", "Wrote"),
    ],
)
def test_rows_that_break_a_rule_are_told_with_the_place_of_the_rule(library, old, new, at):
    wanted = changed(old, new)
    with pytest.raises(ConstraintViolated) as refused:
        library.apply_schema(as_file(wanted))
    error = refused.value
    assert error.place == place_of(at, wanted)
    assert error.details()["place"] == error.place
    assert f"{error.place} demands it: change these rows first" in error.message
    assert all(violation.file is None for violation in error.violations)


def test_of_two_broken_rules_the_place_is_that_of_the_row_that_is_told(library):
    wanted = changed(
        "price: F32?", "price: F32", changed("born: I32?", "born: I32?  @range(born, 0..9)")
    )
    with pytest.raises(ConstraintViolated) as refused:
        library.apply_schema(as_file(wanted))
    at = {"node:Author": "born", "node:Book": "price"}[refused.value.violations[0].type_key]
    assert refused.value.place == place_of(at, wanted)


def test_a_mistake_and_a_wrong_hint_have_their_places(library):
    for wanted in ("node A {\n  x: Sring\n}\n", SCHEMA + '\nnode B @rename_from("Nobody") { }\n'):
        with pytest.raises(CompileError) as refused:
            library.apply_schema(as_file(wanted))
        (found,) = refused.value.diagnostics
        assert (found.source, found.line > 1) == ("next.pg", True)


def test_a_schema_that_changes_meanwhile_is_told_with_what_changed(library, library_place):
    other = omnigraph.open(library_place)
    died = changed("born: I32?", "born: I32?  died: I32?")
    meanwhile = At("before", "write_fragments", "*/nodes/*", lambda: other.apply_schema(died))
    with watched(meanwhile), pytest.raises(ReadSetChanged) as refused:
        library.apply_schema(as_file(changed("pages: I32?", "pages: I64?")))
    assert refused.value.member == "schema_contract"
    assert "add property Author.died: I32?" in refused.value.message
    assert "read it again and retry" in refused.value.message


def test_an_interrupted_apply_says_so_and_the_next_one_goes_on(library):
    at = At("before", "commit", "*__manifest*", fail(OSError("no route")))
    wanted = as_file(SCHEMA + "node Shop { name: String @key }\n")
    with watched(at), pytest.raises(OmniError) as refused:
        library.apply_schema(wanted)
    assert refused.value.code
    assert "no route" in refused.value.message
    assert library.schema == SCHEMA
    assert library.apply_schema(wanted).applied


def test_stored_queries_are_asked_about_the_schema_that_the_apply_starts_from(
    library, library_place
):
    text = SourceText("query by_city() { match { $a: Author } return { $a.city } }", "q.gq")
    bare = changed("  city: String? @index", "")
    library.apply_schema(bare)
    graph = omnigraph.open(library_place).with_queries(parse_registry([text]))
    more = changed("pages: I32?", "pages: I64?", bare)
    insert = 'query q() { insert Book { slug: "late", title: "Late" } }'
    moved = At("before", "write_fragments", "*/nodes/*", lambda: library.mutate(insert))
    with watched(moved):
        assert graph.apply_schema(as_file(more)).applied, "it did not run before either"
    library.apply_schema(changed("pages: I32?", "pages: I64?"))
    with pytest.raises(SchemaBreaksQueries, match="by_city"):
        graph.apply_schema(as_file(more))
    with pytest.raises(SchemaBreaksQueries, match="by_city"):
        graph.apply_schema(as_file(more), dry_run=True)


def test_the_command_line_shows_the_place_to_people_and_programs(library_place, tmp_path):
    schema = tmp_path / "next.pg"
    command = [sys.executable, "-m", "omnigraph.cli", "schema", "apply", str(library_place)]

    def run(wanted: str, *flags: str) -> subprocess.CompletedProcess[str]:
        schema.write_text(wanted)
        return subprocess.run(
            [*command, "--schema", str(schema), *flags],
            env={**environment(), "COLUMNS": "500"},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    required = changed("price: F32?", "price: F32")
    place = place_of("price", required).replace("next.pg", str(schema))
    told = run(required)
    assert told.returncode == 1
    assert place in told.stderr
    body = json.loads(run(required, "--json").stdout)
    assert (body["kind"], body["place"]) == ("constraint_violated", place)
    assert omnigraph.open(library_place).schema == SCHEMA
