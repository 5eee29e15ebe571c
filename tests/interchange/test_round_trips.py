"""Inferred, initialised and imported values are exported unchanged."""

from __future__ import annotations

import csv
import json
import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph

EPOCH = date(1970, 1, 1)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=12)
CELLS = st.one_of(
    TEXTS,
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["true", "False", "007", "1.50", "-0", "+1", "1e3", "[]", "[1,2]", '["a"]']),
    st.dates().map(str),
    st.datetimes(timezones=st.just(UTC)).map(lambda at: at.isoformat(timespec="milliseconds")),
)
COLUMNS = st.one_of(
    st.lists(CELLS, min_size=1, max_size=4),
    st.lists(st.integers(-5, 5).map(str), min_size=1, max_size=4),
    st.lists(st.dates().map(str), min_size=1, max_size=4),
    st.lists(st.floats(-10, 10).map(repr), min_size=1, max_size=4),
)
TABLES = st.lists(COLUMNS, min_size=1, max_size=3)


def means_the_same(cell: str, value: object, type_name: str) -> bool:
    """Return whether a value of the graph equals the cell, read as its type."""
    match type_name:
        case "Bool":
            return value is (cell.lower() == "true")
        case "I64":
            return str(value) == cell or (cell == "-0" and value == 0)
        case "F64":
            return value == float(cell)
        case "Date":
            return EPOCH + timedelta(days=value) == date.fromisoformat(cell)  # type: ignore[arg-type]
        case "DateTime":
            moment = datetime.fromisoformat(cell)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return value == round(moment.timestamp() * 1000)
        case "String":
            return value == cell
        case _:
            return value == json.loads(cell)


def write_texts(path: Path, columns: list[list[str]], delimiter: str) -> int:
    rows = max(map(len, columns))
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerow(["id", *(f"c{i}" for i in range(len(columns)))])
        for row in range(rows):
            writer.writerow([f"r{row}", *(column[row % len(column)] for column in columns)])
    return rows


def check_texts(tables: list[list[list[str]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "data"
        place.mkdir()
        rows = {}
        for number, columns in enumerate(tables):
            suffix, delimiter = (".tsv", "\t") if number % 2 else (".csv", ",")
            name = f"thing{chr(97 + number)}"
            rows[name] = write_texts(place / f"{name}{suffix}", columns, delimiter)
        done = omnigraph.import_files(Path(folder) / "g.omni", place)
        found: dict[tuple[str, str], dict] = {}
        for record in done.graph.export():
            data: dict = record["data"]
            found[str(record["type"]).lower(), data["id"]] = data
        assert len(found) == sum(rows.values())
        for node, columns in zip(done.proposal.nodes, tables, strict=True):
            types = {one.column: str(one.type).rstrip("?") for one in node.properties}
            for row in range(rows[node.name.lower()]):
                values = found[node.name.lower(), f"r{row}"]
                for number, column in enumerate(columns):
                    name = f"c{number}"
                    if name not in types:
                        assert done.lost
                        continue
                    cell = column[row % len(column)]
                    assert means_the_same(cell, values[name], types[name]), (cell, types[name])


@settings(max_examples=4)
@given(st.lists(TABLES, min_size=4, max_size=8))
def test_every_cell_of_a_text_file_keeps_its_meaning(tables):
    check_texts(tables)


@pytest.mark.fuzz
@settings(max_examples=500)
@given(st.lists(TABLES, min_size=1, max_size=8))
def test_every_cell_of_any_text_file_keeps_its_meaning(tables):
    check_texts(tables)


VALUES = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "t": TEXTS,
        "b": st.booleans(),
        "l": st.lists(st.integers(-9, 9), max_size=3),
    }
)


@settings(max_examples=6)
@given(st.lists(VALUES, min_size=1, max_size=5), st.sampled_from(["parquet", "jsonl", "frame"]))
def test_tables_come_out_as_they_went_in(values, form):
    rows = [{"slug": f"k{number}", **one} for number, one in enumerate(values)]
    links = [{"from": row["slug"], "to": rows[0]["slug"], "since": 7} for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "data"
        place.mkdir()
        kinds = {"things": rows, "links": links}
        if form == "parquet":
            for name, of_kind in kinds.items():
                pq.write_table(pa.Table.from_pylist(of_kind), place / f"{name}.parquet")
        elif form == "jsonl":
            for name, of_kind in kinds.items():
                lines = "".join(json.dumps(one) + "\n" for one in of_kind)
                (place / f"{name}.jsonl").write_text(lines)
        sources = {"Thing": rows, "Link": links} if form == "frame" else place
        proposal = omnigraph.infer_schema(sources)
        graph = omnigraph.init(Path(folder) / "g.omni", proposal.source)
        done = omnigraph.import_files(graph, sources)
        assert (done.load.nodes, done.load.edges) == (
            {"Thing": len(rows)},
            {"Link": len(rows)},
        )
        exported = list(graph.export())
        records: list[dict] = [dict(one) for one in exported]
        found = {one["data"]["slug"]: one["data"] for one in records if one.get("type")}
        for row in rows:
            got = found[row["slug"]]
            assert {name: got.get(name) for name in row} == row
        ends = sorted((one["from"], one["to"]) for one in exported if "edge" in one)
        assert ends == sorted((one["from"], one["to"]) for one in links)
