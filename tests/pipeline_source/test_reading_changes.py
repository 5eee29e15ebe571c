"""A range of commits as a frame: the changes of the feed, as rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from history.generated_history import GeneratedHistory
from omnigraph.errors import BadRequest, ChangeFeedGap, TypeNotFound
from pipeline_source.change_batches import in_wire_form, read, source


def feed(graph, branch: str = "main", **given) -> list[dict]:
    """Return the changes as the feed gives them, with the commit of each."""
    reported, position = [], "beginning"
    while True:
        page = graph.changes(position, branch=branch, **given)
        for block in page.wire()["blocks"]:
            cause = block["cause"]
            reported += [
                (cause["graph_commit_id"], {**change, "type": change["type"]["name"]})
                for change in block["changes"]
            ]
        if page.caught_up:
            return reported
        position = page.position


def order(pair):
    return (pair[0], pair[1]["type"], pair[1]["id"])


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> GeneratedHistory:
    made = GeneratedHistory(tmp_path_factory.mktemp("generated") / "g.omni", seed=11)
    for _ in range(24):
        made.step()
    return made


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_rows_equal_the_feed_however_they_are_divided(
    generated: GeneratedHistory, rows: int
) -> None:
    for branch in generated.branches:
        found = read(
            generated.graph, branch=branch, startingAfter="beginning", rowsPerPartition=str(rows)
        )
        pairs = [(row["commit"], in_wire_form(row)) for row in found]
        assert sorted(pairs, key=order) == sorted(feed(generated.graph, branch), key=order), branch


def test_rows_carry_the_commit_they_belong_to(generated: GeneratedHistory) -> None:
    commits = {one.commit_id: one for one in generated.graph.commits()}
    for row in read(generated.graph, startingAfter="beginning"):
        commit = commits[row["commit"]]
        assert row["position"] == commit.manifest_version
        assert int(row["time"].timestamp() * 1_000_000) == commit.created_at
        assert row["actor"] == commit.actor_id


def test_positions_grow_along_a_branch(generated: GeneratedHistory) -> None:
    for branch in generated.branches:
        line = generated.graph.commits(branch)
        by_id = {one.commit_id: one for one in line}
        at, positions = line[0], []
        while at is not None:
            positions.append(at.manifest_version)
            at = by_id.get(at.parent_commit_id)
        assert positions == sorted(set(positions), reverse=True), branch


def test_rows_are_chosen_by_types_kinds_and_operations(generated: GeneratedHistory) -> None:
    for given, options in (
        ({"types": ["Person", "Knows"]}, {"types": "Person, Knows"}),
        ({"kinds": ["edge"]}, {"kinds": "edge"}),
        ({"ops": ["delete", "update"]}, {"ops": "delete,update"}),
    ):
        found = read(generated.graph, startingAfter="beginning", **options)
        pairs = [(row["commit"], in_wire_form(row)) for row in found]
        assert sorted(pairs, key=order) == sorted(feed(generated.graph, **given), key=order), (
            options
        )


SCHEMA = """
node Person {
  key: String @key
  age: I32?
  big: U64?
  place: Vector(2)?
  photo: Blob?
  seen: DateTime?
}
node Note { text: String }
edge Knows: Person -> Person { since: I64? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> omnigraph.Graph:
    made = omnigraph.init(tmp_path / "g.omni", SCHEMA, actor="ann")
    person = {"key": "a", "age": 1, "big": 2**64 - 1, "place": [1.0, 2.0], "photo": "base64:aGk="}
    made.load(
        [{"type": "Person", "data": person}, {"type": "Person", "data": {"key": "b"}}], "append"
    )
    made.mutate('query q() { update Person set { age: 2 } where key = "a" }')
    made.load(
        [{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "k", "since": 7}}], "append"
    )
    made.mutate('query q() { delete Person where key = "b" }')
    return made


def test_a_single_type_has_its_columns_in_the_images(graph) -> None:
    schema = source(graph, type="Person").schema()
    assert schema["after"].dataType.simpleString() == (
        "struct<id:string,age:int,big:decimal(20,0),key:string,photo:binary,place:array<float>,"
        "seen:timestamp>"
    )
    rows = read(graph, type="Person", startingAfter="beginning")
    by_op = {(row["op"], row["id"]): row for row in rows}
    assert set(by_op) == {("insert", "a"), ("insert", "b"), ("update", "a"), ("delete", "b")}
    assert {row["actor"] for row in rows} == {"ann"}
    inserted, updated = by_op["insert", "a"], by_op["update", "a"]
    assert inserted["before"] is None
    assert inserted["after"]["photo"] == b"hi"
    assert inserted["after"]["place"] == [1.0, 2.0]
    assert int(inserted["after"]["big"]) == 2**64 - 1
    assert updated["before"] == inserted["after"]
    assert updated["after"] == {**inserted["after"], "age": 2}
    assert by_op["delete", "b"]["after"] is None
    assert by_op["delete", "b"]["before"] == by_op["insert", "b"]["after"]
    (link, unlink) = read(graph, type="Knows", startingAfter="beginning")
    assert link["after"] == {"id": "k", "src": "a", "dst": "b", "since": 7}
    assert (unlink["op"], unlink["before"]) == ("delete", link["after"])


def test_columns_are_chosen_by_name(graph) -> None:
    rows = read(graph, columns="op,id", types="Person", startingAfter="beginning")
    assert {"op": "update", "id": "a"} in rows
    assert len(rows) == 4
    with pytest.raises(BadRequest, match="no such column 'opp' among commit"):
        source(graph, columns="opp").schema()


def test_a_range_is_from_one_commit_to_another(graph) -> None:
    first, second, third, fourth = [one.commit_id for one in graph.commits()[3::-1]]
    assert {row["commit"] for row in read(graph, startingAfter=first)} == {second, third, fourth}
    middle = read(graph, startingAfter=first, endingAt=third)
    assert {row["commit"] for row in middle} == {second, third}
    assert read(graph, startingAfter=third, endingAt=third) == []
    with pytest.raises(BadRequest, match="is not in the history of this branch"):
        read(graph, startingAfter=third, endingAt=first)
    cursor = graph.changes("now").cursor
    graph.tag("v1", second)
    assert {row["commit"] for row in read(graph, startingAfter="v1")} == {third, fourth}
    assert read(graph, startingAfter=cursor) == []


def test_the_end_of_a_range_is_fixed_when_the_frame_is_created(graph) -> None:
    made = source(graph, startingAfter="beginning")
    head = graph.commits()[0].commit_id
    graph.mutate('query q() { insert Person { key: "later" } }')
    reader = made.reader(schema=made.schema())
    found = [row for p in reader.partitions() for b in reader.read(p) for row in b.to_pylist()]
    assert max(found, key=lambda row: row["position"])["commit"] == head


def test_an_unsupported_request_is_refused(graph) -> None:
    for options, text in (
        ({"startingAftr": "now"}, "no such option 'startingAftr'; did you mean 'startingAfter'"),
        ({"where": "age > 1"}, "option 'where' cannot be used with option 'changes'"),
        ({"mode": "merge"}, "option 'mode' cannot be used with option 'changes'"),
        ({"type": "Person", "types": "Note"}, "give option 'type' or option 'types', not both"),
        ({"consumerExpires": "3d"}, "belongs to option 'consumer', which is missing"),
        ({"ops": "insert,upsert"}, "op 'upsert' is not one of insert, update, delete"),
        ({"maxCommitsPerTrigger": "0"}, "'maxCommitsPerTrigger' must be a positive integer"),
        ({"changes": "maybe"}, "option 'changes' must be true or false"),
        ({"consumer": "x", "consumerExpires": "soon"}, "'soon' is not a duration"),
    ):
        with pytest.raises(BadRequest) as refused:
            source(graph, **options)
        assert text in str(refused.value), options
    with pytest.raises(BadRequest, match="say after which commit changes are read"):
        read(graph)
    with pytest.raises(BadRequest, match="option 'consumer' is for streams only"):
        read(graph, startingAfter="beginning", consumer="x")
    with pytest.raises(TypeNotFound):
        source(graph, types="Nobody")
    with pytest.raises(TypeNotFound):
        source(graph, type="Nobody")
    with pytest.raises(BadRequest, match="option 'startingAfter' is for changes; set option"):
        source(graph, changes="false", type="Person", startingAfter="now")


def test_a_range_that_cleanup_removed_is_a_gap(graph) -> None:
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(ChangeFeedGap, match="take a baseline"):
        read(graph, startingAfter="beginning")
