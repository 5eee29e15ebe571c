"""Habits of Lance with indices, branches, history and processes.

Red: read docs/internals/lance.md.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation

from lance_maintenance import compact
from omnigraph.storage.tables import table_branches
from omnigraph.storage.tables.indices import IndexSpec, LanceIndexKind
from omnigraph.storage.tables.location import (
    TableLocation,
    open_at_home,
    relocate_manifest,
    relocate_version,
)
from omnigraph.storage.tables.table_branches import create_branch, read_record
from storage.tables import lance_directly, race_workers
from storage.tables.table_fixtures import (
    change,
    commit,
    create,
    identity,
    rows,
    stage_indices,
    ulids,
)


@pytest.fixture
def dataset(tmp_path) -> LanceDataset:
    return lance_directly.append(
        lance_directly.create(tmp_path / "table", {"a": 1, "b": 2}), {"c": 3}
    )


@pytest.fixture
def documents(tmp_path) -> LanceDataset:
    vectors = np.random.default_rng(7).random((64, 8), dtype=np.float32)
    data = pa.table(
        {
            "id": [f"d{n}" for n in range(64)],
            "text": [f"word{n} common" for n in range(64)],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
        }
    )
    return lance.write_dataset(data, str(tmp_path / "documents"), enable_stable_row_ids=True)


def build(dataset: LanceDataset, column: str, kind: str, **options) -> lance.Index:
    fragment_ids = [fragment.fragment_id for fragment in dataset.get_fragments()]
    return dataset.create_index_uncommitted(
        column, kind, name=f"{column}_index", fragment_ids=fragment_ids, **options
    )


def commit_indices(dataset: LanceDataset, *built: lance.Index) -> LanceDataset:
    return LanceDataset.commit(
        dataset,
        LanceOperation.CreateIndex(list(built), []),
        read_version=dataset.version,
        max_retries=0,
    )


def test_a_scalar_and_a_vector_index_go_into_one_version(documents):
    """Red: re-read "Staged indices"."""
    by_id = build(documents, "id", "BTREE")
    near = build(documents, "vector", "IVF_FLAT", num_partitions=2)
    landed = commit_indices(documents, by_id, near)
    assert landed.version == documents.version + 1
    assert {index.name for index in landed.describe_indices()} == {"id_index", "vector_index"}
    query = {"column": "vector", "q": [0.5] * 8, "k": 3}
    assert landed.to_table(nearest=query).num_rows == 3
    assert landed.to_table(filter="id = 'd7'").num_rows == 1


def test_a_full_text_index_is_unreadable_unless_its_segments_are_merged(documents):
    """Red: re-read "Staged indices"; the merge step may have become needless."""
    search = {"columns": ["id", "_score"], "full_text_query": "word7"}
    words = build(documents, "text", "INVERTED", with_position=True)
    broken = commit_indices(documents, words)
    with pytest.raises(Exception, match="Not found"):
        broken.to_table(**search)
    merged = documents.merge_existing_index_segments(
        [build(documents, "text", "INVERTED", with_position=True)]
    )
    operation = LanceOperation.CreateIndex([merged], [words])
    healed = LanceDataset.commit(broken, operation, read_version=broken.version, max_retries=0)
    assert healed.to_table(**search).column("id").to_pylist() == ["d7"]


def test_compacting_a_branch_breaks_an_inherited_btree(dataset):
    """Red (it reads): re-read "Inherited indices"; the exclusion list may be dropped."""
    dataset.create_scalar_index("id", "BTREE")
    branch = dataset.create_branch("branch", dataset.version)
    branch.optimize.compact_files()
    fresh = lance.dataset(branch.uri)
    with pytest.raises(Exception, match="Not found"):
        fresh.to_table(filter="id = 'c'")
    plain = fresh.scanner(filter="id = 'c'", use_scalar_index=False)
    assert plain.to_table().num_rows == 1


def test_inherited_indices_read_correctly_three_branches_deep(location):
    """Red: re-read "Inherited indices"."""
    table = create(location, {f"main{n}": n for n in range(50)})
    staged = stage_indices(table, [IndexSpec("by_id", "id", LanceIndexKind.BTREE)], **identity())
    table = commit(staged).table
    for depth in range(3):
        branch = create_branch(location, ulids.next(), table.location.branch, table.version)
        table = change(branch, {f"depth{depth}": depth})
        assert table.count_rows("id = 'main7'") == 1
        assert table.count_rows(f"id = 'depth{depth}'") == 1


def test_our_compaction_of_a_branch_keeps_the_inherited_index_readable(location):
    """Red: re-read "Inherited indices"."""
    table = change(create(location, {"a": 1}), {"b": 2})
    staged = stage_indices(table, [IndexSpec("by_id", "id", LanceIndexKind.BTREE)], **identity())
    branch = create_branch(location, ulids.next(), None, commit(staged).version)
    compact(change(change(branch, {"c": 3}), {"d": 4}))
    fresh = lance.dataset(branch.location.native_uri)
    assert [fresh.count_rows(f"id = '{id}'") for id in "abcd"] == [1, 1, 1, 1]


def test_a_failed_compaction_leaves_a_reservation_and_a_plain_error(dataset):
    """Red: re-read "Compaction"."""
    stale = lance.dataset(dataset.uri)
    lance.dataset(dataset.uri).delete("id = 'a'")
    with pytest.raises(OSError, match="Retryable commit conflict") as failure:
        stale.optimize.compact_files()
    assert type(failure.value) is OSError
    newest = lance_directly.newest(dataset)
    assert type(newest.read_transaction(newest.version).operation).__name__ == "BaseOperation"
    assert lance_directly.ids(newest) == ["b", "c"]


def test_history_needs_the_shim_and_distinguishes_reservations_only_by_their_missing_name(location):
    """Red: re-read "History"; the shim may have become needless, or insufficient."""
    table = create(location, {"a": 1})
    staged = stage_indices(table, [IndexSpec("by_id", "id", LanceIndexKind.BTREE)], **identity())
    table = change(change(commit(staged).table, {"b": 2}), {"c": 3})
    table.native.optimize.optimize_indices()
    table.native.optimize.compact_files()
    newest = table.native.version
    assert read_record(table, newest).operation == "Rewrite"
    assert read_record(table, newest).uuid
    assert read_record(table, newest - 1).operation == table_branches.RESERVE_FRAGMENTS
    constructor = LanceOperation.RewrittenIndex.__init__
    shim, constructor.__defaults__ = constructor.__defaults__, None
    try:
        with pytest.raises(TypeError, match="RewrittenIndex"):
            table.native.read_transaction(newest)
        assert read_record(table, newest).operation == "Rewrite"
    finally:
        constructor.__defaults__ = shim
    table.native.checkout_version(1).restore()
    restored = lance_directly.newest(table.native)
    assert restored.read_transaction(restored.version).operation == LanceOperation.Restore(1)


def test_a_branch_has_an_identity_and_protects_its_parent(dataset):
    """Red: re-read "Branches"."""
    dataset.create_branch("b", 2)
    before = dataset.branches.list()["b"]["branch_identifier"]
    child = lance.dataset(f"{dataset.uri}/tree/b").create_branch("child", 2)
    inherited = dataset.branches.list()["child"]["branch_identifier"]
    assert inherited[: len(before)] == before
    assert child.uri == f"{dataset.uri}/tree/child"
    with pytest.raises(OSError, match="referenced by"):
        dataset.branches.delete("b")
    dataset.branches.delete("child")
    dataset.branches.delete("b")
    dataset.create_branch("b", 2)
    assert dataset.branches.list()["b"]["branch_identifier"] != before


def test_a_tree_without_a_ref_blocks_its_name_until_it_is_dropped(dataset, tmp_path):
    """Red: re-read "Branches"."""
    dataset.create_branch("b", 2)
    (tmp_path / "table" / "_refs" / "branches" / "b.json").unlink()
    assert dataset.branches.list() == {}
    with pytest.raises(OSError, match="internal error"):
        dataset.create_branch("b", 2)
    with pytest.raises(ValueError, match="does not exist"):
        dataset.branches.delete("b")
    LanceDataset.drop(f"{dataset.uri}/tree/b")
    assert lance_directly.ids(dataset.create_branch("b", 2)) == ["a", "b", "c"]


def test_nested_branch_names_poison_each_other(dataset):
    """Red: re-read "Branches"."""
    dataset.create_branch("feature", 2)
    dataset.create_branch("feature/sub", 2)
    dataset.branches.delete("feature")
    with pytest.raises(OSError, match="internal error"):
        dataset.create_branch("feature", 2)


def test_a_table_with_branches_cannot_be_moved(dataset, tmp_path):
    """Red: re-read "Branches"; the address of the parent may have become relative."""
    dataset.create_branch("b", 2)
    (tmp_path / "table").rename(tmp_path / "moved")
    assert lance_directly.ids(lance.dataset(str(tmp_path / "moved"))) == ["a", "b", "c"]
    with pytest.raises(Exception, match="Not found"):
        lance.dataset(str(tmp_path / "moved" / "tree" / "b")).to_table()


def moved_branch(dataset, tmp_path) -> tuple[LanceDataset, LanceDataset]:
    """A table that was moved after a branch of it was made, and the branch."""
    dataset.create_branch(ulids.next(), 2)
    there = tmp_path / "moved" / "table"
    there.parent.mkdir()
    (tmp_path / "table").rename(there)
    (tree,) = (there / "tree").iterdir()
    return lance.dataset(str(there)), lance.dataset(str(tree))


@pytest.mark.parametrize("path", ["../..", ".", "../../"])
def test_the_address_of_a_parent_cannot_be_relative(dataset, tmp_path, path):
    """Red: re-read "Base paths"; branches might be made that can be moved."""
    _, branch = moved_branch(dataset, tmp_path)
    (file,) = (Path(branch.uri) / "_versions").glob("*.manifest")
    old = str(tmp_path / "table")
    new = path + "/" * (len(old) - len(path))  # of the same length, so that nothing else moves
    file.write_bytes(file.read_bytes().replace(old.encode(), new.encode()))
    assert [base.path for base in lance.dataset(branch.uri).base_paths().values()] == [new]
    with pytest.raises(Exception, match="Not found"):
        lance.dataset(branch.uri).to_table()


def test_the_address_of_a_parent_cannot_be_replaced(dataset, tmp_path):
    """Red: re-read "Base paths"; there may be a way to change it that is meant to be used."""
    _, branch = moved_branch(dataset, tmp_path)
    base = lance.DatasetBasePath(str(tmp_path / "moved" / "table"), is_dataset_root=True, id=0)
    with pytest.raises(Exception, match="already exists"):
        branch.add_bases([base])


def test_cleanup_takes_the_files_of_a_branch_that_has_an_old_address(dataset, tmp_path):
    """Red: re-read "Base paths"; cleaning a moved table may have become harmless."""
    main, branch = moved_branch(dataset, tmp_path)
    newest = lance.write_dataset(rows({"z": 9}), main, mode="overwrite")
    newest.cleanup_old_versions(versions=[1, 2, 3])
    location = TableLocation(main.uri, branch=Path(branch.uri).name)
    with pytest.raises(Exception, match="Not found"):
        open_at_home(location, branch).to_table()


def test_a_version_is_read_from_a_message_and_ends_with_a_footer(dataset, tmp_path):
    """Red: re-read "Base paths"; the layout of versions changed, and so must `base_paths.py`."""
    main, branch = moved_branch(dataset, tmp_path)
    table = main.uri
    (file,) = (Path(branch.uri) / "_versions").glob("*.manifest")
    data, message = file.read_bytes(), branch._ds.serialized_manifest()
    body, footer = struct.pack("<I", len(message)) + message, data[-16:]
    assert data.endswith(body + footer)
    moved = relocate_manifest(message, table)
    assert relocate_version(data, table) == (
        data.removesuffix(body + footer) + struct.pack("<I", len(moved)) + moved + footer
    )
    location = TableLocation(table, branch=Path(branch.uri).name)
    assert lance_directly.ids(open_at_home(location, branch)) == ["a", "b", "c"]
    file.write_bytes(relocate_version(data, table))
    written = lance.dataset(branch.uri, session=lance.Session())
    assert lance_directly.ids(written) == ["a", "b", "c"]
    assert [base.path for base in written.base_paths().values()] == [table]


def test_a_branch_handle_from_a_checkout_does_not_pickle(dataset):
    """Red: re-read "Branches"; opening by the address of the tree may have become needless."""
    lance.write_dataset(rows({"d": 4}), dataset.create_branch("b", 2), mode="append")
    handle = dataset.checkout_version(("b", 3))
    assert handle.uri == dataset.uri
    with pytest.raises(Exception, match=r"[Nn]ot found|root location"):
        pickle.loads(pickle.dumps(handle)).to_table()
    by_address = lance.dataset(f"{dataset.uri}/tree/b", version=3)
    assert lance_directly.ids(pickle.loads(pickle.dumps(by_address))) == ["a", "b", "c", "d"]


def test_cleanup_of_named_versions_spares_the_newest_and_fork_points(dataset):
    """Red: re-read "Cleanup"."""
    newest = lance_directly.append(lance_directly.append(dataset, {"d": 4}), {"e": 5})
    branch = newest.create_branch("b", 2)
    newest.cleanup_old_versions(versions=[1, 2, 3, 4])
    assert [version["version"] for version in newest.versions()] == [2, 4]
    assert lance_directly.ids(lance.dataset(branch.uri)) == ["a", "b", "c"]


def test_cleanup_takes_what_it_explains_and_marks_what_is_not_named_or_old(dataset):
    """Red: re-read "Cleanup"; removing by list relies on it."""
    dataset.create_scalar_index("id", "BTREE")
    lance_directly.append(dataset, {"d": 4}).delete("id = 'a'")
    newest = lance.dataset(dataset.uri)
    branch = newest.create_branch("b", newest.version - 1)
    lance.write_dataset(rows({"y": 8}), newest, mode="overwrite")
    newest = lance.write_dataset(rows({"z": 9}), newest.uri, mode="overwrite")
    root = Path(newest.uri)
    strays = {"data/s.lance", "_deletions/0-1-5.arrow", "_transactions/1-s.txn"}
    for stray in strays:
        (root / stray).write_bytes(b"left")
        os.utime(root / stray, (0, 0))
    doomed = list(range(1, newest.version))
    found = newest.explain_cleanup_old_versions(
        versions=doomed, include_files=True, max_files=1 << 30
    ).candidate_files
    listed = {file.path.rpartition(f"/{root.name}/")[2]: file.unverified for file in found}
    for file in root.rglob("*"):
        os.utime(file, (0, 0))
    old = newest.explain_cleanup_old_versions(
        versions=doomed, include_files=True, max_files=1 << 30
    ).candidate_files
    assert all(file.unverified for file in old if "/data/" in file.path), "named or not"
    assert {file.path.rpartition(f"/{root.name}/")[2] for file in old} == set(listed)
    before = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
    newest.cleanup_old_versions(versions=doomed)
    after = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
    assert set(listed) == before - after
    assert {path for path, unverified in listed.items() if unverified} == strays
    kinds = {path.partition("/")[0] for path in listed}
    assert kinds == {"_versions", "_transactions", "data", "_deletions"}
    assert lance_directly.ids(lance.dataset(branch.uri)) == ["a", "b", "c", "d"]


def test_detached_versions_lose_their_files_to_cleanup(dataset):
    """Red: re-read "Cleanup"."""
    staged = lance_directly.staged_append(dataset, {"d": 4})
    detached = LanceDataset.commit(dataset, staged, detached=True, max_retries=1)
    assert lance_directly.ids(detached) == ["a", "b", "c", "d"]
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    with pytest.raises(Exception, match="Not found"):
        lance.dataset(dataset.uri, version=detached.version).to_table()


def test_cleanup_removes_old_files_of_a_folder_that_is_linked_from_a_table(dataset, tmp_path):
    """Red: re-read "Links"."""
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "thesis.txt"
    file.write_text("precious")
    os.utime(file, (0, 0))
    (Path(dataset.uri) / "_indices").mkdir()
    (Path(dataset.uri) / "_indices" / "x").symlink_to(file.parent)
    lance_directly.append(dataset, {"d": 4}).cleanup_old_versions(versions=[1])
    assert not file.exists()


def test_a_damaged_file_may_end_the_process(dataset):
    """Red: re-read "Damaged files"."""
    (file, *_) = Path(dataset.uri).glob("data/*.lance")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"ColumnEncoding", b"Colum\0\0\0\0oding"))
    script = "import lance, sys; lance.dataset(sys.argv[1]).to_table()"
    done = subprocess.run(
        [sys.executable, "-c", script, dataset.uri], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGABRT


def test_processes_are_spawned_because_forked_ones_may_hang(racers):
    """Red: re-read "Processes"."""
    methods = racers(race_workers.start_method, *(() for _ in range(race_workers.PROCESSES)))
    assert methods == ["spawn"] * race_workers.PROCESSES
    assert multiprocessing.get_context("spawn").get_start_method() == "spawn"


def test_a_handle_that_builds_an_index_refuses_every_other_use(tmp_path):
    """Red: re-read "Busy handles"."""
    keys = pa.table({"id": [f"k{number}" for number in range(300_000)]})
    busy = lance.write_dataset(keys, tmp_path / "table")
    refused: set[str] = set()

    def build():
        with suppress(RuntimeError):  # whichever of the two comes second is refused
            busy.create_scalar_index("id", "BTREE", replace=True)

    for _ in range(50):  # a machine that is busy may not run this thread during the build
        building = threading.Thread(target=build)
        building.start()
        while building.is_alive():
            time.sleep(0.001)
            try:
                busy.count_rows()
            except RuntimeError as error:
                refused.add(str(error))
        if refused:
            break
    assert refused == {"Already mutably borrowed"}


# --- sessions -------------------------------------------------------------------------------------


def _indexed(place, deleted: str) -> LanceDataset:
    """Forty rows of ten groups, indexed, and one of them deleted; three versions."""
    rows = pa.table({"id": [f"x{n}" for n in range(40)], "grade": [n % 10 for n in range(40)]})
    made = lance.write_dataset(rows, str(place), enable_stable_row_ids=True)
    made.create_scalar_index("grade", "BTREE")
    made.delete(f"id = '{deleted}'")
    return made


def test_a_session_mistakes_a_table_recreated_at_its_address_for_the_one_before(tmp_path):
    """Red: re-read "Sessions"; one session for all generations may be enough."""
    place, session = tmp_path / "table", lance.Session()
    before = _indexed(place, "x13")
    known = lance.dataset(str(place), version=before.version, session=session)
    assert known.count_rows("grade = 3") == 3
    shutil.rmtree(place)
    after = _indexed(place, "x23")
    again = lance.dataset(str(place), version=after.version, session=session)
    assert again.count_rows() == 39
    assert again.count_rows("grade = 3") == 2
    fresh = lance.dataset(str(place), version=after.version, session=lance.Session())
    assert fresh.count_rows("grade = 3") == 3


def test_a_version_records_its_creation_time_and_in_public_only_by_the_local_clock(dataset):
    """Red: re-read "Times"."""
    made_at = dataset._ds.current_version()["timestamp"]
    public = dataset.get_version()["timestamp"]
    assert public.tzinfo is None
    assert public.replace(microsecond=0) == datetime.fromtimestamp(made_at // 10**9)
    again = lance.dataset(dataset.uri, version=dataset.version)
    assert again._ds.current_version()["timestamp"] == made_at
    dataset.delete("id = 'a'")
    assert lance_directly.newest(dataset)._ds.current_version()["timestamp"] > made_at
