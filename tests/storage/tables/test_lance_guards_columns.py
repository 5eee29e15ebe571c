"""Assumptions about Lance of changes to columns; if one fails: read `alter` again."""

from __future__ import annotations

from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.schema import LanceSchema

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("a", pa.int32()),
        pa.field("b", pa.list_(pa.string())),
        pa.field("c", pa.int64(), nullable=False),
    ]
)
ROWS = {"id": ["x", "y"], "a": [1, None], "b": [["q"], None], "c": [1, 2]}


@pytest.fixture
def table(tmp_path):
    return lance.write_dataset(
        pa.table(ROWS, schema=SCHEMA),
        tmp_path / "t",
        data_storage_version="2.2",
        enable_stable_row_ids=True,
    )


def committed(table, operation):
    transaction = Transaction(table.version, operation, str(uuid4()), {})
    return LanceDataset.commit(table, transaction, max_retries=0)


def numbers(schema):
    return {field.name(): field.id() for field in schema.fields()}


def chosen(schema, names):
    """The schema with these fields, in this order, each with the number it has."""
    make, (metadata, *parts) = schema.__reduce__()
    widths = {field.name(): 1 + len(field.children()) for field in schema.fields()}
    parts_of, at = {}, 0
    for name, width in widths.items():
        parts_of[name], at = parts[at : at + width], at + width
    return make(metadata, *(part for name in names for part in parts_of[name]))


def fragments(table):
    return [fragment.metadata for fragment in table.get_fragments()]


def test_a_schema_from_arrow_is_numbered_in_order_whatever_it_requests():
    """Red: re-read "Numbers of columns"."""
    asked = pa.field("a", pa.int32(), metadata={"lance:field_id": "7"})
    assert numbers(LanceSchema.from_pyarrow(pa.schema([asked]))) == {"a": 0}
    nested = pa.schema([SCHEMA.field("id"), SCHEMA.field("b"), SCHEMA.field("c")])
    assert numbers(LanceSchema.from_pyarrow(nested)) == {"id": 0, "b": 1, "c": 3}


def test_a_merge_renames_drops_reorders_and_adds_without_a_file_or_an_update(table):
    """Red: re-read "Columns by number"."""
    table.create_scalar_index("a", "BTREE")
    table.create_scalar_index("c", "BTREE")
    wide = pa.schema([SCHEMA.field("id"), SCHEMA.field("a").with_name("z"), *list(SCHEMA)[2:]])
    wide = wide.append(pa.field("new", pa.float64()))
    schema = chosen(LanceSchema.from_pyarrow(wide), ["id", "b", "new", "z"])
    after = committed(table, LanceOperation.Merge(fragments(table), schema))
    assert after.to_table().to_pydict() == {
        "id": ["x", "y"],
        "b": [["q"], None],
        "new": [None, None],
        "z": [1, None],
    }
    assert [index.field_names for index in after.describe_indices()] == [["z"]]
    assert [f.files for f in fragments(after)] == [f.files for f in fragments(table)]
    updated = after.to_table(columns=["_row_last_updated_at_version"]).column(0)
    assert updated.to_pylist() == [1, 1]


def test_a_merge_does_not_change_whether_a_column_allows_null_and_a_projection_does(table):
    """Red: re-read "Columns and NULL"."""
    relaxed = pa.schema([*list(SCHEMA)[:3], SCHEMA.field("c").with_nullable(True)])
    schema = LanceSchema.from_pyarrow(relaxed)
    with pytest.raises(OSError, match="nullable false -> true"):
        committed(table, LanceOperation.Merge(fragments(table), schema))
    after = committed(table, LanceOperation.Project(schema))
    assert after.schema.field("c").nullable
    back = committed(after, LanceOperation.Project(LanceSchema.from_pyarrow(SCHEMA)))
    assert not back.schema.field("c").nullable


def test_a_reader_of_the_live_rows_of_a_fragment_becomes_a_column(table):
    """Red: re-read "Columns of a fragment"."""
    table.delete("id = 'x'")
    (fragment,) = table.get_fragments()
    batch = pa.record_batch([pa.array([7], pa.int64())], names=["n"])
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    written, schema = fragment.merge_columns(reader)
    after = committed(table, LanceOperation.Merge([written], schema))
    assert after.to_table(columns=["id", "n"]).to_pydict() == {"id": ["y"], "n": [7]}
