"""Input, staging, tables and exports in a bucket, without any jar for it."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

import omnigraph
from omnigraph.embedding.text_vectors import open_task_vectors, remove_answers
from omnigraph.errors import BadRequest, RowsRejected
from omnigraph.pipeline.input_splits import open_filesystem, store_path
from omnigraph.settings import EmbedProvider, EmbedSettings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import STAGING
from pipeline.random_loads import normal

pytestmark = pytest.mark.object_store

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person
"""
RECORDS = [{"type": "Person", "data": {"name": f"p{i}", "photo": "base64:AAE="}} for i in range(9)]
RECORDS += [
    {"edge": "Knows", "from": "p0", "to": f"p{i}", "data": {"id": f"k{i}"}} for i in range(9)
]


@pytest.fixture
def graph(s3_server):
    return omnigraph.init(s3_server.new_root(), SCHEMA, settings=s3_server.settings)


def put(s3_server, place: str, text: str) -> None:
    files = open_filesystem(place, s3_server.settings.aws)
    with files.open_output_stream(store_path(place)) as stream:
        stream.write(text.encode())


def lines(records: list[dict]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_files_of_a_bucket_are_loaded_and_exported(s3_server, graph, request, engine):
    if engine == "spark":
        request.getfixturevalue("spark")
    folder = s3_server.new_root() + "-input"
    put(s3_server, f"{folder}/a.jsonl", lines(RECORDS[:9]))
    put(s3_server, f"{folder}/b.jsonl", lines(RECORDS[9:]))
    result = graph.load(f"{folder}/*.jsonl", "append", engine=engine, format="jsonl")
    assert (result.engine, result.total_entities) == (engine, 18)
    graph.load(lines(RECORDS[:3]).encode(), "merge", engine=engine, partial=True)
    out = s3_server.new_root() + "-out"
    assert graph.at().export_files(out, format="parquet", engine=engine).rows == 18
    again = omnigraph.init(s3_server.new_root(), SCHEMA, settings=s3_server.settings)
    again.load([out], "append", engine=engine)
    assert normal(again.export()) == normal(graph.export())
    assert graph._open.views.root.store.list_prefixes(STAGING) == ()


def test_mistakes_name_the_object(s3_server, graph):
    place = s3_server.new_root() + "-bad.jsonl"
    put(s3_server, place, "{\n")
    with pytest.raises(RowsRejected) as refused:
        graph.load([place], "append")
    assert (refused.value.problems[0].file, refused.value.problems[0].line) == (place, 1)
    with pytest.raises(BadRequest, match="no file matches"):
        graph.load([s3_server.new_root() + "-nothing/*.jsonl"], "append")


def test_answers_of_a_provider_are_stored_until_the_rows_are_committed(s3_server):
    embed = EmbedSettings(provider=EmbedProvider.MOCK)
    root = GraphRoot.at(s3_server.new_root(), replace(s3_server.settings, embed=embed))
    made = open_task_vectors(root).ask(["tides", "embers", "tides"], 3)
    sent = pickle.loads(pickle.dumps(open_task_vectors(root)))
    assert sent.answers.find(["embers", "new"], "", 3) == {"embers": pytest.approx(made["embers"])}
    assert sent.answers.find(["embers"], "", 2) == {}
    assert sent.answers.find(["embers"], "other", 3) == {}
    remove_answers(root)
    assert sent.answers.find(["embers"], "", 3) == {}
