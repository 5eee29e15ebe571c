"""The names of branches and what they stand for, while others make and remove them."""

from __future__ import annotations

import pytest

from omnigraph.errors import AlreadyExists, ManifestCorrupt
from omnigraph.identity import BranchName
from omnigraph.storage.refs import (
    MAIN_REF,
    REF_RECORDS,
    BranchRef,
    create_ref,
    delete_ref,
    find_ref,
    list_names,
    list_refs,
)
from storage.memory_store import MemoryObjectStore


class RestlessStore(MemoryObjectStore):
    """Whatever it lists first is gone before it can be read."""

    def list(self, prefix):
        found = super().list(prefix)
        self.delete(f"{prefix}/{found[0]}")
        return found


def branch(name):
    return BranchRef(
        name=BranchName(name),
        incarnation="01J9Z3N8Q4X7Y2K5M6P0R1S3" + name[:1].upper().rjust(2, "0"),
        parent=BranchName("main"),
        parent_incarnation=None,
        fork_version=1,
        fork_head=None,
        created_at=0,
        actor_id=None,
    )


def test_a_branch_deleted_while_others_are_listed_is_left_out():
    store = RestlessStore()
    for name in ("a", "b"):
        create_ref(store, branch(name))
    assert [ref.name for ref in list_refs(store)] == ["main", "b"]


def test_a_name_is_made_once_and_may_be_deleted_twice():
    store = MemoryObjectStore()
    create_ref(store, branch("a"))
    with pytest.raises(AlreadyExists, match="'a'"):
        create_ref(store, branch("a"))
    delete_ref(store, BranchName("a"))
    delete_ref(store, BranchName("a"))
    assert list_names(store) == ["main"]


def test_main_is_there_without_a_record():
    store = MemoryObjectStore()
    assert find_ref(store, BranchName("main")) == MAIN_REF
    assert list_refs(store) == [MAIN_REF]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b'{"version": 1}', b'{"version": 99}', b"[" * 100_000],
    ids=["empty", "half", "a list", "a number", "incomplete", "newer", "depths"],
)
def test_a_damaged_record_is_refused_and_named(content):
    store = MemoryObjectStore()
    path = REF_RECORDS.path("a")
    store.put(path, content)
    with pytest.raises(ManifestCorrupt, match=path.rpartition("/")[2]):
        find_ref(store, BranchName("a"))
    assert list_names(store) == ["main", "a"]
