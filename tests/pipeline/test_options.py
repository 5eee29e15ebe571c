"""Options of a load by tasks: skipping, partial records, branches, and races."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    ConstraintViolated,
    PreconditionFailed,
    ReadSetChanged,
    RowsRejected,
)
from omnigraph.pipeline.bulk_load import LoadJob
from omnigraph.pipeline.check_stages import Sizes
from omnigraph.pipeline.kernels.staged_blocks import mint_ids
from omnigraph.pipeline.kernels.staged_row_reader import hash_strings
from omnigraph.pipeline.tasks import InlineTasks
from pipeline.differential import compare
from pipeline.fault_kernels import refuse
from pipeline.load_engines import load
from pipeline.random_loads import normal

SCHEMA = """
node Person { name: String @key  age: I32?  mood: enum(calm, wild)?  nick: String? @unique
              level: I32 @default(7)  must: String?  photo: Blob?  place: Vector(2)? }
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: Date? }
"""


def person(name: str, **data: object) -> dict:
    return {"type": "Person", "data": {"name": name} | data}


def knows(source: str, target: str, **data: object) -> dict:
    return {"edge": "Knows", "from": source, "to": target, "data": data}


HASHES = [
    0,
    12421751566162835060,
    11255049691653091808,
    14454327359346297788,
    17522728941629337299,
    7124771695744996775,
    0,
    2844726989450814765,
]

BASE = [person("ada", age=1, photo="base64:AAEC", place=[1, 2]), person("ben", nick="b")]


@pytest.fixture
def graph(new_graph):
    made = new_graph(SCHEMA)
    made.load([*BASE, knows("ada", "ben", id="k1")], "append")
    return made


def people(graph, branch: str = "main") -> dict:
    return {r["data"]["name"]: r["data"] for r in graph.export(["Person"], branch=branch)}


# --- leaving out ----------------------------------------------------------------------------------

BAD = [
    "{",
    json.dumps(person("cy", age="x")),
    json.dumps(person("dee", id="other")),
    json.dumps(person("ada", age=5)),
    json.dumps(person("eve", mood="odd")),
    json.dumps(person("fay", nick="b")),
    json.dumps(knows("ada", "nobody", id="k8")),
    json.dumps(knows("ada", "eve", id="k9")),
]
GOOD = [json.dumps(person("gus")), json.dumps(knows("gus", "ada", id="k2"))]


def test_bad_rows_are_skipped_on_request(graph):
    data = "\n".join([GOOD[0], *BAD, GOOD[1]]).encode()
    result = load(graph, data, "append", "inline", on_error="skip")
    assert set(people(graph)) == {"ada", "ben", "gus"}
    assert people(graph)["ada"]["age"] == 1, "an existing key is left alone"
    assert {r["data"]["id"] for r in graph.export(["Knows"])} == {"k1", "k2"}
    assert result.skipped.total == len(BAD)
    assert (result.nodes, result.edges) == ({"Person": 1}, {"Knows": 1})
    assert sorted(p.line for p in result.skipped.first) == list(range(2, 2 + len(BAD)))


def test_every_refused_record_is_written_to_the_file_of_rejects(graph, tmp_path):
    data = "\n".join([GOOD[0], *BAD, GOOD[1]]).encode()
    rejects = tmp_path / "rejects.jsonl"
    load(graph, data, "append", "inline", on_error="skip", rejects=rejects)
    lines = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert sorted(line["line"] for line in lines) == list(range(2, 2 + len(BAD)))
    assert next(one for one in lines if one["line"] == 2)["record"] == "{"
    assert {"malformed", "bad_value", "id_mismatch"} <= {line["code"] for line in lines}


def test_a_refused_load_writes_its_rejects_too(graph, tmp_path):
    rejects = tmp_path / "rejects.jsonl"
    many = "\n".join(["{"] * 250).encode()
    with pytest.raises(RowsRejected) as refused:
        load(graph, many, "append", "inline", rejects=rejects)
    assert (len(refused.value.problems), refused.value.total) == (100, 250)
    assert len(rejects.read_text().splitlines()) == 250
    wrong = [person(f"x{i}", mood="odd") for i in range(150)]
    with pytest.raises(ConstraintViolated) as broken:
        load(graph, wrong, "append", "inline", rejects=rejects)
    assert (len(broken.value.violations), broken.value.total) == (100, 150)
    assert len(rejects.read_text().splitlines()) == 150


def test_of_a_source_with_too_many_edges_the_last_ones_are_left_out(graph):
    edges = [knows("ben", "ada", id=f"n{i}") for i in range(3)]
    edges.insert(1, knows("ada", "ada", id="k2"))
    result = load(graph, edges, "append", "inline", on_error="skip")
    assert {r["data"]["id"] for r in graph.export(["Knows"])} == {"k1", "k2", "n0", "n1"}
    (left,) = result.skipped.first
    assert (left.line, left.id, left.code) == (4, "n2", "cardinality_violation")
    assert "source 'ben' has 3 edges (max 2)" in left.reason
    assert (result.edges, result.skipped.total) == ({"Knows": 3}, 1)


def test_an_edge_that_only_changes_is_not_one_too_many(graph):
    graph.load([knows("ada", "ben", id="k2")], "append")
    edges = [knows("ada", "ben", id="k3"), knows("ada", "ada", id="k2")]
    result = load(graph, edges, "merge", "inline", on_error="skip")
    assert [problem.id for problem in result.skipped.first] == ["k3"]
    assert {r["data"]["id"]: r["to"] for r in graph.export(["Knows"])} == {"k1": "ben", "k2": "ada"}


PAIRS = """
node T { k: String @key  n: I32? @unique  @range(n, 0..9) }
edge Two: T -> T @card(2..3)
"""


def t(key: str, **members: object) -> dict:
    return {"type": "T", "data": {"k": key, **members}}


def two(source: str, target: str, id: str) -> dict:
    return {"edge": "Two", "from": source, "to": target, "data": {"id": id}}


def twos(graph) -> dict:
    return {r["data"]["id"]: r["from"] for r in graph.export(["Two"])}


def test_edges_of_a_source_that_is_left_with_too_few_are_left_out(new_graph):
    graph = new_graph(PAIRS)
    records = [t("a"), t("b"), two("a", "b", "e1"), two("a", "gone", "e2")]
    records += [two("b", "a", "e3"), two("b", "b", "e4")]
    result = load(graph, records, "append", "inline", on_error="skip")
    assert twos(graph) == {"e3": "b", "e4": "b"}
    assert (result.nodes, result.skipped.total) == ({"T": 2}, 2)
    reasons = {problem.line: problem.reason for problem in result.skipped.first}
    assert reasons[4] == "dst 'gone' not found in T"
    assert "source 'a' has 1 edges (min 2)" in reasons[3]


def test_an_edge_that_would_leave_its_source_with_too_few_stays_there(new_graph):
    graph = new_graph(PAIRS)
    graph.load([t("a"), t("b"), two("a", "b", "e1"), two("a", "a", "e2")], "append")
    moved = [two("b", "a", "e1"), two("b", "a", "e3")]
    result = load(graph, moved, "merge", "inline", on_error="skip")
    assert twos(graph) == {"e1": "a", "e2": "a"}
    assert [problem.line for problem in result.skipped.first] == [1, 2]


def test_a_row_that_is_left_out_of_a_merge_leaves_the_old_one_in_place(new_graph):
    graph = new_graph(PAIRS)
    graph.load([t("a", n=1), t("b", n=2)], "append")
    records = [t("a", n=10), t("b", n=1), t("c", n=2), t("d", n=3)]
    result = load(graph, records, "merge", "inline", on_error="skip")
    found = {r["data"]["k"]: r["data"]["n"] for r in graph.export(["T"])}
    assert found == {"a": 1, "b": 2, "d": 3}, "a stays, hence b stays, hence c does not fit"
    assert [problem.line for problem in result.skipped.first] == [1, 2, 3]
    assert graph.verify(deep=True).findings == ()


def test_sources_that_an_overwrite_leaves_without_edges_refuse_it(new_graph):
    graph = new_graph(PAIRS)
    graph.load([t("a"), t("b"), two("a", "b", "e1"), two("a", "a", "e2")], "append")
    edges = [two("b", "a", "e3"), two("b", "b", "e4"), two("a", "gone", "e5")]
    with pytest.raises(ConstraintViolated, match=r"source 'a' has 0 edges \(min 2\)"):
        load(graph, edges, "overwrite", "inline", on_error="skip")
    assert twos(graph) == {"e1": "a", "e2": "a"}


def test_edges_that_lose_an_end_refuse_an_overwrite(new_graph):
    """They exist already and the input does not name them."""
    graph = new_graph(PAIRS)
    graph.load([t("a"), t("b"), two("a", "b", "e1"), two("a", "a", "e2")], "append")
    with pytest.raises(ConstraintViolated, match="dst 'b' not found in T"):
        load(graph, [t("a"), t("b", n=10)], "overwrite", "inline", on_error="skip")
    assert len(list(graph.export())) == 4


def test_a_type_of_which_every_row_is_bad_is_not_overwritten(new_graph):
    graph = new_graph(PAIRS)
    graph.load([t("a"), t("b"), two("a", "b", "e1"), two("a", "a", "e2")], "append")
    records = [t("a", n=10), t("b", n=11), two("b", "a", "e3"), two("b", "b", "e4")]
    with pytest.raises(ConstraintViolated, match="source 'a' has 0 edges"):
        load(graph, records, "overwrite", "inline", on_error="skip")
    records += [two("a", "b", "e5"), two("a", "a", "e6")]
    result = load(graph, records, "overwrite", "inline", on_error="skip")
    assert (result.nodes, result.edges, result.skipped.total) == ({}, {"Two": 4}, 2)
    assert {r["data"]["k"] for r in graph.export(["T"])} == {"a", "b"}


def test_a_row_with_an_address_for_a_blob_is_left_out(new_graph):
    graph = new_graph("node T { k: String @key  b: Blob? }")
    records = [t("a", b="base64:AAE="), t("b", b="https://example.com/x"), t("c")]
    result = load(graph, records, "append", "inline", on_error="skip")
    assert {r["data"]["k"] for r in graph.export()} == {"a", "c"}
    (left,) = result.skipped.first
    assert (left.line, left.code, left.property) == (2, "external_blob_policy", "b")
    assert result.skipped.total == 1


def test_a_row_that_breaks_several_rules_is_left_out_once(new_graph):
    graph = new_graph(PAIRS)
    graph.load([t("a", n=1)], "append")
    result = load(graph, [t("b", n=1), two("x", "y", "e1")], "append", "inline", on_error="skip")
    assert (result.skipped.total, len(result.skipped.first)) == (2, 2)


def test_an_unknown_way_to_treat_errors_is_refused(graph):
    with pytest.raises(BadRequest, match="on_error"):
        load(graph, [], "append", "inline", on_error="ignore")


# --- partial records ------------------------------------------------------------------------------


def test_a_partial_record_keeps_what_it_leaves_out(graph):
    before = people(graph)["ada"]
    records = [person("ada", age=50), person("ben", nick=None), person("new", age=1)]
    load(graph, records, "merge", "inline", partial=True)
    after = people(graph)
    assert after["ada"] == before | {"age": 50}
    assert after["ben"]["nick"] is None
    assert (after["new"]["level"], after["new"]["age"]) == (7, 1)


def test_a_partial_record_of_a_new_entity_must_be_whole(new_graph):
    graph = new_graph("node T { k: String @key  must: String  other: I32? }")
    graph.load([{"type": "T", "data": {"k": "a", "must": "m"}}], "append")
    records = [{"type": "T", "data": {"k": "a", "other": 1}}, {"type": "T", "data": {"k": "b"}}]
    with pytest.raises(RowsRejected, match=r"line 2.*non-nullable property 'must'"):
        load(graph, records, "merge", "inline", partial=True)
    with pytest.raises(RowsRejected, match="non-nullable property 'k'"):
        load(graph, [{"type": "T", "data": {"other": 1}}], "merge", "inline", partial=True)
    result = load(graph, records, "merge", "inline", partial=True, on_error="skip")
    assert (result.nodes, result.skipped.total) == ({"T": 1}, 1)
    (record,) = graph.export()
    assert record["data"] == {"id": "a", "k": "a", "must": "m", "other": 1}


def test_rows_replace_others_in_any_order(new_graph, monkeypatch):
    monkeypatch.setattr("omnigraph.pipeline.kernels.write_kernel.ROWS_AT_ONCE", 7)
    graph = new_graph("node T { k: String @key  n: I32?  b: Blob? }")

    graph.load([t(f"k{i}", n=0) for i in range(40)], "append")
    names = [f"k{i * 7 % 60}" for i in range(60)]
    records = [t(name, n=place, b="base64:AAE=") for place, name in enumerate(names)]
    load(graph, records, "merge", "inline")
    found = {r["data"]["k"]: r["data"]["n"] for r in graph.export()}
    assert found == {name: place for place, name in enumerate(names)}
    assert graph.read_blob("T", "k59", "b").read() == b"\x00\x01"
    assert graph.verify(deep=True).findings == ()


def test_only_a_merge_can_be_partial(graph):
    with pytest.raises(BadRequest, match="only a merge"):
        load(graph, [], "append", "inline", partial=True)


# --- ids and hashes -------------------------------------------------------------------------------


def test_fresh_ids_are_ordered_and_never_repeat():
    ids = [id for _ in range(20) for id in mint_ids(1000).to_pylist()]
    assert len(set(ids)) == 20_000
    block = mint_ids(1000).to_pylist()
    assert block == sorted(block)
    assert all(len(id) == 26 for id in ids)


def test_the_hash_of_a_string_never_changes():
    """Two releases may work on one load, on two kinds of machines."""
    texts = pa.array(["", "a", "ab", "ba", "p1", "日本", None, "x" * 1000])
    assert hash_strings(texts).tolist() == HASHES
    assert hash_strings(texts.slice(2, 3)).tolist() == HASHES[2:5]
    assert hash_strings(pa.array([], pa.string())).tolist() == []


def test_hashes_divide_keys_evenly():
    hashes = hash_strings(pa.array([f"key-{i}" for i in range(70_000)]))
    assert len(set(hashes.tolist())) == 70_000
    counts = [int((hashes % 7 == bucket).sum()) for bucket in range(7)]
    assert all(9_500 < count < 10_500 for count in counts), counts


# --- dividing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", range(2))
def test_work_divided_into_many_buckets_ends_the_same_way(templates, tmp_path, monkeypatch, block):
    tiny = Sizes(keys_per_task=2, keys_worth_a_task=1, rows_per_task=2)
    monkeypatch.setattr("omnigraph.pipeline.bulk_load.SIZES", tiny)
    for seed in range(300 + block * 15, 315 + block * 15):
        compare(templates, tmp_path, seed, ("small", "inline"))


# --- branches and races ---------------------------------------------------------------------------


def test_a_branch_is_created_and_only_its_own_tables_are_forked(graph):
    result = load(graph, [person("cy")], "append", "inline", branch="work", base="main")
    assert (result.branch, result.branch_created) == ("work", True)
    assert set(people(graph, "work")) == {"ada", "ben", "cy"}
    assert set(people(graph)) == {"ada", "ben"}
    owners = {t.table_key: t.table_branch for t in graph.snapshot("work").tables}
    assert owners["node:Person"] is not None
    assert owners["edge:Knows"] is None
    load(graph, [person("ada", age=9), knows("cy", "ada")], "merge", "inline", branch="work")
    assert people(graph, "work")["ada"]["age"] == 9
    assert people(graph)["ada"]["age"] == 1


def test_a_branch_that_is_not_there_is_an_error(graph):
    with pytest.raises(BranchNotFound):
        load(graph, [person("cy")], "append", "inline", branch="nowhere")


def test_a_refused_load_into_a_branch_leaves_no_fork(graph):
    graph.create_branch("work")
    with pytest.raises(ConstraintViolated):
        load(graph, [person("cy", mood="odd")], "append", "inline", branch="work")
    assert all(t.table_branch is None for t in graph.snapshot("work").tables)


def racing(monkeypatch, graph, other, times: int = 1):
    """Commit something else right before the load takes the fence; gives what was written."""
    written: list[int] = []
    prepare = LoadJob.prepare

    def interrupted(job, *given):
        staged = prepare(job, *given)
        stages = [time.stage for time in job._tasks.times]
        written.append(stages.count("write") and job._tasks.times[-1].tasks)
        if len(written) <= times:
            other(len(written))
        return staged

    monkeypatch.setattr(LoadJob, "prepare", interrupted)
    return written


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_load_that_lost_a_race_is_checked_again_on_the_new_state(graph, monkeypatch, mode):
    other = omnigraph.open(graph.uri)
    racing(monkeypatch, graph, lambda n: other.load([person(f"other{n}")], "append"), times=2)
    result = load(graph, [person("cy"), knows("cy", "ada")], mode, "inline")
    assert set(people(graph)) == {"ada", "ben", "cy", "other1", "other2"}
    stages = [stage["stage"] for stage in result.stages]
    assert stages.count("read") == 1, "the input is read once"


def test_files_that_are_still_right_are_not_written_again(graph, monkeypatch):
    other = omnigraph.open(graph.uri)
    racing(monkeypatch, graph, lambda n: other.load([person("other")], "append"))
    result = load(
        graph, [person("cy"), {"type": "Note", "data": {"text": "x"}}], "append", "inline"
    )
    assert [stage["stage"] for stage in result.stages].count("write") == 1
    assert set(people(graph)) == {"ada", "ben", "cy", "other"}
    assert len(list(graph.export(["Note"]))) == 1


def test_a_race_that_takes_the_id_is_a_conflict(graph, monkeypatch):
    other = omnigraph.open(graph.uri)
    racing(monkeypatch, graph, lambda n: other.load([person("cy")], "append"))
    with pytest.raises(omnigraph.errors.KeyConflict, match="'cy'"):
        load(graph, [person("cy")], "append", "inline")


def test_an_overwrite_is_not_repeated_on_another_state(graph, monkeypatch):
    other = omnigraph.open(graph.uri)
    racing(monkeypatch, graph, lambda n: other.load([person("other")], "append"))
    with pytest.raises(ReadSetChanged):
        load(graph, [{"type": "Note", "data": {"text": "x"}}], "overwrite", "inline")
    assert not list(graph.export(["Note"]))


def test_an_expected_commit_that_is_not_the_head_refuses_the_load(graph):
    before = normal(graph.export())
    with pytest.raises(PreconditionFailed):
        load(graph, [person("cy")], "append", "inline", expected_head="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert normal(graph.export()) == before


def test_a_large_file_is_loaded_by_tasks_automatically(graph, tmp_path, monkeypatch):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(person("cy")) + "\n")
    assert graph.load(path, "append").stages == ()
    monkeypatch.setattr("omnigraph.graph.conversion.load_inputs.MANY_BYTES", 10)
    path.write_text(json.dumps(person("dee")) + "\n")
    result = graph.load(path, "append")
    assert (result.engine, len(result.stages)) == ("local", 4)
    assert graph.load(json.dumps(person("eve")).encode(), "append").stages
    assert set(people(graph)) == {"ada", "ben", "cy", "dee", "eve"}


def test_options_that_exclude_each_other_are_refused_before_a_branch_is_created(graph):
    for wrong in ({"partial": True}, {"on_error": "ignore"}):
        with pytest.raises(BadRequest):
            graph.load([person("cy")], "append", branch="side", base="main", **wrong)
    assert graph.branches() == ["main"]


def test_errors_of_kernels_arrive_as_they_were():
    error = omnigraph.errors.ExternalBlobPolicy("s3://b/k", "not on the list")
    with pytest.raises(omnigraph.errors.ExternalBlobPolicy) as raised:
        InlineTasks().run(refuse, [error.args], ("s3://b/k", "why"))
    assert (
        raised.value.details() == omnigraph.errors.ExternalBlobPolicy("s3://b/k", "why").details()
    )


def test_empty_input_makes_no_commit(graph):
    before = graph.commits()
    result = load(graph, b"", "append", "inline")
    assert (result.total_entities, result.commit) == (0, None)
    assert graph.commits() == before


def test_rows_to_skip_are_found_again_after_a_lost_race(graph, monkeypatch):
    other = omnigraph.open(graph.uri)
    racing(monkeypatch, graph, lambda n: other.load([person("cy", age=1)], "append"))
    load(graph, [person("cy", age=2), person("dee")], "append", "inline", on_error="skip")
    assert {name: row["age"] for name, row in people(graph).items()} == {
        "ada": 1,
        "ben": None,
        "cy": 1,
        "dee": None,
    }
