"""Grouping, aggregating and ordering agree with the same thing done in plain Python."""

from __future__ import annotations

import math
import random
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execution.read.query_runner import Reading, make_graph

SCHEMA = """
node Thing {
  key: String @key
  word: String?  small: I32?  wide: I64?  huge: U64?  real: F64?  flag: Bool?  day: Date?
  words: [String]?
}
"""
ROWS = 150
COLUMNS = ["word", "small", "wide", "huge", "real", "flag", "day"]
NUMERIC = ["small", "wide", "huge", "real"]
EXAMPLES = settings(max_examples=60)


def _thing(number: int, draw: random.Random) -> dict[str, object]:
    pools = {
        "word": ["", "a", "b", "é", "Z", "zz"],
        "small": [0, 1, -1, 2**31 - 1],
        "wide": [0, -(2**63), 2**63 - 1, 2**53 + 1, 7],
        "huge": [0, 2**64 - 1, 2**63, 9],
        "real": [0.0, -0.0, 1.5, -1.5, 1e300, 0.1],
        "flag": [True, False],
        "day": ["1969-12-31", "2024-02-29", "0001-01-01"],
        "words": [[], ["a"], ["a", "b"], ["b", "a"], ["a,b"], ["", ""]],
    }
    data = {name: draw.choice([*pool, None]) for name, pool in pools.items()}
    return {"key": f"t{number:03d}"} | data


@pytest.fixture(scope="module")
def things(tmp_path_factory) -> tuple[Reading, list[dict[str, object]]]:
    draw = random.Random(11)
    rows = [_thing(number, draw) for number in range(ROWS)]
    path = tmp_path_factory.mktemp("things") / "g.omni"
    make_graph(path, SCHEMA, [{"type": "Thing", "data": row} for row in rows])
    return Reading(str(path)), rows


def as_json(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


def total(value: object) -> tuple:
    """A key in the order of values: NULL first, both zeros level."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, value.encode())
    return (1, value)


def group_key(value: object) -> object:
    if isinstance(value, float):
        return value + 0.0
    return tuple(value) if isinstance(value, list) else value


def compute(function: str, values: list) -> object:
    known = [value for value in values if value is not None]
    match function:
        case "count":
            return len(known)
        case "count(distinct":
            return len({group_key(v) for v in known})
        case "sum":
            if not known:
                return None
            exact = not any(isinstance(v, float) for v in known)
            return float(sum(known)) if exact else math.fsum(known)
        case "avg":
            return float(sum(known)) / len(known) if known else None
        case "min":
            return min(known, key=total) if known else None
        case "max":
            return max(known, key=total) if known else None
        case _:
            raise AssertionError(function)


@st.composite
def aggregates(draw) -> tuple[str, str]:
    function = draw(st.sampled_from(["count", "count(distinct", "sum", "avg", "min", "max"]))
    numbers = NUMERIC if function in ("sum", "avg") else COLUMNS
    return function, draw(st.sampled_from(numbers))


@EXAMPLES
@given(
    st.lists(st.sampled_from([*COLUMNS, "words"]), unique=True, max_size=2),
    st.lists(aggregates(), min_size=1, max_size=3),
    st.booleans(),
)
def test_groups_and_aggregates(things, keys, functions, empty):
    reading, rows = things
    condition = '$t.key = "nobody"' if empty else ""
    shown = [f"$t.{key} as k{i}" for i, key in enumerate(keys)]
    for i, (function, column) in enumerate(functions):
        call = f"count(distinct $t.{column})" if "(" in function else f"{function}($t.{column})"
        shown.append(f"{call} as f{i}")
    found = reading.rows(f"match {{ $t: Thing {condition} }} return {{ {', '.join(shown)} }}")
    groups: dict[tuple, list[dict]] = {} if keys else {(): []}
    for row in [] if empty else rows:
        groups.setdefault(tuple(group_key(row[key]) for key in keys), []).append(row)
    shown_keys = [tuple(group_key(row[f"k{i}"]) for i in range(len(keys))) for row in found]
    assert sorted(shown_keys, key=repr) == sorted(groups, key=repr)
    if "words" not in keys:
        assert shown_keys == sorted(groups, key=lambda key: [total(value) for value in key])
    for answer, values in zip(found, shown_keys, strict=True):
        members = groups[values]
        for i, (function, column) in enumerate(functions):
            expected = compute(function, [member[column] for member in members])
            if isinstance(expected, float):
                assert answer[f"f{i}"] == pytest.approx(expected, rel=1e-12)
            else:
                assert answer[f"f{i}"] == expected


@EXAMPLES
@given(
    st.lists(st.tuples(st.sampled_from(COLUMNS), st.booleans()), max_size=3),
    st.none() | st.integers(0, ROWS + 5),
    st.none() | st.integers(0, ROWS + 5),
)
def test_rows_are_put_in_a_total_order(things, keys, limit, offset):
    reading, rows = things
    ordering = ", ".join(f"$t.{name} {'desc' if down else 'asc'}" for name, down in keys)
    query = "match { $t: Thing } return { $t.key }"
    query += f" order {{ {ordering} }}" if keys else ""
    query += f" limit {limit}" if limit is not None else ""
    query += f" offset {offset}" if offset is not None else ""
    expected = in_order(rows, keys)
    start = offset or 0
    stop = None if limit is None else start + limit
    assert reading.column(query) == [row["key"] for row in expected[start:stop]]


def in_order(rows, keys):
    """Sorted by each key in turn; reversing twice preserves the order of equal rows."""
    ordered = sorted(rows, key=lambda row: row["key"])
    for name, down in reversed(keys):
        if down:
            ordered.reverse()
            ordered.sort(key=lambda row: total(row[name]))
            ordered.reverse()
        else:
            ordered.sort(key=lambda row: total(row[name]))
    return ordered


@EXAMPLES
@given(st.lists(st.sampled_from([*COLUMNS, "words"]), min_size=1, max_size=3, unique=True))
def test_distinct_rows(things, names):
    reading, rows = things
    columns = ", ".join(f"$t.{name}" for name in names)
    found = reading.tuples(f"match {{ $t: Thing }} return distinct {{ {columns} }}")
    keys = [tuple(group_key(value) for value in row) for row in found]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {tuple(group_key(row[name]) for name in names) for row in rows}
    if "words" not in names:
        assert keys == sorted(keys, key=lambda key: [total(value) for value in key])
