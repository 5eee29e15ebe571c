import json

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from bench.generators.documents import document_graph
from bench.generators.files import write_csv, write_jsonl, write_parquet
from bench.generators.social import social_graph
from bench.hashing import hash_arrow, hash_rows

MAKERS = {
    "social": lambda: social_graph(seed=7, persons=200),
    "documents": lambda: document_graph(seed=7, documents=60, dimension=8),
}


@pytest.fixture(scope="module", params=MAKERS)
def maker(request):
    return MAKERS[request.param]


@pytest.fixture(scope="module")
def graph(maker):
    return maker()


@pytest.fixture(scope="module")
def expected(graph):
    return {name: hash_arrow(table) for name, table in graph.tables.items()}


def test_parquet_holds_the_graph(graph, expected, tmp_path):
    paths = write_parquet(graph, tmp_path)
    for name, path in paths.items():
        table = pq.read_table(path)
        assert table.schema.equals(graph.tables[name].schema)
        assert hash_arrow(table) == expected[name]


def test_csv_holds_the_graph(graph, expected, tmp_path):
    paths = write_csv(graph, tmp_path)
    found = {name: hash_rows(read_csv(path, graph.tables[name])) for name, path in paths.items()}
    assert found == expected


def read_csv(path, like):
    lists = {field.name for field in like.schema if pa.types.is_nested(field.type)}
    kinds = {
        field.name: pa.string() if field.name in lists else field.type for field in like.schema
    }
    options = pa_csv.ConvertOptions(
        column_types=kinds, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    for row in pa_csv.read_csv(path, convert_options=options).to_pylist():
        yield {name: json.loads(value) if name in lists else value for name, value in row.items()}


def test_json_lines_hold_the_graph(graph, expected, tmp_path):
    path = tmp_path / "graph.jsonl"
    assert write_jsonl(graph, path) == graph.rows
    rows = {name: [] for name in graph.tables}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if "type" in record:
            assert record.keys() == {"type", "data"}
            rows[record["type"]].append(record["data"])
        else:
            assert record.keys() == {"edge", "from", "to", "data"}
            ends = {"src": record["from"], "dst": record["to"]}
            rows[record["edge"]].append({**ends, **record["data"]})
    assert {name: hash_rows(found) for name, found in rows.items()} == expected


def test_json_lines_have_nodes_before_edges(graph, tmp_path):
    path = tmp_path / "graph.jsonl"
    write_jsonl(graph, path)
    kinds = ["node" if '{"type"' in line else "edge" for line in path.read_text().splitlines()]
    assert kinds == sorted(kinds, reverse=True)


def test_the_same_graph_is_the_same_bytes(maker, graph, tmp_path):
    again = maker()
    for number, made in enumerate((graph, again)):
        folder = tmp_path / str(number)
        write_parquet(made, folder)
        write_csv(made, folder)
        write_jsonl(made, folder / "graph.jsonl")
    for path in (tmp_path / "0").iterdir():
        assert path.read_bytes() == (tmp_path / "1" / path.name).read_bytes()
