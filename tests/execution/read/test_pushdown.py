"""A scan's filter and an evaluation in memory keep the same rows, with any index or none."""

from __future__ import annotations

import datetime
import math
import random
from dataclasses import dataclass
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog.catalog import NodeType
from omnigraph.execution.predicates import RowScope, evaluate_mask
from omnigraph.execution.read.pushdown import split
from omnigraph.execution.read.read_context import Given
from omnigraph.execution.read.table_reader import ID, Reader
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_catalog
from omnigraph.plan.expressions import (
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Constant,
    EntityId,
    InList,
    IsNull,
    NotP,
    ParameterValue,
    PropertyValue,
)
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.table import open_newest
from omnigraph.types.arrow import build_entity_schema, to_arrow_type
from omnigraph.types.property import PropertyType, Scalar

SCHEMA = """
node Thing {
  key: String @key
  text: String?  mood: enum(calm, loud)?
  i32: I32?  i64: I64?  u32: U32?  u64: U64?
  f32: F32?  f64: F64?
  flag: Bool?  day: Date?  moment: DateTime?
  order: I64?
  texts: [String]?  i32s: [I32]?  i64s: [I64]?  u32s: [U32]?  u64s: [U64]?
  f32s: [F32]?  f64s: [F64]?  days: [Date]?  moments: [DateTime]?  flags: [Bool]?
}
"""

UTC = datetime.UTC
TEXTS = ["", "a", "A", "a%", "a_b", "%", "_", "it's", "`x`", "\\", "\n", "é", "e\u0301", "🜁", "zz"]
NUMBERS: dict[Scalar, list[Any]] = {
    Scalar.I32: [0, 1, -1, 2**31 - 1, -(2**31), 16777217],
    Scalar.I64: [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), -(2**63) + 1],
    Scalar.U32: [0, 1, 2**32 - 1, 2**31],
    Scalar.U64: [0, 1, 2**53 + 1, 2**63, 2**63 - 1, 2**64 - 1],
    Scalar.F32: [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan]
    + [float(np.float32(x)) for x in (0.1, 16777216.0, 3.4028235e38, 1e-45)],
    Scalar.F64: [0.0, -0.0, 0.1, -0.1, 1.5, 2.0**53, 2.0**63, 1e300, 5e-324]
    + [sign * math.inf for sign in (1, -1)]
    + [math.nan],
}
DAYS = [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(1970, 1, 1)]
DAYS += [datetime.date(2024, 2, 29), datetime.date(9999, 12, 31)]
MOMENTS = [
    datetime.datetime(1, 1, 1, tzinfo=UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 1000, tzinfo=UTC),
    datetime.datetime(1970, 1, 1, tzinfo=UTC),
    datetime.datetime(2024, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
]
POOL: dict[Scalar, list] = {
    **NUMBERS,
    Scalar.STRING: TEXTS,
    Scalar.BOOL: [False, True],
    Scalar.DATE: DAYS,
    Scalar.DATETIME: MOMENTS,
}
ROWS = 240
INDEXED = ["id", "text", "i32", "i64", "u32", "u64", "f32", "f64", "flag", "day", "moment"]


@dataclass(frozen=True)
class Tables:
    type_: NodeType
    readers: dict[str, Reader]


def _values(type_: PropertyType, draw: random.Random) -> list:
    pool = ["calm", "loud"] if type_.is_enum else POOL[type_.scalar]
    if type_.is_list:
        return [
            None
            if draw.random() < 0.2
            else [draw.choice([*pool, None]) for _ in range(draw.randrange(4))]
            for _ in range(ROWS)
        ]
    return [draw.choice([*pool, None]) for _ in range(ROWS)]


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Tables:
    type_ = compile_catalog(SourceText(SCHEMA, "s.pg")).nodes["Thing"]
    schema, draw = build_entity_schema(type_.kind, type_.properties), random.Random(7)
    columns = {"id": [f"t{i:03d}" for i in range(ROWS)]}
    columns |= {p.name: _values(p.type, draw) for p in type_.properties}
    columns["key"] = columns["id"]
    rows = pa.table({f.name: pa.array(columns[f.name], f.type) for f in schema}, schema=schema)
    folder, readers = tmp_path_factory.mktemp("pushdown"), {}
    for name in ("none", "some", "all"):
        uri = str(folder / name)
        first = rows if name == "all" else rows.slice(0, ROWS // 2)
        made = lance.write_dataset(
            first, uri, data_storage_version="2.2", enable_stable_row_ids=True
        )
        if name != "none":
            for column in INDEXED:
                made.create_scalar_index(column, "BTREE")
        if name != "all":
            lance.write_dataset(rows.slice(ROWS // 2), uri, mode="append")
        readers[name] = Reader(open_newest(TableLocation(uri)), type_, ROWS)
    return Tables(type_, readers)


# --- predicates -----------------------------------------------------------------------------------

ORDERED = [Comparator.EQ, Comparator.NE, Comparator.LT, Comparator.LE, Comparator.GT, Comparator.GE]
TEXTUAL = [Comparator.CONTAINS, Comparator.STARTS_WITH, Comparator.ENDS_WITH]
TYPES = {
    p.name: p.type for p in compile_catalog(SourceText(SCHEMA, "s.pg")).nodes["Thing"].properties
}
PLAIN = sorted(name for name, type_ in TYPES.items() if not type_.is_list)
LISTS = sorted(name for name, type_ in TYPES.items() if type_.is_list)
NUMERIC = [scalar for scalar in Scalar if scalar in NUMBERS]


def constants(scalar: Scalar) -> st.SearchStrategy:
    """A constant that may be compared with a scalar, perhaps of another type of number."""
    if scalar in NUMBERS:
        choice = st.sampled_from(NUMERIC).flatmap(
            lambda kind: st.tuples(st.just(kind), _numbers(kind))
        )
    else:
        values = st.sampled_from(POOL[scalar])
        if scalar is Scalar.STRING:
            values = values | st.text(max_size=3)
        choice = st.tuples(st.just(scalar), values)
    return choice


def _numbers(kind: Scalar) -> st.SearchStrategy:
    known = st.sampled_from(NUMBERS[kind])
    match kind:
        case Scalar.F64:
            return known | st.floats(width=64)
        case Scalar.F32:
            return known | st.floats(width=32)
        case _:
            return known | st.integers(-3, 3).filter(
                lambda n: n >= 0 or kind not in (Scalar.U32, Scalar.U64)
            )


@st.composite
def leaves(draw):
    kind = draw(st.sampled_from(["compare", "mirrored", "in", "null", "has", "text", "id"]))
    if kind == "has":
        name = draw(st.sampled_from(LISTS))
        scalar, value = draw(constants(TYPES[name].scalar))
        return Compare(_property(name), Comparator.HAS, Constant(value, PropertyType(scalar)))
    if kind == "text":
        op, value = (
            draw(st.sampled_from(TEXTUAL)),
            draw(st.sampled_from(TEXTS) | st.text(max_size=2)),
        )
        return Compare(_property("text"), op, Constant(value, PropertyType(Scalar.STRING)))
    if kind == "null":
        return IsNull(_property(draw(st.sampled_from(PLAIN + LISTS))))
    if kind == "id":
        op, value = draw(st.sampled_from(ORDERED)), f"t{draw(st.integers(0, ROWS)):03d}"
        return Compare(EntityId("t"), op, Constant(value, PropertyType(Scalar.STRING)))
    name = draw(st.sampled_from(PLAIN))
    if kind == "in":
        scalar, _ = draw(constants(TYPES[name].scalar))
        pool = _numbers(scalar) if scalar in NUMBERS else constants(scalar).map(lambda c: c[1])
        items = draw(st.lists(st.none() | pool, max_size=4))
        return InList(_property(name), Constant(tuple(items), PropertyType(scalar, is_list=True)))
    scalar, value = draw(constants(TYPES[name].scalar))
    other = Constant(draw(st.sampled_from([value, value, value, None])), PropertyType(scalar))
    sides = (_property(name), other) if kind == "compare" else (other, _property(name))
    return Compare(sides[0], draw(st.sampled_from(ORDERED)), sides[1])


def _property(name: str) -> PropertyValue:
    return PropertyValue("t", name, TYPES[name])


predicates = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        inner.map(NotP),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: AllOf(tuple(items))),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: AnyOf(tuple(items))),
    ),
    max_leaves=5,
)

GIVEN = Given({}, MOMENTS[3])


def in_memory(reader: Reader, predicate) -> list[str]:
    rows = reader.table.scan()

    def column(_variable: str, name: str) -> pa.Array:
        return rows.column(name).combine_chunks()

    mask = evaluate_mask(predicate, RowScope(rows.num_rows, column, {}, GIVEN.now))
    return sorted(rows.column("id").filter(mask).to_pylist())


def in_the_scan(reader: Reader, predicate) -> list[str]:
    parts = split([predicate], reader, GIVEN)
    found = set(reader.read([ID], parts.filter).column(ID).to_pylist())
    for part in parts.rest:
        found &= set(in_memory(reader, part))
    return sorted(found)


@given(predicates)
def test_a_scan_keeps_what_memory_keeps(tables, predicate):
    expected = in_memory(tables.readers["none"], predicate)
    for name, reader in tables.readers.items():
        assert in_the_scan(reader, predicate) == expected, name


@given(leaves())
def test_nearly_every_comparison_is_left_to_the_scan(tables, leaf):
    if isinstance(leaf, InList) or (isinstance(leaf, Compare) and leaf.op is Comparator.HAS):
        return  # lists with a zero, which equals the other zero, are compared in memory
    assert split([leaf], tables.readers["none"], GIVEN).rest == ()


@pytest.mark.parametrize("op", ORDERED, ids=str)
@pytest.mark.parametrize("name", sorted(n for n in PLAIN if TYPES[n].scalar in NUMBERS))
def test_numbers_at_the_edges_of_their_types(tables, name, op):
    for scalar in NUMERIC:
        for value in NUMBERS[scalar]:
            predicate = Compare(_property(name), op, Constant(value, PropertyType(scalar)))
            for shown in (predicate, NotP(predicate)):
                expected = in_memory(tables.readers["none"], shown)
                assert in_the_scan(tables.readers["all"], shown) == expected, (value, shown)


def test_a_parameter_and_now_are_constants_to_a_scan(tables):
    type_ = PropertyType(Scalar.I64)
    predicate = Compare(_property("i64"), Comparator.GT, ParameterValue("n", type_))
    parts = split([predicate], tables.readers["none"], Given({"n": 2**53}, GIVEN.now))
    assert parts.filter == "`i64` >= 9007199254740993"
    assert parts.rest == ()


def test_a_value_in_neither_of_two_lists_is_not_null(tables):
    def among(*values: int) -> InList:
        return InList(_property("i32"), Constant(values, PropertyType(Scalar.I32, is_list=True)))

    predicate = AnyOf((NotP(among(0)), NotP(among(1))))
    expected = in_memory(tables.readers["none"], predicate)
    assert in_the_scan(tables.readers["none"], predicate) == expected
    assert len(expected) < ROWS


def test_text_is_quoted_and_never_read_as_a_condition(tables):
    for text in ("' OR TRUE --", "'; DROP", "\\' OR 1=1", "%' OR '1'='1"):
        value = Constant(text, PropertyType(Scalar.STRING))
        for op in (Comparator.EQ, Comparator.CONTAINS):
            predicate = Compare(_property("text"), op, value)
            assert in_the_scan(tables.readers["none"], predicate) == []


def test_arrow_types_cover_every_property(tables):
    for name, type_ in TYPES.items():
        assert tables.readers["none"].arrow_type(name) == to_arrow_type(type_)
