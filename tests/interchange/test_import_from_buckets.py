"""Schemas are inferred and graphs imported from files in a bucket."""

from __future__ import annotations

import gzip

import pytest

import omnigraph
from omnigraph.errors import BadRequest
from omnigraph.pipeline.input_splits import open_filesystem, store_path
from s3_server import running_s3_server

pytestmark = pytest.mark.object_store

FILES = {
    "people.csv": b"id,name,joined\n1,Ada,2020-01-02\n2,Ben,\n",
    "knows.csv.gz": gzip.compress(b"from,to,since\n1,2,1998\n"),
}


@pytest.fixture(scope="module")
def server():
    with running_s3_server() as running:
        yield running


@pytest.fixture
def folder(server) -> str:
    place = f"{server.new_root()}-shop"
    put(server, place, FILES)
    return place


def put(server, folder: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        place = f"{folder}/{name}"
        with open_filesystem(place, server.settings.aws).open_output_stream(
            store_path(place), compression=None
        ) as stream:
            stream.write(content)


def test_a_folder_of_a_bucket_is_read_like_one_of_this_machine(server, folder, tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    here = omnigraph.infer_schema(tmp_path)
    there = omnigraph.infer_schema(folder, settings=server.settings)
    assert there.source == here.source
    chosen = omnigraph.infer_schema(f"{folder}/*.csv", settings=server.settings)
    assert [(one.name, one.tables[0].origin) for one in chosen.nodes] == [
        ("Person", f"{folder}/people.csv")
    ]
    done = omnigraph.import_files(server.new_root(), folder, settings=server.settings)
    assert (done.load.nodes, done.load.edges) == ({"Person": 2}, {"Knows": 1})
    more = omnigraph.import_files(done.graph, f"{folder}/people.csv", mode="merge")
    assert more.load.nodes == {"Person": 2}


def test_mistakes_name_the_address(server, folder):
    for place in (f"{folder}/nothing.csv", f"{folder}/*.json"):
        with pytest.raises(BadRequest, match="no file matches s3://"):
            omnigraph.infer_schema(place, settings=server.settings)
    put(server, folder, {"bad.parquet": b"no"})
    with pytest.raises(BadRequest, match=f"cannot read {folder}/bad.parquet as Parquet"):
        omnigraph.infer_schema(f"{folder}/bad.parquet", settings=server.settings)
