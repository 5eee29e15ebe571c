"""Property types as Arrow types, and the schema of a table."""

import pickle
from dataclasses import dataclass

import pyarrow as pa
import pytest

from omnigraph.catalog.catalog import Property
from omnigraph.identity import EntityKind, PropertyId
from omnigraph.types.arrow import (
    BLOB,
    build_entity_schema,
    get_property_id,
    to_arrow_field,
    to_arrow_type,
)
from omnigraph.types.jsonl_records import LineOptions, PropertySpec, TypeSpec
from omnigraph.types.property import PropertyType, Scalar
from omnigraph.types.row_problems import ProblemCode, ValueRefused

TYPES = {
    "String": (PropertyType(Scalar.STRING), pa.string()),
    "enum": (PropertyType(Scalar.STRING, enum_values=("a", "b")), pa.string()),
    "Bool": (PropertyType(Scalar.BOOL), pa.bool_()),
    "I32": (PropertyType(Scalar.I32), pa.int32()),
    "I64": (PropertyType(Scalar.I64), pa.int64()),
    "U32": (PropertyType(Scalar.U32), pa.uint32()),
    "U64": (PropertyType(Scalar.U64), pa.uint64()),
    "F32": (PropertyType(Scalar.F32), pa.float32()),
    "F64": (PropertyType(Scalar.F64), pa.float64()),
    "Date": (PropertyType(Scalar.DATE), pa.date32()),
    "DateTime": (PropertyType(Scalar.DATETIME), pa.timestamp("ms", tz="UTC")),
    "Vector": (PropertyType(Scalar.VECTOR, dimension=3), pa.list_(pa.float32(), 3)),
    "Blob": (PropertyType(Scalar.BLOB), BLOB),
    "list": (PropertyType(Scalar.DATE, is_list=True), pa.list_(pa.date32())),
}


@pytest.mark.parametrize(("type", "expected"), TYPES.values(), ids=TYPES)
def test_every_property_type_has_its_arrow_type(type, expected):
    assert to_arrow_type(type) == expected


def test_items_of_lists_and_vectors_may_be_null():
    for name in ("Vector", "list"):
        assert to_arrow_type(TYPES[name][0]).value_field.nullable


def a_property(id: int, name: str, *, nullable: bool = False) -> Property:
    return Property(PropertyId(id), name, PropertyType(Scalar.I64, nullable=nullable))


def test_a_column_carries_its_nullability_and_its_property_id():
    field = to_arrow_field(a_property(7, "age", nullable=True))
    assert field.nullable
    assert field.metadata == {b"omnigraph.stable_property_id": b"7"}
    assert get_property_id(field) == 7
    assert get_property_id(pa.field("id", pa.string())) is None


def test_a_node_table_holds_the_id_and_then_the_properties_by_name():
    schema = build_entity_schema(EntityKind.NODE, [a_property(2, "b"), a_property(1, "a")])
    assert schema.names == ["id", "a", "b"]
    assert schema.field("id") == pa.field("id", pa.string(), nullable=False)


def test_an_edge_table_holds_its_ends_behind_the_id():
    schema = build_entity_schema(EntityKind.EDGE, [a_property(9, "weight", nullable=True)])
    assert schema.names == ["id", "src", "dst", "weight"]
    assert [field.nullable for field in schema] == [False, False, False, True]


def test_values_sent_to_other_processes_can_be_pickled():
    spec = TypeSpec("A", EntityKind.NODE, (PropertySpec("p", PropertyType(Scalar.I64)),))
    refused = ValueRefused("no", ProblemCode.LIMIT)
    for value in (spec, LineOptions(partial=True)):
        assert pickle.loads(pickle.dumps(value)) == value
    copy = pickle.loads(pickle.dumps(refused))
    assert (copy.reason, copy.problem) == ("no", ProblemCode.LIMIT)


@dataclass(frozen=True)
class NamedColumn:
    id: int
    name: str
    type: PropertyType


def test_anything_with_an_id_a_name_and_a_type_makes_a_column():
    assert to_arrow_field(NamedColumn(3, "x", PropertyType(Scalar.BOOL))).type == pa.bool_()
