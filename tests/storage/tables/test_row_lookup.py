"""The directory of rows: the result of a scan, after any number of commits of any writer."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from io_counters import read_io_counters
from omnigraph.storage.graph_root import MAX_CACHED_DIRECTORIES, TableHandles
from omnigraph.storage.tables import row_lookup as directories
from omnigraph.storage.tables.fragments import write_uncommitted
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.row_lookup import MAX_LOOKUP_KEYS, RowDirectory
from omnigraph.storage.tables.stage_table import stage_changes, stage_fresh, stage_overwrite
from omnigraph.storage.tables.table import ROW_ADDRESS, ROW_ID, Table, open_newest, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import change, create, identity, rows, ulids

PLACES = ["id", ROW_ID, ROW_ADDRESS]


class Process:
    """A process with a directory for every table it writes."""

    def __init__(self) -> None:
        self.handles = TableHandles()

    def opens(self, location: TableLocation) -> Table:
        return self.handles.keep(open_newest(location))

    def commits(self, staged) -> Table:
        table = commit_exact(staged).table
        self.handles.follow(staged, table)
        return table

    def changes(self, table: Table, upserts=None, deletes=()) -> Table:
        doomed = pa.array(deletes, pa.string())
        staged = stage_changes(table, rows(upserts or {}), doomed, **identity())
        return table if staged is None else self.commits(staged)


@pytest.fixture
def process():
    return Process()


def found(table: Table, keys, columns) -> list[dict]:
    rows = table.lookup("id", pa.array(keys, pa.string()), columns).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def check(table: Table, keys) -> None:
    """The directory finds what the table finds without one, in every form of request."""
    keys = list(keys)
    plain = open_table(table.location, table.version)
    assert plain.directory is None
    assert table.directory is not None
    for columns in (["id"], PLACES, ["value", "id"], [*PLACES, "value"], None):
        assert found(table, keys, columns) == found(plain, keys, columns)


def reads_of(table: Table, keys) -> int:
    before = read_io_counters()
    found(table, keys, PLACES)
    return (read_io_counters() - before).reads


def test_a_row_is_found_without_reading_once_the_directory_was_read(location, process):
    create(location, {"a": 1, "b": 2})
    table = process.opens(location)
    assert reads_of(table, ["a"]) > 0
    assert reads_of(table, ["a", "b", "missing"]) == 0
    check(table, ["a", "b", "missing"])


def test_the_directory_follows_the_commits_of_its_process(location, process):
    create(location, {"a": 1, "b": 2})
    table = process.opens(location)
    check(table, ["a"])
    table = process.changes(table, {"a": 10, "c": 3}, ["b"])
    assert reads_of(table, ["a", "b", "c"]) == 0
    check(table, ["a", "b", "c"])


def test_an_insert_under_fresh_ids_is_followed_as_well(location, process):
    create(location, {"a": 1})
    table = process.opens(location)
    check(table, ["a"])
    table = process.commits(stage_fresh(table, rows({"b": 2, "c": 3}), **identity()))
    assert reads_of(table, ["a", "b", "c"]) == 0
    check(table, ["a", "b", "c"])


def test_a_commit_of_another_writer_is_detected(location, process):
    create(location, {"a": 1})
    check(process.opens(location), ["a"])
    change(open_newest(location), {"a": 5, "b": 2})
    table = process.opens(location)
    check(table, ["a", "b"])
    table = process.changes(table, {"b": 3})
    check(table, ["a", "b"])


def test_a_commit_on_top_of_one_that_was_not_read_is_not_mistaken(location, process):
    """Between two of our commits another writer moved the rows of the directory."""
    create(location, {"a": 1, "b": 2})
    check(process.opens(location), ["a"])
    moved = change(open_newest(location), {"c": 3}, ("a",))
    staged = stage_changes(moved, rows({"d": 4}), None, **identity())
    check(process.commits(staged), ["a", "b", "c", "d"])


def test_an_older_version_is_never_answered_from_the_newest(location, process):
    first = create(location, {"a": 1, "b": 2})
    old = process.opens(location)
    new = process.changes(old, {"a": 7}, ["b"])
    check(new, ["a", "b"])
    check(old, ["a", "b"])
    assert found(old, ["b"], None) == found(first, ["b"], None) != []
    check(new, ["a", "b"])


def test_an_id_replaced_deleted_and_inserted_again_is_where_it_was_written_last(location, process):
    create(location, {"a": 1, "b": 2})
    table = process.opens(location)
    for value in range(3):
        table = process.changes(table, {"a": 10 + value})
        check(table, ["a", "b"])
    table = process.changes(table, deletes=["a"])
    assert found(table, ["a"], PLACES) == []
    check(table, ["a", "b"])
    table = process.changes(table, {"a": 99})
    assert found(table, ["a"], None)[0]["value"] == 99
    check(table, ["a", "b"])


def test_a_replaced_row_is_another_row_to_the_directory(location, process):
    create(location, {"a": 1, "b": 2})
    table = process.opens(location)
    (before,) = found(table, ["b"], PLACES)
    (after,) = found(process.changes(table, {"b": 5, "c": 6}), ["b"], PLACES)
    assert after[ROW_ID] != before[ROW_ID]
    assert after[ROW_ADDRESS] != before[ROW_ADDRESS]


def test_a_table_that_was_emptied_starts_afresh(location, process):
    create(location, {"a": 1, "b": 2})
    table = process.opens(location)
    check(table, ["a"])
    table = process.changes(table, deletes=["a", "b"])
    check(table, ["a", "b"])
    table = process.changes(table, {"b": 3})
    check(table, ["a", "b"])
    check(process.changes(table, {"a": 4}), ["a", "b"])


def test_an_overwrite_is_read_again(location, process):
    create(location, {"a": 1, "b": 2})
    table = process.opens(location)
    check(table, ["a"])
    table = process.commits(stage_overwrite(table, rows({"b": 8, "c": 9}), **identity()))
    check(table, ["a", "b", "c"])


def test_rows_moved_by_a_compaction_are_found_where_they_are_now(location, process):
    create(location, {"a": 1})
    table = process.opens(location)
    for name in "bcd":
        table = process.changes(table, {name: 1, "a": 2})
    check(table, "abcd")
    lance.dataset(location.uri).optimize.compact_files()
    table = process.opens(location)
    check(table, "abcd")
    check(process.changes(table, {"b": 3, "e": 4}), "abcde")


def test_large_fragments_are_left_to_lance(location, process, monkeypatch):
    monkeypatch.setattr(directories, "SMALL_FRAGMENT_ROWS", 3)
    create(location, {"a": 1, "b": 2, "c": 3, "d": 4})
    table = process.changes(process.opens(location), {"e": 5})
    check(table, "abcdef")
    assert reads_of(table, ["e"]) == 0
    assert reads_of(table, ["a"]) > 0
    table = process.changes(table, {"a": 10, "f": 6}, ["b"])
    check(table, "abcdef")
    assert reads_of(table, ["a", "f"]) == 0


def test_a_large_fragment_that_lost_its_last_row_is_no_longer_searched(
    location, process, monkeypatch
):
    monkeypatch.setattr(directories, "SMALL_FRAGMENT_ROWS", 1)
    create(location, {"a": 1, "b": 2})
    table = process.changes(process.opens(location), {"e": 5})
    check(table, "abe")
    check(process.changes(table, {"f": 6}, ["a", "b"]), "abef")


def test_a_table_of_large_fragments_alone_has_no_directory_to_speak_of(
    location, process, monkeypatch
):
    monkeypatch.setattr(directories, "SMALL_FRAGMENT_ROWS", 1)
    create(location, {"a": 1, "b": 2})
    table = process.opens(location)
    assert RowDirectory().find(table, pa.array(["a"]), PLACES) is None
    check(table, "abc")


def test_small_fragments_beside_large_ones_are_remembered_however_large_those_are(
    location, process, monkeypatch
):
    monkeypatch.setattr(directories, "SMALL_FRAGMENT_ROWS", 2)
    monkeypatch.setattr(directories, "MAX_DIRECTORY_ROWS", 3)
    change(create(location, {"a": 1, "b": 2, "c": 3, "d": 4}), {"e": 5})
    table = process.opens(location)
    check(table, "abcdef")
    assert reads_of(table, ["e"]) == 0


def test_only_so_many_rows_are_remembered(location, process, monkeypatch):
    monkeypatch.setattr(directories, "MAX_DIRECTORY_ROWS", 3)
    create(location, {"a": 1, "b": 2})
    table = process.opens(location)
    for name in "cdef":
        table = process.changes(table, {name: 3})
        check(table, "abcdefg")
    check(process.opens(location), "abcdefg")


def test_a_lookup_of_many_keys_is_a_scan(location, process):
    many = {f"k{number}": number for number in range(MAX_LOOKUP_KEYS + 1)}
    create(location, many)
    table = process.opens(location)
    assert RowDirectory().find(table, pa.array(many), PLACES) is None
    check(table, [*many, "missing"])


def test_a_commit_of_many_rows_is_read_again(location, process):
    create(location, {"a": 1})
    table = process.opens(location)
    check(table, ["a"])
    table = process.changes(table, {f"k{number}": number for number in range(MAX_LOOKUP_KEYS + 1)})
    check(table, ["a", "k0", f"k{MAX_LOOKUP_KEYS}", "missing"])


def test_a_commit_of_rows_too_large_for_one_file_is_read_again(location, process, monkeypatch):
    create(location, {"a": 1, "b": 2})
    table = process.opens(location)
    check(table, ["a"])
    monkeypatch.setitem(write_uncommitted.__kwdefaults__, "rows_per_file", 2)
    table = process.changes(table, {"a": 3, "c": 4, "d": 5})
    assert len(table.fragments()) == 3
    check(table, "abcde")


def test_branches_have_directories_of_their_own(location, process):
    create(location, {"a": 1, "b": 2})
    main = process.opens(location)
    create_branch(location, name := ulids.next(), None, main.version)
    fork = process.opens(location.on_branch(name))
    assert fork.directory is not main.directory
    main = process.changes(main, {"a": 10, "m": 1}, ["b"])
    fork = process.changes(fork, {"b": 20, "f": 1}, ["a"])
    assert main.version == fork.version
    for table in (main, fork):
        check(table, "abmf")
    assert found(main, ["m", "f"], ["id"]) == [{"id": "m"}]
    assert found(fork, ["m", "f"], ["id"]) == [{"id": "f"}]


def test_an_abandoned_directory_is_built_again(tmp_path, process):
    places = [TableLocation(str(tmp_path / str(n))) for n in range(MAX_CACHED_DIRECTORIES + 1)]
    for place in places:
        create(place, {"a": 1})
    tables = [process.opens(place) for place in places]
    assert process.opens(places[0]).directory is not tables[0].directory
    check(process.changes(process.opens(places[0]), {"b": 2}), "ab")
    check(process.changes(tables[1], {"b": 2}), "ab")


def test_threads_that_look_while_one_writes_see_their_own_version(location, process):
    names = [str(number) for number in range(20)]
    create(location, dict.fromkeys(names, 0))
    tables, mistakes = [process.opens(location)], []
    is_over = threading.Event()

    def look():
        while not is_over.is_set():
            table = tables[-1]
            values = {row["value"] for row in found(table, names, ["id", "value"])}
            if values != {table.version - 1}:
                mistakes.append((table.version, values))

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for value in range(1, 15):
        tables.append(process.changes(tables[-1], dict.fromkeys(names, value)))
    is_over.set()
    for reader in readers:
        reader.join()
    assert mistakes == []
    check(tables[-1], [*names, "missing"])


KEYS = st.sampled_from("abcdefgh")
WRITES = st.tuples(st.dictionaries(KEYS, st.integers(0, 99)), st.sets(KEYS))
STEPS = st.one_of(
    st.tuples(st.just("ours"), WRITES),
    st.tuples(st.just("theirs"), WRITES),
    st.tuples(st.sampled_from(["overwrite", "compact", "restart", "unseen"]), WRITES),
)


@settings(max_examples=40)
@given(
    first=st.dictionaries(KEYS, st.integers(0, 99), min_size=1),
    steps=st.lists(STEPS, max_size=8),
    small=st.sampled_from([1, 2, 4_096]),
    most=st.sampled_from([2, 5, 200_000]),
)
def test_lookups_are_the_same_with_and_without_a_directory(first, steps, small, most):
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(directories, "SMALL_FRAGMENT_ROWS", small)
        patch.setattr(directories, "MAX_DIRECTORY_ROWS", most)
        location, process = TableLocation(str(Path(folder) / "table")), Process()
        create(location, first)
        for action, (upserts, deletes) in steps:
            deletes = tuple(deletes - upserts.keys())
            process = Process() if action == "restart" else process
            table = process.opens(location)
            match action:
                case "theirs" | "unseen":
                    doomed = pa.array(deletes, pa.string())
                    staged = stage_changes(table, rows(upserts), doomed, **identity())
                    if staged is not None:
                        commit_exact(staged)
                case "overwrite":
                    process.commits(stage_overwrite(table, rows(upserts), **identity()))
                case "compact":
                    lance.dataset(location.uri).optimize.compact_files()
                case _:
                    check(process.changes(table, upserts, deletes), "abcdefgh")
            if action != "unseen":
                check(process.opens(location), "abcdefgh")
