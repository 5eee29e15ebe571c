"""The contract of every store, on each of them."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.identity import UlidSource
from omnigraph.storage.objects.object_store import CHUNK_BYTES
from omnigraph.storage.objects.open_store import require_create_if_absent, supports_put_if_match


def test_a_stored_object_is_read_back(store):
    store.put("_refs/branches/a%2Fb.json", b"\x00one\xff")
    assert store.get("_refs/branches/a%2Fb.json") == b"\x00one\xff"


def test_an_empty_object_is_an_object(store):
    store.put("empty", b"")
    assert store.find("empty") == b""
    assert store.exists("empty")


def test_a_put_replaces_the_whole_object(store):
    store.put("state", b"a long first text")
    store.put("state", b"short")
    assert store.get("state") == b"short"


def test_reading_an_absent_object_is_a_typed_not_found(store):
    for read in (store.get, store.get_versioned):
        with pytest.raises(StorageFailure) as raised:
            read("a/b")
        assert raised.value.kind is StorageKind.NOT_FOUND
        assert store.uri_of("a/b") in raised.value.message


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 7])
def test_a_large_object_is_written_and_read_in_pieces(store, size):
    data = random.Random(size).randbytes(size)
    store.put_chunks("data/large", (data[at : at + 1_000_003] for at in range(0, size, 1_000_003)))
    assert store.get("data/large") == data
    pieces = list(store.chunks("data/large"))
    assert b"".join(pieces) == data
    assert all(len(piece) <= CHUNK_BYTES for piece in pieces)


def test_pieces_that_end_with_an_error_write_nothing(store):
    def broken():
        yield b"x" * 6_000_000
        yield b"x" * 6_000_000
        raise StorageFailure(StorageKind.NOT_FOUND, "the other side is gone")

    with pytest.raises(StorageFailure, match="the other side is gone"):
        store.put_chunks("data/broken", broken())
    assert not store.exists("data/broken")
    assert store.list("data") == ()


def test_the_pieces_of_an_absent_object_are_a_typed_not_found(store):
    store.put("folder/object", b"1")
    for path in ("absent", "folder"):
        with pytest.raises(StorageFailure) as raised:
            list(store.chunks(path))
        assert raised.value.kind is StorageKind.NOT_FOUND


def test_finding_an_absent_object_gives_none(store):
    assert store.find("a/b") is None
    assert store.find_versioned("a/b") is None


def test_an_object_has_nothing_below_it(store):
    store.put("a", b"1")
    assert store.find("a/b") is None
    assert not store.exists("a/b")
    assert store.list("a") == ()
    store.delete("a/b")
    store.delete_prefix("a/b")
    assert store.get("a") == b"1"


def test_a_prefix_is_not_an_object(store):
    store.put("a/b", b"1")
    assert store.find("a") is None
    store.delete("a")
    assert store.get("a/b") == b"1"


def test_only_the_first_creation_succeeds(store):
    assert store.put_if_absent("claim", b"first")
    assert not store.put_if_absent("claim", b"second")
    assert store.get("claim") == b"first"


def test_a_deleted_object_can_be_created_again(store):
    assert store.put_if_absent("claim", b"first")
    store.delete("claim")
    assert store.put_if_absent("claim", b"second")
    assert store.get("claim") == b"second"


def test_a_replacement_needs_the_tag_of_what_is_there(store):
    store.put("state", b"one")
    first = store.get_versioned("state")
    assert first.data == b"one"
    assert store.put_if_match("state", b"two", first.tag)
    assert not store.put_if_match("state", b"three", first.tag)
    assert store.get_versioned("state").data == b"two"


def test_replacing_an_absent_object_is_refused(store):
    store.put("state", b"one")
    tag = store.get_versioned("state").tag
    store.delete("state")
    assert not store.put_if_match("state", b"two", tag)
    assert store.find("state") is None


def test_something_exists_at_an_object_and_above_it(store):
    assert not store.exists("a")
    store.put("a/b/c", b"")
    assert [store.exists(path) for path in ("a", "a/b", "a/b/c", "a/b/c/d", "a/bb")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    store.delete("a/b/c")
    assert not store.exists("a")


def test_a_listing_names_direct_children_only(store):
    for path in ("r/b.json", "r/a.json", "r/deep/c.json", "r2/x", "top"):
        store.put(path, b"")
    assert store.list("r") == ("a.json", "b.json")
    assert store.list_prefixes("r") == ("deep",)
    assert store.list("") == ("top",)
    assert store.list_prefixes("") == ("r", "r2")


def test_listing_what_is_not_there_gives_nothing(store):
    assert store.list("nowhere") == ()
    assert store.list_prefixes("nowhere") == ()
    assert store.list("") == ()


def test_a_listing_is_complete_beyond_one_page(store):
    if store.kind == "s3":
        names = [f"{n:04d}" for n in range(1005)]
    else:
        names = [f"{n:04d}" for n in range(50)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: store.put(f"many/{name}", b""), names))
    assert store.list("many") == tuple(names)
    store.delete_prefix("many")
    assert store.list("many") == ()


def test_a_removal_that_does_not_wait_for_the_disk_is_visible_at_once(store):
    store.put("a", b"1")
    store.delete("a", durably=False)
    store.delete("a", durably=False)
    assert store.find("a") is None
    assert store.list("") == ()


def test_deleting_twice_is_fine(store):
    store.put("a", b"")
    store.delete("a")
    store.delete("a")
    assert not store.exists("a")


def test_many_are_deleted_at_once_wherever_they_are(store):
    names = [f"{n:04d}" for n in range(1005 if store.kind == "s3" else 50)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: store.put(f"many/{name}", b""), names))
    for path in ("a", "b/c", "b/d", "b/e/f"):
        store.put(path, b"1")
    doomed = [f"many/{name}" for name in names[1:]]
    for _ in range(2):  # what is gone, was never there or has others below it is no error
        store.delete_all([*doomed, "a", "b/c", "b/e", "b/nothing", "nowhere/nothing"])
    assert store.list("many") == (names[0],)
    assert store.list("") == ()
    assert store.list("b") == ("d",)
    assert store.get("b/e/f") == b"1"
    store.delete_all([])


@pytest.mark.parametrize("path", ["../a", "a/../../b", "/a", "a//b", ""])
def test_nothing_outside_the_root_is_deleted_with_others(store, path):
    store.put("a", b"1")
    with pytest.raises(StorageFailure):
        store.delete_all([path])
    assert store.get("a") == b"1"


def test_deleting_a_prefix_leaves_its_neighbours(store):
    for path in ("a/b", "a/c/d", "ab", "a%"):
        store.put(path, b"")
    store.delete_prefix("a")
    store.delete_prefix("a")
    assert not store.exists("a")
    assert store.list("") == ("a%", "ab")


def test_of_many_threads_one_creates(store):
    with ThreadPoolExecutor(8) as threads:
        for round_number in range(10):
            path = f"claims/{round_number}"
            won = list(
                threads.map(lambda n, path=path: store.put_if_absent(path, b"%d" % n), range(8))
            )
            assert won.count(True) == 1
            assert store.get(path) == b"%d" % won.index(True)


def test_threads_that_swap_lose_no_update(store):
    store.put("counter", b"0")

    def add_ones(count):
        for _ in range(count):
            while True:
                seen = store.get_versioned("counter")
                if store.put_if_match("counter", b"%d" % (int(seen.data) + 1), seen.tag):
                    break

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add_ones, [10] * 4))
    assert store.get("counter") == b"40"


def test_the_probes_pass_and_leave_nothing(store):
    require_create_if_absent(store, UlidSource())
    assert supports_put_if_match(store, UlidSource())
    assert store.list("") == ()


def test_an_address_of_an_object_is_below_the_root(store):
    assert store.uri_of("nodes/x") == f"{store.uri}/nodes/x"


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/./b"])
def test_a_path_that_leaves_the_root_is_refused(store, path):
    with pytest.raises(StorageFailure, match="not a path below a root"):
        store.put(path, b"")
