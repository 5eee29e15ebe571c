"""Values that become values of other types, and rules that rows must already follow."""

from __future__ import annotations

import pytest

import omnigraph
from evolution.library import SCHEMA, changed, files_below, values
from omnigraph.errors import BadRequest, ConstraintViolated, UnsupportedSchemaChange


def violations(refused):
    return [(v.type_key, v.id, v.message) for v in refused.value.violations]


def refuse(graph, place, schema, **options):
    """The error of an apply that must leave every byte as it was."""
    files = files_below(place)
    with pytest.raises(ConstraintViolated) as refused:
        graph.apply_schema(schema, **options)
    assert files_below(place) == files
    with pytest.raises(ConstraintViolated):
        graph.apply_schema(schema, dry_run=True, **options)
    return refused


@pytest.mark.parametrize(
    ("old", "new", "name", "expected"),
    [
        ("pages: I32?", "pages: I64?", "pages", [0, 100, 200, 300, 400, 500]),
        ("pages: I32?", "pages: F64?", "pages", [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]),
        ("pages: I32?", "pages: [I32]?", "pages", [[n * 100] for n in range(6)]),
        ("pages: I32?", "pages: [I64]?", "pages", [[n * 100] for n in range(6)]),
        ("pages: I32?", "pages: I32", "pages", [n * 100 for n in range(6)]),
        ("price: F32?", "price: F64?", "price", [None] * 6),
        ("title: String", "title: String?", "title", [f"Title {n}" for n in range(6)]),
        ("title: String", "title: [String]", "title", [[f"Title {n}"] for n in range(6)]),
        ("genre: enum(novel, poem)?", "genre: String?", "genre", ["novel"] * 6),
        ("genre: enum(novel, poem)?", "genre: enum(novel)", "genre", ["novel"] * 6),
        ("title: String", "title: String @unique", "title", [f"Title {n}" for n in range(6)]),
    ],
)
def test_values_survive_a_type_that_holds_all_of_them(library, old, new, name, expected):
    assert library.apply_schema(changed(old, new)).applied
    assert values(library, "Book", name) == expected
    library.load([{"type": "Book", "data": {**_whole(library), "slug": "n"}}], "append")
    assert len(values(library, "Book", name)) == 7
    assert library.verify(deep=True).findings == ()


def _whole(graph):
    """A record that the schema allows, whatever it is now."""
    record = dict(next(graph.export(["Book"]))["data"])
    record.pop("id")
    title = record["title"]
    record["title"] = ["other"] if isinstance(title, list) else "other"
    return record


def test_a_column_may_allow_null_while_others_are_added(library):
    wanted = changed("title: String", "title: String?  year: I32?")
    library.apply_schema(changed("pages: I32?", "pages: I32", wanted))
    assert values(library, "Book", "title") == [f"Title {n}" for n in range(6)]
    library.mutate('query q() { insert Book { slug: "n", pages: 1 } }')
    assert values(library, "Book", "title")[-1] is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pages: I32?", "pages: String?"),
        ("title: String", "title: I32"),
        ("price: F32?", "price: I64?"),
        ("pages: I32?", "pages: U32?"),
    ],
)
def test_a_type_that_does_not_hold_every_value_needs_an_expression(library, old, new):
    with pytest.raises(UnsupportedSchemaChange, match="give an expression") as refused:
        library.apply_schema(changed(old, new))
    assert refused.value.lint_code == "OG-MF-106"


def test_a_key_keeps_the_type_of_its_ids(library):
    with pytest.raises(UnsupportedSchemaChange, match="it would change ids"):
        library.apply_schema(SCHEMA.replace("node Book { slug: String", "node Book { slug: I64"))


def test_rows_without_a_value_stand_in_the_way_of_a_required_property(library, library_place):
    refused = refuse(library, library_place, changed("city: String?", "city: String"))
    assert refused.value.total == 4
    assert violations(refused)[0] == (
        "node:Author",
        "a0",
        "Author.city is NULL and must have a value",
    )


@pytest.mark.parametrize(
    ("old", "new", "ids"),
    [
        (
            "genre: enum(novel, poem)? }",
            "genre: enum(novel, poem)?  @range(pages, 0..300) }",
            "b4 b5",
        ),
        (
            "genre: enum(novel, poem)? }",
            'genre: enum(novel, poem)?  @check(title, "[0-2]$") }',
            "b3 b4 b5",
        ),
        ("genre: enum(novel, poem)?", "genre: enum(poem)?", "b0 b1 b2 b3 b4 b5"),
        ("genre: enum(novel, poem)?", "genre: enum(novel, poem)? @unique", "b1 b2 b3 b4 b5"),
        ("pages: I32?", "pages: I32?  shelf: I32 @default(1) @unique", "b1 b2 b3 b4 b5"),
    ],
)
def test_rows_that_break_a_new_rule_are_listed(library, library_place, old, new, ids):
    refused = refuse(library, library_place, changed(old, new))
    assert sorted(v.id for v in refused.value.violations) == ids.split()


def test_edges_are_counted_before_fewer_are_allowed(library, library_place):
    refused = refuse(library, library_place, changed("-> Book", "-> Book @card(0..1)"))
    assert [v.source for v in refused.value.violations] == ["a0", "a1", "a2"]
    assert library.apply_schema(changed("-> Book", "-> Book @card(0..2)")).applied
    with pytest.raises(ConstraintViolated):
        library.load([{"edge": "Wrote", "from": "a0", "to": "b1"}], "append")
    assert library.apply_schema(SCHEMA).applied


def test_a_key_is_added_where_it_makes_the_ids_there_are(tmp_path):
    graph = omnigraph.init(tmp_path / "tags.omni", "node Tag { name: String }")
    graph.load([{"type": "Tag", "data": {"id": "x", "name": "x"}}], "append")
    wanted = "node Tag { name: String @key }"
    assert graph.apply_schema(wanted).applied
    graph.load([{"type": "Tag", "data": {"name": "y"}}], "append")
    other = omnigraph.init(tmp_path / "other.omni", "node Tag { name: String }")
    other.load([{"type": "Tag", "data": {"id": "x", "name": "z"}}], "append")
    refused = refuse(other, tmp_path / "other.omni", wanted)
    assert "does not match the key, which makes it 'z'" in refused.value.message


def test_a_rule_can_be_dropped(library):
    library.apply_schema(changed("title: String", "title: String @unique"))
    library.apply_schema(SCHEMA)
    library.mutate('query q() { insert Book { slug: "n", title: "Title 1" } }')


# --- expressions ----------------------------------------------------------------------------------


def test_a_new_property_is_computed_from_others(library):
    wanted = changed("born: I32?", "born: I32?  label: String")
    done = library.apply_schema(wanted, expressions={"Author.label": "name || ' of ' || slug"})
    assert values(library, "Author", "label") == [f"Name {n} of a{n}" for n in range(4)]
    assert done.steps[0].wire()["expression"] == "name || ' of ' || slug"


def test_a_narrower_type_takes_what_an_expression_gives(library):
    wanted = changed("title: String", "title: I32")
    library.apply_schema(
        wanted, expressions={"Book.title": "cast(replace(title, 'Title ', '') as int) * 10"}
    )
    assert values(library, "Book", "title") == [0, 10, 20, 30, 40, 50]


def test_an_expression_must_give_every_row_what_the_schema_demands(library, library_place):
    wanted = changed("pages: I32?", "pages: I32?  cost: F64")
    refused = refuse(library, library_place, wanted, expressions={"Book.cost": "price * 2"})
    assert refused.value.total == 6


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("Book.cost", "nothing + 1", "No field named nothing"),
        ("Book.cost", "1 +", "cannot compute Book.cost (<schema>:2:60) as '1 +'"),
        ("Book.cost", "title", "not a value of the property"),
        ("Book.other", "1", "no such property"),
    ],
)
def test_an_expression_that_gives_nothing_is_refused(library, library_place, name, text, said):
    files = files_below(library_place)
    wanted = changed("pages: I32?", "pages: I32?  cost: F64?")
    with pytest.raises(BadRequest) as refused:
        library.apply_schema(wanted, expressions={name: text})
    assert said in refused.value.message
    assert files_below(library_place) == files
