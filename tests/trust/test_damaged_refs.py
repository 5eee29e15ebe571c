"""The record of a branch with other content than we write: a typed error from every verb."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ManifestCorrupt

SCHEMA = "node Person { name: String @key }"
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
INSERT = 'query q() { insert Person { name: "new" } }'

DAMAGE = {
    "another name": {"name": "other"},
    "no name": {"name": None},
    "a path as incarnation": {"incarnation": "../../elsewhere"},
    "no incarnation": {"incarnation": None},
    "an incarnation that is a number": {"incarnation": 7},
    "a broken incarnation": {"incarnation": "01J9Z3N8Q4"},
    "a broken parent incarnation": {"parent_incarnation": "x"},
    "main with an incarnation as parent": {"parent_incarnation": "01J9Z3N8Q4X7Y2K5M6P0R1S3T8"},
    "another parent without an incarnation": {"parent": "elsewhere"},
    "no parent": {"parent": None},
    "a negative version": {"fork_version": -1},
    "a version that is a text": {"fork_version": "seven"},
    "a time that is a text": {"created_at": "now"},
    "an actor that is a list": {"actor_id": ["x"]},
}


@pytest.fixture
def ref(tmp_path) -> Path:
    with omnigraph.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.mutate('query q() { insert Person { name: "Ada" } }')
        graph.create_branch("side")
    return tmp_path / "g.omni" / "_refs" / "branches" / "side.json"


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_record_is_named_by_every_verb_that_needs_it(ref, damage):
    ref.write_text(json.dumps(json.loads(ref.read_text()) | damage))
    with omnigraph.open(ref.parents[2]) as graph:
        for verb in (
            lambda: graph.query(COUNT, branch="side"),
            lambda: graph.mutate(INSERT, branch="side"),
            lambda: graph.create_branch("more", source="side"),
            lambda: graph.delete_branch("side"),
            lambda: graph.cleanup(keep=1, confirm=True),
        ):
            with pytest.raises(ManifestCorrupt, match=r"_refs/branches/side\.json"):
                verb()
        assert graph.query(COUNT).rows == [{"n": 1}]


NO_RECORDS = [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"p\xe1rent": "main"}', b"[" * 100_000]


@pytest.mark.parametrize("content", NO_RECORDS, ids=lambda content: repr(content[:20]))
def test_a_record_that_is_not_json_is_named(ref, content):
    ref.write_bytes(content)
    with omnigraph.open(ref.parents[2]) as graph, pytest.raises(ManifestCorrupt, match="side"):
        graph.query(COUNT, branch="side")
