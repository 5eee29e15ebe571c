"""Writers that merge the small fragments of many small writes on the way."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import omnigraph
from crash.fault_points import MANIFEST, At, fail, watched
from maintenance.library_graph import (
    BOOK,
    READER,
    book,
    entry,
    fragments,
    intents,
    reader,
    run,
    table,
)
from omnigraph.settings import Settings

FOLD_AFTER = 8


@pytest.fixture
def busy(library):
    """The library, opened by a writer that merges every eight versions of a table."""
    return reopened(library)


def reopened(graph, fold_after=FOLD_AFTER):
    return omnigraph.open(graph.uri, settings=replace(Settings(), fold_after=fold_after))


def write_until(graph, version, *, branch="main"):
    """One new reader at a time, until their table is at the version."""
    for number in range(1_000):
        now = entry(graph, READER, branch).version
        if now >= version:
            return
        graph.load([reader(f"new{now}-{number}")], "append", branch=branch)
    raise AssertionError("the version was passed")


def names(graph, **at):
    found = graph.at(**at).query("query q() { match { $r: Reader } return { $r.slug } }")
    return sorted(row["r.slug"] for row in found.rows)


def test_many_small_writes_leave_few_fragments(busy):
    before = set(names(busy))
    write_until(busy, 200)
    assert len(fragments(busy, READER)) < 2 * FOLD_AFTER
    assert len(names(busy)) == sum(fragments(busy, READER)) > len(before) + 150
    assert busy.verify(deep=True).findings == ()


def test_without_the_setting_every_write_leaves_one(library):
    graph = reopened(library, fold_after=0)
    write_until(graph, 40)
    assert fragments(graph, READER).count(1) >= 30


def test_merging_is_no_commit_and_changes_no_row(busy):
    write_until(busy, FOLD_AFTER - 1)
    ids = {row["id"]: row["_rowid"] for row in stamps(busy)}
    versions = {row["id"]: row["_row_last_updated_at_version"] for row in stamps(busy)}
    commits = len(busy.commits())
    busy.load([reader("last")], "append")
    assert entry(busy, READER).version == FOLD_AFTER + 1, "the write, and the merge after it"
    assert len(busy.commits()) == commits + 1
    now = {row["id"]: row for row in stamps(busy)}
    assert {id: now[id]["_rowid"] for id in ids} == ids
    assert {id: now[id]["_row_last_updated_at_version"] for id in ids} == versions


def stamps(graph):
    native = table(graph, READER).native
    columns = ["id", "_rowid", "_row_last_updated_at_version"]
    return native.to_table(columns=columns).to_pylist()


def test_every_commit_of_the_past_is_as_it_was(busy):
    seen = {}
    for number in range(3 * FOLD_AFTER):
        busy.load([reader(f"n{number}")], "append")
        seen[busy.commits()[0].commit_id] = names(busy)
    assert {commit: names(busy, commit=commit) for commit in seen} == seen


def test_a_head_that_a_writer_insists_on_is_not_moved_by_merging(busy):
    write_until(busy, FOLD_AFTER - 1)
    head = busy.mutate('query q() { insert Reader {slug: "a", name: "A"} }').commit
    text = 'query q() { update Reader set {name: "B"} where slug = "a" }'
    assert busy.mutate(text, expected_head=head.commit_id).affected_nodes == 1


def test_updates_and_deletions_are_merged_too(busy):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance, model = random.Random(seed), {row: row.title() for row in names(busy)}
    for number in range(12 * FOLD_AFTER):
        name, key = f"N{number}", chance.choice([*model, f"k{number}"])
        if key in model and chance.random() < 0.3:
            run(busy, f'delete Reader where slug = "{key}"')
            del model[key]
        else:
            run(busy, f'merge Reader {{slug: "{key}", name: "{name}"}}')
            model[key] = name
    rows = busy.query("query q() { match { $r: Reader } return { $r.slug, $r.name } }").rows
    assert {row["r.slug"]: row["r.name"] for row in rows} == model
    assert len(fragments(busy, READER)) < 3 * FOLD_AFTER
    assert busy.verify(deep=True).findings == ()


def test_fragments_of_an_index_and_tables_with_blobs_are_left_to_maintenance(busy):
    write_until(busy, 3)
    busy.optimize()
    indexed = fragments(busy, READER)
    write_until(busy, 4 * FOLD_AFTER)
    assert fragments(busy, READER)[: len(indexed)] == indexed
    for number in range(2 * FOLD_AFTER):
        busy.load([book(f"b{number}")], "append")
    assert fragments(busy, BOOK).count(1) >= 2 * FOLD_AFTER


def test_a_branch_merges_its_own_fragments_and_none_of_its_parent(busy):
    write_until(busy, FOLD_AFTER - 2)
    main = fragments(busy, READER)
    busy.create_branch("dev")
    write_until(busy, 3 * FOLD_AFTER, branch="dev")
    assert len(fragments(busy, READER, "dev")) < 2 * FOLD_AFTER
    assert fragments(busy, READER) == main
    assert busy.verify(deep=True).findings == ()


@pytest.mark.parametrize(
    "trouble",
    [
        At("before", "compact", "*", fail(OSError("disk on fire"))),
        At("before", "commit", "*/nodes/*", fail(OSError("disk on fire")), nth=2),
        At("before", "commit", MANIFEST, fail(OSError("disk on fire")), nth=2),
        At("after", "commit", MANIFEST, fail(OSError("connection reset")), nth=2),
    ],
    ids=["writing", "committing", "publishing", "lost answer"],
)
def test_merging_that_fails_is_no_failure_of_the_write(library, place, trouble):
    write_until(reopened(library), FOLD_AFTER - 1)
    with watched(trouble):
        busy = reopened(library)
        busy.load([reader("last")], "append")
    assert trouble.met, "the fault was met"
    assert "last" in names(busy)
    busy.load([reader("more")], "append")
    assert {"last", "more"} <= set(names(busy))
    assert intents(place) == []
    assert busy.verify(deep=True).findings == ()
