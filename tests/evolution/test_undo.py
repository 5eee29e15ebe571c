"""Undoing commits on the other side of a change of the schema."""

from __future__ import annotations

import pytest

from evolution.library import SCHEMA, changed, values
from omnigraph.errors import SchemaContractMismatch

DIED = changed("born: I32?", "born: I32?  died: I32?")
POEMS = changed("enum(novel, poem)", "enum(novel, poem, play)")
SHOPS = SCHEMA + "node Shop { name: String @key }\n"
INSERT = 'query q() { insert Author { slug: "x", name: "X" } }'


@pytest.mark.parametrize("schema", [DIED, POEMS, SHOPS])
@pytest.mark.parametrize("verb", ["revert", "cherry_pick"])
def test_a_commit_that_changed_the_schema_is_not_undone_or_repeated_with_rows(
    library, verb, schema
):
    done = library.apply_schema(schema)
    with pytest.raises(SchemaContractMismatch, match="apply the schema") as refused:
        getattr(library, verb)(done.commit.commit_id)
    assert done.steps[0].describe() in refused.value.message
    assert library.commits()[0] == done.commit


@pytest.mark.parametrize("schema", [DIED, POEMS, SHOPS])
def test_an_earlier_state_comes_back_after_its_schema(library, schema):
    before = library.commits()[0].commit_id
    library.apply_schema(schema)
    library.mutate(INSERT)
    with pytest.raises(SchemaContractMismatch, match="apply the schema of that commit first"):
        library.restore(before)
    assert len(values(library, "Author", "slug")) == 5
    library.apply_schema(library.at(commit=before).schema)
    library.restore(before)
    assert values(library, "Author", "slug") == ["a0", "a1", "a2", "a3"]
    assert library.verify(deep=True).findings == ()


def test_a_type_dropped_and_added_again_is_another_one(library):
    before = library.commits()[0].commit_id
    library.apply_schema(changed("born: I32?  ", ""))
    library.apply_schema(SCHEMA)
    with pytest.raises(SchemaContractMismatch, match="load the rows that are wanted"):
        library.restore(before)


def test_a_commit_of_rows_with_fewer_properties_is_refused_with_advice(library):
    inserted = library.mutate(INSERT).commit.commit_id
    library.apply_schema(DIED)
    with pytest.raises(SchemaContractMismatch, match="with a mutation or a load"):
        library.revert(inserted)
    library.mutate('query q() { delete Author where slug = "x" }')
    assert len(values(library, "Author", "slug")) == 4


def test_a_commit_of_another_type_is_undone_all_the_same(library):
    inserted = library.mutate('query q() { insert Book { slug: "x", title: "X" } }')
    library.apply_schema(DIED)
    library.revert(inserted.commit.commit_id)
    assert len(values(library, "Book", "slug")) == 6
    assert library.schema == DIED


def test_a_table_of_a_dropped_type_is_not_reported_as_unknown(library):
    library.apply_schema(SCHEMA.partition("edge")[0])
    checks = {note.check: note for note in library.verify(deep=True).notes}
    assert checks["dropped_table"].table_key == "edge:Wrote"
    assert "unreferenced_table" not in checks
