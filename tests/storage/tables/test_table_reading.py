"""Pinned tables: scanning, taking, looking up, pickling."""

from __future__ import annotations

import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from io_counters import read_io_counters
from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.tables import row_lookup
from omnigraph.storage.tables.indices import IndexSpec, LanceIndexKind
from omnigraph.storage.tables.lance_errors import PRIMARY_KEY, mark_primary_key
from omnigraph.storage.tables.location import Generation, TableLocation, open_shared_session
from omnigraph.storage.tables.row_lookup import quote_identifier, quote_literal
from omnigraph.storage.tables.stage_table import stage_create
from omnigraph.storage.tables.table import ScanOrder, find_latest_version, is_table, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import (
    SCHEMA,
    change,
    content,
    create,
    identity,
    stage_indices,
    ulids,
)

ODD = [
    "", "'", "''", "it's", "\\", "a\\'b", "'\\", '"', "`", "é", "e\u0301", "日本", "😀", "\n",
    "\r\n", "\t", "a\0b", "%", "_", "$1", "$$", "--", "/*", ";", "?", "{}", "NULL", "1", "\u202e",
    "\u2028", "\ufeff", "\x7f", "') OR (1=1", "E'a'", "\\n", "x" * 100_000,
]  # fmt: skip


def indexed(table):
    specs = [IndexSpec("by_id", "id", LanceIndexKind.BTREE)]
    return commit_exact(stage_indices(table, specs, **identity())).table


def test_a_table_stays_at_its_version_while_others_write(location):
    table = create(location, {"a": 1})
    change(table, {"a": 2, "b": 3})
    assert content(table) == {"a": 1}
    assert table.version == 1
    assert table.newest_version() == find_latest_version(location) == 2
    assert content(open_table(location, 2)) == {"a": 2, "b": 3}


def test_a_scan_filters_projects_orders_and_limits(location):
    table = create(location, {"a": 3, "b": None, "c": 1, "d": 2})
    assert table.scan(["id"], "value > 1").to_pydict() == {"id": ["a", "d"]}
    largest_first = table.scan(["id"], order_by=[ScanOrder("value", descending=True)], limit=2)
    assert largest_first.to_pydict() == {"id": ["a", "d"]}
    nulls_first = table.scan(["id"], order_by=[ScanOrder("value", nulls_first=True)])
    assert nulls_first.to_pydict() == {"id": ["b", "c", "d", "a"]}
    assert table.count_rows("value IS NULL") == 1
    named = table.scan(["id"], with_row_id=True, with_row_address=True)
    assert named.schema.names == ["id", "_rowid", "_rowaddr"]


def test_a_scan_can_be_limited_to_fragments(location):
    table = change(create(location, {"a": 1}), {"b": 2})
    first, second = (fragment.id for fragment in table.fragments())
    assert table.scan(["id"], fragments=[first]).to_pydict() == {"id": ["a"]}
    assert table.scan(["id"], fragments=[second]).to_pydict() == {"id": ["b"]}


def test_batches_give_every_row_in_stored_order(location):
    table = create(location, {f"{number:03d}": number for number in range(100)})
    batches = list(table.batches(["value"], batch_size=30))
    assert [batch.num_rows for batch in batches] == [30, 30, 30, 10]
    assert [v for batch in batches for v in batch.column(0).to_pylist()] == list(range(100))


def test_rows_are_taken_by_row_id_in_the_requested_order(location):
    table = change(create(location, {"a": 1, "b": 2, "c": 3}), deletes=("b",))
    taken = table.take_row_ids([2, 99, 1, 0], ["id", "_rowid"])
    assert taken.to_pydict() == {"id": ["c", "a"], "_rowid": [2, 0]}
    assert table.take_row_ids(pa.array([], pa.uint64())).num_rows == 0


@pytest.mark.parametrize("with_index", [False, True], ids=["unindexed", "indexed"])
def test_odd_strings_are_found(location, with_index):
    filler = {f"filler{number}": None for number in range(100 * (len(ODD) + 1))}
    table = create(location, {**{key: number for number, key in enumerate(ODD)}, **filler})
    table = indexed(table) if with_index else table
    for number, key in enumerate(ODD):
        assert table.lookup("id", pa.array([key]), ["value"]).to_pydict() == {"value": [number]}
    together = table.lookup("id", pa.array([*ODD, "absent"]), ["value"])
    assert sorted(together.column("value").to_pylist()) == list(range(len(ODD)))


@pytest.mark.parametrize("share", [0.001, 0.5, 1.0])
def test_a_lookup_gives_the_same_rows_by_list_and_by_scan(location, share):
    everything = {f"n{number:05d}": number for number in range(20_000)}
    table = indexed(create(location, everything))
    wanted = random.Random(7).sample(sorted(everything), int(len(everything) * share))
    found = table.lookup("id", pa.array([*wanted, "absent", None, wanted[0]]), ["value", "id"])
    assert found.schema.names == ["value", "id"]
    assert dict(zip(*(found.column(c).to_pylist() for c in ("id", "value")), strict=True)) == {
        key: everything[key] for key in wanted
    }


def test_a_long_list_is_split(location, monkeypatch):
    monkeypatch.setattr(row_lookup, "_KEYS_PER_LIST", 3)
    table = create(location, {f"n{number}": number for number in range(1_000)})
    found = table.lookup("id", pa.array([f"n{number}" for number in range(10)]), ["value"])
    assert sorted(found.column("value").to_pylist()) == list(range(10))


def test_a_lookup_works_beside_columns_of_any_type(tmp_path):
    vector = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0], pa.float32()), 1)
    others = {
        "unsigned_list": pa.array([[1], None], pa.list_(pa.uint64())),
        "time": pa.array([1, 2], pa.time64("us")),
        "duration": pa.array([1, 2], pa.duration("ms")),
        "vector": vector,
        "u64": pa.array([1, 2**63 + 1], pa.uint64()),
        "big": pa.array(["a", "b"], pa.large_string()),
        "when": pa.array([datetime(2020, 1, 1), None], pa.timestamp("ms", "UTC")),
    }
    data = pa.table({"id": ["a", "b"], **others})
    schema = mark_primary_key(data.schema, "id")
    location = TableLocation(str(tmp_path / "table"))
    table = commit_exact(stage_create(location, schema, data.cast(schema), **identity())).table
    assert table.lookup("id", pa.array(["b"])).to_pydict()["u64"] == [2**63 + 1]
    assert table.lookup("u64", pa.array([2**63 + 1], pa.uint64()), ["id"]).to_pydict() == {
        "id": ["b"]
    }
    assert table.lookup("big", pa.array(["a"]), ["id"]).to_pydict() == {"id": ["a"]}
    when = pa.array([datetime(2020, 1, 1, tzinfo=UTC)])
    assert table.lookup("when", when, ["id", "_rowid"]).to_pydict() == {"id": ["a"], "_rowid": [0]}


def test_a_lookup_in_an_empty_table_has_the_requested_columns(location):
    found = create(location).lookup("id", pa.array(["a"]), ["value", "_rowid", "_rowaddr"])
    assert found.schema.names == ["value", "_rowid", "_rowaddr"]
    assert found.num_rows == 0


def test_values_are_quoted_for_filters(location):
    at = datetime(2020, 1, 1, 12, 30, 15, 123000, tzinfo=UTC)
    values = {"s": ["it's"], "i": [-5], "f": [float("inf")], "b": [True], "d": [date(2020, 1, 2)]}
    data = pa.table({"id": ["a"], **values}).append_column("t", pa.array([at]))
    schema = mark_primary_key(data.schema, "id")
    table = commit_exact(stage_create(location, schema, data.cast(schema), **identity())).table
    for name, value in data.drop_columns(["id"]).to_pylist()[0].items():
        assert table.count_rows(f"{quote_identifier(name)} = {quote_literal(value)}") == 1, name
    assert table.count_rows(f"s IS {quote_literal(None)}") == 0


def test_handles_pickle(location):
    table = create(location, {"a": 1})
    branch = change_on_branch(table)
    for original in (table, branch):
        copy = pickle.loads(pickle.dumps(original))
        assert content(copy) == content(original)
        assert copy.version == original.version


def test_all_handles_share_one_session(location, monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: -2)  # a session that other tests have not filled
    assert open_shared_session() is open_shared_session()
    create(location, {"a": 1})
    before = open_shared_session().size_bytes()
    content(open_table(location, 1))
    assert open_shared_session().size_bytes() > before


def test_tables_that_live_at_one_address_one_after_the_other_share_no_session(location):
    first, second = (location.of_generation(Generation("/graph", name)) for name in ("a", "b"))
    session = open_shared_session(first)
    assert open_shared_session(first) is session
    assert open_shared_session(second) is not session
    elsewhere = TableLocation("/other", generation=Generation("/elsewhere", "a"))
    assert open_shared_session(elsewhere) is open_shared_session(second)
    assert open_shared_session(first) is not session


def change_on_branch(table):
    return change(create_branch(table.location, ulids.next(), None, table.version), {"b": 2})


def test_a_forked_process_does_not_use_the_session_of_its_parent(monkeypatch):
    ours = open_shared_session()
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert open_shared_session() is not ours


def test_credentials_are_not_shown():
    location = TableLocation("s3://bucket/table/", storage_options={"secret": "hunter2"})
    assert "hunter2" not in repr(location)
    assert location.uri == "s3://bucket/table"
    assert pickle.loads(pickle.dumps(location)).storage_options == {"secret": "hunter2"}


def test_branches_have_flat_ulid_names():
    assert TableLocation("/t", branch=ulids.next()).native_uri.startswith("/t/tree/01")
    for name in ("feature", "a/b", "../x", ""):
        with pytest.raises(ManifestCorrupt):
            TableLocation("/t", branch=name)


def test_schema_and_metadata_are_those_of_the_creator(location):
    table = create(location)
    assert table.schema == SCHEMA
    assert table.schema_metadata == {"stamp": "1"}
    assert table.schema.field("id").metadata[PRIMARY_KEY] == b"true"
    assert not table.schema.field("id").nullable
    assert table.schema.field("value").metadata == {b"property": b"7"}
    assert table.native.has_stable_row_ids
    assert table.native.data_storage_version == "2.2"
    assert table.native.config() == {}


def test_reads_are_counted(location):
    table = create(location, {"a": 1})
    before = read_io_counters()
    content(table)
    used = read_io_counters() - before
    assert used.reads > 0
    assert used.bytes_read > 0


def test_existence_is_that_of_the_branch_named(location):
    assert not is_table(location)
    table = create(location, {"a": 1})
    branch = change_on_branch(table).location
    assert is_table(location)
    assert is_table(branch)
    assert not is_table(location.on_branch(ulids.next()))


def test_one_handle_serves_many_threads(location):
    table = indexed(create(location, {f"n{number}": number for number in range(2_000)}))

    def look_up(number: int) -> list[int]:
        return table.lookup("id", pa.array([f"n{number}"]), ["value"]).column(0).to_pylist()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(look_up, range(200))) == [[number] for number in range(200)]
