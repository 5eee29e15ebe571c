"""The fast line reader against a slow one written from the grammar alone."""

import base64
import json
import math
import struct
from datetime import date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.identity import EntityKind
from omnigraph.types.jsonl_parser import parse_lines
from omnigraph.types.jsonl_records import PropertySpec, TypeSpec
from omnigraph.types.property import INTEGER_BOUNDS, PropertyType, Scalar
from omnigraph.types.to_json import export_values


def nullable(scalar: Scalar, **more: object) -> PropertyType:
    return PropertyType(scalar, nullable=True, **more)


NODE = TypeSpec(
    "N",
    EntityKind.NODE,
    (
        PropertySpec("at", nullable(Scalar.DATETIME)),
        PropertySpec("b", nullable(Scalar.BOOL)),
        PropertySpec("blob", nullable(Scalar.BLOB)),
        PropertySpec("day", nullable(Scalar.DATE)),
        PropertySpec("f", nullable(Scalar.F32)),
        PropertySpec("g", nullable(Scalar.F64)),
        PropertySpec("i", nullable(Scalar.I32)),
        PropertySpec("s", PropertyType(Scalar.STRING)),
        PropertySpec("tags", nullable(Scalar.STRING, is_list=True)),
        PropertySpec("u", nullable(Scalar.U64)),
        PropertySpec("v", nullable(Scalar.VECTOR, dimension=2)),
    ),
)
EDGE = TypeSpec("Ed", EntityKind.EDGE, (PropertySpec("w", nullable(Scalar.F64)),))
SPECS = (NODE, EDGE)


class Refused(Exception):
    pass


def unique(pairs):
    if len({name for name, _ in pairs}) != len(pairs):
        raise Refused("duplicate")
    return dict(pairs)


def refuse(word):
    raise Refused(word)


def texts_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from texts_in(member)


def reference_line(line: bytes):
    """(table key, id, ends, exported values by name) of one line, or `Refused`."""
    try:
        text = line.decode("utf-8")
        record = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
        for found in texts_in(record):
            found.encode("utf-8")
    except ValueError as error:
        raise Refused from error
    if not isinstance(record, dict):
        raise Refused
    return reference_record(record)


def reference_record(record):
    if set(record) in ({"type"}, {"type", "data"}) and record["type"] == "N":
        spec, ends = NODE, None
    elif set(record) - {"data"} == {"edge", "from", "to"}:
        if not isinstance(record["edge"], str) or record["edge"].lower() != "ed":
            raise Refused
        spec, ends = EDGE, (record["from"], record["to"])
        if not all(isinstance(end, str) for end in ends):
            raise Refused
    else:
        raise Refused
    data = record.get("data", {})
    names = [p.name for p in spec.properties]
    if not isinstance(data, dict) or not set(data) <= {"id", *names}:
        raise Refused
    if "id" in data and not isinstance(data["id"], str):
        raise Refused
    values = {p.name: reference_value(data.get(p.name), p.type) for p in spec.properties}
    return str(spec.table_key), data.get("id"), ends, values


def reference_value(value, type):
    if value is None:
        if type.nullable:
            return None
        raise Refused
    if type.is_vector:
        if not isinstance(value, list) or len(value) != type.dimension:
            raise Refused
        return [reference_scalar(item, Scalar.F32) for item in value]
    if type.is_list:
        if not isinstance(value, list):
            raise Refused
        return [reference_scalar(item, type.scalar) for item in value]
    return reference_scalar(value, type.scalar)


def reference_scalar(value, scalar):
    kind = type(value)
    if scalar is Scalar.STRING and kind is str:
        return value
    if scalar is Scalar.BOOL and kind is bool:
        return value
    if scalar in INTEGER_BOUNDS and kind is int:
        low, high = INTEGER_BOUNDS[scalar]
        if low <= value <= high:
            return value
    if scalar in (Scalar.F32, Scalar.F64) and kind in (int, float):
        return reference_float(value, scalar)
    if scalar is Scalar.BLOB and kind is str and value:
        return reference_blob(value)
    if scalar in (Scalar.DATE, Scalar.DATETIME):
        return reference_time(value, scalar)
    raise Refused


def reference_float(value, scalar):
    try:
        number = float(value)
        if scalar is Scalar.F32:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError as error:
        raise Refused from error
    if not math.isfinite(number):
        raise Refused
    return number


def reference_blob(text):
    if not text.startswith("base64:"):
        return text
    try:
        data = base64.b64decode(text[7:], validate=True)
    except ValueError as error:
        raise Refused from error
    if base64.b64encode(data).decode() != text[7:]:
        raise Refused
    return text


def reference_time(value, scalar):
    """Only the plain forms that the generator writes; the rest is tested where it is parsed."""
    epoch = datetime(1970, 1, 1)
    if type(value) is int:
        per_unit = timedelta(days=1) if scalar is Scalar.DATE else timedelta(milliseconds=1)
        try:
            epoch + per_unit * value
        except OverflowError as error:
            raise Refused from error
        return value
    if type(value) is not str:
        raise Refused
    try:
        if len(value) == 10:
            days = (date.fromisoformat(value) - date(1970, 1, 1)).days
            return days if scalar is Scalar.DATE else days * 86_400_000
        moment = datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError as error:
        raise Refused from error
    if moment.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20) != value:
        raise Refused
    milliseconds = (moment - epoch) // timedelta(milliseconds=1)
    return milliseconds // 86_400_000 if scalar is Scalar.DATE else milliseconds


def reference(data: bytes):
    rows, refused = [], []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip(b" \t\r"):
            continue
        try:
            rows.append((number, *reference_line(line)))
        except (Refused, RecursionError):
            refused.append(number)
    return rows, refused


def exported(parsed):
    """The rows of a result in the form of the reference."""
    rows = []
    for key, typed in parsed.rows.items():
        columns = {
            name: [v for chunk in typed.columns[name].chunks for v in export_values(chunk)]
            for name in typed.columns.column_names
        }
        for place, line in enumerate(typed.lines.to_pylist()):
            row = {name: values[place] for name, values in columns.items()}
            ends = (row.pop("src"), row.pop("dst")) if key.startswith("edge:") else None
            rows.append((line, key, row.pop("id"), ends, row))
    return sorted(rows, key=lambda row: row[0])


def agree(data: bytes) -> None:
    parsed = parse_lines(data, SPECS, at_file_start=False)
    rows, refused = reference(data)
    assert exported(parsed) == rows
    assert sorted({problem.line for problem in parsed.problems}) == refused


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ['":', '"s":1', "a : b", "\\", '\\":', "{", "null", "2024-01-02", "http://x"]
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 9)
MOMENTS = st.datetimes().map(lambda d: f"{d.year:04d}-{d.strftime('%m-%dT%H:%M:%SZ')}")
BLOBS = st.binary(max_size=5).map(lambda data: "base64:" + base64.b64encode(data).decode())
GOOD = {
    "at": MOMENTS | st.integers(-(10**12), 10**12),
    "b": st.booleans(),
    "blob": BLOBS | st.just("s3://b/k"),
    "day": st.dates().map(date.isoformat) | st.integers(-1000, 10**5),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    "g": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70),
    "i": st.integers(-(2**31), 2**31 - 1),
    "s": TEXT,
    "tags": st.lists(TEXT, max_size=3),
    "u": st.integers(0, 2**64 - 1),
    "v": st.lists(st.floats(-1e9, 1e9) | st.integers(-9, 9), min_size=2, max_size=2),
    "w": st.floats(allow_nan=False, allow_infinity=False),
    "id": TEXT,
}
ANY = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | MOMENTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)


@st.composite
def members(draw, names, always=()):
    """Members in any order, most of them as they should be, perhaps one twice."""
    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names)))
    chosen += [name for name in always if name not in chosen]
    chosen = draw(st.permutations(chosen))
    if chosen and draw(st.integers(0, 9)) == 0:
        chosen.append(draw(st.sampled_from(chosen)))
    pairs = []
    for name in chosen:
        wrong = draw(st.integers(0, 19)) == 0
        pairs.append((name, draw(ANY if wrong else GOOD[name])))
    if draw(st.integers(0, 19)) == 0:
        pairs.append((draw(TEXT), draw(ANY)))
    return pairs


def written(pairs, draw) -> str:
    """An object as text: members may repeat, so the standard library cannot write it whole."""
    colon, comma = draw(st.sampled_from([(":", ","), (": ", ", "), (" :", "\t,"), ("\t: ", " ,")]))
    parts = [
        f"{name if raw else json.dumps(name, ensure_ascii=draw(st.booleans()))}{colon}{value}"
        for name, value, raw in pairs
    ]
    return "{" + comma.join(parts) + "}"


@st.composite
def records(draw):
    is_edge = draw(st.booleans())
    names = ["id", "w"] if is_edge else [n for n in GOOD if n != "w"]
    data = draw(members(names, always=() if is_edge else ("s",)))
    escaped = draw(st.booleans())
    fields = [(n, json.dumps(v, ensure_ascii=escaped), False) for n, v in data]
    data_text = written(fields, draw)
    if is_edge:
        edge = draw(st.sampled_from(["Ed", "ED", "ed", "Ed", "Nope"]))
        envelope = [("edge", json.dumps(edge), False)]
        envelope += [(end, json.dumps(draw(TEXT)), False) for end in ("from", "to")]
    else:
        envelope = [("type", draw(st.sampled_from(['"N"', '"N"', '"N"', '"n"', "1"])), False)]
    if draw(st.integers(0, 4)):
        envelope.append(("data", data_text, False))
    if draw(st.integers(0, 14)) == 0:
        envelope.append(draw(st.sampled_from(envelope)))
    if draw(st.integers(0, 4)) == 0:
        envelope = draw(st.permutations(envelope))
    return written(envelope, draw).encode()


@st.composite
def corrupted(draw):
    line = bytearray(draw(records()))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(line)))
        match draw(st.sampled_from(["drop", "put", "repeat", "escape"])):
            case "drop":
                del line[place : place + draw(st.integers(1, 4))]
            case "put":
                noise = [b'"', b":", b",", b"{", b"}", b"[", b"]", b"\\", b"0", b"-", b".", b"e"]
                noise += [b"\xff", b"\x00", b"\x0c", b"\r", b" ", b"NaN", b"null", b"1e999"]
                line[place:place] = draw(st.sampled_from(noise))
            case "repeat":
                end = draw(st.integers(place, len(line)))
                line[end:end] = line[place:end]
            case "escape":
                escapes = [b"\\ud800", b"\\udc00", b"\\u0041", b"\\ud83d\\ude00", b"\\x", b"\\n"]
                line[place:place] = draw(st.sampled_from(escapes))
    return bytes(line).replace(b"\n", b" ")


@given(st.lists(records(), max_size=8))
@settings(max_examples=150)
def test_records_are_read_as_the_grammar_says(lines):
    agree(b"\n".join(lines))


@given(st.lists(records() | corrupted() | st.sampled_from([b"", b" ", b"\r"]), max_size=6))
@settings(max_examples=200)
def test_damaged_lines_are_refused_exactly_where_the_grammar_refuses_them(lines):
    agree(b"\r\n".join(lines))


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_arbitrary_bytes_do_no_harm(lines):
    agree(b"\n".join(lines))


@pytest.mark.parametrize(
    "number",
    ["1" * 400, "1" * 400 + "e-390", "0." + "0" * 400 + "1e401", "1e-5000", "-0", "-0.0", "1E+2"],
)
@pytest.mark.parametrize("name", ["f", "g", "i", "u", "at"])
def test_numbers_at_the_edge_of_what_can_be_written_are_read_alike(name, number):
    agree(f'{{"type":"N","data":{{"s":"x","{name}":{number}}}}}'.encode())
