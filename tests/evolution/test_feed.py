"""The effect of every kind of step on a feed that comes to it, and on a diff across it."""

from __future__ import annotations

import pytest

from evolution.library import SCHEMA, changed
from omnigraph.errors import ChangeSchemaBoundary

SHOPS = SCHEMA + "node Shop { name: String @key }\n"
WRITER = SCHEMA.replace("node Author", 'node Writer @rename_from("Author")').replace(
    "Wrote: Author", "Wrote: Writer"
)
GOES_ON = [
    SHOPS,
    WRITER,
    changed("genre: enum(novel, poem)?", "genre: String?"),
    changed("enum(novel, poem)", "enum(novel)"),
    changed("enum(novel, poem)", "enum(novel, poem, play)"),
    changed("pages: I32?", "pages: I32? @index"),
    changed("title: String", "title: String @unique"),
    changed("city: String? @index", "city: String?"),
    changed("-> Book", "-> Book @card(0..9)"),
    changed("node Book", 'node Book @description("printed")'),
    changed("pages: I32?", "pages: I32? @default(1)"),
]
BOUNDARIES = [
    changed("pages: I32?", "pages: I32?  stock: I32?"),
    changed("pages: I32?", "pages: I32?  stock: I32 @default(1)"),
    changed("pages: I32?", 'size: I32? @rename_from("pages")'),
    changed("title: String", "title: String?"),
    changed("pages: I32?", "pages: I32"),
    changed("pages: I32?", "pages: I64?"),
    changed("pages: I32?", "pages: [I32]?"),
    changed("  pages: I32?", ""),
]
DROPPED = SCHEMA.partition("edge")[0]


@pytest.fixture
def cursor(library):
    return library.changes("now").position


@pytest.mark.parametrize("wanted", GOES_ON)
def test_a_feed_and_a_diff_continue(library, cursor, wanted):
    before = library.commits()[0].commit_id
    applied = library.apply_schema(wanted).commit
    library.mutate('query q() { insert Book { slug: "n", title: "N" } }')
    page = library.changes(cursor)
    assert [len(block.changes) for block in page.blocks] == [0, 1]
    assert page.blocks[0].commit.commit_id == applied.commit_id
    assert [str(change.op) for change in library.diff(before)] == ["insert"]


@pytest.mark.parametrize("wanted", BOUNDARIES)
def test_a_feed_and_a_diff_end_with_advice(library, cursor, wanted):
    before = library.commits()[0].commit_id
    applied = library.apply_schema(wanted).commit
    for ask in (
        lambda: library.changes(cursor),
        lambda: list(library.diff(before)),
        lambda: library.commit_changes(applied.commit_id),
    ):
        with pytest.raises(ChangeSchemaBoundary, match="baseline") as refused:
            ask()
        assert refused.value.commit_id == applied.commit_id
        assert refused.value.type_name == "Book"
    after = library.changes("now").position
    library.mutate('query q() { insert Author { slug: "n", name: "N" } }')
    assert [len(block.changes) for block in library.changes(after).blocks] == [1]


def test_a_dropped_type_with_rows_ends_the_feed(library, cursor):
    library.apply_schema(DROPPED)
    with pytest.raises(ChangeSchemaBoundary):
        library.changes(cursor)


def test_rows_that_a_mutation_changed_with_the_schema_are_reported(library, cursor):
    done = library.apply_schema(
        changed("enum(novel, poem)", "enum(novel)"),
        mutations=['query q() { update Book set { pages: 1 } where slug = "b1" }'],
    )
    (block,) = library.changes(cursor).blocks
    assert block.commit.commit_id == done.commit.commit_id
    assert [(str(change.op), change.id) for change in block.changes] == [("update", "b1")]
