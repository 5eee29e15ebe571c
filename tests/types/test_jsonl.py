"""JSON lines as columns: the grammar, its mistakes and their reasons."""

import json
from datetime import date

import pyarrow as pa
import pytest

from omnigraph.identity import EntityKind
from omnigraph.types import jsonl_parser
from omnigraph.types.jsonl_parser import parse_lines
from omnigraph.types.jsonl_records import LineLimits, LineOptions, PropertySpec, TypeSpec
from omnigraph.types.property import PropertyType, Scalar


def prop(name: str, scalar: Scalar, *, nullable: bool = True, **more: object) -> PropertySpec:
    default = bool(more.pop("has_default", False))
    return PropertySpec(name, PropertyType(scalar, nullable=nullable, **more), default)


ARTIST = TypeSpec(
    "Artist",
    EntityKind.NODE,
    (
        prop("born", Scalar.I32),
        prop("genres", Scalar.STRING, is_list=True),
        prop("name", Scalar.STRING, nullable=False),
        prop("slug", Scalar.STRING, nullable=False),
    ),
)
ALBUM = TypeSpec(
    "Album",
    EntityKind.NODE,
    (
        prop("cover", Scalar.BLOB),
        prop("released", Scalar.DATE),
        prop("status", Scalar.STRING, nullable=False, has_default=True),
        prop("vibe", Scalar.VECTOR, dimension=3),
    ),
)
SIGNED = TypeSpec("SignedTo", EntityKind.EDGE, (prop("since", Scalar.DATE),))
# A node type may share the name of an edge type, and have properties called src and from.
NAMESAKE = TypeSpec(
    "signedto",
    EntityKind.NODE,
    tuple(prop(n, Scalar.I64) for n in ("class", "data", "edge", "from", "src", "type")),
)
TAKE = TypeSpec("Take", EntityKind.NODE, (prop("number", Scalar.U32, nullable=False),))
SPECS = (ARTIST, ALBUM, SIGNED, NAMESAKE, TAKE)


def read(*lines: str | bytes, **options: object) -> jsonl_parser.ParsedLines:
    data = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    return parse_lines(data, SPECS, file="in.jsonl", options=LineOptions(**options))


def node(type: str, **data: object) -> str:
    return json.dumps({"type": type, "data": data})


def reasons(parsed: jsonl_parser.ParsedLines) -> list[str]:
    return [str(problem) for problem in parsed.problems]


def test_records_of_all_types_may_be_mixed():
    parsed = read(
        node("Artist", slug="ada", name="Ada", born=1970, genres=["dub"]),
        '{"edge":"SignedTo","from":"ada","to":"wave","data":{"since":"1998-01-01","id":"e1"}}',
        node("Artist", slug="ben", name="Ben", id="ben"),
        '{"edge":"SignedTo","from":"ben","to":"nova"}',
    )
    assert parsed.problems == ()
    assert parsed.line_count == 4
    artists, signed = parsed.rows["node:Artist"], parsed.rows["edge:SignedTo"]
    assert artists.columns.to_pylist() == [
        {"id": None, "born": 1970, "genres": ["dub"], "name": "Ada", "slug": "ada"},
        {"id": "ben", "born": None, "genres": None, "name": "Ben", "slug": "ben"},
    ]
    assert artists.lines.to_pylist() == [1, 3]
    assert signed.columns.to_pylist() == [
        {"id": "e1", "src": "ada", "dst": "wave", "since": date(1998, 1, 1)},
        {"id": None, "src": "ben", "dst": "nova", "since": None},
    ]
    assert signed.lines.to_pylist() == [2, 4]


def test_members_may_come_in_any_order_and_with_white_space():
    parsed = read(
        ' { "to" : "b" , "data" :\t{ } , "from" : "a" , "edge" : "SignedTo" } ',
        '{"data":{"name":"A","slug":"a"},"type":"Artist"}',
    )
    assert parsed.problems == ()
    assert parsed.rows["edge:SignedTo"].columns["dst"].to_pylist() == ["b"]


def test_rows_stay_in_line_order_whatever_way_they_were_read():
    huge = "1" * 400 + "e-400"
    parsed = read(
        '{"from":"a","to":"x","edge":"SignedTo"}',
        '{"edge":"SignedTo","from":"b","to":"x"}',
        '{"to":"x","edge":"SignedTo","from":"c"}',
        '{"edge":"SignedTo","from":"d","to":"x"}',
        f'{{"type":"Album","data":{{"vibe":[1,2,{huge}]}}}}',
        '{"type":"Album","data":{"vibe":[1,2,3]}}',
    )
    assert parsed.problems == ()
    assert parsed.rows["edge:SignedTo"].columns["src"].to_pylist() == ["a", "b", "c", "d"]
    assert parsed.rows["edge:SignedTo"].lines.to_pylist() == [1, 2, 3, 4]
    assert parsed.rows["node:Album"].lines.to_pylist() == [5, 6]


def test_edge_names_ignore_case_and_node_names_do_not():
    parsed = read('{"edge":"SIGNEDto","from":"a","to":"b"}', '{"type":"artist"}')
    assert parsed.rows["edge:SignedTo"].columns.num_rows == 1
    assert reasons(parsed) == [
        "in.jsonl:line 2: unknown node type 'artist'; did you mean 'Artist'?"
    ]


def test_a_node_type_may_have_properties_named_like_members_of_records():
    parsed = read('{"type":"signedto","data":{"type":1,"edge":2,"from":3,"src":4,"class":5}}')
    assert parsed.problems == ()
    row = {"id": None, "class": 5, "data": None, "edge": 2, "from": 3, "src": 4, "type": 1}
    assert parsed.rows["node:signedto"].columns.to_pylist() == [row]


def test_lines_may_end_in_crlf_and_blank_ones_are_skipped_but_counted():
    data = b'\xef\xbb\xbf\r\n{"type":"Album"}\r\n \t\n\n{"type":"Album"}'
    parsed = parse_lines(data, SPECS, first_line=10)
    assert parsed.problems == ()
    assert parsed.line_count == 5
    assert parsed.rows["node:Album"].lines.to_pylist() == [11, 14]


def test_a_byte_order_mark_inside_a_file_is_no_json():
    mark = b"\xef\xbb\xbf"
    assert parse_lines(mark + b'{"type":"Album"}', SPECS).problems == ()
    inside = parse_lines(mark + b'{"type":"Album"}', SPECS, at_file_start=False)
    assert "invalid JSON" in inside.problems[0].reason


def test_nothing_gives_nothing():
    assert parse_lines(b"", SPECS) == jsonl_parser.ParsedLines({}, 0)
    assert parse_lines(b"\n\n", SPECS).line_count == 2


def test_blobs_keep_empty_apart_from_null_and_bytes_apart_from_addresses():
    parsed = read(
        *(node("Album", cover=cover) for cover in ("base64:", None, "base64:AAE=", "s3://b/k"))
    )
    assert parsed.rows["node:Album"].columns["cover"].to_pylist() == [
        {"data": b"", "uri": None},
        None,
        {"data": b"\x00\x01", "uri": None},
        {"data": None, "uri": "s3://b/k"},
    ]


MISTAKES = {
    "not JSON": ("{type}", "invalid JSON"),
    "cut off": ('{"type":"Album","data":{"released":', "invalid JSON"),
    "two records": ('{"type":"Album"} {"type":"Album"}', "invalid JSON"),
    "a comment": ("// comment", "invalid JSON"),
    "an array": ('[{"type":"Album"}]', "expects a JSON object, got an array"),
    "a number": ("5", "expects a JSON object"),
    "NaN": ('{"type":"Artist","data":{"born":NaN}}', "NaN is not a JSON value"),
    "bad UTF-8": (b'{"type":"Artist","data":{"name":"\xff"}}', "invalid UTF-8 at byte 34"),
    "half a pair": ('{"type":"Artist","data":{"name":"\\ud800"}}', "surrogate"),
    "too deep": ('{"type":"Artist","data":' + "[" * 60_000, "nested too deeply"),
    "neither": ('{"data":{}}', "exactly one of 'type' or 'edge'"),
    "both": ('{"type":"Artist","edge":"Made"}', "exactly one of 'type' or 'edge'"),
    "both, one null": ('{"type":null,"edge":"Made"}', "exactly one of 'type' or 'edge'"),
    "null type": ('{"type":null}', "'type' must be a string, got null"),
    "numeric edge": ('{"edge":5,"from":"a","to":"b"}', "'edge' must be a string"),
    "unknown node type": ('{"type":"Ghost"}', "unknown node type 'Ghost'"),
    "unknown edge type": ('{"edge":"Ghost","from":"a","to":"b"}', "unknown edge type 'Ghost'"),
    "edge type as node": ('{"type":"SignedTo"}', "unknown node type 'SignedTo'"),
    "no from": ('{"edge":"SignedTo","to":"b"}', "needs 'from'"),
    "no to": ('{"edge":"SignedTo","from":"b"}', "needs 'to'"),
    "numeric from": ('{"edge":"SignedTo","from":1,"to":"b"}', "'from' must be a string"),
    "null to": ('{"edge":"SignedTo","from":"a","to":null}', "'to' must be a string, got null"),
    "ends on a node": ('{"type":"Album","from":"a"}', "unknown input field 'from'"),
    "unknown member": ('{"type":"Album","when":1}', "unknown input field 'when'"),
    "data not an object": ('{"type":"Album","data":[]}', "'data' must be a JSON object"),
    "null data": ('{"type":"Album","data":null}', "'data' must be a JSON object, got null"),
    "unknown property": (node("Artist", slug="h", name="H", age=3), "unknown input field 'age'"),
    "reserved name": (node("Album", _rowid=1), "'_rowid' is reserved physical state"),
    "tombstone": (node("Album", _tombstone=True), "'_tombstone' is reserved physical state"),
    "reserved above": ('{"type":"Album","_rowaddr":1}', "reserved physical state"),
    "src in edge data": (
        '{"edge":"SignedTo","from":"a","to":"b","data":{"src":"a"}}',
        "'src' is reserved structural state",
    ),
    "src in node data": (node("Album", src="a"), "unknown input field 'src'"),
    "numeric id": (node("Album", id=7), "'id' must be a string, got an integer"),
    "null id": (node("Album", id=None), "'id' must be a string, got null"),
    "repeated envelope member": ('{"type":"Album","type":"Album"}', "duplicate JSON member 'type'"),
    "repeated property": (
        '{"type":"Album","data":{"status":"a","status":"a"}}',
        "duplicate JSON member 'status'",
    ),
    "repeated by escape": (
        '{"type":"Album","data":{"status":"a","statu\\u0073":"b"}}',
        "duplicate JSON member 'status'",
    ),
    "repeated with space": (
        '{"type":"Album","data":{"status" :"a" , "status"\t:"b"}}',
        "duplicate JSON member 'status'",
    ),
    "repeated, and a space elsewhere": (
        '{"type" :"Album","data":{"status":"a","status":"b"}}',
        "duplicate JSON member 'status'",
    ),
    "repeated, with a value out of range": (
        '{"type":"Artist","data":{"slug":"s","name":"n","born":9999999999,"name":"n"}}',
        "duplicate JSON member 'name'",
    ),
    "repeated data": ('{"type":"Album","data":{},"data":{}}', "duplicate JSON member 'data'"),
    "repeated below": (
        '{"type":"Artist","data":{"born":{"a":1,"a":2}}}',
        "duplicate JSON member 'a'",
    ),
    "wrong type": (
        node("Artist", slug="h", name="H", born="1990"),
        "property 'born': expects an integer, got a string",
    ),
    "whole float": (
        node("Artist", slug="h", name="H", born=3.0),
        "property 'born': expects an integer, got the number 3.0",
    ),
    "boolean": (node("Artist", slug="h", name="H", born=True), "expects an integer, got a boolean"),
    "out of range": (node("Artist", slug="h", name="H", born=2**31), "exceeds Int32 range"),
    "far out of range": (
        node("Artist", slug="h", name="H", born="@").replace('"@"', "9" * 5000),
        "exceeds Int32 range",
    ),
    "out of range where null is none": (
        '{"type":"Take","data":{"number":-1}}',
        "property 'number': exceeds UInt32 range",
    ),
    "short vector": (node("Album", vibe=[1, 2]), "expects 3 dimensions, got 2"),
    "text in vector": (node("Album", vibe=[1, 2, "3"]), "elements must be numeric"),
    "huge in vector": (node("Album", vibe=[1, 2, 1e300]), "exceeds Float32 range"),
    "scalar for list": (node("Artist", slug="h", name="H", genres="dub"), "expects a JSON array"),
    "null in list": (
        node("Artist", slug="h", name="H", genres=[None]),
        "null or invalid item at 0",
    ),
    "bad date": (node("Album", released="1999-02-30"), "invalid Date literal '1999-02-30'"),
    "bad base64": (node("Album", cover="base64:?"), "invalid base64"),
    "missing": (node("Artist", slug="h"), "non-nullable property 'name' has null or invalid"),
    "null": (node("Artist", slug="h", name=None), "non-nullable property 'name' has null or"),
    "null in spite of a default": (node("Album", status=None), "non-nullable property 'status'"),
}


@pytest.mark.parametrize(("line", "reason"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_its_line_and_spares_the_other_rows(line, reason):
    good = [node("Album"), '{"edge":"SignedTo","from":"a","to":"b"}']
    parsed = read(*good, line, *good)
    assert [problem.line for problem in parsed.problems] == [3]
    assert parsed.problems[0].file == "in.jsonl"
    assert reason in parsed.problems[0].reason
    assert parsed.problem_count == 1
    assert parsed.rows["node:Album"].lines.to_pylist() == [1, 4]
    assert parsed.rows["edge:SignedTo"].lines.to_pylist() == [2, 5]
    assert "node:Artist" not in parsed.rows or parsed.rows["node:Artist"].columns.num_rows == 0


def test_every_problem_of_a_row_is_reported_with_its_type_id_and_property():
    parsed = read(node("Artist", slug=1, born=2**40, id="h"), node("Artist", name=None, born=2**40))
    facts = [(p.line, p.type_key, p.id, p.property, str(p.code)) for p in parsed.problems]
    assert facts == [
        (1, "node:Artist", "h", "born", "bad_value"),
        (1, "node:Artist", "h", "name", "required"),
        (1, "node:Artist", "h", "slug", "bad_value"),
        (2, "node:Artist", None, "born", "bad_value"),
        (2, "node:Artist", None, "name", "required"),
        (2, "node:Artist", None, "slug", "required"),
    ]
    assert parsed.problem_counts == {
        ("node:Artist", "bad_value"): 3,
        ("node:Artist", "required"): 3,
    }


def test_several_unknown_fields_are_reported_each():
    assert reasons(read(node("Album", a=1, b=2))) == [
        "in.jsonl:line 1: node:Album unknown input field 'a'",
        "in.jsonl:line 1: node:Album unknown input field 'b'",
    ]


def test_text_that_looks_like_members_is_no_mistake():
    tricky = ['a":1,"a', 'say \\": x', "a : b", '{"name":"x","name":"y"}', "\\", '"', "http://x"]
    parsed = read(*(node("Artist", slug=text, name=text) for text in tricky))
    assert parsed.problems == ()
    assert parsed.rows["node:Artist"].columns["name"].to_pylist() == tricky


def test_problems_beyond_the_limit_are_counted_only():
    parsed = read(*["{"] * 50, max_problems=3)
    assert [problem.line for problem in parsed.problems] == [1, 2, 3]
    assert parsed.problem_counts == {(None, "malformed"): 50}


def test_absent_is_distinguished_from_null_where_requested():
    lines = (node("Album", status="a", released=None), node("Album", status="b", vibe=[1, 2, 3]))
    assert read(*lines).rows["node:Album"].presence is None
    presence = read(*lines, with_presence=True).rows["node:Album"].presence
    assert presence.to_pylist() == [
        {"cover": False, "released": True, "status": True, "vibe": False},
        {"cover": False, "released": False, "status": True, "vibe": True},
    ]


def test_presence_follows_the_retained_rows():
    parsed = read(node("Album", vibe=[1]), node("Album", status="b"), with_presence=True)
    rows = parsed.rows["node:Album"]
    assert rows.presence["status"].to_pylist() == [True]
    assert rows.lines.to_pylist() == [2]


def test_a_type_without_properties_has_no_presence():
    bare = TypeSpec("Bare", EntityKind.EDGE, ())
    lines = b'{"edge":"Bare","from":"a","to":"b"}\n{"edge":"Bare","from":"a","to":"b","to":"c"}'
    parsed = parse_lines(lines, [bare], options=LineOptions(with_presence=True))
    rows = parsed.rows["edge:Bare"]
    assert rows.columns.to_pylist() == [{"id": None, "src": "a", "dst": "b"}]
    assert rows.presence is None
    assert parsed.problem_count == 1


def test_a_property_with_a_default_may_be_left_out():
    parsed = read(node("Album"))
    assert parsed.problems == ()
    assert parsed.rows["node:Album"].columns["status"].to_pylist() == [None]


def test_a_partial_record_may_leave_out_anything_but_not_null_it():
    parsed = read(node("Artist", slug="a"), node("Artist", slug="b", name=None), partial=True)
    assert parsed.rows["node:Artist"].columns["slug"].to_pylist() == ["a"]
    assert [problem.line for problem in parsed.problems] == [2]


def test_a_partial_record_with_a_mistake_is_not_blamed_for_what_it_leaves_out():
    parsed = read(node("Artist", slug="a", born="x"), partial=True)
    assert [problem.property for problem in parsed.problems] == ["born"]


def test_a_line_too_long_is_refused_unread():
    limits = LineLimits(line_bytes=100)
    parsed = read(node("Artist", slug="a", name="b" * 200), node("Album"), limits=limits)
    assert parsed.problems[0].code == "limit"
    assert "graph_batch_line_bytes" in parsed.problems[0].reason
    assert parsed.rows["node:Album"].lines.to_pylist() == [2]


def test_structural_characters_count_outside_strings_only():
    limits = LineLimits(structural_slots=20)
    text = node("Artist", slug="a", name='[,]{:} "[' * 20)
    many = node("Artist", slug="a", name="b", genres=["x"] * 20)
    parsed = read(text, many, limits=limits)
    assert parsed.rows["node:Artist"].lines.to_pylist() == [1]
    assert "graph_batch_json_structural_slots: 33 exceeds" in parsed.problems[0].reason


def test_many_blocks_make_one_table_with_the_right_lines():
    count = jsonl_parser.BLOCK_LINES * 2 + 7
    lines = [node("Album", released=day) for day in range(count)]
    lines[jsonl_parser.BLOCK_LINES + 1] = "broken"
    parsed = read(*lines)
    rows = parsed.rows["node:Album"]
    assert rows.columns.num_rows == count - 1
    days = rows.columns["released"].cast(pa.int32()).to_pylist()
    assert [line - 1 for line in rows.lines.to_pylist()] == days
    assert [problem.line for problem in parsed.problems] == [jsonl_parser.BLOCK_LINES + 2]
