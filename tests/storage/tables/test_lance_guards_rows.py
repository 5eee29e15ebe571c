"""Habits of Lance with rows and reads. Red: read docs/internals/lance.md."""

from __future__ import annotations

import json
import threading

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset, LanceOperation
from lance.blob import blob_array, blob_field
from lance.dataset import Transaction
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments
from lance.optimize import Compaction

from omnigraph.storage.tables.lance_errors import PRIMARY_KEY
from storage.tables import lance_directly
from storage.tables.table_fixtures import rows


@pytest.fixture
def dataset(tmp_path) -> LanceDataset:
    values = {f"a{n}": None if n % 2 else n for n in range(6)}
    return lance_directly.append(lance_directly.create(tmp_path / "table", values), {"z": 1})


def staged_delete(dataset: LanceDataset, predicate: str) -> LanceDataset:
    updated, removed = [], []
    for fragment in dataset.get_fragments():
        left = fragment.delete(predicate)
        if left is None:
            removed.append(fragment.fragment_id)
        elif left.num_deletions != fragment.metadata.num_deletions:
            updated.append(left)
    operation = LanceOperation.Delete(updated, removed, predicate)
    return lance_directly.commit(dataset, Transaction(dataset.version, operation))


@pytest.mark.parametrize(
    "predicate",
    ["id = 'a1'", "id = 'z'", "value IS NULL", "value > 1", "value = NULL", "true"],
)
def test_a_staged_delete_equals_an_inline_one(dataset, tmp_path, predicate):
    """Red: re-read "Staged deletes"."""
    inline = lance_directly.create(
        tmp_path / "twin", {f"a{n}": None if n % 2 else n for n in range(6)}
    )
    inline = lance_directly.append(inline, {"z": 1})
    inline.delete(predicate)
    staged = staged_delete(dataset, predicate)
    assert lance_directly.facts(staged) == lance_directly.facts(inline)
    assert len(staged.get_fragments()) == len(inline.get_fragments())


def test_row_ids_and_the_key_mark_survive_everything(dataset):
    """Red: re-read "Row ids"."""
    before = lance_directly.facts(dataset)

    def assert_kept(after: LanceDataset) -> None:
        assert after.has_stable_row_ids
        assert after.schema.field("id").metadata[PRIMARY_KEY] == b"true"

    dataset.optimize.compact_files()
    assert lance_directly.facts(dataset) == before
    assert_kept(dataset)
    branch = dataset.create_branch("branch", dataset.version)
    assert lance_directly.facts(branch) == before
    assert_kept(branch)
    overwritten = lance_directly.commit(
        dataset, lance_directly.staged_overwrite(dataset, {"a0": 5})
    )
    assert_kept(overwritten)
    assert lance_directly.facts(overwritten)["a0"][0] > max(
        row_id for row_id, _, _ in before.values()
    )
    restored = overwritten.checkout_version(dataset.version)
    restored.restore()
    assert lance_directly.facts(restored) == before
    assert_kept(restored)


def test_stable_row_ids_cannot_be_turned_on_later(tmp_path):
    """Red: re-read "Row ids"."""
    uri = str(tmp_path / "table")
    lance.write_dataset(rows({"a": 1}), uri)
    later = lance.write_dataset(rows({"a": 1}), uri, mode="overwrite", enable_stable_row_ids=True)
    assert not later.has_stable_row_ids


def test_an_own_rewrite_is_exact_keeps_row_versions_and_loses_index_coverage(dataset):
    """Red: re-read "Own compaction"."""
    dataset.create_scalar_index("id", "BTREE")
    before = lance_directly.facts(dataset)
    groups, next_id = [], max(f.fragment_id for f in dataset.get_fragments()) + 1
    for task in Compaction.plan(dataset, {}).tasks:
        result = task.execute(dataset)
        for fragment in result.new_fragments:
            fragment.id, next_id = next_id, next_id + 1
        groups.append(
            LanceOperation.RewriteGroup(
                list(result.original_fragments),  # type: ignore[attr-defined]  # not in Lance's stub
                result.new_fragments,
            )
        )
    operation = LanceOperation.Rewrite(groups, [])
    landed = lance_directly.commit(dataset, Transaction(dataset.version, operation, uuid="own"))
    assert landed.version == dataset.version + 1
    assert landed.read_transaction(landed.version).uuid == "own"
    assert lance_directly.facts(landed) == before
    assert landed.stats.index_stats("id_idx")["num_indexed_rows"] == 0
    assert landed.to_table(filter="id = 'z'").num_rows == 1
    landed.create_scalar_index("id", "BTREE", replace=True)
    assert landed.stats.index_stats("id_idx")["num_unindexed_rows"] == 0


def test_blobs_survive_compaction_and_inline_merges_with_their_neighbours(tmp_path):
    """Red: re-read "Blobs"."""
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), blob_field("b")])
    large = b"x" * 300_000

    def data(values: dict[str, bytes | None]) -> pa.Table:
        return pa.table({"id": list(values), "b": blob_array(list(values.values()))}, schema)

    def read(dataset: LanceDataset) -> dict[str, bytes | None]:
        found = dataset.scanner(columns=["id", "b"], blob_handling="all_binary").to_table()
        return dict(zip(*found.to_pydict().values(), strict=True))

    uri = str(tmp_path / "table")
    first = {"null": None, "empty": b"", "full": b"abc", "next": large}
    dataset = lance.write_dataset(
        data(first), uri, enable_stable_row_ids=True, data_storage_version="2.2"
    )
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(data({"full": b"", "new": None}))
    expected = {**first, "full": b"", "new": None}
    assert read(dataset) == expected
    dataset.optimize.compact_files()
    assert len(dataset.get_fragments()) == 1
    assert read(dataset) == expected


def test_a_change_feed_read_from_a_newer_handle_misses_updates(tmp_path):
    """Red: re-read "Change feed"; the end version may no longer have to be checked out."""
    dataset = lance_directly.create(tmp_path / "table", {"a": 1, "b": 2})
    for value in (10, 11):
        dataset.merge_insert("id").when_matched_update_all().execute(rows({"a": value}))
    newer = dataset.delta(begin_version=1, end_version=2)
    assert newer.get_updated_rows().read_all().num_rows == 0
    exact = dataset.checkout_version(2).delta(compared_against=1)
    assert exact.get_updated_rows().read_all().num_rows == 1


def test_rows_of_a_fragment_are_taken_by_their_position_among_the_live_rows(tmp_path):
    """Red: re-read "Taking rows"; positions may count deleted rows, or come in any order."""
    dataset = lance_directly.create(tmp_path / "table", {"a": 1, "b": 2, "c": 3, "d": 4})
    dataset.delete("id IN ('a', 'c')")
    fragment = lance_directly.newest(dataset).get_fragment(0)
    assert fragment.take([0, 1], columns=["id"]).column("id").to_pylist() == ["b", "d"]
    with pytest.raises(OSError, match="increasing"):
        fragment.take([1, 0], columns=["id"])
    assert fragment.take([0], columns=["id", "_rowid", "_rowaddr"]).column_names == ["id"]


def test_a_retained_row_id_is_listed_in_the_metadata(dataset):
    """Red: re-read "Kept row ids"; an update may be able to keep them for nothing."""
    update = rows({f"a{number}": 9 for number in (1, 3)})
    dataset.merge_insert("id").when_matched_update_all().execute(update)
    added = lance_directly.newest(dataset).get_fragments()[-1].metadata
    assert RowIdSequence.from_inline_metadata(added.row_id_meta).to_pyarrow().to_pylist() == [1, 3]


def test_an_expression_fails_beside_a_column_it_does_not_name(tmp_path):
    """Red: re-read "Filters"; expressions may have become usable instead of text."""
    data = pa.table({"id": ["a"], "list": pa.array([[1]], pa.list_(pa.uint64()))})
    dataset = lance.write_dataset(data, str(tmp_path / "table"))
    with pytest.raises(ValueError, match="Substrait"):
        dataset.to_table(filter=pc.field("id").isin(pa.array(["a"])))
    assert dataset.to_table(filter="`id` IN ('a')").num_rows == 1


def test_sorting_by_a_column_that_is_not_requested_fails(dataset):
    """Red: re-read "Filters"; the row id need not be requested any more."""
    with pytest.raises(ValueError, match="TakeExec"):
        dataset.scanner(columns=["id"], order_by=["value"]).to_table()


def test_a_merge_takes_a_duplicate_new_key_twice(dataset):
    """Red: re-read "Staged merges"; duplicates in the input may now be refused."""
    twice = pa.concat_tables([rows({"new": 1}), rows({"new": 2})])
    dataset.merge_insert("id").when_not_matched_insert_all().execute(twice)
    assert lance_directly.ids(dataset).count("new") == 2


def test_fragments_round_trip_through_json_with_their_row_ids(dataset):
    """Red: re-read "Fragments from elsewhere"."""
    (fragment,) = write_fragments(rows({"a0": 1, "n": 2}), dataset)
    fragment.row_id_meta = RowIdSequence(pa.array([0], pa.uint64())).to_inline_metadata()
    copy = FragmentMetadata.from_json(json.dumps(fragment.to_json()))
    assert copy == fragment
    assert len(RowIdSequence.from_inline_metadata(copy.row_id_meta)) == 1


def test_reading_a_record_borrows_the_handle_exclusively(dataset):
    """Red: re-read "Busy handles"; records may be read through a shared handle by now."""
    refused = threading.Event()

    def read_records() -> None:
        while not refused.is_set():
            try:
                dataset.read_transaction(1)
            except RuntimeError:
                refused.set()

    threads = [threading.Thread(target=read_records) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused.is_set()


def test_rows_are_named_by_their_address_without_reading_others(dataset):
    """Red: re-read "Row addresses"; fetching changed rows may read whole tables."""
    scanner = dataset.scanner(columns=["id"], filter="_rowaddr IN (0)")
    assert "full_filter=--" in scanner.explain_plan(True)
    assert scanner.to_table().num_rows == 1


def test_two_lists_of_the_same_deleted_rows_have_different_numbers(dataset):
    """Red: re-read "Row addresses"; fragments of two branches may be mistaken for one another."""
    (fragment, *_) = dataset.get_fragments()
    lists = [fragment.delete_rows([0]).deletion_file for _ in range(2)]
    assert lists[0].id != lists[1].id
