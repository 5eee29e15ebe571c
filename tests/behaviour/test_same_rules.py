"""Every way to write rows applies the same rules and words what they find the same."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass

import pytest

import omnigraph
from behaviour.served_copies import ServedCopy, token_of
from omnigraph.errors import ConstraintViolated, KeyConflict, OmniError, RowsRejected
from pipeline.load_engines import load
from pipeline.random_loads import normal

SCHEMA = """
node Person {
  name: String @key  age: I64?  mood: enum(calm, wild)?  code: String?  mail: String? @unique
  first: String?  last: String?  rank: F64? @unique
  photo: Blob?
  @range(age, 0..120)  @check(code, "^[ab]+$")  @unique(first, last)
}
node Slot { row: I32  seat: I32  note: String?  @key(row, seat) }
node Note { slug: String @key  text: String  vector: Vector(3) @embed("text") }
edge Knows: Person -> Person @card(0..2) { since: I32?  @range(since, ..2000) }
edge Holds: Person -> Slot @card(1..1) { note: String? @unique }
"""

MINTED = re.compile(r"\b01[0-9A-Z]{24}\b")
"""An id that the write created, and that differs with every write."""


def person(name: str, **data: object) -> dict:
    return {"type": "Person", "data": {"name": name, **data}}


def slot(row: int, seat: int, **data: object) -> dict:
    return {"type": "Slot", "data": {"row": row, "seat": seat, **data}}


def note(slug: str, **data: object) -> dict:
    return {"type": "Note", "data": {"slug": slug, "text": "tides", **data}}


def knows(source: str, target: str, **data: object) -> dict:
    return {"edge": "Knows", "from": source, "to": target, "data": data}


def holds(source: str, target: str, **data: object) -> dict:
    return {"edge": "Holds", "from": source, "to": target, "data": data}


BASE = [
    person("ada", mail="a@x", first="A", last="L", rank=0.0),
    person("ben", mail="b@x"),
    slot(1, 1),
    slot(1, 2),
    knows("ada", "ben", id="k1"),
    holds("ada", '["1","1"]', id="h1", note="mine"),
]

GOOD = {
    "new rows": [person("cy", age=120, mood="calm", code="ab"), slot(2, 1), person("dee")],
    "null is not unique": [person("cy", mail=None, first="A"), person("dee", mail=None, first="A")],
    "a replaced row frees its value": [person("ada", mail="n@x"), person("cy", mail="a@x")],
    "a row keeps its own value": [person("ben", mail="b@x", age=3)],
}
"""Records of nodes that fit: a merge and a mutation write the same rows."""

BROKEN = {
    "above the range": [person("cy", age=121)],
    "below the range": [person("cy", age=1), person("dee", age=-1)],
    "pattern": [person("cy", code="abc")],
    "unique in the input": [person("cy", mail="c@x"), person("dee", mail="c@x")],
    "unique in the graph": [person("cy", mail="a@x")],
    "unique pair": [person("cy", first="A", last="L")],
    "both zeros are one number": [person("cy", rank=-0.0)],
    "unique of edges": [holds("ben", '["1","2"]', note="mine")],
    "range of edges": [knows("ben", "ada", since=2001)],
    "no source": [knows("nobody", "ada")],
    "no target": [knows("ben", "nobody")],
    "neither end": [knows("nobody", "nowhere")],
    "target of a composite key": [holds("ben", '["9","9"]')],
    "too many in the input": [knows("ben", "ada"), knows("ben", "ben"), knows("ben", "ada")],
    "too many in the graph": [holds("ada", '["1","2"]')],
    "several rules": [person("cy", age=121, code="c"), person("dee", age=-1, mail="a@x")],
    "rules of several types": [person("cy", age=121), knows("ben", "nobody", since=2001)],
}
"""Records of which a rule refuses some, in a merge as in a mutation."""

LOADED = {
    "enum": ("merge", [person("cy", mood="odd")]),
    "key given twice": ("merge", [person("cy"), person("dee"), person("cy", age=1)]),
    "composite key given twice": ("merge", [slot(3, 1), slot(3, 1, note="n")]),
    "id beside the key": ("merge", [person("cy", id="other")]),
    "id given twice": ("append", [knows("ben", "ada", id="k2"), knows("ben", "ben", id="k2")]),
    "key is taken": ("append", [person("cy"), person("ada")]),
    "id is taken": ("append", [knows("ben", "ada", id="k2"), knows("ben", "ben", id="k1")]),
    "broken and taken": ("append", [person("ada"), person("cy", age=121)]),
    "no value": ("merge", [{"type": "Slot", "data": {"row": 1}}]),
    "another kind of value": ("merge", [person("cy", age="old"), person("dee", size=1)]),
    "address of a blob": ("merge", [person("cy", photo="s3://b/k")]),
    "address and taken": ("append", [person("ada", photo="s3://b/k")]),
    "address and broken": ("merge", [person("cy", photo="s3://b/k", age=121)]),
    "no vector": ("merge", [note("a"), note("b", vector=[1, 2, 3])]),
    "no vector, and given twice": ("merge", [note("a"), note("a", vector=[1, 2, 3])]),
    "no vector, and another id": ("merge", [note("a"), note("b", vector=[1, 2, 3], id="c")]),
    "ends are replaced": ("overwrite", [person("ada")]),
    "too few are left": ("overwrite", [holds("ben", '["1","2"]')]),
}
"""Records that only a load can have."""


@dataclass(frozen=True)
class Ended:
    """Rows of the graph after a write, and what was refused; without places in the input."""

    rows: tuple[str, ...]
    error: tuple | None = None


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    place = tmp_path_factory.mktemp("rules") / "base.omni"
    with omnigraph.init(place, SCHEMA) as graph:
        graph.load(BASE, "append")
    return place


def end(graph, write, *, has_lines: bool = True) -> Ended:
    error = None
    try:
        write(graph)
    except OmniError as raised:
        error = describe(raised, has_lines=has_lines)
    return Ended(tuple(normal(graph.export())), error)


def describe(error: OmniError, *, has_lines: bool) -> tuple:
    match error:
        case RowsRejected():
            found = [(p.code, p.type_key, p.id, p.line, p.reason) for p in error.problems]
            return error.code, error.total, found
        case ConstraintViolated():
            found = [
                (
                    str(v.kind),
                    v.type_key,
                    v.id and MINTED.sub("minted", v.id),
                    v.line if has_lines else None,
                    MINTED.sub("minted", v.message if has_lines else drop_lines(v.message)),
                )
                for v in error.violations
            ]
            return error.code, error.total, found
        case KeyConflict():
            return error.code, error.table_key, error.id, error.line, error.message
        case _:
            return type(error).__name__, error.message


def drop_lines(message: str) -> str:
    return message.partition(", in line")[0]


def load_by(engine: str, template, place, records: list[dict], mode: str) -> Ended:
    shutil.copytree(template, place)
    with omnigraph.open(place) as graph:
        return end(graph, lambda g: load(g, encode(records), mode, engine))


def load_over_http(records: list[dict], mode: str) -> Ended:
    served = ServedCopy.take(SCHEMA, copies=64)
    with omnigraph.connect(served.url, token=token_of("act")) as graph:
        graph.load(encode(BASE), "append")
        return end(graph, lambda g: g.load(encode(records), mode))


def mutate(template, place, records: list[dict]) -> Ended:
    shutil.copytree(template, place)
    text = "query q() { " + " ".join(map(write_insert, records)) + " }"
    with omnigraph.open(place) as graph:
        return end(graph, lambda g: g.mutate(text), has_lines=False)


def write_insert(record: dict) -> str:
    given = {key: record[key] for key in ("from", "to") if key in record} | record["data"]
    assigned = "  ".join(f"{key}: {json.dumps(value)}" for key, value in given.items())
    return f"insert {record.get('type') or record['edge']} {{ {assigned} }}"


def encode(records: list[dict]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def without_lines(ended: Ended) -> Ended:
    """The errors of a write without lines for the same rows."""
    if ended.error is None:
        return ended
    code, total, found = ended.error
    stripped = [(kind, key, id, None, drop_lines(text)) for kind, key, id, _, text in found]
    return Ended(ended.rows, (code, total, stripped))


CASES = {name: ("merge", records) for name, records in (GOOD | BROKEN).items()} | LOADED


@pytest.mark.parametrize("name", CASES)
def test_loads_of_every_size_end_the_same(name, template, tmp_path):
    mode, records = CASES[name]
    small = load_by("small", template, tmp_path / "small.omni", records, mode)
    assert (small.error is None) == (name in GOOD)
    assert load_by("inline", template, tmp_path / "inline.omni", records, mode) == small
    assert load_over_http(records, mode) == small


@pytest.mark.parametrize("name", [*GOOD, *BROKEN])
def test_a_mutation_ends_as_a_load_of_its_rows(name, template, tmp_path):
    records = CASES[name][1]
    small = load_by("small", template, tmp_path / "small.omni", records, "merge")
    assert mutate(template, tmp_path / "mutated.omni", records) == without_lines(small)


def test_loads_on_spark_end_the_same(spark, template, tmp_path):
    for number, (mode, records) in enumerate(CASES.values()):
        places = [tmp_path / f"{number}-{engine}.omni" for engine in ("small", "spark")]
        small = load_by("small", template, places[0], records, mode)
        assert load_by("spark", template, places[1], records, mode) == small, records
