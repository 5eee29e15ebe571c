"""Optimizing with files that are written by tasks: the same graph as if it were done here."""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import omnigraph
from maintenance import test_same_answers as things
from maintenance.library_graph import (
    BOOK,
    LIKES,
    READER,
    READS,
    SCHEMA,
    TABLES,
    book,
    by_key,
    fragments,
    intents,
    native,
    reader,
    rows_of,
    run,
    table,
    unindexed,
    write_a_little,
)
from omnigraph.errors import BadRequest, StorageFailure
from omnigraph.pipeline.bulk_rewrite import COMPACT_STAGE, CompactionTasks
from omnigraph.pipeline.tasks import InlineTasks, Job, SparkTasks
from omnigraph.storage.tables.compaction import CompactionJob
from omnigraph.storage.tables.indices import describe_layout
from omnigraph.storage.tables.location import TableLocation
from pipeline.compaction_faults import deadly_tasks
from pipeline.fault_kernels import failing_tasks

TASKS = "omnigraph.pipeline.tasks.SparkTasks"
PHOTO = "base64:aGVsbG8="


@pytest.fixture(scope="module")
def library_template(tmp_path_factory):
    """Many small commits to every table but one; vectors, blobs and deleted rows among them."""
    graph = omnigraph.init(tmp_path_factory.mktemp("library") / "library.omni", SCHEMA)
    graph.load([book("a", year=1999, cover=PHOTO), book("b"), reader("ann")], "append")
    for n in range(4):
        feel = [float(n), 1.0, 2.0]
        graph.load([book(f"v{n}", year=1950 + n, feel=feel, cover=PHOTO)], "append")
    write_a_little(graph)
    run(graph, 'delete Book where slug = "b"')
    return Path(graph.uri)


@pytest.fixture
def place(library_template, tmp_path):
    return shutil.copytree(library_template, tmp_path / "library.omni")


@pytest.fixture
def library(place):
    return omnigraph.open(place, actor="tester")


def look_of(graph, branch="main"):
    """Rows, sizes of fragments and coverage of indexes."""
    return {
        key: (fragments(graph, key, branch), unindexed(graph, key, branch)) for key in TABLES
    } | {"rows": rows_of(graph, branch)}


def test_tables_end_up_as_if_optimized_in_process(spark, library, place, tmp_path):
    here = omnigraph.open(shutil.copytree(place, tmp_path / "here.omni"), actor="tester")
    commits = len(library.commits())
    in_process, on_spark = here.optimize(), library.optimize(engine="spark")
    assert on_spark.tables == in_process.tables
    assert look_of(library) == look_of(here)
    assert len(library.commits()) == commits + 1
    assert fragments(library, BOOK) == [9]
    assert set(unindexed(library, BOOK)) == {"id", "slug", "year", "bought", "shelf", "feel"}
    assert not any(sum(unindexed(library, key).values()) for key in TABLES)
    assert library.verify(deep=True).findings == ()


def test_a_prebuilt_index_is_used(spark, library):
    library.optimize(engine="spark")
    plan = native(library, BOOK).scanner(filter="year = 1951").explain_plan()
    assert "ScalarIndexQuery" in plan
    near = {"column": "feel", "q": [3.0, 1.0, 2.0], "k": 1}
    assert "ANN" in native(library, BOOK).scanner(nearest=near).explain_plan()
    asked = "query q() { match { $b: Book  $b.year = 1951 } return { $b.slug } }"
    assert library.query(asked).rows == [{"b.slug": "v1"}]


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_every_query_gives_the_same_answer_before_and_after(spark, tmp_path, branch):
    chance = random.Random(3)
    graph = omnigraph.init(tmp_path / "things.omni", things.SCHEMA)
    graph.load([things.thing(f"t{n}", chance) for n in range(20)], "append")
    if branch == "dev":
        graph.create_branch("dev")
    for n in range(5):
        near = {"edge": "Near", "from": "t1", "to": f"n{n}", "data": {"weight": 1}}
        changed = things.thing(f"t{chance.randrange(20)}", chance)
        graph.load([things.thing(f"n{n}", chance), near, changed], "merge", branch=branch)
    before = things.answers(graph, branch)
    assert graph.ensure_indices(branch=branch, engine="spark") == ()
    assert things.answers(graph, branch) == before
    assert graph.optimize(branch=branch, engine="spark").commit is not None
    assert things.answers(graph, branch) == before
    graph.cleanup(keep=1, confirm=True)
    assert things.answers(omnigraph.open(graph.uri, read_only=True), branch) == before
    assert graph.verify(deep=True).findings == ()


def test_blobs_of_every_size_are_read_from_merged_files(spark, library):
    """Small ones are stored in the rows, larger ones in shared files or in their own."""
    sizes = {"small": 10, "packed": 200_000, "alone": 5 << 20}
    contents = {slug: random.Random(size).randbytes(size) for slug, size in sizes.items()}
    for slug, content in contents.items():
        cover = f"base64:{base64.b64encode(content).decode()}"
        library.load([book(slug, cover=cover)], "append")
    library.optimize(engine="spark")
    library.cleanup(keep=1, confirm=True)
    again = omnigraph.open(library.uri, read_only=True)
    assert fragments(again, BOOK) == [12]
    for slug, content in contents.items():
        assert again.read_blob("Book", slug, "cover").read() == content
    covers = [cast("Any", r["data"]).get("cover") for r in again.export(["Book"])]
    assert covers.count(PHOTO) == 5


def test_building_indexes_merges_nothing(spark, library):
    before, rows = fragments(library, BOOK), rows_of(library)
    assert library.ensure_indices(engine="spark") == ()
    assert fragments(library, BOOK) == before
    assert rows_of(library) == rows
    assert not any(sum(unindexed(library, key).values()) for key in TABLES)


def test_a_second_run_finds_nothing_to_do_and_records_nothing(spark, library, monkeypatch):
    library.optimize(engine="spark")
    commits = len(library.commits())
    monkeypatch.setattr(TASKS, deadly_tasks("plans"))
    again = library.optimize(engine="spark")
    assert again.commit is None
    assert not any(one.committed for one in again.tables if one.table_key in TABLES)
    assert len(library.commits()) == commits


def test_all_tables_share_one_stage_of_a_round(spark, library):
    tasks = SparkTasks(spark)
    orders = [
        CompactionJob(
            table(library, key).location,
            table(library, key).version,
            groups=(tuple(f.id for f in describe_layout(table(library, key)).fragments),),
        )
        for key in (BOOK, READER, READS)
    ]
    delivered = CompactionTasks(lambda: tasks).carry_out(orders)
    assert [(time.stage, time.tasks) for time in tasks.times] == [(COMPACT_STAGE, 3)]
    assert [len(one.groups[0].written) for one in delivered] == [1, 1, 1]


@pytest.mark.parametrize("way", ["kill", "raise"])
def test_a_task_that_dies_once_is_done_again(spark, library, tmp_path, monkeypatch, way):
    monkeypatch.setattr(TASKS, failing_tasks(COMPACT_STAGE, tmp_path / "failed", way))
    rows, commits = rows_of(library), len(library.commits())
    library.optimize(engine="spark")
    assert (tmp_path / "failed").exists(), "the fault was met"
    assert fragments(library, BOOK) == [9]
    assert (rows_of(library), len(library.commits())) == (rows, commits + 1)
    assert library.verify(deep=True).findings == ()


@pytest.mark.parametrize("part", ["groups", "plans"])
def test_workers_that_always_die_leave_the_graph_to_the_next_run(
    spark, library, place, monkeypatch, part
):
    rows, commits = rows_of(library), len(library.commits())
    with monkeypatch.context() as patched:
        patched.setattr(TASKS, deadly_tasks(part))
        with pytest.raises(StorageFailure, match=f"{COMPACT_STAGE} failed on Spark"):
            library.optimize(engine="spark")
    assert (rows_of(library), len(library.commits())) == (rows, commits)
    assert intents(place) == []
    assert library.verify(deep=True).findings == ()
    library.optimize(engine="spark")
    assert fragments(library, BOOK) == [9]
    assert (rows_of(library), len(library.commits())) == (rows, commits + 1)
    assert library.verify(deep=True).findings == ()


def test_work_survives_writers_that_come_between(spark, library, monkeypatch):
    """One adds rows, which spoils nothing; one takes a row away, and its group is done again."""
    other = omnigraph.open(library.uri)
    stages = []

    class Overtaken(SparkTasks):
        def run_all(self, jobs, *, stage=""):
            done = super().run_all(jobs, stage=stage)
            stages.append(stage)
            if len(stages) == 1:
                other.load([book("late", year=2001)], "append")
            elif len(stages) == 2:
                run(other, 'delete Reader where slug = "rx1"')
            return done

    monkeypatch.setattr(TASKS, Overtaken)
    done = by_key(library.optimize(engine="spark").tables)
    assert len(stages) > 2
    assert all(done[key].committed for key in (BOOK, READER, READS))
    assert not done[LIKES].committed, "it has no rows"
    assert {r["data"]["slug"] for r in library.export(["Book"])} >= {"late", "v1", "x3"}
    assert "rx1" not in {r["data"]["slug"] for r in library.export(["Reader"])}
    assert library.verify(deep=True).findings == ()


def test_an_order_for_a_version_that_was_removed_delivers_nothing(library):
    first = table(library, BOOK)
    ids = tuple(f.id for f in describe_layout(first).fragments)
    library.optimize()
    library.cleanup(keep=1, confirm=True)
    now = table(library, READER)
    alive = CompactionJob(now.location, now.version, groups=((now.fragments()[0].id,),))
    gone = CompactionJob(first.location, first.version, groups=(ids[:2], ids[2:]))
    delivered = CompactionTasks(InlineTasks).carry_out([gone, alive])
    assert delivered[0] is None
    assert delivered[1] is not None


def test_executors_that_read_another_path_are_an_error(spark, library, monkeypatch, tmp_path):
    class Elsewhere(SparkTasks):
        def run_all(self, jobs, *, stage=""):
            nowhere = TableLocation(str(tmp_path / "nowhere"))
            moved = [
                Job(job.kernel, [replace(task, location=nowhere) for task in job.tasks], job.spec)
                for job in jobs
            ]
            return super().run_all(moved, stage=stage)

    monkeypatch.setattr(TASKS, Elsewhere)
    before = look_of(library)
    with pytest.raises(StorageFailure, match=r"executors do not see .*library\.omni"):
        library.optimize(engine="spark")
    assert look_of(library) == before


def test_where_nothing_is_to_be_done_no_session_is_started(library, monkeypatch):
    library.optimize()

    def started(*_, **__):
        raise AssertionError("there was nothing to do")

    monkeypatch.setattr("omnigraph.pipeline.spark_session.spark", started)
    assert library.optimize(engine="spark").commit is None
    assert library.ensure_indices(engine="spark") == ()


def test_an_unknown_engine_is_refused(library):
    with pytest.raises(BadRequest, match="engine 'flink' is not one of"):
        library.optimize(engine="flink")
    with pytest.raises(BadRequest, match="engine 'flink' is not one of"):
        library.ensure_indices(engine="flink")


def test_the_command_line_optimizes_on_spark(library):
    """With a session of its own, in a process of its own."""
    rows = rows_of(library)
    program = [sys.executable, "-m", "omnigraph.cli", "optimize", library.uri]
    options = ["--engine", "spark", "--spark-conf", "spark.master=local[1,2]", "--json"]
    done = subprocess.run(
        [*program, *options], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found = {one["table_key"]: one for one in json.loads(done.stdout)["tables"]}
    assert found[BOOK]["committed"]
    again = omnigraph.open(library.uri)
    assert fragments(again, BOOK) == [9]
    assert rows_of(again) == rows
