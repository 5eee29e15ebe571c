"""Applies that fail, meet foreign files, or are copied afterwards."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import lance
import pytest

import omnigraph
from crash.fault_points import At, Parked, Stopped, fail, stop, watched
from evolution.library import SCHEMA, changed, files_below, values
from omnigraph.catalog.build import compile_schema
from omnigraph.errors import CompileError, OmniError, StorageFailure, StorageKind
from omnigraph.evolution.migration_plan import plan_migration
from omnigraph.language.source import SourceText

SHOPS = SCHEMA + "node Shop { name: String @key }\n"
WIDE = changed("pages: I32?", "pages: I64?")
TWO_TABLES = changed("born: I32?", "born: I64?", WIDE)
SHOP = {"type": "Shop", "data": {"name": "corner"}}


def test_a_foreign_table_at_the_address_of_a_new_one_stays_untouched(library, library_place):
    wanted = compile_schema(SourceText(SHOPS))
    new = plan_migration(library.catalog, wanted).catalog.nodes["Shop"]
    book = library._open.views.read_newest("main").snapshot.entry("node:Book").path
    ids = (new.identity.stable_table_id, new.identity.table_incarnation_id)
    place = library_place / "nodes" / "-".join(f"{id:016x}" for id in ids)
    shutil.copytree(library_place / book, place)
    files = files_below(place)
    library.apply_schema(SHOPS)
    library.load([SHOP], "append")
    assert values(library, "Shop", "name") == ["corner"]
    assert files_below(place) == files


@pytest.mark.parametrize("nth", [1, 2])
def test_a_table_that_cannot_move_takes_the_others_back(library, library_place, nth):
    trouble = fail(StorageFailure(StorageKind.PERMANENT, "no space"))
    at = At("before", "commit", "*/nodes/*", trouble, nth=nth)
    with watched(at), pytest.raises(OmniError):
        library.apply_schema(TWO_TABLES)
    assert library.schema == SCHEMA
    assert values(library, "Book", "pages") == [0, 100, 200, 300, 400, 500]
    assert library.apply_schema(TWO_TABLES).applied
    assert library.verify(deep=True).findings == ()


def test_a_renamed_table_that_cannot_move_has_its_old_name(library):
    renamed = TWO_TABLES.replace("node Book", 'node Volume @rename_from("Book")')
    renamed = renamed.replace("-> Book", "-> Volume")
    trouble = fail(StorageFailure(StorageKind.PERMANENT, "no space"))
    with watched(At("before", "commit", "*/nodes/*", trouble, nth=2)), pytest.raises(OmniError):
        library.apply_schema(renamed)
    assert library.schema == SCHEMA
    assert values(library, "Book", "pages") == [0, 100, 200, 300, 400, 500]
    assert library.apply_schema(renamed).applied
    assert values(library, "Volume", "pages") == [0, 100, 200, 300, 400, 500]
    assert library.verify(deep=True).findings == ()


@pytest.mark.parametrize("repeated", [0, 1, 2])
def test_schema_files_that_were_not_rewritten_are_rewritten_by_the_next_open(
    library, library_place, repeated
):
    at = At("before", "put", "*schema*", stop, nth=repeated + 1)
    with watched(at), pytest.raises(Stopped):
        omnigraph.open(library_place).apply_schema(WIDE)
    assert omnigraph.open(library_place, read_only=True).schema == WIDE
    again = omnigraph.open(library_place)
    assert (library_place / "_schema.pg").read_text() == again.schema == WIDE
    assert again.recovery_list() == library.recovery_list()


def test_a_write_during_an_apply_is_ordered_before_or_after_it(library, library_place):
    """Between the intent of the apply and its publish the fence is held: the other one waits."""
    insert = 'query q() { insert Book { slug: "late", title: "Late", pages: 7 } }'
    parked, other = Parked(), omnigraph.open(library_place)
    with (
        ThreadPoolExecutor(1) as pool,
        watched(At("before", "commit", "*__manifest*", parked.park)),
    ):
        parked.start(lambda: library.apply_schema(WIDE))
        writing = pool.submit(other.mutate, insert)
        assert omnigraph.open(library_place, read_only=True).schema == SCHEMA
        assert parked.finish().applied
        assert writing.result().affected_nodes == 1
    assert values(library, "Book", "pages") == [0, 100, 200, 300, 400, 500, 7]
    assert library.schema == WIDE
    assert library.verify(deep=True).findings == ()


def test_a_table_that_something_else_moved_is_not_touched(library, library_place):
    folder = (
        library_place / library._open.views.read_newest("main").snapshot.entry("node:Book").path
    )
    lance.dataset(str(folder)).delete("slug = 'b0'")
    with pytest.raises(OmniError):
        library.apply_schema(WIDE)
    assert library.schema == SCHEMA
    assert {finding.check for finding in library.verify().findings} == {"drift"}


def test_a_handle_whose_apply_failed_knows_the_old_schema_and_can_try_again(library):
    at = At("before", "commit", "*__manifest*", fail(OSError("no route")))
    with watched(at), pytest.raises(OmniError):
        library.apply_schema(SHOPS)
    with pytest.raises((CompileError, OmniError)):
        library.load([SHOP], "append")
    assert library.apply_schema(SHOPS).applied
    library.load([SHOP], "append")
    assert values(library, "Shop", "name") == ["corner"]


def test_an_apply_that_dies_before_it_is_visible_is_finished_by_the_next_open(
    library, library_place
):
    with watched(At("before", "commit", "*__manifest*", stop)), pytest.raises(Stopped):
        library.apply_schema(TWO_TABLES)
    assert omnigraph.open(library_place, read_only=True).schema == SCHEMA
    again = omnigraph.open(library_place)
    assert again.schema == TWO_TABLES
    assert [one.writer_kind for one in again.recovery_list()] == ["SchemaApply"]
    assert (library_place / "_schema.pg").read_text() == TWO_TABLES
    assert again.verify(deep=True).findings == ()


def test_a_graph_with_a_changed_schema_can_be_cloned(library, library_place, tmp_path):
    library.apply_schema(SHOPS.partition("edge")[0])
    library.apply_schema(changed("pages: I32?", "pages: [I32]?"))
    omnigraph.clone(library_place, tmp_path / "copy.omni")
    copy = omnigraph.open(tmp_path / "copy.omni")
    assert copy.schema == library.schema
    assert values(copy, "Book", "pages") == values(library, "Book", "pages")
    assert copy.verify(deep=True).findings == ()
    assert copy.apply_schema(SCHEMA.replace("pages: I32?", "pages: [I64]?")).applied
    assert copy.verify(deep=True).findings == ()


def test_cleanup_takes_what_was_dropped_with_the_states_that_show_it(library, library_place):
    path = library_place / library._open.views.read_newest("main").snapshot.entry("edge:Wrote").path
    library.apply_schema(SCHEMA.partition("edge")[0])
    settings = omnigraph.Settings(cleanup_grace_s=0)
    impatient = omnigraph.open(library_place, settings=settings)
    for _ in range(3):
        impatient.cleanup(keep=1, confirm=True)
    assert not path.exists()
    assert impatient.verify(deep=True).findings == ()
