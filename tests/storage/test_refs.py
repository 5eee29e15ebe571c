"""The names of branches and what they stand for, while others make and remove them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.errors import AlreadyExists, ManifestCorrupt, OutcomeUnknown
from omnigraph.identity import BranchName
from omnigraph.storage.graph_lifecycle import CLONE_CLAIMS, CloneClaim, find_claim
from omnigraph.storage.layout import CLONE_CLAIM
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
    """A store whose first listed object is removed before it can be read."""

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


def test_a_name_is_created_once_and_may_be_deleted_twice():
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


class SilentStore(MemoryObjectStore):
    """Every answer to a conditional write is lost; some writes are as well."""

    loses_writes = False

    def put_if_absent(self, path, data):
        if not self.loses_writes:
            super().put_if_absent(path, data)
        raise OutcomeUnknown("cannot tell", "no answer came")

    def put_if_match(self, path, data, tag):
        if not self.loses_writes:
            super().put_if_match(path, data, tag)
        raise OutcomeUnknown("cannot tell", "no answer came")


def test_a_lost_answer_is_resolved_by_reading():
    store, first = SilentStore(), branch("a")
    assert REF_RECORDS.create(store, first)
    stored = REF_RECORDS.find_stored(store, "a")
    assert REF_RECORDS.swap(store, replace(first, created_at=1), stored)
    with pytest.raises(OutcomeUnknown):  # another one was first, or the write was lost
        REF_RECORDS.swap(store, replace(first, created_at=2), stored)
    store.loses_writes = True
    with pytest.raises(OutcomeUnknown):
        REF_RECORDS.create(store, branch("b"))
    assert REF_RECORDS.list_all(store) == [replace(first, created_at=1)]


def test_a_record_is_replaced_only_as_it_was_read():
    store, first = MemoryObjectStore(), branch("a")
    assert REF_RECORDS.create(store, first)
    assert not REF_RECORDS.create(store, replace(first, created_at=1))
    stored = REF_RECORDS.find_stored(store, "a")
    assert REF_RECORDS.swap(store, replace(first, created_at=1), stored)
    assert not REF_RECORDS.swap(store, replace(first, created_at=2), stored)
    assert REF_RECORDS.find(store, "a").created_at == 1


def test_a_damaged_claim_of_a_clone_claims_its_target():
    store = MemoryObjectStore()
    CLONE_CLAIMS.put(store, CloneClaim("x", "there", is_released=True))
    assert find_claim(store).is_released
    store.put(CLONE_CLAIM, store.get(CLONE_CLAIM).replace(b"there", b"where"))
    assert not find_claim(store).is_released
