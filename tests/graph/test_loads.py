"""Loading records in each mode, what is refused, and the way back out."""

from __future__ import annotations

import json
from typing import Any

import pytest

import omnigraph
from graph.music_graph import RECORDS, SCHEMA, contents, edge, entities, ids, node, refusal
from omnigraph.errors import (
    BadOptions,
    BadRequest,
    BranchNotFound,
    ConstraintViolated,
    ExternalBlobPolicy,
    KeyConflict,
    RowsRejected,
)


def test_appending_a_stored_id_is_a_conflict_and_writes_nothing(music):
    before, commits = contents(music), music.commits()
    with refusal(KeyConflict, "already has this id") as refused:
        music.load(
            [node("Label", slug="x", name="X"), node("Artist", slug="ada", name="X")], "append"
        )
    assert (refused.value.table_key, refused.value.id) == ("node:Artist", "ada")
    assert refused.value.line == 2
    assert contents(music) == before
    assert music.commits() == commits


def test_merging_a_stored_id_replaces_the_whole_entity(music):
    music.load([node("Artist", slug="ada", name="X")], "merge")
    ada = entities(music, "Artist")["ada"]
    assert (ada["name"], ada["born"], ada["genres"]) == ("X", None, None)


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_one_key_twice_in_a_file_is_refused_in_every_mode(music, mode):
    before = contents(music)
    records = [node("Artist", slug="new", name="X"), node("Artist", slug="new", name="Y")]
    said = "@unique violation on Artist.slug: value 'new' given twice, in line 1 and line 2"
    with refusal(ConstraintViolated, said):
        music.load(records, mode)
    assert contents(music) == before


def test_one_edge_id_twice_in_a_file_is_the_last_one_in_a_merge(music):
    twice = [
        edge("Influences", "ada", "cy", id="i7", weight=0.1),
        edge("Influences", "ada", "dee", id="i7", weight=0.2),
    ]
    with refusal(KeyConflict, "edge:Influences 'i7' is given twice, in line 1 and line 2"):
        music.load(twice, "append")
    music.load(twice, "merge")
    assert entities(music, "Influences")["i7"]["to"] == "dee"


@pytest.mark.parametrize("engine", ["in one piece", "by tasks"])
def test_edges_without_ids_are_found_by_what_must_be_unique(music, engine, tmp_path):
    """`Made` may be there once between two nodes, so loading one again replaces it."""
    given = {"partial": True} if engine == "by tasks" else {}
    before = {one["id"]: one for one in entities(music, "Made").values()}
    again = [edge("Made", "ada", "tides", role="guest"), edge("Made", "dee", "tidal", role="lead")]
    music.load(again, "merge", **given)
    once = entities(music, "Made")
    assert len(once) == len(before) + 1
    (old,) = [id for id, one in before.items() if (one["from"], one["to"]) == ("ada", "tides")]
    assert once[old]["role"] == "guest", "it is the edge that was there"
    made = music.load(again, "merge", **given)
    assert entities(music, "Made") == once
    assert {one.table_key: one.inserted for one in made.commit.tables} == {"edge:Made": 0}
    twice = [edge("Made", "dee", "tidal", role="guest"), edge("Made", "dee", "tidal", role="lead")]
    music.load(twice, "merge", **given)
    assert entities(music, "Made") == once


def test_edges_are_matched_by_what_a_load_names(music):
    new = [edge("Influences", "ada", "dee", weight=0.1)]
    music.load(new, "merge", match=["from", "to"])
    once = entities(music, "Influences")
    music.load([edge("Influences", "ada", "dee", weight=0.7)], "merge", match=["src", "dst"])
    after = entities(music, "Influences")
    assert after.keys() == once.keys()
    (changed,) = [one for id, one in after.items() if one != once[id]]
    assert (changed["from"], changed["to"], changed["weight"]) == ("ada", "dee", 0.7)
    music.load(new, "merge", match=["from", "to", "weight"])
    assert len(entities(music, "Influences")) == len(once) + 1
    with refusal(BadOptions, "only a merge"):
        music.load(new, "append", match=["src", "dst"])
    with refusal(BadOptions, "cannot be matched by 'wight': Influences has no such column"):
        music.load(new, "merge", match=["src", "wight"])


def test_a_made_id_never_takes_that_of_another_edge(music):
    taken = edge("Made", "ben", "tidal", id='["static","dee"]', role="lead")
    music.load([taken], "append")
    music.load([edge("Made", "dee", "static", role="guest")], "merge")
    ends = {(one["from"], one["to"]): one["role"] for one in entities(music, "Made").values()}
    assert (ends["ben", "tidal"], ends["dee", "static"]) == ("lead", "guest")


def test_edges_without_ids_are_new_ones_even_in_a_merge(music):
    before = len(ids(music, "Sampled"))
    music.load([edge("Sampled", "tidal", "tides")], "merge")
    assert len(ids(music, "Sampled")) == before + 1


def test_an_overwrite_that_strands_a_retained_edge_is_refused(music):
    before = contents(music)
    with refusal(ConstraintViolated, "dst 'nova' not found in Label"):
        music.load([node("Label", slug="wave", name="W")], "overwrite")
    assert contents(music) == before


def test_an_overwrite_replaces_the_types_it_names_and_no_others(music):
    artists = contents(music, ["Artist"])
    result = music.load(
        [node("Label", slug="wave", name="W"), edge("SignedTo", "ada", "wave")], "overwrite"
    )
    assert ids(music, "Label") == {"wave"}
    assert [(e["from"], e["to"]) for e in entities(music, "SignedTo").values()] == [("ada", "wave")]
    assert contents(music, ["Artist"]) == artists
    assert (result.nodes, result.edges, result.total_entities) == ({"Label": 1}, {"SignedTo": 1}, 2)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            {"type": "Artist", "data": {"slug": "h", "name": "H", "age": 3}},
            "unknown input field 'age'",
        ),
        ({"type": "Artist", "edge": "Made"}, "exactly one of 'type' or 'edge'"),
        ({"type": "Artist", "data": {"slug": "h", "name": "H", "born": "1990"}}, "born"),
        (
            {"type": "Artist", "data": {"slug": "h", "name": "H", "id": "x"}},
            "does not match the key",
        ),
        (
            {"type": "Album", "data": {"slug": "h", "title": "H", "vibe": [1, 2]}},
            "expects 3 dimensions, got 2",
        ),
        ({"type": "Artist", "data": {"slug": "h"}}, "name"),
        ({"type": "Nobody", "data": {}}, "unknown node type 'Nobody'"),
        ({"edge": "Knows", "from": "a", "to": "b"}, "unknown edge type 'Knows'"),
    ],
    ids=["field", "envelope", "type", "id", "vector", "required", "node type", "edge type"],
)
def test_a_bad_line_is_named_and_nothing_is_loaded(music, line, text):
    before = contents(music)
    data = b"\n".join(
        [b'{"type":"Label","data":{"slug":"x","name":"X"}}', b"", json.dumps(line).encode()]
    )
    with refusal(RowsRejected, text) as refused:
        music.load(data, "append")
    assert "line 3" in str(refused.value)
    assert contents(music) == before


def test_every_bad_line_is_counted(music):
    lines = [node("Artist", slug=f"s{n}", name=7) for n in range(130)]
    with refusal(RowsRejected, "line 1: node:Artist property 'name'") as refused:
        music.load(lines, "append")
    assert refused.value.total == 130
    assert len(refused.value.problems) == 100


def test_a_day_may_be_written_or_counted(music):
    days = [
        node("Label", slug="a", name="A", founded="1979-03-01"),
        node("Label", slug="b", name="B", founded=3346),
    ]
    music.load(days, "append")
    labels = entities(music, "Label")
    assert labels["a"]["founded"] == labels["b"]["founded"] == 3346


def test_the_export_is_exact_and_in_order(music):
    music.load([node("Take", studio="b", number=7)], "append")
    lines = b"".join(music.at().export_jsonl()).splitlines()
    wave = b'{"id":"wave","country":"uk","founded":3346,"name":"Wave Records","slug":"wave"}'
    assert b'{"type":"Label","data":' + wave + b"}" in lines
    first, last = json.loads(lines[0]), json.loads(lines[-1])
    assert (first["edge"], last["type"]) == ("Influences", "Take")
    kinds = [record.get("edge") or record["type"] for record in map(json.loads, lines)]
    order = ["Influences", "Made", "Sampled", "SignedTo", "Album", "Artist", "Label", "Take"]
    assert list(dict.fromkeys(kinds)) == order
    for kind in order:
        found = [
            r["data"]["id"]
            for r in map(json.loads, lines)
            if kind in (r.get("edge"), r.get("type"))
        ]
        assert found == sorted(found, key=str.encode)


def test_only_the_named_types_are_exported(music):
    assert {r.get("edge") or r["type"] for r in contents(music, ["Made", "Label"])} == {
        "Made",
        "Label",
    }
    with refusal(omnigraph.errors.TypeNotFound, "unknown export type 'Nobody'"):
        music.export(["Nobody"])


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_an_export_loads_back_as_the_same_graph(music, tmp_path, mode):
    music.load(
        [
            node("Take", studio="b", number=7, seconds=0.1),
            node("Album", slug="bytes", title="é\u2028\U0001f3b5", cover="base64:AP8="),
            node("Album", slug="empty", title="", cover="base64:", vibe=[1e-8, -0.0, 3]),
            node("Album", slug="nothing", title='"\\', plays=2**64 - 1),
        ],
        "append",
    )
    lines = b"".join(music.at().export_jsonl())
    other = omnigraph.init(tmp_path / "other.omni", SCHEMA)
    other.load(lines, mode)
    assert b"".join(other.at().export_jsonl()) == lines
    albums = entities(other, "Album")
    assert [albums[id]["cover"] for id in ("bytes", "empty", "nothing")] == [
        "base64:AP8=",
        "base64:",
        None,
    ]


def test_an_export_is_of_one_moment(music):
    records = music.export(["Artist"])
    music.load([node("Artist", slug="zed", name="Z")], "append")
    assert "zed" not in {record["data"]["id"] for record in records}


def test_a_result_names_what_was_loaded(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA, actor="me")
    wire: dict[str, Any] = graph.load(RECORDS, "append").wire()
    assert wire["nodes"] == [
        {"name": "Album", "entities_loaded": 4},
        {"name": "Artist", "entities_loaded": 5},
        {"name": "Label", "entities_loaded": 3},
    ]
    assert [e["name"] for e in wire["edges"]] == ["Influences", "Made", "Sampled", "SignedTo"]
    assert (wire["branch"], wire["base_branch"], wire["branch_created"]) == ("main", None, False)
    assert (wire["mode"], wire["actor_id"], wire["total_entities"]) == ("append", "me", 28)


def test_a_missing_branch_is_created_only_from_a_base(music):
    records = [node("Artist", slug="zed", name="Z")]
    with refusal(BranchNotFound, "'dev' not found"):
        music.load(records, "append", branch="dev")
    first = music.load(records, "append", branch="dev", base="main")
    assert (first.branch_created, first.base_branch, first.branch) == (True, "main", "dev")
    again = music.load(records, "merge", branch="dev", base="main")
    assert not again.branch_created
    assert ids(music, "Artist", branch="dev") - ids(music, "Artist") == {"zed"}


def test_a_file_may_be_given_by_its_name(music, tmp_path):
    file = tmp_path / "more.jsonl"
    file.write_text('{"type":"Artist","data":{"slug":"zed","name":"Z"}}\r\n')
    music.load(file, "append")
    music.load(str(file), "merge")
    assert "zed" in ids(music, "Artist")
    file.write_text('\n\n{"type":"Artist"}')
    with refusal(RowsRejected, "more.jsonl:line 3"):
        music.load(file, "append")
    with refusal(BadRequest, "cannot read"):
        music.load(tmp_path / "absent.jsonl", "append")


def test_edge_types_are_found_in_any_case(music):
    music.load([edge("sampled", "static", "tides"), edge("SAMPLED", "static", "tidal")], "append")
    assert sum(e["from"] == "static" for e in entities(music, "Sampled").values()) == 2


def test_an_outside_address_for_a_blob_is_denied(music):
    before = contents(music)
    with refusal(ExternalBlobPolicy, "s3://b/k"):
        music.load([node("Album", slug="x", title="X", cover="s3://b/k")], "append")
    assert contents(music) == before


def test_the_mode_must_be_known(music):
    with refusal(BadRequest, "append, merge, overwrite"):
        music.load(b"", "upsert")


def test_constraint_errors_of_a_load_name_the_line(music):
    with refusal(ConstraintViolated, "line 2: @range violation on Artist.born") as refused:
        music.load(
            [node("Label", slug="q", name="Q"), node("Artist", slug="h", name="H", born=1800)],
            "append",
        )
    assert refused.value.violations[0].line == 2


def test_a_load_beyond_the_old_row_ceiling_is_one_commit(music):
    before = music.commits()
    music.load((node("Take", studio="s", number=n) for n in range(20_000)), "append")
    assert music.commits()[1:] == before
    assert {t.table_key: t.row_count for t in music.snapshot().tables}["node:Take"] == 20_000
