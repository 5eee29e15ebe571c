"""Every refusal of an apply names the reason, the position in the schema file, and a remedy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import omnigraph
from crash.fault_points import At, fail, watched
from crash.harness import environment
from evolution.library import SCHEMA, changed, files_below, values
from omnigraph.errors import (
    BadExpression,
    CompileError,
    ConstraintViolated,
    OmniError,
    ReadSetChanged,
    SchemaBreaksQueries,
    SchemaChangeBlocked,
    SchemaDropsEverything,
    UnsupportedSchemaChange,
)
from omnigraph.language.source import SourceText
from omnigraph.stored_queries import parse_registry


def as_file(text: str) -> SourceText:
    return SourceText(text, "next.pg")


def place_of(text: str, schema: str) -> str:
    """Return the place of the first occurrence of a text."""
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
def test_a_step_that_cannot_be_applied_names_its_position_and_another_way(
    library, wanted, at, code, advice
):
    with pytest.raises(UnsupportedSchemaChange) as refused:
        library.apply_schema(as_file(wanted))
    error = refused.value
    assert error.position == place_of(at, wanted)
    assert error.details()["unsupported_change"]["position"] == error.position
    assert error.position in error.message
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
def test_rows_that_break_a_rule_are_reported_with_the_position_of_the_rule(library, old, new, at):
    wanted = changed(old, new)
    with pytest.raises(ConstraintViolated) as refused:
        library.apply_schema(as_file(wanted))
    error = refused.value
    assert error.position == place_of(at, wanted)
    assert error.details()["position"] == error.position
    assert f"{error.position} demands it: change these rows first" in error.message
    assert all(violation.file is None for violation in error.violations)


def test_of_two_broken_rules_the_position_is_that_of_the_reported_row(library):
    wanted = changed(
        "price: F32?", "price: F32", changed("born: I32?", "born: I32?  @range(born, 0..9)")
    )
    with pytest.raises(ConstraintViolated) as refused:
        library.apply_schema(as_file(wanted))
    at = {"node:Author": "born", "node:Book": "price"}[refused.value.violations[0].type_key]
    assert refused.value.position == place_of(at, wanted)


def test_a_mistake_and_a_wrong_hint_have_their_places(library):
    for wanted in ("node A {\n  x: Sring\n}\n", SCHEMA + '\nnode B @rename_from("Nobody") { }\n'):
        with pytest.raises(CompileError) as refused:
            library.apply_schema(as_file(wanted))
        (found,) = refused.value.diagnostics
        assert (found.source, found.line > 1) == ("next.pg", True)


@pytest.mark.parametrize(
    ("theirs", "said", "at"),
    [
        (
            changed("born: I32?", "born: I32?  died: I32?"),
            "add property Author.died: I32?",
            "Author",
        ),
        (changed("price: F32?", "price: F64?"), "Book.price from F32? to F64?", "price"),
        (SCHEMA + "node Shop { name: String @key }\n", "add node type Shop", None),
    ],
)
def test_a_schema_that_changes_concurrently_is_reported_with_what_changed(
    library, library_place, theirs, said, at
):
    other, wanted = omnigraph.open(library_place), changed("pages: I32?", "pages: I64?")
    meanwhile = At("before", "write_fragments", "*/nodes/*", lambda: other.apply_schema(theirs))
    with watched(meanwhile), pytest.raises(ReadSetChanged) as refused:
        library.apply_schema(as_file(wanted))
    error = refused.value
    assert error.member == "schema_contract"
    assert said in error.message
    assert "read it again and retry" in error.message
    assert error.position == (place_of(at, wanted) if at else "next.pg")
    assert error.position in error.message
    assert error.details()["read_set_conflict"]["position"] == error.position


# --- branches and tags in the way -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "at"),
    [
        (changed("price: F32?", "price: F64?"), "price"),
        (changed("born: I32?", 'year: I32? @rename_from("born")'), "year"),
        (changed("pages: I32?  ", ""), "Book {"),
        (changed("title: String", "title: String @unique"), "title"),
        (changed("-> Book", "-> Book @card(0..9)"), "Wrote"),
        (
            changed("node Book", 'node Volume @rename_from("Book")').replace(
                "-> Book", "-> Volume"
            ),
            "Volume",
        ),
        ("".join(SCHEMA.splitlines(keepends=True)[:2]), None),
    ],
)
def test_a_conflicting_branch_is_reported_with_the_position_of_the_step_it_blocks(
    library, wanted, at
):
    library.create_branch("dev")
    with pytest.raises(SchemaChangeBlocked) as refused:
        library.apply_schema(as_file(wanted))
    error = refused.value
    assert error.branches == ("dev",)
    assert error.position == (place_of(at, wanted) if at else "next.pg")
    assert f"({error.position})" in error.message
    assert error.details()["schema_change_blocked"]["position"] == error.position


def test_a_tag_that_blocks_a_hard_drop_is_reported_with_the_position_of_the_drop(library):
    library.tag("v1")
    wanted = changed("born: I32?  ", "", changed("price: F32?", "price: F64?"))
    with pytest.raises(SchemaChangeBlocked) as refused:
        library.apply_schema(as_file(wanted), allow_data_loss=True)
    assert (refused.value.tags, refused.value.position) == (("v1",), place_of("Author {", wanted))


# --- expressions ----------------------------------------------------------------------------------

COST = changed("pages: I32?", "pages: I32?  cost: F64?")


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("nothing", "No field named nothing"),
        ("nothing + 1", "No field named nothing"),
        ("pages +", "Expression is not valid"),
        ("unheard_of(pages)", "unheard_of"),
    ],
)
def test_an_expression_that_cannot_be_computed_is_reported_with_the_position_of_its_property(
    library, library_place, expression, said, required, dry_run
):
    files, wanted = files_below(library_place), COST
    if required:
        wanted = changed("cost: F64?", "cost: F64", COST)
    with pytest.raises(BadExpression) as refused:
        library.apply_schema(
            as_file(wanted), expressions={"Book.cost": expression}, dry_run=dry_run
        )
    error = refused.value
    assert (error.code, error.property, error.expression) == (
        "bad_expression",
        "Book.cost",
        expression,
    )
    assert said in error.reason
    assert error.position == place_of("cost", wanted)
    assert error.position in error.message
    assert files_below(library_place) == files


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("cast(title as int)", "Cannot cast string 'Title 0'"),
        ("1 / pages", "Divide by zero"),
        ("title", "not a value of the property"),
    ],
)
def test_a_row_without_a_value_of_an_expression_is_reported_with_the_position_of_its_property(
    library, expression, said, required
):
    """One is read for the rules of the schema, the other only when the column is written."""
    wanted = changed("cost: F64?", "cost: F64", COST) if required else COST
    head = library.commits()[0]
    with pytest.raises(BadExpression) as refused:
        library.apply_schema(as_file(wanted), expressions={"Book.cost": expression})
    assert said in refused.value.reason
    assert (refused.value.property, refused.value.position) == (
        "Book.cost",
        place_of("cost", wanted),
    )
    assert (library.schema, library.commits()[0]) == (SCHEMA, head)
    assert library.apply_schema(as_file(wanted), expressions={"Book.cost": "2.0"}).applied


def test_a_row_of_a_later_batch_without_a_value_is_reported_as_the_first_one_is(library):
    rows = [{"slug": f"n{n:05}", "title": f"{n}"} for n in range(10_000)]
    library.mutate("query q() { delete Book where pages >= 0 }")
    library.load([{"type": "Book", "data": row} for row in rows], "append")
    library.load([{"type": "Book", "data": {"slug": "z", "title": "last"}}], "append")
    library.optimize()
    with pytest.raises(BadExpression, match="Cannot cast string 'last'"):
        library.apply_schema(as_file(COST), expressions={"Book.cost": "cast(title as int)"})


@pytest.mark.parametrize(("name", "at"), [("Book.other", "Book {"), ("Shop.name", None)])
def test_an_expression_for_nothing_is_reported_with_the_position_of_its_type(library, name, at):
    with pytest.raises(BadExpression, match="no such property") as refused:
        library.apply_schema(as_file(COST), expressions={name: "1"})
    assert refused.value.position == (place_of(at, COST) if at else "next.pg")


# --- a schema without any of the existing types ---------------------------------------------------


@pytest.mark.parametrize("wanted", ["", "// nothing yet\n", "node Shop { name: String @key }\n"])
@pytest.mark.parametrize("given", [{}, {"dry_run": True}, {"allow_data_loss": True}])
def test_a_schema_that_drops_every_type_is_refused_unless_requested(
    library, library_place, wanted, given
):
    files = files_below(library_place)
    with pytest.raises(SchemaDropsEverything) as refused:
        library.apply_schema(as_file(wanted), **given)
    error = refused.value
    assert (error.code, error.types, error.rows) == (
        "schema_drops_everything",
        ("Author", "Book", "Wrote"),
        16,
    )
    assert error.position == "next.pg"
    assert "--allow-drop-all" in error.message
    assert files_below(library_place) == files
    done = library.apply_schema(as_file(wanted), allow_drop_all=True, **given)
    assert done.applied is not given.get("dry_run", False)


def test_one_type_that_is_left_is_enough(library):
    wanted = 'node Reader @rename_from("Author") { slug: String @key  name: String }\n'
    assert library.apply_schema(as_file(wanted)).applied
    assert values(library, "Reader", "slug") == [f"a{n}" for n in range(4)]


def test_a_graph_without_types_takes_any(tmp_path):
    graph = omnigraph.init(tmp_path / "empty.omni", "")
    assert not graph.apply_schema("").applied
    assert graph.apply_schema(SCHEMA).applied


def test_an_interrupted_apply_reports_it_and_the_next_one_continues(library):
    at = At("before", "commit", "*__manifest*", fail(OSError("no route")))
    wanted = as_file(SCHEMA + "node Shop { name: String @key }\n")
    with watched(at), pytest.raises(OmniError) as refused:
        library.apply_schema(wanted)
    assert refused.value.code
    assert "no route" in refused.value.message
    assert library.schema == SCHEMA
    assert library.apply_schema(wanted).applied


def test_stored_queries_are_checked_against_the_schema_that_the_apply_starts_from(
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


def test_the_command_line_shows_the_position_to_people_and_programs(library_place, tmp_path):
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
    reported = run(required)
    assert reported.returncode == 1
    assert place in reported.stderr
    body = json.loads(run(required, "--json").stdout)
    assert (body["kind"], body["position"]) == ("constraint_violated", place)
    assert omnigraph.open(library_place).schema == SCHEMA
    body = json.loads(run("", "--json").stdout)
    facts = body["schema_drops_everything"]
    assert (body["kind"], facts["position"]) == ("schema_drops_everything", str(schema))
    assert omnigraph.open(library_place).schema == SCHEMA
    assert run("", "--allow-drop-all").returncode == 0
    assert omnigraph.open(library_place).schema == ""
