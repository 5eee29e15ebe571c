"""Merging branches whose schemas differ by additions."""

from __future__ import annotations

import pytest

import omnigraph
from crash.fault_points import At, Stopped, stop, watched
from evolution.library import SCHEMA, changed, values
from omnigraph.errors import MergeConflicts, ReadSetChanged, SchemaContractMismatch
from omnigraph.graph import merges

DIED = changed("born: I32?", "born: I32?  died: I32?  rank: I32 @default(5)")
SHOPS = SCHEMA + "node Shop { name: String @key }\nedge Sells: Shop -> Book\n"
INSERT = 'query q() {{ insert Author {{ slug: "{}", name: "N" }} }}'
RANK = 'query q() {{ update Author set {{ rank: {} }} where slug = "{}" }}'


def sound(graph):
    assert graph.verify(deep=True).findings == ()


@pytest.fixture
def dev(library):
    """A branch with an insert, an update and a delete, made before the schema changes."""
    library.create_branch("dev")
    branch = library.branch("dev")
    branch.mutate(INSERT.format("d"))
    branch.mutate('query q() { update Author set { name: "D" } where slug = "a1" }')
    branch.mutate('query q() { delete Author where slug = "a3" }')
    return branch


def test_a_branch_without_the_additions_is_merged_into_one_that_has_them(library, dev):
    library.apply_schema(DIED)
    library.mutate(RANK.format(9, "a0"))
    result = library.merge("dev")
    (counts,) = [t for t in result.tables if t.table_key == "node:Author"]
    assert (counts.inserted, counts.updated) == (1, 1)
    assert values(library, "Author", "slug") == ["a0", "a1", "a2", "d"]
    assert values(library, "Author", "name") == ["Name 0", "D", "Name 2", "N"]
    assert values(library, "Author", "rank") == [9, 5, 5, 5]
    assert values(library, "Author", "died") == [None] * 4
    assert library.schema == DIED
    sound(library)


def test_a_row_that_got_another_value_of_an_added_property_is_changed(library, dev):
    library.apply_schema(DIED)
    library.mutate(RANK.format(9, "a1"))
    with pytest.raises(MergeConflicts) as refused:
        library.merge("dev", granularity="entity")
    assert [c.id for c in refused.value.conflicts] == ["a1"]
    assert library.merge("dev").commit is not None
    assert values(library, "Author", "name")[1] == "D"
    assert values(library, "Author", "rank")[1] == 9
    sound(library)


def test_additions_of_a_branch_come_with_its_rows(library, dev):
    dev.apply_schema(DIED)
    dev.mutate(RANK.format(7, "a2"))
    library.mutate(INSERT.format("m"))
    commits = len(library.commits())
    assert library.merge("dev").commit is not None
    assert library.schema == DIED
    assert values(library, "Author", "slug") == ["a0", "a1", "a2", "d", "m"]
    assert values(library, "Author", "rank") == [5, 5, 7, 5, 5]
    details = [c.details for c in library.commits()[: len(library.commits()) - commits]]
    assert any("schema" in one for one in details)
    sound(library)


def test_types_of_a_branch_come_with_their_rows(library, dev):
    dev.apply_schema(SHOPS)
    shop = {"type": "Shop", "data": {"name": "corner"}}
    dev.load([shop, {"edge": "Sells", "from": "corner", "to": "b1"}], "append")
    library.merge("dev")
    assert values(library, "Shop", "name") == ["corner"]
    assert [r["to"] for r in library.export(["Sells"])] == ["b1"]
    library.load([{"type": "Shop", "data": {"name": "market"}}], "append")
    dev.load([{"type": "Shop", "data": {"name": "kiosk"}}], "append")
    library.merge("dev")
    assert values(library, "Shop", "name") == ["corner", "kiosk", "market"]
    assert values(dev, "Shop", "name", "dev") == ["corner", "kiosk"]
    sound(library)
    library.delete_branch("dev")
    library.cleanup(keep=1, confirm=True)
    assert values(library, "Shop", "name") == ["corner", "kiosk", "market"]
    sound(library)


def test_the_additions_of_main_reach_a_branch(library, dev):
    library.apply_schema(SHOPS.replace("born: I32?", "born: I32?  died: I32?"))
    library.load([{"type": "Shop", "data": {"name": "corner"}}], "append")
    library.merge("main", "dev")
    assert dev.schema == library.schema
    assert values(library, "Shop", "name", "dev") == ["corner"]
    assert values(library, "Author", "slug", "dev") == ["a0", "a1", "a2", "d"]
    dev.mutate('query q() { update Author set { died: 3 } where slug = "d" }')
    library.merge("dev")
    assert values(library, "Author", "died") == [None, None, None, 3]
    sound(library)


def test_the_additions_of_main_reach_a_branch_after_cleanup(library, library_place, dev):
    library.apply_schema(SHOPS)
    for name in ("corner", "kiosk"):
        library.load([{"type": "Shop", "data": {"name": name}}], "append")
    library.cleanup(keep=1, confirm=True)
    omnigraph.open(library_place).merge("main", "dev")
    assert values(library, "Shop", "name", "dev") == ["corner", "kiosk"]
    sound(library)


def test_the_same_addition_on_both_sides_is_one(library, dev):
    library.apply_schema(DIED)
    dev.apply_schema(DIED)
    dev.mutate(RANK.format(1, "d"))
    library.merge("dev")
    assert values(library, "Author", "rank") == [5, 5, 5, 1]
    sound(library)


def test_a_merge_with_conflicts_does_not_change_the_schema(library, dev):
    dev.apply_schema(DIED)
    library.mutate('query q() { update Author set { name: "M" } where slug = "a1" }')
    head = library.commits()[0]
    with pytest.raises(MergeConflicts):
        library.merge("dev")
    assert library.commits()[0] == head
    assert library.schema == SCHEMA


def test_a_merge_that_breaks_a_rule_for_an_added_type_does_not_change_the_schema(library, dev):
    """The shop sells a book that main has no longer."""
    dev.apply_schema(SHOPS)
    shop = {"type": "Shop", "data": {"name": "corner"}}
    dev.load([shop, {"edge": "Sells", "from": "corner", "to": "b1"}], "append")
    library.mutate('query q() { delete Book where slug = "b1" }')
    head = library.commits()[0]
    preview = library.merge("dev", dry_run=True)
    assert [one.kind for one in preview.conflicts] == ["orphan_edge"]
    with pytest.raises(MergeConflicts):
        library.merge("dev")
    assert library.commits()[0] == head
    assert library.schema == SCHEMA


def test_a_schema_that_grows_while_it_is_merged_is_no_half_merge(library, dev, monkeypatch):
    """Else the rows of the newest type would stay behind, and count as merged."""
    dev.apply_schema(DIED)
    take_over = merges.adopt_schema

    def take_over_and_grow(*given):
        take_over(*given)
        dev.apply_schema(DIED + "node Late { name: String @key }\n")
        dev.load([{"type": "Late", "data": {"name": "x"}}], "append")

    with monkeypatch.context() as patch:
        patch.setattr(merges, "adopt_schema", take_over_and_grow)
        with pytest.raises(ReadSetChanged):
            library.merge("dev")
    library.merge("dev")
    assert values(library, "Late", "name") == ["x"]
    sound(library)


def test_a_merge_that_is_cut_after_the_additions_came_is_finished_by_merging_again(
    library, library_place, dev
):
    dev.apply_schema(DIED)
    dev.mutate(RANK.format(7, "a2"))
    announced = At("before", "put*", "__recovery/*", stop, nth=2)
    with watched(announced), pytest.raises(Stopped):
        omnigraph.open(library_place).merge("dev")
    again = omnigraph.open(library_place)
    assert again.schema == DIED
    assert values(again, "Author", "slug") == ["a0", "a1", "a2", "a3"]
    assert values(again, "Author", "rank") == [5] * 4
    sound(again)
    again.merge("dev")
    assert values(again, "Author", "rank") == [5, 5, 7, 5]
    sound(again)


def test_conflicts_about_added_properties_are_decided_like_any_others(library, dev):
    dev.apply_schema(DIED)
    dev.mutate(RANK.format(7, "a2"))
    library.mutate('query q() { update Author set { name: "M" } where slug in ["a1", "a2"] }')
    conflicts = library.merge("dev", dry_run=True).wire()["conflicts"]
    taken = {"a1": {"rank": 3}, "a2": "source"}
    decisions = [{**one, "take": taken[one["entity_id"]]} for one in conflicts]
    assert library.merge("dev", decisions=decisions, dry_run=True).conflicts == ()
    done = library.merge("dev", resolve=["ours", "Author.rank=max"])
    assert values(library, "Author", "rank") == [5, 5, 7, 5]
    assert values(library, "Author", "name")[1] == "M"
    assert done.resolved == {"ours": 1}


def test_different_additions_on_both_sides_are_named(library, dev):
    library.apply_schema(changed("pages: I32?", "pages: I32?  stock: I32?"))
    dev.apply_schema(DIED)
    with pytest.raises(SchemaContractMismatch) as refused:
        library.merge("dev")
    assert "add property Author.died: I32?" in refused.value.message
    assert "add property Book.stock: I32?" in refused.value.message
    both = changed("pages: I32?", "pages: I32?  stock: I32?", DIED)
    dev.apply_schema(both)
    library.merge("dev")
    assert library.schema == both
    assert values(library, "Book", "stock") == [None] * 6
    sound(library)


def test_a_preview_reports_the_conflicts_and_writes_nothing(library, dev):
    dev.apply_schema(DIED)
    head = library.commits()[0]
    preview = library.merge("dev", dry_run=True)
    assert preview.conflicts == ()
    assert library.commits()[0] == head
    dev.apply_schema(SHOPS.replace(SCHEMA, DIED))
    dev.load([{"type": "Shop", "data": {"name": "corner"}}], "append")
    assert library.merge("dev", dry_run=True).tables == library.merge("dev").tables
