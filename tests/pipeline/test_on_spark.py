"""Tests that need a real session, in one file, so that one session serves them."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import BadRequest, ConstraintViolated, RowsRejected, StorageFailure
from omnigraph.pipeline.check_stages import Sizes
from omnigraph.pipeline.tasks import InlineTasks, SparkTasks, check_executors, describe
from omnigraph.settings import EmbedProvider, EmbedSettings, Settings, SparkSettings
from pipeline import test_bad_records as bad
from pipeline.differential import compare
from pipeline.fault_kernels import fail
from pipeline.load_engines import described, load
from pipeline.random_loads import normal
from pipeline.skip_errors_load import compare_left

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob?  place: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
"""
PEOPLE = [{"type": "Person", "data": {"name": f"p{i}", "age": i}} for i in range(20)]
KNOWS = [
    {"edge": "Knows", "from": f"p{i}", "to": f"p{i + 1}", "data": {"id": f"k{i}"}}
    for i in range(19)
]


def test_tasks_give_the_same_on_spark_and_inline(spark):
    tasks = list(range(5))
    on_spark, inline = SparkTasks(spark), InlineTasks()
    assert on_spark.run(describe, tasks, None) == inline.run(describe, tasks, None)
    assert on_spark.application == spark.sparkContext.applicationId
    assert on_spark.times[0].tasks == 5


def test_a_mistake_in_the_input_is_not_tried_again(spark, new_graph, tmp_path):
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"PAR1 no")
    with pytest.raises(BadRequest, match=r"broken\.parquet"):
        new_graph(SCHEMA).load(path, "append", engine="spark", type="Person")


def test_a_failing_kernel_ends_the_load_with_its_reason(spark):
    with pytest.raises(StorageFailure, match=r"reading failed on Spark: .*fails every time"):
        SparkTasks(spark).run(fail, [1], None, stage="reading")


def test_only_a_function_of_a_module_can_be_a_kernel(spark):
    for tasks in (InlineTasks(), SparkTasks(spark)):
        with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
            tasks.run(lambda _spec, task: task, [1], None)


def test_executors_of_this_machine_need_no_look(spark, monkeypatch):
    """No job runs. Spark reports jobs in order: once the second is reported, none was first."""
    monkeypatch.setattr("omnigraph.pipeline.tasks._checked", set())
    context, tracker = spark.sparkContext, spark.sparkContext.statusTracker()
    context.setJobGroup("look", "what check_executors runs")
    check_executors(spark)
    context.setJobGroup("afterwards", "a job that is certain to run")
    assert spark.range(1).count() == 1
    while not tracker.getJobIdsForGroup("afterwards"):
        time.sleep(0.01)
    assert list(tracker.getJobIdsForGroup("look")) == []


@pytest.mark.parametrize("block", range(4))
def test_random_loads_end_as_in_the_small_path(templates, tmp_path, spark, block):
    for seed in range(160 + block * 10, 170 + block * 10):
        compare(templates, tmp_path, seed, ("small", "spark"))


def test_the_same_rows_are_left_out_on_spark(paired_templates, tmp_path, spark):
    for seed in range(1000, 1012):
        compare_left(paired_templates, tmp_path, seed, ("inline", "spark"))


def test_keys_divided_among_workers_are_all_checked(templates, tmp_path, spark, monkeypatch):
    tiny = Sizes(keys_per_task=4, keys_worth_a_task=2, rows_per_task=4)
    monkeypatch.setattr("omnigraph.pipeline.bulk_load.SIZES", tiny)
    for seed in range(300, 303):
        compare(templates, tmp_path, seed, ("small", "spark"))


@pytest.mark.fuzz
def test_a_long_run_of_random_loads_ends_the_same_way(templates, tmp_path, spark):
    for seed in range(5500, 6000):
        compare(templates, tmp_path, seed, ("small", "spark"))


@pytest.mark.fuzz
def test_a_long_run_of_loads_that_leave_out_is_the_same_on_spark(paired_templates, tmp_path, spark):
    for seed in range(1012, 1200):
        compare_left(paired_templates, tmp_path, seed, ("inline", "spark"))


@pytest.fixture(scope="module")
def bad_base(tmp_path_factory):
    graph = omnigraph.init(tmp_path_factory.mktemp("bad") / "base.omni", bad.SCHEMA)
    graph.load(bad.BASE, "append")
    return graph


def test_unreadable_records_are_refused_alike_on_spark(spark, bad_base):
    data = bad.as_file([*bad.BAD_RECORDS.values(), *bad.BAD_FILES["mistakes in several lines"]])
    refused = {}
    for engine in ("small", "spark"):
        with pytest.raises(RowsRejected) as raised:
            load(bad_base, data, "append", engine)
        refused[engine] = described(raised.value)
    assert refused["spark"] == refused["small"]
    assert refused["spark"][1] > 50


RULES = list(bad.BAD_RECORDS)[list(bad.BAD_RECORDS).index("an id that is not the key") :]


@pytest.mark.parametrize("name", RULES)
def test_a_record_that_breaks_a_rule_is_refused_alike_on_spark(spark, bad_base, name):
    data = bad.as_file([bad.BAD_RECORDS[name]])
    assert bad.verdict(bad_base, data, "spark") == bad.verdict(bad_base, data, "small")


def test_a_data_frame_is_loaded_and_its_bad_rows_are_found(spark, new_graph):
    graph = new_graph(SCHEMA)
    columns = {"name": [f"p{i}" for i in range(50)], "years": list(range(50))}
    frame = spark.createDataFrame(pa.table(columns)).repartition(3)
    result = graph.load(frame, "append", type="Person", columns={"name": "name", "age": "years"})
    assert (result.engine, result.nodes) == ("spark", {"Person": 50})
    assert {r["data"]["age"] for r in graph.export(["Person"])} == set(range(50))
    edges = spark.createDataFrame(pa.table({"from": ["p1", "p2"], "to": ["p2", "gone"]}))
    with pytest.raises(ConstraintViolated, match="dst 'gone' not found in Person") as refused:
        graph.load(edges.coalesce(1), "append", type="Knows")
    assert refused.value.violations[0].line == 2
    wrong = spark.createDataFrame(pa.table({"name": ["x", None]})).coalesce(1)
    with pytest.raises(RowsRejected, match="line 2"):
        graph.load(wrong, "append", type="Person")


def test_a_data_frame_is_not_loaded_without_spark(spark, new_graph):
    frame = spark.createDataFrame(pa.table({"name": ["x"]}))
    assert new_graph(SCHEMA).load(frame, "append", type="Person", engine="local").engine == "spark"


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_export_on_spark_is_the_embedded_export_as_a_set(spark, new_graph, tmp_path, format):
    graph = new_graph(SCHEMA)
    for start in (0, 10):
        graph.load(PEOPLE[start : start + 10], "append")
    graph.load(KNOWS, "append")
    out = tmp_path / "out"
    result = graph.at().export_files(out, format=format, engine="spark")
    assert (result.rows, result.spark_app_id) == (39, spark.sparkContext.applicationId)
    if format == "jsonl":
        lines = [line for f in out.rglob("*.jsonl") for line in f.read_text().splitlines()]
        assert normal(map(json.loads, lines)) == normal(graph.export())
    again = new_graph(SCHEMA)
    again.load(out, "append", engine="spark")
    assert normal(again.export()) == normal(graph.export())


def test_a_load_reports_its_engine_and_its_stages(spark, new_graph, tmp_path):
    graph = new_graph(SCHEMA)
    path = tmp_path / "people.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in [*PEOPLE, *KNOWS]))
    body = graph.load(path, "append", engine="spark").wire()
    assert body["engine"] == "spark"
    assert body["spark_app_id"] == spark.sparkContext.applicationId
    assert [stage["stage"] for stage in body["stages"]] == ["read", "keys", "check", "write"]
    assert (body["rows"], body["bytes"]) == (39, path.stat().st_size)
    assert body["rows_per_second"] > 0


@pytest.mark.parametrize(
    ("mebibytes", "records", "engine"),
    [(0, PEOPLE, "spark"), (1, PEOPLE, "local"), (None, "frame", "spark")],
)
def test_auto_chooses_a_session_that_is_up_by_the_amount(
    spark, tmp_path, mebibytes, records, engine
):
    limit = {} if mebibytes is None else {"load_bytes": mebibytes << 20}
    settings = Settings(spark=SparkSettings(**limit))
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA, settings=settings)
    if records == "frame":
        frame = spark.createDataFrame([("p1",), ("p2",)], "name string")
        result = graph.load(frame, "append", type="Person")
    else:
        result = graph.load(records, "append")
    assert result.engine == engine
    assert (
        result.engine_reason
        == {
            "spark": "0 MiB of input" if mebibytes == 0 else "the rows are a Spark data frame",
            "local": "0 MiB of input; Spark is used from 1 MiB on",
        }[engine]
    )


def test_auto_uses_a_session_that_is_given(spark, new_graph):
    result = new_graph(SCHEMA).load(PEOPLE, "append", engine="auto", session=spark)
    assert (result.engine, result.engine_reason) == ("spark", "a Spark session was given")


def test_the_command_line_loads_on_spark(tmp_path):
    """With a session of its own, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "OMNIGRAPH_LOAD_ENGINE"}
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    path = tmp_path / "people.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in [*PEOPLE, *KNOWS]))
    program = [sys.executable, "-m", "omnigraph.cli", "load", graph.uri, "--data", str(path)]
    options = ["--mode", "append", "--spark-conf", "spark.master=local[1,2]", "--json"]
    done = subprocess.run(
        [*program, *options],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert (body["engine"], body["total_entities"]) == ("spark", 39)
    assert len(list(graph.export())) == 39


def test_vectors_are_computed_on_executors_as_they_are_in_the_process(spark, tmp_path):
    schema = 'node Note { slug: String @key  text: String  v: Vector(3) @embed("text") }'
    settings = Settings(embed=EmbedSettings(provider=EmbedProvider.MOCK))
    records = [{"type": "Note", "data": {"slug": f"n{i}", "text": f"t {i % 7}"}} for i in range(20)]
    found = []
    for engine in ("spark", "local"):
        graph = omnigraph.init(tmp_path / f"{engine}.omni", schema, settings=settings)
        assert graph.load(records, "append", engine=engine).engine == engine
        found.append(sorted(map(json.dumps, graph.export())))
    assert found[0] == found[1]
    assert '"v": null' not in "".join(found[0])
