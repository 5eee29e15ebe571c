"""Graphs to read and write."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.spark_source import register
from pipeline_source.frames_of_people import PUSHDOWN

SCHEMA = """
node Person {
  key: String @key
  age: I32?
  big: U64?
  small: U32?
  score: F64?
  seen: DateTime?
  born: Date?
  tags: [String]?
  numbers: [U64]?
  place: Vector(2)?
  photo: Blob?
  good: Bool?
}
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: I64? }
"""


def person(number: int) -> dict[str, object]:
    """Values no two people share; some are missing."""
    if number % 4 == 3:
        return {}
    return {
        "age": number,
        "big": 2**64 - 1 - number,
        "small": 2**32 - 1 - number,
        "score": number / 4,
        "seen": f"2024-06-01T12:00:00.{number:03}Z",
        "born": f"1581-01-{number + 1:02}",
        "tags": [f"t{number}", "all"],
        "numbers": [2**64 - 1, number],
        "place": [1.0, float(number)],
        "photo": "base64:aGk=",
        "good": number % 2 == 0,
    }


@pytest.fixture
def graph(tmp_path):
    """People who know each other, with a property of every awkward type."""
    made = omnigraph.init(tmp_path / "people.omni", SCHEMA)
    people = [
        {"type": "Person", "data": person(number) | {"key": f"p{number}"}} for number in range(10)
    ]
    links = [
        {"edge": "Knows", "from": f"p{n}", "to": f"p{n + 1}", "data": {"id": f"k{n}", "since": n}}
        for n in range(9)
    ]
    made.load([*people, *links], "append")
    return made


@pytest.fixture
def empty(tmp_path):
    """The schema without any rows."""
    return omnigraph.init(tmp_path / "empty.omni", SCHEMA)


@pytest.fixture(params=["true", "false"], ids=["push-down on", "push-down off"])
def session(spark, request):
    """The source behaves the same, whether Spark offers filters to sources or not."""
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, request.param)
    register(spark)
    yield spark
    spark.conf.set(PUSHDOWN, before)
    register(spark)
