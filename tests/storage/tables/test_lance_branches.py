"""Branches of one table, and what crashes leave of them."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from omnigraph.errors import AlreadyExists, ConflictError, StorageFailure
from omnigraph.storage.tables.table import is_table, open_newest
from omnigraph.storage.tables.table_branches import (
    create_branch,
    delete_branch,
    drop_unreferenced_tree,
    list_branches,
    read_history,
)
from storage.tables.table_fixtures import change, content, create, ulids


def ref(location, name) -> Path:
    return Path(location.uri) / "_refs" / "branches" / f"{name}.json"


def test_a_branch_starts_at_the_version_it_was_created_from(location):
    table = change(create(location, {"a": 1}), {"b": 2})
    change(table, {"c": 3})
    name = ulids.next()
    branch = create_branch(location, name, None, 2)
    assert (branch.version, content(branch)) == (2, {"a": 1, "b": 2})
    branch = change(branch, {"a": 10}, deletes=("b",))
    assert content(branch) == {"a": 10}
    assert content(open_newest(location)) == {"a": 1, "b": 2, "c": 3}
    made = list_branches(location)[name]
    assert (made.parent_branch, made.parent_version) == (None, 2)


def test_a_branch_of_a_branch_reads_all_its_ancestors(location):
    create(location, {"a": 1})
    first, second = ulids.take(2)
    parent = change(create_branch(location, first, None, 1), {"b": 2})
    child = create_branch(location, second, first, parent.version)
    child = change(child, {"c": 3})
    assert content(child) == {"a": 1, "b": 2, "c": 3}
    assert content(open_newest(parent.location)) == {"a": 1, "b": 2}
    assert list_branches(location)[second].parent_branch == first


def test_an_existing_name_is_refused(location):
    create(location, {"a": 1})
    name = ulids.next()
    branch = change(create_branch(location, name, None, 1), {"b": 2})
    with pytest.raises(AlreadyExists):
        create_branch(location, name, None, 1)
    assert content(open_newest(branch.location)) == {"a": 1, "b": 2}


def test_a_branch_cannot_start_at_a_version_that_is_not_there(location):
    create(location, {"a": 1})
    name = ulids.next()
    with pytest.raises(StorageFailure):
        create_branch(location, name, None, 7)
    assert list_branches(location) == {}


def test_deleting_is_idempotent_and_frees_the_name(location):
    create(location, {"a": 1})
    name = ulids.next()
    branch = create_branch(location, name, None, 1)
    delete_branch(location, name)
    delete_branch(location, name)
    assert not is_table(branch.location)
    assert list_branches(location) == {}
    assert content(create_branch(location, name, None, 1)) == {"a": 1}


def test_a_parent_cannot_be_deleted_before_its_children(location):
    create(location, {"a": 1})
    parent, child = ulids.take(2)
    create_branch(location, parent, None, 1)
    branch = create_branch(location, child, parent, 1)
    with pytest.raises(ConflictError, match=child):
        delete_branch(location, parent)
    assert content(branch) == {"a": 1}
    delete_branch(location, child)
    delete_branch(location, parent)
    assert list_branches(location) == {}


def test_a_tree_without_a_ref_is_no_branch_and_gives_way(location):
    create(location, {"a": 1})
    name = ulids.next()
    branch = change(create_branch(location, name, None, 1), {"stale": 0})
    ref(location, name).unlink()
    assert not is_table(branch.location)
    assert content(create_branch(location, name, None, 1)) == {"a": 1}
    assert is_table(branch.location)


def test_deleting_clears_a_tree_without_a_ref(location):
    create(location, {"a": 1})
    name = ulids.next()
    create_branch(location, name, None, 1)
    ref(location, name).unlink()
    delete_branch(location, name)
    assert not drop_unreferenced_tree(location, name)


def test_residue_without_any_version_is_cleared_as_well(location):
    create(location, {"a": 1})
    name = ulids.next()
    residue = Path(location.uri) / "tree" / name / "data"
    residue.mkdir(parents=True)
    (residue / "left.lance").write_bytes(b"half")
    assert drop_unreferenced_tree(location, name)
    assert not (residue / "left.lance").exists()
    assert content(create_branch(location, name, None, 1)) == {"a": 1}


def test_a_ref_without_a_tree_can_be_deleted_and_recreated(location):
    create(location, {"a": 1})
    name = ulids.next()
    create_branch(location, name, None, 1)
    shutil.rmtree(Path(location.uri) / "tree" / name)
    assert not is_table(location.on_branch(name))
    delete_branch(location, name)
    assert content(create_branch(location, name, None, 1)) == {"a": 1}


def test_a_living_branch_is_not_dropped_as_a_leftover(location):
    create(location, {"a": 1})
    name = ulids.next()
    branch = create_branch(location, name, None, 1)
    with pytest.raises(ConflictError, match="alive"):
        drop_unreferenced_tree(location, name)
    assert content(branch) == {"a": 1}


def test_the_history_of_a_branch_begins_with_its_making(location):
    change(create(location, {"a": 1}), {"b": 2})
    branch = change(create_branch(location, ulids.next(), None, 2), {"c": 3})
    records = read_history(branch.location, 1)
    assert [(r.version, r.operation) for r in records] == [
        (1, None),
        (2, "Clone"),
        (3, "Update"),
    ]


def test_a_listing_that_meets_branches_coming_and_going_does_not_fail(location):
    """Lance lists names first and then reads each, which may be deleted by then."""
    create(location, {"a": 1})
    kept = ulids.next()
    create_branch(location, kept, None, 1)
    is_over = threading.Event()

    def come_and_go():
        while not is_over.is_set():
            name = ulids.next()
            create_branch(location, name, None, 1)
            ref(location, name).unlink()
            drop_unreferenced_tree(location, name)

    restless = [threading.Thread(target=come_and_go) for _ in range(2)]
    for thread in restless:
        thread.start()
    try:
        for _ in range(150):
            assert kept in list_branches(location)
    finally:
        is_over.set()
        for thread in restless:
            thread.join()
    assert set(list_branches(location)) == {kept}
