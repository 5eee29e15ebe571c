"""The difference of two versions of a table, against the full comparison of both."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_maintenance import compact as compact_in_place
from omnigraph.errors import StorageFailure
from omnigraph.storage.tables.stage_table import stage_changes, stage_overwrite
from omnigraph.storage.tables.table import ROW_ADDRESS, Table, open_newest
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.version_diff import (
    decode_bitmap,
    find_changed_keys,
    read_rows_at_addresses,
)
from storage.tables.table_fixtures import change, commit, content, create, identity, rows, ulids


def differing(before: Table | None, after: Table | None) -> set[str]:
    """The ids whose rows are not the same, by reading both versions whole."""
    old = content(before) if before is not None else {}
    new = content(after) if after is not None else {}
    return {id for id in old.keys() | new.keys() if old.get(id, "none") != new.get(id, "none")}


def check(before: Table | None, after: Table | None) -> list[str]:
    """The ids found, after a look whether they are right and where they say they are."""
    found = find_changed_keys(before, after)
    ids = found.ids.to_pylist()
    assert ids == sorted(set(ids))
    assert differing(before, after) <= set(ids)
    for table, addresses in ((before, found.before), (after, found.after)):
        places = dict(zip(ids, addresses.to_pylist(), strict=True))
        known = {} if table is None else _addresses(table)
        assert places == {id: known.get(id) for id in ids}
    return ids


def _addresses(table: Table) -> dict[str, int]:
    found = table.scan(["id", ROW_ADDRESS]).to_pydict()
    return dict(zip(found["id"], found[ROW_ADDRESS], strict=True))


def compact(table: Table) -> Table:
    compact_in_place(table)
    return open_newest(table.location)


def forked(table: Table) -> Table:
    return create_branch(
        table.location.on_branch(None), ulids.next(), table.location.branch, table.version
    )


NUMBERED = {f"id{number:04d}": number for number in range(3_000)}


def test_a_version_shares_everything_with_itself(location):
    table = create(location, NUMBERED)
    assert check(table, table) == []


def test_only_what_was_written_is_listed(location):
    table = create(location, NUMBERED)
    later = change(table, {"id0007": -1, "new": 5}, ("id0100",))
    assert check(table, later) == ["id0007", "id0100", "new"]
    assert check(later, table) == ["id0007", "id0100", "new"]


def test_rows_that_compaction_moved_are_not_listed(location):
    table = create(location, NUMBERED)
    for number in range(5):
        table = change(table, {f"more{number}": number}, (f"id{number:04d}",))
    compacted = compact(table)
    assert check(table, compacted) == []
    assert check(table, change(compacted, {"id2000": None})) == ["id2000"]


def test_equal_row_ids_of_two_forks_are_different_rows(location):
    table = create(location, NUMBERED)
    left = compact(change(change(forked(table), {"a": 1}), {"b": 2}))
    right = compact(change(change(forked(table), {"c": 3}), {"d": 4}))
    assert check(left, right) == ["a", "b", "c", "d"]
    assert check(table, left) == ["a", "b"]


def test_a_fork_of_a_fork_meets_its_grandparent(location):
    table = create(location, NUMBERED)
    child = change(forked(table), {"child": 1})
    grandchild = change(forked(child), {"id0001": None}, ("id0002",))
    table = change(table, {"id0003": None})
    assert check(table, grandchild) == ["child", "id0001", "id0002", "id0003"]
    assert check(child, grandchild) == ["id0001", "id0002"]


def test_a_table_that_is_not_there_has_no_rows(location):
    table = create(location, {"a": 1, "b": 2})
    assert check(None, table) == ["a", "b"]
    assert check(table, None) == ["a", "b"]
    assert check(None, None) == []


def test_many_deletions_are_distinguished_from_few(location):
    """Few deleted rows are listed in a file of one form, many in another."""
    table = create(location, {f"id{number:05d}": number for number in range(20_000)})
    many = tuple(f"id{number:05d}" for number in range(0, 20_000, 3))
    fewer = change(table, deletes=many)
    assert check(table, fewer) == list(many)
    one_less = change(fewer, deletes=("id00001",))
    assert check(fewer, one_less) == ["id00001"]
    few_left = change(one_less, deletes=tuple(f"id{number:05d}" for number in range(1, 19_999)))
    assert len(check(one_less, few_left)) == 13_331


def test_rows_are_returned_in_the_requested_order(location):
    table = change(create(location, NUMBERED), {"new": 5}, ("id0003",))
    places = _addresses(table)
    asked = ["new", "id2999", "id0000", "id1500"]
    batches = list(
        read_rows_at_addresses(
            table, pa.array([places[id] for id in asked], pa.uint64()), ["id"], batch_rows=3
        )
    )
    assert [batch.num_rows for batch in batches] == [3, 1]
    assert pa.concat_tables(batches).column("id").to_pylist() == asked


def test_no_rows_have_columns_all_the_same(location):
    table = create(location, NUMBERED)
    (none,) = read_rows_at_addresses(table, pa.array([], pa.uint64()), ["value", "id"])
    assert none.schema.names == ["value", "id"]
    assert none.num_rows == 0


@pytest.mark.parametrize(
    "members",
    [
        [0, 1, 2, 65_535, 65_536, 1 << 20],
        list(range(100_000)),
        list(range(0, 200_000, 2)),
        [*range(70_000), *range(131_072, 140_000, 3)],
    ],
    ids=["few", "all", "every other", "mixed"],
)
def test_a_bitmap_is_read_as_it_was_written(location, members):
    """Lance writes the bitmap; the rows it names are those that were deleted."""
    size = max(members) + 2
    table = create(location, {f"{number:07d}": None for number in range(size)})
    doomed = pa.array([f"{number:07d}" for number in members])
    later = commit(stage_changes(table, None, doomed, **identity())).table
    found = find_changed_keys(table, later)
    assert found.ids.to_pylist() == doomed.to_pylist()


def test_an_empty_bitmap_has_no_members():
    assert len(decode_bitmap((12346).to_bytes(4, "little") + bytes(4))) == 0


@pytest.mark.parametrize("doomed", [3, 5000], ids=["arrow", "bitmap"])
def test_a_damaged_list_of_deleted_rows_is_a_typed_error(location, doomed):
    ids = [f"{number:05d}" for number in range(2 * doomed)]
    table = create(location, dict.fromkeys(ids))
    later = commit(stage_changes(table, None, pa.array(ids[::2]), **identity())).table
    (file,) = Path(location.uri).glob("_deletions/*")
    whole = file.read_bytes()
    damages = [whole[: len(whole) // 2], whole[:9], b""]
    if file.suffix == ".bin":  # the other kind is read from its end
        damages += [bytes(4) + whole[4:], whole[:4] + b"\xff" * 4 + whole[8:]]
    for damaged in damages:
        file.write_bytes(damaged)
        with pytest.raises(StorageFailure, match=file.name):
            find_changed_keys(table, later)


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_agree_with_the_full_comparison(location, seed):
    chance, overwrites = random.Random(seed), seed % 2 == 1
    tables = [create(location, {f"id{n:03d}": n for n in range(300)})]
    heads = [tables[0]]
    for _ in range(14):
        at = chance.randrange(len(heads))
        heads[at] = _moved(chance, heads[at], overwrites=overwrites)
        if chance.random() < 0.3:
            heads.append(forked(heads[at]))
        tables.append(heads[at])
    pairs = [(chance.choice(tables), chance.choice(tables)) for _ in range(20)]
    for before, after in pairs:
        listed = check(before, after)
        # Rows may be listed that were written with the value they had, but no others.
        assert overwrites or len(listed) <= 14 * 6, f"seed {seed}: {len(listed)} rows"


def _moved(chance: random.Random, table: Table, *, overwrites: bool) -> Table:
    if chance.random() < 0.25:
        return compact(table)
    if overwrites and chance.random() < 0.1:
        kept = dict(list(content(table).items())[:50])
        return commit(stage_overwrite(table, rows(kept), **identity())).table
    ids = [f"id{n:03d}" for n in chance.sample(range(330), 6)]
    written = {id: chance.randrange(5) for id in ids[:4]}
    return commit(stage_changes(table, rows(written), pa.array(ids[4:]), **identity())).table


def test_addresses_are_whole_numbers_of_the_widest_kind(location):
    found = find_changed_keys(None, create(location, {"a": 1}))
    assert (found.before.type, found.after.type) == (pa.uint64(), pa.uint64())
    assert found.after.to_numpy(zero_copy_only=False).dtype == np.uint64
