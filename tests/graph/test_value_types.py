"""Values on their way in: blobs, defaults, the current moment, partial merges and ids."""

from __future__ import annotations

import base64

import pytest

import omnigraph
from graph.music_graph import affected, entities, ids, node, refusal, run
from omnigraph.errors import BadRequest, CompileError, ExternalBlobPolicy, KeyConflict

SCHEMA = """\
node Page {
  slug: String @key
  title: String @default("untitled")
  rank: I32 @default(3)
  made: DateTime?
  seen: DateTime?
  body: Blob?
  note: String?
}
node Event { what: String  body: Blob?  at: DateTime? }
edge Links: Page -> Page { strength: F64 @default(0.5)  note: String? }
"""


@pytest.fixture
def pages(tmp_path):
    return omnigraph.init(tmp_path / "pages.omni", SCHEMA)


def b64(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()


def page(graph, slug="a"):
    return entities(graph, "Page")[slug]


def test_defaults_fill_what_an_insert_leaves_out(pages):
    run(pages, 'insert Page {slug: "a"} insert Page {slug: "b", title: "B", rank: 9}')
    assert (page(pages)["title"], page(pages)["rank"]) == ("untitled", 3)
    assert (page(pages, "b")["title"], page(pages, "b")["rank"]) == ("B", 9)
    run(pages, 'insert Links {from: "a", to: "b"}')
    assert [e["strength"] for e in entities(pages, "Links").values()] == [0.5]


def test_defaults_fill_what_a_load_leaves_out(pages):
    pages.load([node("Page", slug="a"), node("Page", slug="b", rank=1)], "append")
    assert (page(pages)["rank"], page(pages, "b")["rank"], page(pages)["title"]) == (
        3,
        1,
        "untitled",
    )


def test_a_given_null_is_no_reason_for_the_default(pages):
    with refusal(omnigraph.errors.OmniError, "rank"):
        pages.load([node("Page", slug="a", rank=None)], "append")


def test_replacing_an_entity_brings_its_defaults_back(pages):
    run(pages, 'insert Page {slug: "a", rank: 9, note: "n"}')
    run(pages, 'insert Page {slug: "a", title: "T"}')
    assert (page(pages)["rank"], page(pages)["note"], page(pages)["title"]) == (3, None, "T")


def test_a_merge_keeps_what_it_does_not_assign(pages):
    data = b64(b"body")
    pages.load([node("Page", slug="a", title="T", rank=9, note="n", body=data)], "append")
    assert affected(pages, 'merge Page {slug: "a", title: "U"}') == (1, 0)
    kept = page(pages)
    assert (kept["title"], kept["rank"], kept["note"], kept["body"]) == ("U", 9, "n", data)


def test_a_merge_of_a_new_key_inserts_with_defaults(pages):
    run(pages, 'merge Page {slug: "z", note: "new"}')
    assert (page(pages, "z")["title"], page(pages, "z")["note"]) == ("untitled", "new")


def test_a_merge_sees_the_statement_before_it(pages):
    run(pages, 'insert Page {slug: "a", rank: 9} merge Page {slug: "a", note: "m"}')
    assert (page(pages)["rank"], page(pages)["note"]) == (9, "m")


def test_a_merge_needs_a_key(pages):
    with refusal(CompileError, "merge needs a type with a key"):
        run(pages, 'merge Event {what: "x"}')


def test_now_is_one_moment_in_all_of_a_mutation(pages):
    run(
        pages,
        """insert Page {slug: "a", made: now(), seen: now()}
           insert Page {slug: "b", made: now()}
           update Page set {seen: now()} where slug = "b"
           insert Event {what: "w", at: now()}""",
    )
    (event,) = entities(pages, "Event").values()
    moments = {page(pages)["made"], page(pages)["seen"], page(pages, "b")["made"]}
    moments |= {page(pages, "b")["seen"], event["at"]}
    assert len(moments) == 1
    (moment,) = moments
    assert abs(pages.commits()[0].created_at // 1_000 - moment) < 3_600_000


def test_now_can_be_compared_with(pages):
    run(pages, 'insert Page {slug: "a", made: now()}')
    assert affected(pages, 'update Page set {note: "past"} where made <= now()') == (1, 0)
    assert affected(pages, 'update Page set {note: "future"} where made > now()') == (0, 0)


def test_blobs_keep_null_empty_and_bytes_apart(pages):
    large = bytes(range(256)) * 4096
    values = {"none": None, "empty": b64(b""), "small": b64(b"hi"), "large": b64(large)}
    pages.load([node("Page", slug=slug, body=value) for slug, value in values.items()], "append")
    assert {slug: page(pages, slug)["body"] for slug in values} == values


def test_a_blob_is_replaced_and_set_to_null_by_an_update(pages):
    pages.load([node("Page", slug=s, body=b64(s.encode())) for s in "abc"], "append")
    run(pages, 'update Page set {body: $b} where slug = "a"', "$b: Blob", params={"b": b64(b"new")})
    run(pages, 'update Page set {body: "base64:"} where slug = "b"')
    run(pages, 'update Page set {body: null} where slug = "c"')
    assert [page(pages, s)["body"] for s in "abc"] == [b64(b"new"), "base64:", None]


def test_a_blob_set_to_null_by_a_parameter_is_null(pages):
    pages.load([node("Page", slug="a", body=b64(b"x"))], "append")
    run(pages, 'update Page set {body: $b} where slug = "a"', "$b: Blob?", params={"b": None})
    assert page(pages)["body"] is None


def test_blobs_survive_changes_of_their_neighbours(pages):
    values = {s: b64(s.encode() * 1000) for s in "abcd"}
    pages.load([node("Page", slug=s, body=v) for s, v in values.items()], "append")
    run(pages, 'update Page set {note: "x"} where slug = "b"')
    run(pages, 'delete Page where slug = "c"')
    run(pages, "update Page set {rank: 7} where rank = 3")
    assert {s: page(pages, s)["body"] for s in "abd"} == {s: values[s] for s in "abd"}


def test_an_outside_address_is_denied_in_a_mutation(pages):
    for value in ("s3://bucket/key", "file:///etc/passwd", "https://example.org/x"):
        with refusal(ExternalBlobPolicy, value):
            run(pages, 'insert Page {slug: "a", body: $b}', "$b: String", params={"b": value})
    assert ids(pages, "Page") == set()


def test_broken_base64_is_refused(pages):
    with refusal(BadRequest, "base64"):
        run(pages, 'insert Page {slug: "a", body: $b}', "$b: String", params={"b": "base64:%%%"})


def test_nodes_without_a_key_get_fresh_ids(pages):
    run(pages, 'insert Event {what: "same"} insert Event {what: "same"}')
    run(pages, 'insert Event {what: "same"}')
    assert len(ids(pages, "Event")) == 3


def test_nodes_without_a_key_may_bring_their_id(pages):
    pages.load([node("Event", id="e1", what="one"), node("Event", what="two")], "append")
    assert "e1" in ids(pages, "Event")
    assert len(ids(pages, "Event")) == 2
    with refusal(KeyConflict, "'e1'"):
        pages.load([node("Event", id="e1", what="again")], "append")
    pages.load([node("Event", id="e1", what="again")], "merge")
    assert entities(pages, "Event")["e1"]["what"] == "again"


def test_an_update_reaches_nodes_without_a_key(pages):
    pages.load([node("Event", id="e1", what="one"), node("Event", id="e2", what="two")], "append")
    assert affected(pages, 'update Event set {at: now()} where what = "one"') == (1, 0)
    assert affected(pages, 'delete Event where what = "two"') == (1, 0)
    assert ids(pages, "Event") == {"e1"}
