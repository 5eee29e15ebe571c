"""Every mistake of a record: refused by every engine with the same error and position."""

from __future__ import annotations

import json

import pytest

import omnigraph
from omnigraph.errors import OmniError
from pipeline.load_engines import described, load

SCHEMA = """
node Artist { slug: String @key  name: String  born: I32?  genres: [String]?
              mood: enum(calm, wild)?  code: String?  alive: Bool?  big: U64?  small: U32?
              wide: I64?  height: F32?  score: F64?  day: Date?  at: DateTime?
              vibe: Vector(3)?  cover: Blob?  nick: String? @unique
              @range(born, 1900..2020)  @check(code, "^[a-z]+$") }
node Take { studio: String  number: U32  @key(studio, number) }
node Loose { note: String? }
edge Made: Artist -> Artist @card(0..1) { since: Date? }
edge Lonely: Loose -> Loose
"""
BASE = [
    {"type": "Artist", "data": {"slug": "ada", "name": "Ada", "nick": "a"}},
    {"type": "Artist", "data": {"slug": "ben", "name": "Ben"}},
    {"type": "Loose", "data": {"id": "l1"}},
    {"edge": "Made", "from": "ada", "to": "ben", "data": {"id": "m1"}},
]
GOOD = '{"type":"Artist","data":{"slug":"good","name":"G"}}'


def artist(**data: object) -> str:
    return json.dumps({"type": "Artist", "data": {"slug": "h", "name": "H"} | data})


def made(**data: object) -> str:
    return json.dumps({"edge": "Made", "from": "ben", "to": "ada"} | data)


BAD_RECORDS = {
    "not JSON": "{",
    "two values": GOOD + GOOD,
    "a comment": "// no",
    "an array": "[1]",
    "a number": "7",
    "null": "null",
    "NaN": '{"type":"Artist","data":{"slug":"h","name":"H","score":NaN}}',
    "a control character": '{"type":"Artist","data":{"slug":"a\x01b","name":"H"}}',
    "a lone surrogate": '{"type":"Artist","data":{"slug":"\\ud800","name":"H"}}',
    "a member twice": '{"type":"Artist","data":{"slug":"h","name":"H","name":"I"}}',
    "a type twice": '{"type":"Artist","type":"Artist","data":{"slug":"h","name":"H"}}',
    "both kinds": '{"type":"Artist","edge":"Made"}',
    "neither kind": '{"data":{}}',
    "an unknown node type": '{"type":"Nobody","data":{}}',
    "a node type in other case": '{"type":"artist","data":{"slug":"h","name":"H"}}',
    "an unknown edge type": '{"edge":"Nothing","from":"a","to":"b"}',
    "an unknown member": '{"type":"Artist","data":{"slug":"h","name":"H"},"extra":1}',
    "an unknown property": artist(age=3),
    "an id that is no string": artist(id=3),
    "data that is no object": '{"type":"Artist","data":[]}',
    "a type that is no string": '{"type":3,"data":{}}',
    "an edge without from": '{"edge":"Made","to":"ada"}',
    "an edge without to": '{"edge":"Made","from":"ada"}',
    "an end that is no string": made(**{"from": 3}),
    "src in edge data": made(data={"src": "ada"}),
    "dst in edge data": made(data={"dst": "ada"}),
    "a reserved name": artist(_rowid=1),
    "a tombstone": artist(_tombstone=True),
    "a missing key": '{"type":"Artist","data":{"name":"H"}}',
    "a missing property": '{"type":"Artist","data":{"slug":"h"}}',
    "a null property": artist(name=None),
    "a number for a string": artist(name=3),
    "a bool for a string": artist(name=True),
    "a string for an integer": artist(born="1990"),
    "a float for an integer": artist(born=3.0),
    "a large I32": artist(born=2**31),
    "a large I64": artist(wide=2**63),
    "a negative U32": artist(small=-1),
    "a large U64": artist(big=2**64),
    "a large F32": artist(height=1e39),
    "a string for a float": artist(score="1"),
    "one for a bool": artist(alive=1),
    "a bad date": artist(day="2021-02-29"),
    "a date in words": artist(day="today"),
    "a bad time": artist(at="2021-01-01T25:00:00Z"),
    "a scalar for a list": artist(genres="dub"),
    "a null item": artist(genres=["a", None]),
    "a wrong item": artist(genres=["a", 3]),
    "a short vector": artist(vibe=[1, 2]),
    "a long vector": artist(vibe=[1, 2, 3, 4]),
    "a null in a vector": artist(vibe=[1, None, 3]),
    "a word in a vector": artist(vibe=[1, "x", 3]),
    "bad base64": artist(cover="base64:%%"),
    "a number for a blob": artist(cover=3),
    "an id that is not the key": artist(id="x"),
    "several mistakes at once": artist(born="x", alive=1, name=None),
    "a value out of range": artist(born=1899),
    "no match of a pattern": artist(code="A1"),
    "no member of an enum": artist(mood="odd"),
    "a nickname that is taken": artist(nick="a"),
    "an end that is not there": made(to="nobody"),
    "too many edges": '{"edge":"Made","from":"ada","to":"ada"}',
    "an address for a blob": artist(cover="s3://b/k"),
    "a key that is there": '{"type":"Artist","data":{"slug":"ada","name":"X"}}',
    "an id that is there": '{"type":"Loose","data":{"id":"l1"}}',
}
BAD_FILES = {
    "one key twice": [artist(), artist(name="other")],
    "one composite key twice": ['{"type":"Take","data":{"studio":"s","number":1}}'] * 2,
    "one id twice": ['{"type":"Loose","data":{"id":"x"}}'] * 2,
    "one nickname twice": [artist(nick="n"), artist(slug="i", nick="n")],
    "mistakes in several lines": ["{", artist(born="x"), "{", artist(age=1)],
    "mismatches and repeats": [
        artist(id="x"),
        *['{"type":"Take","data":{"studio":"s","number":1}}'] * 2,
    ],
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    graph = omnigraph.init(tmp_path_factory.mktemp("bad") / "base.omni", SCHEMA)
    graph.load(BASE, "append")
    return graph


def verdict(graph, data: bytes, engine: str) -> tuple:
    head = graph.commits()[0].commit_id
    with pytest.raises(OmniError) as refused:
        load(graph, data, "append", engine)
    assert graph.commits()[0].commit_id == head, "a refused load leaves nothing"
    return described(refused.value)


def as_file(lines: list[str]) -> bytes:
    """The lines between good ones, so that places have to be right."""
    return "\n".join([GOOD, *lines, ""]).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_a_bad_record_is_refused_alike(base, name):
    data = as_file([BAD_RECORDS[name]])
    small = verdict(base, data, "small")
    assert verdict(base, data, "inline") == small
    assert "line=2" in repr(small) or small[0] in ("key", "ExternalBlobPolicy"), small


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_alike(base, name):
    data = as_file(BAD_FILES[name])
    assert verdict(base, data, "inline") == verdict(base, data, "small")
