"""Compaction and index segments of one table: whatever happens in between, answers stay."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from omnigraph.storage.tables.compaction import (
    _encode_fragment,
    plan_groups,
    stage_rewrite,
    write_groups,
)
from omnigraph.storage.tables.indices import (
    IndexSpec,
    LanceIndexKind,
    build_segment,
    describe_indices,
    describe_layout,
    plan_segment,
    stage_segments,
)
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import stage_changes, stage_create
from omnigraph.storage.tables.table import UPDATED_AT, Table, open_newest
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import CREATED_AT

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("v", pa.list_(pa.float32(), 2)),
    ]
)
BTREES = (
    IndexSpec("id_btree", "id", LanceIndexKind.BTREE),
    IndexSpec("n_btree", "n", LanceIndexKind.BTREE),
)
VECTOR = IndexSpec("v_flat", "v", LanceIndexKind.IVF_FLAT, {"num_partitions": 1})

KINDS = ["write"] * 6 + ["plan", "index", "land", "compact", "vectors", "fork"]
FORK = "01J00000000000000000000000"


@pytest.fixture
def location(tmp_path):
    place = TableLocation(str(tmp_path / "table"))
    commit_exact(stage_create(place, SCHEMA, properties={}))
    return place


def rows(values: dict[str, int]) -> pa.Table:
    vectors = [[float(n), float(n % 7)] for n in values.values()]
    return pa.table(
        {"id": list(values), "n": list(values.values()), "v": pa.array(vectors, SCHEMA[2].type)},
        schema=SCHEMA,
    )


def write(location: TableLocation, values: dict[str, int], gone: list[str] | None = None) -> None:
    doomed = None if gone is None else pa.array(gone, pa.string())
    staged = stage_changes(open_newest(location), rows(values), doomed, properties={})
    if staged is not None:
        commit_exact(staged)


def compact(location: TableLocation) -> bool:
    table = open_newest(location)
    written = write_groups(table, plan_groups(describe_layout(table)))
    staged = stage_rewrite(table, written, properties={})
    return staged is not None and commit_exact(staged).version > 0


def index(location: TableLocation, *specs: IndexSpec) -> bool:
    table = open_newest(location)
    plans = [
        plan for spec in specs if (plan := plan_segment(describe_layout(table), spec)) is not None
    ]
    staged = stage_segments(table, [build_segment(table, plan) for plan in plans], properties={})
    return staged is not None and commit_exact(staged).version > 0


def facts(table: Table) -> list[dict[str, object]]:
    """Everything a compaction must leave as it is."""
    return (
        table.scan(["id", "n", CREATED_AT, UPDATED_AT], with_row_id=True).sort_by("id").to_pylist()
    )


def check(location: TableLocation, model: dict[str, int]) -> None:
    table = open_newest(location)
    table.native.validate()
    assert {row["id"]: row["n"] for row in table.scan(["id", "n"]).to_pylist()} == model
    for key in [*list(model)[:40], "absent"]:
        found = table.scan(["n"], f"id = '{key}'").column("n").to_pylist()
        assert found == ([model[key]] if key in model else []), key
    for value in {*list(model.values())[:20], -1}:
        found = sorted(table.scan(["id"], f"n = {value}").column("id").to_pylist())
        assert found == sorted(id for id, n in model.items() if n == value), value


def test_a_task_receives_what_lance_would_pass_it(location):
    write(location, {f"k{number}": number for number in range(10)})
    write(location, {"k3": 33, "new": 1}, ["k7"])
    fragments = [fragment.metadata for fragment in open_newest(location).native.get_fragments()]
    assert {fragment.deletion_file is None for fragment in fragments} == {True, False}
    for fragment in fragments:
        assert json.loads(_encode_fragment(fragment)) == fragment.to_json()


def test_small_fragments_become_one_and_rows_keep_ids_and_versions(location):
    for number in range(12):
        write(location, {f"k{number}": number})
    write(location, {"k3": 33}, ["k7"])
    before = facts(open_newest(location))
    assert compact(location)
    table = open_newest(location)
    assert len(table.fragments()) == 1
    assert facts(table) == before
    assert not compact(location), "there is nothing left to do"


def test_a_large_fragment_is_not_copied_for_the_few_rows_after_it(location):
    write(location, {f"big{n}": n for n in range(40_000)})
    for number in range(5):
        write(location, {f"k{number}": number})
    assert compact(location)
    assert [f.rows for f in open_newest(location).fragments()] == [40_000, 5]
    assert not compact(location)
    write(location, {f"more{n}": n for n in range(30_000)})
    assert compact(location)
    assert [f.rows for f in open_newest(location).fragments()] == [70_005]


def test_a_fragment_with_many_deletions_is_rewritten(location):
    write(location, {f"k{n}": n for n in range(100)})
    write(location, {}, [f"k{n}" for n in range(5)])
    assert not compact(location)
    write(location, {}, [f"k{n}" for n in range(20)])
    assert compact(location)
    (fragment,) = open_newest(location).fragments()
    assert (fragment.rows, fragment.deleted_rows) == (80, 0)


def test_a_compaction_stays_valid_while_rows_are_added(location):
    for number in range(6):
        write(location, {f"k{number}": number})
    old = open_newest(location)
    written = write_groups(old, plan_groups(describe_layout(old)))
    write(location, {"late": 100})
    now = open_newest(location)
    commit_exact(stage_rewrite(now, written, properties={}))
    check(location, {f"k{n}": n for n in range(6)} | {"late": 100})
    assert [f.rows for f in open_newest(location).fragments()] == [1, 6]


def test_a_compaction_is_dropped_when_one_of_its_rows_changed(location):
    for number in range(6):
        write(location, {f"k{number}": number})
    old = open_newest(location)
    written = write_groups(old, plan_groups(describe_layout(old)))
    write(location, {"k2": 22})
    assert stage_rewrite(open_newest(location), written, properties={}) is None


def test_a_segment_covers_only_fragments_that_are_still_the_same(location):
    for number in range(4):
        write(location, {f"k{number}": number})
    old = open_newest(location)
    segment = build_segment(old, plan_segment(describe_layout(old), BTREES[0]))
    write(location, {"k1": 11, "late": 5})
    now = open_newest(location)
    commit_exact(stage_segments(now, [segment], properties={}))
    check(location, {"k0": 0, "k1": 11, "k2": 2, "k3": 3, "late": 5})
    (found,) = describe_indices(open_newest(location))
    assert found.indexed_rows == 3
    compact(location)
    assert stage_segments(open_newest(location), [segment], properties={}) is None


def test_a_reused_number_does_not_make_a_fragment_pass_for_covered(location):
    write(location, {f"k{n}": n for n in range(3)})
    write(location, {"gone": 9})
    index(location, *BTREES)
    write(location, {}, ["gone"])
    for number in range(3):
        write(location, {f"x{number}": 100 + number})
    compact(location)
    check(location, {f"k{n}": n for n in range(3)} | {f"x{n}": 100 + n for n in range(3)})


def test_new_rows_get_a_segment_of_their_own_beside_a_large_one(location):
    write(location, {f"big{n}": n for n in range(40_000)})
    index(location, BTREES[0])
    write(location, {"k": 1})
    assert index(location, BTREES[0])
    (found,) = describe_indices(open_newest(location))
    assert len(found.segments) == 2
    write(location, {"l": 2})
    assert index(location, BTREES[0])
    (found,) = describe_indices(open_newest(location))
    assert len(found.segments) == 2, "the two small ones were rebuilt as one"
    assert found.is_complete


def test_fragments_of_an_inherited_index_are_left_alone_on_a_branch(location):
    for number in range(5):
        write(location, {f"k{number}": number})
    index(location, *BTREES, VECTOR)
    fork = create_branch(location, FORK, None, open_newest(location).version).location
    for number in range(5):
        write(fork, {f"f{number}": 50 + number})
    write(fork, {"k1": 11}, ["k2"])
    model = {"k0": 0, "k1": 11, "k3": 3, "k4": 4} | {f"f{n}": 50 + n for n in range(5)}
    assert compact(fork)
    check(fork, model)
    assert index(fork, *BTREES)
    check(fork, model)
    assert not compact(fork)
    check(location, {f"k{n}": n for n in range(5)})


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("with_vectors", [False, True])
def test_random_histories_with_maintenance_at_any_moment(location, seed, with_vectors):
    print(f"seed {seed}")
    chance, model = random.Random(seed), {}
    here = location
    pending: list[tuple[str, object]] = []
    for step in range(60):
        kind = chance.choice(
            ["write"] * 6 + ["plan", "index", "land", "compact", "vectors", "fork"]
        )
        if kind == "write":
            changed = {f"k{chance.randrange(40)}": chance.randrange(50) for _ in range(3)}
            gone = [k for k in (f"k{chance.randrange(40)}" for _ in range(2)) if k not in changed]
            write(here, changed, gone)
            model = {k: n for k, n in (model | changed).items() if k not in gone}
        elif kind == "plan":
            table = open_newest(here)
            pending.append(("rewrite", write_groups(table, plan_groups(describe_layout(table)))))
        elif kind == "index":
            table = open_newest(here)
            plan = plan_segment(describe_layout(table), chance.choice(BTREES))
            if plan is not None:
                pending.append(("segment", build_segment(table, plan)))
        elif kind == "land" and pending:
            what, made = pending.pop(chance.randrange(len(pending)))
            table = open_newest(here)
            if what == "rewrite":
                staged = stage_rewrite(table, made, properties={})
            else:
                staged = stage_segments(table, [made], properties={})
            if staged is not None:
                commit_exact(staged)
        elif kind == "compact":
            compact(here)
        elif kind == "vectors" and with_vectors and model:
            index(here, VECTOR)
            query = [3.0, 3.0]
            table = open_newest(here).native
            near = table.to_table(
                columns=["id", "n"],
                nearest={"column": "v", "q": query, "k": 50, "metric": "L2", "nprobes": 99},
            )
            assert {r["id"]: r["n"] for r in near.to_pylist()} == model
        elif kind == "fork" and step % 3 == 0 and model:
            name = f"01J{step:023d}"
            source = open_newest(here)
            here = create_branch(location, name, here.branch, source.version).location
            pending.clear()
        check(here, model)


def test_lance_refuses_to_merge_fragments_that_an_index_by_row_ids_distinguishes(location):
    """Red: `plan_groups` need not keep such fragments apart any more."""
    write(location, {"a": 1})
    write(location, {"b": 2})
    index(location, VECTOR)
    write(location, {"c": 3})
    table = open_newest(location)
    everything = tuple(fragment.id for fragment in table.fragments())
    staged = stage_rewrite(table, write_groups(table, [everything]), properties={})
    with pytest.raises(Exception, match="split of indexed and non-indexed"):
        commit_exact(staged)


def test_a_btree_stores_addresses_so_that_a_rewrite_ends_its_coverage(location):
    """Red: B-trees hold stable row ids now, and could keep covering what was rewritten."""
    write(location, {"a": 1})
    write(location, {"b": 2})
    index(location, BTREES[0])
    compact(location)
    (found,) = describe_indices(open_newest(location))
    assert found.indexed_rows == 0
