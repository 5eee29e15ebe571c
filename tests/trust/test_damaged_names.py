"""Records of tags, consumers and requests, and marks of branches, that are damaged or lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ManifestCorrupt

SCHEMA = "node A { k: String @key }"


@pytest.fixture
def graph(tmp_path: Path) -> omnigraph.Graph:
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    graph.tag("v1")
    graph.set_consumer("index")
    return graph


def record(graph: omnigraph.Graph, kind: str) -> Path:
    (found,) = (Path(graph.uri) / "_refs" / kind).iterdir()
    return found


def change(text: str) -> str:
    """A commit id that is another one, in a record that is well-formed."""
    body = json.loads(text)
    *start, last = body["commit_id"]
    return json.dumps({**body, "commit_id": "".join([*start, "1" if last == "0" else "0"])})


DAMAGES = {
    "cut": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "no object": lambda text: "[]",
    "a bit": change,
    "more than was written": lambda text: json.dumps({**json.loads(text), "extra": 1}),
    "another format": lambda text: json.dumps({**json.loads(text), "version": 99}),
    "another type": lambda text: json.dumps({**json.loads(text), "branch": 7}),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("kind", "check"), [("tags", "tag_record"), ("consumers", "consumer_record")]
)
def test_a_damaged_record_is_found_and_cleanup_refuses(graph, kind, check, damage):
    path = record(graph, kind)
    path.write_text(DAMAGES[damage](path.read_text()))
    verified = graph.verify()
    assert not verified.is_sound
    (finding,) = [one for one in verified.findings if one.check == check]
    assert path.name in finding.message
    with pytest.raises(ManifestCorrupt, match=path.name):
        graph.cleanup(keep=1, confirm=True)


@pytest.mark.parametrize("kind", ["tags", "consumers"])
def test_a_record_under_the_name_of_another_is_found(graph, kind):
    path = record(graph, kind)
    path.rename(path.with_name(path.name.replace("v1", "v2").replace("index", "other")))
    assert not graph.verify().is_sound


def test_records_without_a_checksum_are_accepted_as_they_are(graph):
    """Earlier builds wrote none."""
    for kind in ("tags", "consumers"):
        path = record(graph, kind)
        body = json.loads(path.read_text())
        del body["crc32"]
        path.write_text(json.dumps(body))
    assert graph.verify().is_sound
    assert [tag.name for tag in graph.tags()] == ["v1"]
    assert [one.name for one in graph.consumers()] == ["index"]


# --- lost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "check"), [("tags", "tag_record"), ("consumers", "consumer_record")]
)
def test_a_lost_record_is_found_and_cleanup_retains_what_it_protected(graph, kind, check):
    path = record(graph, kind)
    kept = path.read_bytes()
    path.unlink()
    verified = graph.verify()
    (finding,) = verified.findings
    assert (finding.check, path.name in finding.message) == (check, True)
    with pytest.raises(ManifestCorrupt, match=f"{path.name}.*restore it from a backup"):
        graph.cleanup(keep=1, confirm=True)
    path.write_bytes(kept)
    assert graph.verify().is_sound
    graph.cleanup(keep=1, confirm=True)


def test_a_lost_record_may_be_given_up(graph):
    record(graph, "tags").unlink()
    record(graph, "consumers").unlink()
    graph.tag("v1")
    graph.delete_tag("v1")
    graph.set_consumer("index")
    graph.delete_consumer("index")
    assert graph.verify().is_sound
    graph.cleanup(keep=1, confirm=True)


def test_a_deleted_branch_is_not_reported_as_missing(graph):
    graph.delete_tag("v1")
    graph.delete_consumer("index")
    graph.create_branch("side")
    graph.create_branch("child", source="side")
    graph.delete_branch("child")
    graph.delete_branch("side")
    verified = graph.verify()
    assert (verified.findings, verified.notes) == ((), ())


def test_a_lost_mark_and_a_lost_request_are_reported(graph):
    graph.create_branch("side", idempotency_key="one")
    graph.create_branch("child", source="side", idempotency_key="two")
    for lost in (record(graph, "related"), min((Path(graph.uri) / "_refs/requests").iterdir())):
        before = lost.read_bytes()
        lost.unlink()
        assert [lost.name in note.message for note in graph.verify().notes] == [True]
        lost.write_bytes(before[:-4])
        assert [lost.name in note.message for note in graph.verify().notes] == [True]
        lost.write_bytes(before)
    verified = graph.verify()
    assert (verified.findings, verified.notes) == ((), ())


def test_cleanup_makes_the_log_of_records_whole(graph):
    """Records of earlier builds are in none."""
    (Path(graph.uri) / "_refs" / "_checksums.log").unlink()
    (note,) = graph.verify().notes
    assert note.check == "record_log"
    graph.cleanup(keep=1, confirm=True)
    assert graph.verify().notes == ()
    record(graph, "tags").unlink()
    assert not graph.verify().is_sound
