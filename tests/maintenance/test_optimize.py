"""Merging fragments and building indexes: what is done, what is left alone, what is reported."""

from __future__ import annotations

import base64
import json

import lance
import pytest

import omnigraph
from crash.fault_points import INTENTS, MANIFEST, At, fail, parked, watched
from maintenance.library_graph import (
    BOOK,
    LIKES,
    READER,
    READS,
    TABLES,
    book,
    by_key,
    entry,
    fragments,
    head,
    intents,
    native,
    reader,
    rows_of,
    run,
    table,
    unindexed,
    write_a_little,
)
from omnigraph.errors import ManifestCorrupt, OmniError, RecoveryRequired
from omnigraph.maintenance.maintenance_results import Skip
from omnigraph.storage.tables.indices import describe_indices
from omnigraph.storage.tables.remove_versions import AUTO_CLEANUP

NODES = "*/nodes/*"


def test_small_fragments_become_one_and_every_declared_index_is_built(library):
    write_a_little(library)
    before, commits = rows_of(library), len(library.commits())
    done = by_key(library.optimize().tables)
    assert fragments(library, BOOK) == [6]
    assert (done[BOOK].fragments_removed, done[BOOK].fragments_added) == (5, 1)
    assert done[BOOK].committed
    assert done[READS].committed
    assert not done[LIKES].committed, "it has no rows"
    assert set(unindexed(library, BOOK)) == {"id", "slug", "year", "bought", "shelf"}
    assert set(unindexed(library, READS)) == {"id", "src", "dst", "at"}
    assert set(unindexed(library, READER)) == {"id", "slug"}
    assert all(not any(unindexed(library, key).values()) for key in TABLES)
    assert rows_of(library) == before
    assert len(library.commits()) == commits + 1
    assert [*done] == [*sorted(TABLES), "__manifest"]


def test_the_one_commit_is_recorded_for_the_requesting_actor(library):
    write_a_little(library)
    result = library.optimize(actor="keeper")
    assert result.commit == library.commits()[0]
    assert result.commit.actor_id == "keeper"
    assert library.optimize().commit is None


def test_a_second_run_finds_nothing_to_do_and_makes_no_commit(library):
    write_a_little(library)
    library.load([book("v", feel=[1, 2, 3])], "append")
    library.optimize()
    seen = library.snapshot()
    again = library.optimize()
    assert not any(table.committed for table in again.tables)
    assert library.snapshot() == seen


def test_an_empty_graph_has_nothing_to_do(tmp_path):
    graph = omnigraph.init(tmp_path / "empty.omni", "node N { slug: String @key }")
    seen = graph.snapshot()
    result = graph.optimize()
    assert [t.committed for t in result.tables] == [False, False]
    assert result.pending_indexes == ()
    assert graph.snapshot() == seen


def test_a_vector_column_without_vectors_is_pending_and_stops_nothing(library):
    write_a_little(library)
    done = by_key(library.optimize().tables)
    (pending,) = done[BOOK].pending_indexes
    assert (pending.table_key, pending.property) == (BOOK, "feel")
    assert "no row has a vector" in pending.reason
    library.load([book("v", feel=[1, 2, 3])], "append")
    assert library.optimize().pending_indexes == ()
    assert unindexed(library, BOOK)["feel"] == 0


def test_vectors_added_later_are_indexed_and_rows_without_one_need_no_index(library):
    library.load([book(f"v{n}", feel=[n, 0, 1]) for n in range(3)], "append")
    library.optimize()
    write_a_little(library, mark="w")
    library.optimize()
    library.load([book("last", feel=[9, 9, 9])], "append")
    library.optimize()
    assert unindexed(library, BOOK)["feel"] == 0
    assert not any(t.committed for t in library.optimize().tables)


def test_appended_rows_are_folded_into_the_indexes(library):
    library.optimize()
    write_a_little(library)
    assert all(unindexed(library, BOOK).values())
    library.optimize()
    assert not any(unindexed(library, BOOK).values())
    assert all(len(index.segments) == 1 for index in describe_indices(table(library, BOOK)))


def test_full_text_is_searched_in_memory_and_never_stored(library):
    write_a_little(library)
    result = library.optimize()
    assert "title" not in unindexed(library, BOOK)
    assert "title" not in [one.property for one in result.pending_indexes]


def test_blobs_are_the_same_after_their_table_was_compacted(library):
    covers = {"a": b"hi", "empty": b"", "large": bytes(range(256)) * 400, "none": None}
    for slug, data in list(covers.items())[1:]:
        given = {} if data is None else {"cover": "base64:" + base64.b64encode(data).decode()}
        library.load([book(slug, **given)], "append")
    assert by_key(library.optimize().tables)[BOOK].fragments_removed == 4
    for slug, data in covers.items():
        if data is not None:
            assert library.read_blob("Book", slug, "cover").read() == data


def test_rows_keep_the_versions_at_which_they_were_created_and_changed(library):
    write_a_little(library)
    run(library, 'update Book set {year: 7} where slug = "x1"')
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version", "_rowid"]
    before = table(library, BOOK).scan(columns).sort_by("id").to_pylist()
    library.optimize()
    assert table(library, BOOK).scan(columns).sort_by("id").to_pylist() == before


def test_settings_that_delete_versions_are_stripped_and_no_version_is_removed(library):
    write_a_little(library)
    stranger = native(library, BOOK)
    versions = [v["version"] for v in stranger.version_refs()]
    library.optimize()
    for place in (table(library, BOOK).location.native_uri, f"{library.uri}/__manifest"):
        dataset = lance.dataset(place)
        dataset.update_config({f"{AUTO_CLEANUP}interval": "9", f"{AUTO_CLEANUP}older_than": "9d"})
    library.repair(confirm=True, force=True)
    library.optimize()
    for place in (table(library, BOOK).location.native_uri, f"{library.uri}/__manifest"):
        assert not [key for key in lance.dataset(place).config() if key.startswith(AUTO_CLEANUP)]
    left = [v["version"] for v in native(library, BOOK).version_refs()]
    assert set(versions) <= set(left)


def test_a_table_with_a_foreign_version_is_skipped_with_both_versions(library):
    write_a_little(library)
    native(library, BOOK).delete("slug = 'x0'")
    done = by_key(library.optimize().tables)
    assert done[BOOK].skipped is Skip.DRIFT_NEEDS_REPAIR
    assert done[BOOK].manifest_version == entry(library, BOOK).version
    assert done[BOOK].lance_head_version == head(library, BOOK) == entry(library, BOOK).version + 1
    assert done[READER].committed, "the others are optimized"
    assert not done[BOOK].committed


def test_pieces_of_the_history_are_merged_and_say_the_same(library):
    for number in range(100):
        run(library, f'update Reader set {{name: "n{number}"}} where slug = "ann"')
    before = library.commits()
    manifest = by_key(library.optimize().tables)["__manifest"]
    assert library.commits()[-len(before) :] == before
    assert manifest.fragments_removed == 0 or manifest.committed
    assert not by_key(library.optimize().tables)["__manifest"].committed


def test_an_interrupted_write_is_recovered_first(library, place):
    with watched(At("before", "commit", MANIFEST, fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            run(graph, 'insert Reader {slug: "zed", name: "Z"}')
    assert intents(place)
    library.optimize()
    assert intents(place) == []
    assert any('"zed"' in row or "'zed'" in row for row in rows_of(library))


def test_an_intent_that_cannot_be_read_stops_it_before_anything_moves(library, place):
    write_a_little(library)
    (place / "__recovery").mkdir(exist_ok=True)
    (place / "__recovery/01BROKEN.json").write_text("{")
    seen = library.snapshot()
    with pytest.raises(ManifestCorrupt):
        library.optimize()
    assert library.snapshot() == seen


def test_a_write_that_cannot_be_recovered_is_named(library, place):
    """Ours below a stranger's: finishing or undoing it could destroy what the stranger did."""
    with watched(At("before", "commit", MANIFEST, fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            run(graph, 'insert Reader {slug: "zed", name: "Z"}')
    lance.dataset(table(library, READER).location.native_uri).delete("slug = 'ann'")
    (name,) = intents(place)
    with pytest.raises(RecoveryRequired) as refused:
        library.optimize()
    assert refused.value.operation_id == name.removesuffix(".json")


# --- moments --------------------------------------------------------------------------------------


def test_rows_written_while_fragments_are_merged_stay_and_so_does_the_work(place, library):
    write_a_little(library)

    def work():
        graph = omnigraph.open(place)
        return graph.optimize

    with parked("after", "compact", "*/nodes/*", work) as optimizing:
        run(library, 'insert Book {slug: "late", title: "Late"}')
        run(library, 'update Reader set {name: "Annie"} where slug = "ann"')
        run(library, 'delete Reader where slug = "rx0"')
        before = rows_of(library)
        optimizing.finish()
    assert rows_of(library) == before
    assert len(fragments(library, BOOK)) <= 2
    assert library.verify(deep=True).findings == ()
    library.optimize()
    assert fragments(library, BOOK) == [7]


def test_a_merge_that_fails_leaves_the_graph_as_it_was(place, library):
    write_a_little(library)
    seen, before = library.snapshot(), rows_of(library)
    trouble = At("before", "compact", "*/nodes/*", fail(OSError("disk on fire")))
    with watched(trouble), pytest.raises(OmniError, match="disk on fire"):
        omnigraph.open(place).optimize()
    assert library.snapshot() == seen
    assert rows_of(library) == before
    assert library.optimize().commit is not None


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_table_that_fails_to_move_takes_the_others_back(place, library, nth):
    write_a_little(library)
    before = rows_of(library)
    trouble = At("before", "commit", "*/[ne][od][dg]es/*", fail(OSError("no")), nth=nth)
    with watched(trouble), pytest.raises(OmniError):
        omnigraph.open(place).optimize()
    assert intents(place) == []
    assert rows_of(library) == before
    for key in TABLES:
        assert head(library, key) == entry(library, key).version
    library.optimize()
    assert rows_of(library) == before


def test_tables_that_moved_before_the_process_died_are_published_by_the_next(place, library):
    write_a_little(library)
    before = rows_of(library)
    with watched(At("before", "commit", MANIFEST, fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            graph.optimize()
    assert intents(place)
    again = omnigraph.open(place)
    assert intents(place) == []
    assert fragments(again, BOOK) == [6]
    assert rows_of(again) == before
    for key in TABLES:
        assert head(again, key) == entry(again, key).version


VERBS = {"optimize": "Optimize", "ensure_indices": "EnsureIndices"}


def die_at_publish(place, verb, moment="before"):
    """Let all tables of a first round move, and then the process end."""
    with watched(At(moment, "commit", MANIFEST, fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            getattr(graph, verb)()


@pytest.mark.parametrize("healer", ["who opens it", "who does the same"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", VERBS)
def test_work_that_stopped_at_its_publish_is_published_by_the_next_writer(
    place, library, verb, moment, healer
):
    write_a_little(library)
    before, commits = rows_of(library), library.commits()
    die_at_publish(place, verb, moment)
    (pending,) = library.recovery_pending()
    is_published = moment == "after"
    assert pending.decision == ("finish_published" if is_published else "roll_forward")
    assert (pending.writer_kind, pending.tables) == (
        VERBS[verb],
        dict.fromkeys((READS, BOOK, READER), "complete"),
    )
    moved = {key: head(library, key) for key in TABLES}
    if healer == "who opens it":
        omnigraph.open(place)
        assert {key: entry(library, key).version for key in TABLES} == moved
        assert library.commits() == commits, "maintenance is no commit"
    getattr(library, verb)()
    assert intents(place) == []
    assert [str(audit.kind) for audit in library.recovery_list()] == (
        [] if is_published else ["RolledForward"]
    )
    assert all(head(library, key) == entry(library, key).version >= moved[key] for key in TABLES)
    assert not any(unindexed(library, BOOK).values())
    assert rows_of(library) == before
    run(library, 'update Book set {year: 3} where slug = "a"')


@pytest.mark.parametrize("verb", VERBS)
def test_a_foreign_version_beside_interrupted_maintenance_is_left_alone(place, library, verb):
    write_a_little(library)
    before = rows_of(library)
    die_at_publish(place, verb)
    native(library, LIKES).update_config({"note": "a stranger was here"})
    again = omnigraph.open(place)
    assert [str(audit.kind) for audit in again.recovery_list()] == ["RolledForward"]
    assert intents(place) == []
    ahead = {key: head(again, key) - entry(again, key).version for key in TABLES}
    assert ahead == {LIKES: 1, READS: 0, BOOK: 0, READER: 0}
    assert rows_of(again) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_foreign_version_on_top_of_interrupted_maintenance_stops_it(place, library, verb):
    write_a_little(library)
    before = rows_of(library)
    die_at_publish(place, verb)
    native(library, BOOK).delete("slug = 'a'")
    seen, moved = library.snapshot(), {key: head(library, key) for key in TABLES}
    (name,) = intents(place)
    for attempt in (lambda: omnigraph.open(place), getattr(library, verb), library.recover):
        with pytest.raises(RecoveryRequired, match="buried") as refused:
            attempt()
        assert refused.value.operation_id == name.removesuffix(".json")
    assert (library.snapshot(), rows_of(library)) == (seen, before)
    assert {key: head(library, key) for key in TABLES} == moved


@pytest.mark.parametrize("verb", VERBS)
def test_without_work_no_intent_is_written(place, library, verb):
    write_a_little(library)
    announcing = At("before", "*", INTENTS, lambda: None)
    with watched(announcing):
        graph = omnigraph.open(place)
        getattr(graph, verb)()
        assert announcing.met, "there was something to do"
        announcing.met = 0
        getattr(graph, verb)()
    assert announcing.met == 0


def test_a_table_whose_only_index_is_pending_is_no_part_of_the_work(tmp_path):
    place = tmp_path / "pending.omni"
    schema = "node V { slug: String @key  v: Vector(2)? @index }\nnode P { slug: String @key }"
    graph = omnigraph.init(place, schema)
    graph.load([{"type": name, "data": {"slug": "a"}} for name in ("P", "V")], "append")
    graph.optimize()
    graph.load([{"type": "P", "data": {"slug": "b"}}], "append")
    announced = set()

    def note():
        for file in (place / "__recovery").glob("*.json"):
            moved = json.loads(file.read_text())["changes"]["moved"]
            announced.update(table["table_key"] for table in moved)

    with watched(At("after", "put", INTENTS, note, times=99)):
        result = omnigraph.open(place).optimize()
    assert announced == {"node:P"}
    done = by_key(result.tables)
    assert (done["node:P"].committed, done["node:V"].committed) == (True, False)
    assert [(one.table_key, one.property) for one in result.pending_indexes] == [("node:V", "v")]


def test_index_work_spoiled_by_a_write_is_done_again_in_the_same_run(place, library):
    write_a_little(library)

    def work():
        return omnigraph.open(place).optimize

    with parked("after", "write_indices", NODES, work) as optimizing:
        run(library, 'update Book set {year: 1} where slug = "a"')
        run(library, 'update Reader set {name: "Annie"} where slug = "ann"')
        before = rows_of(library)
        result = optimizing.finish()
    assert {table.skipped for table in result.tables} == {None}
    assert not any(unindexed(library, BOOK).values())
    assert not any(unindexed(library, READER).values())
    assert rows_of(library) == before
    assert library.verify(deep=True).findings == ()


def die_while_writing(place):
    """A writer whose tables have moved, and that ends before it publishes them."""
    with watched(At("before", "commit", MANIFEST, fail(KeyboardInterrupt()))):
        victim = omnigraph.open(place, actor="victim")
        with pytest.raises(KeyboardInterrupt):
            run(victim, 'insert Reader {slug: "zed", name: "Z"}')


def test_a_writer_that_died_while_fragments_were_merged_is_recovered_too(place, library):
    write_a_little(library)

    def work():
        return omnigraph.open(place).optimize

    with parked("after", "compact", NODES, work) as optimizing:
        die_while_writing(place)
        assert intents(place)
        result = optimizing.finish()
    assert intents(place) == []
    assert [str(audit.kind) for audit in library.recovery_list()] == ["RolledForward"]
    assert [commit.actor_id for commit in library.commits()[:2]] == [None, "victim"]
    assert result.commit == library.commits()[0]
    assert "'zed'" in str(rows_of(library))
    assert {table.skipped for table in result.tables} == {None}
    assert library.verify(deep=True).findings == ()


def test_a_writer_that_died_concurrently_and_cannot_be_recovered_stops_the_rest(place, library):
    write_a_little(library)

    def work():
        return omnigraph.open(place).optimize

    with parked("after", "compact", NODES, work) as optimizing:
        die_while_writing(place)
        native(library, READER).delete("slug = 'ann'")
        seen, moved = library.snapshot(), {key: head(library, key) for key in TABLES}
        (name,) = intents(place)
        with pytest.raises(RecoveryRequired) as refused:
            optimizing.finish()
    assert refused.value.operation_id == name.removesuffix(".json")
    assert library.snapshot() == seen
    assert {key: head(library, key) for key in TABLES} == moved


def test_an_acknowledgement_that_was_lost_is_found_out(place, library):
    write_a_little(library)
    trouble = At("after", "commit", MANIFEST, fail(OSError("connection reset")), times=99)
    with watched(trouble):
        result = omnigraph.open(place).optimize()
    assert result.commit is not None
    assert fragments(library, BOOK) == [6]
    assert intents(place) == []


def test_a_write_prepared_before_the_tables_were_optimized_does_not_fail(place, library):
    write_a_little(library)

    def update():
        graph = omnigraph.open(place)
        return lambda: run(graph, 'update Book set {year: 5} where slug = "x1"')

    with parked("after", "write_fragments", "*/nodes/*", update) as updating:
        library.optimize()
        updating.finish()
    assert table(library, BOOK).scan(["year"], "slug = 'x1'").column(0).to_pylist() == [5]


def test_a_write_that_insists_on_its_head_reports_the_new_commit(place, library):
    write_a_little(library)
    head_before = library.snapshot().graph_commit_id
    library.optimize()
    with pytest.raises(OmniError) as refused:
        library.mutate(
            'query q() { insert Reader {slug: "q", name: "Q"} }', expected_head=head_before
        )
    assert refused.value.code == "precondition_failed"


# --- branches -------------------------------------------------------------------------------------


def test_a_branch_optimizes_what_it_owns_and_leaves_the_rest_to_its_parent(library):
    write_a_little(library)
    library.create_branch("dev")
    for number in range(3):
        library.load([book(f"d{number}")], "append", branch="dev")
    main_rows, dev_rows = rows_of(library), rows_of(library, "dev")
    done = library.optimize(branch="dev")
    assert [t.table_key for t in done.tables] == [BOOK, "__manifest"]
    assert done.commit.branch == "dev"
    assert len(fragments(library, BOOK, "dev")) == 1
    assert (rows_of(library), rows_of(library, "dev")) == (main_rows, dev_rows)
    assert len(fragments(library, BOOK)) == 5, "main is not touched"


def test_a_branch_does_not_copy_what_an_inherited_index_covers(library):
    write_a_little(library)
    library.load([book("v", feel=[1, 2, 3])], "append")
    library.optimize()
    library.create_branch("dev")
    library.create_branch("sub", source="dev")
    for branch in ("dev", "sub"):
        for number in range(3):
            library.load([book(f"d{number}")], "append", branch=branch)
        run(library, 'update Book set {year: 1} where slug = "a"', branch)
        run(library, 'delete Book where slug = "b"', branch)
    for branch in ("dev", "sub"):
        before = rows_of(library, branch)
        library.optimize(branch=branch)
        assert rows_of(library, branch) == before
        assert not any(t.committed for t in library.optimize(branch=branch).tables)
        inherited, own = table(library, BOOK, branch).fragments()
        assert (inherited.is_inherited, own.is_inherited) == (True, False)
        left = unindexed(library, BOOK, branch)
        assert left.pop("feel") == 4, "rows without a vector"
        assert not any(left.values())
    assert library.verify(deep=True).findings == ()


# --- indexes alone --------------------------------------------------------------------------------


def test_indexes_alone_can_be_requested(library):
    write_a_little(library)
    pending = library.ensure_indices()
    assert [one.property for one in pending] == ["feel"]
    assert len(fragments(library, BOOK)) == 5, "nothing is merged"
    assert not any(unindexed(library, BOOK).values())
    commits = library.commits()
    library.ensure_indices()
    assert library.commits() == commits


def test_building_indexes_loses_against_a_write_and_starts_over(place, library):
    write_a_little(library)

    def work():
        graph = omnigraph.open(place)
        return graph.ensure_indices

    with parked("after", "write_indices", "*/nodes/*", work) as building:
        library.load([book("late")], "append")
        run(library, 'delete Book where slug = "x0"')
        building.finish()
    assert library.verify(deep=True).findings == ()
    library.ensure_indices()
    assert not any(unindexed(library, BOOK).values())


@pytest.mark.parametrize("nth", [1, 2])
def test_incomplete_indexes_are_rolled_back_and_complete_ones_published(place, library, nth):
    write_a_little(library)
    before = rows_of(library)
    died = At("before", "commit", "*/[ne][od][dg]es/*", fail(KeyboardInterrupt()), nth=nth)
    with watched(died):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            graph.ensure_indices()
    again = omnigraph.open(place)
    assert intents(place) == []
    for key in TABLES:
        assert head(again, key) == entry(again, key).version
    assert rows_of(again) == before
    again.ensure_indices()
    assert not any(unindexed(again, BOOK).values())


def test_indexes_on_an_inherited_table_are_not_built_by_the_branch(library):
    write_a_little(library)
    library.create_branch("dev")
    assert library.ensure_indices(branch="dev") == ()
    assert unindexed(library, BOOK, "dev") == {}
    library.load([reader("new")], "append", branch="dev")
    library.ensure_indices(branch="dev")
    assert set(unindexed(library, READER, "dev")) == {"id", "slug"}
    assert unindexed(library, READER) == {}
