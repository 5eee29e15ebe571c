"""A graph that is removed and made again where it was, in a process that knew the other one.

Every answer is compared with that of the same graph at a new address.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.cli.commands.shell_command import Shell
from omnigraph.client.operator_config import OperatorConfig
from omnigraph.errors import OmniError
from omnigraph.spark_source import register

SCHEMA = """\
node Person {
  name: String @key
  grade: I32 @index
  note: String @index
  place: Vector(2)
}
edge Knows: Person -> Person
"""
PEOPLE = 40


def records(seed: int) -> list[dict[str, object]]:
    """As many rows in any case, and other ones for every seed."""
    people: list[dict[str, object]] = [
        {
            "type": "Person",
            "data": {
                "name": f"p{n}",
                "grade": (n * seed) % 10,
                "note": "amber fox" if (n + seed) % 3 else "cedar",
                "place": [float(n * seed % 17), float(n)],
            },
        }
        for n in range(PEOPLE)
    ]
    links: list[dict[str, object]] = [
        {
            "edge": "Knows",
            "from": f"p{n}",
            "to": f"p{(n * seed + 1) % PEOPLE}",
            "data": {"id": f"k{n}"},
        }
        for n in range(PEOPLE)
    ]
    return [*people, *links]


def build(place: Path, seed: int) -> omnigraph.Graph:
    graph = omnigraph.init(place, SCHEMA)
    graph.load(records(seed), "append")
    graph.optimize()
    graph.mutate(
        "query q($n: String) { delete Person where name = $n }", params={"n": f"p{10 * seed + 3}"}
    )
    graph.mutate(
        "query q($n: String) { update Person set { note: $n } where name = $n }",
        params={"n": f"p{seed}"},
    )
    return graph


def asking(body: str):
    return lambda graph: graph.query(f"query q() {{ {body} }}").rows


READS = {
    "an indexed count": asking("match { $p: Person  $p.grade = 3 } return { count($p) as n }"),
    "an indexed filter": asking("match { $p: Person  $p.grade = 3 } return { $p.name }"),
    "a scan": asking("match { $p: Person  $p.grade > 4 } return { $p.name, $p.note }"),
    "whole columns": asking("match { $p: Person } return { $p.grade, count($p) as n }"),
    "a key": asking('match { $p: Person { name: "p7" } } return { $p.grade, $p.note }'),
    "a numbering": asking("match { $p: Person } return { $p.name } order { $p.name }"),
    "neighbours of all": asking("match { $a: Person  $a knows $b } return { $a.name, $b.name }"),
    "neighbours of one": asking(
        'match { $a: Person { name: "p5" }  $a knows{1,3} $b } return { $b.name, $b.grade }'
    ),
    "words": asking('match { $p: Person  search($p.note, "fox") } return { $p.name }'),
    "a ranking of words": asking(
        'match { $p: Person } return { $p.name } order { bm25($p.note, "cedar") } limit 7'
    ),
    "nearest vectors": lambda graph: (
        graph.query(
            "query q($v: Vector(2)) { match { $p: Person } return { $p.name } "
            "order { nearest($p.place, $v) } limit 5 }",
            params={"v": [3.0, 5.0]},
        ).rows
    ),
    "an export": lambda graph: list(graph.export()),
    "the rows of a type": lambda graph: graph.nodes("Person").to_arrow().sort_by("name"),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the answers of every read on the second graph where no other was before it."""
    reference = build(tmp_path_factory.mktemp("reference") / "people.omni", 3)
    return {name: read(reference) for name, read in READS.items()}


@pytest.fixture(scope="module")
def made_again(tmp_path_factory):
    """Handles on a graph made where another was, of which everything had been read."""
    place = tmp_path_factory.mktemp("made") / "people.omni"
    stayed = build(place, 1)
    before = {name: read(stayed) for name, read in READS.items()}
    shutil.rmtree(place)
    made = build(place, 3)
    return before, {"made": made, "opened": omnigraph.open(place), "stayed open": stayed}


@pytest.mark.parametrize("handle", ["made", "opened", "stayed open"])
@pytest.mark.parametrize("name", READS)
def test_a_graph_recreated_at_its_address_is_read_as_it_is(
    made_again, expected, name, handle
) -> None:
    before, graphs = made_again
    assert before[name] != expected[name]
    assert READS[name](graphs[handle]) == expected[name]


@pytest.fixture(scope="module")
def moved_in(tmp_path_factory):
    """Handles on a graph that was made elsewhere and put in the place of another."""
    folder = tmp_path_factory.mktemp("moved")
    place, other = folder / "people.omni", folder / "other.omni"
    stayed = build(place, 1)
    for read in READS.values():
        read(stayed)
    build(other, 3)
    shutil.rmtree(place)
    other.rename(place)
    return {"opened": omnigraph.open(place), "stayed open": stayed}


@pytest.mark.parametrize("handle", ["opened", "stayed open"])
@pytest.mark.parametrize("name", READS)
def test_a_graph_that_replaced_another_is_read_as_it_is(moved_in, expected, name, handle) -> None:
    assert READS[name](moved_in[handle]) == expected[name]


ADD = (
    "query q($n: String, $v: Vector(2)) "
    "{ insert Person { name: $n, grade: 3, note: $n, place: $v } }"
)


def add(graph: omnigraph.Graph, name: str) -> None:
    graph.mutate(ADD, params={"n": name, "v": [1.0, 1.0]})


@pytest.fixture(scope="module", params=["stayed open", "opened"])
def put_back(request, tmp_path_factory):
    """A handle on a graph that was replaced by an earlier copy of itself, which was written on.

    It has the identity it had, but the versions after the copy are others. What they are is read
    at another address, as if by another process.
    """
    folder = tmp_path_factory.mktemp("copies")
    place, copy = folder / "people.omni", folder / "copy.omni"
    graph = build(place, 1)
    shutil.copytree(place, copy)
    graph.mutate('query q() { delete Person where name = "p5" }')
    add(graph, "lost")
    for read in READS.values():
        read(graph)
    elsewhere = omnigraph.open(copy)
    elsewhere.mutate('query q() { delete Person where name = "p9" }')
    add(elsewhere, "kept")
    wanted = {name: read(elsewhere) for name, read in READS.items()}
    shutil.rmtree(place)
    copy.rename(place)
    return wanted, graph if request.param == "stayed open" else omnigraph.open(place)


@pytest.mark.parametrize("name", READS)
def test_an_earlier_copy_that_is_put_back_is_read_as_it_is(put_back, name) -> None:
    wanted, graph = put_back
    assert READS[name](graph) == wanted[name]


def test_a_handle_that_stays_open_writes_to_the_graph_that_is_there(tmp_path) -> None:
    place = tmp_path / "people.omni"
    graph = build(place, 1)
    shutil.rmtree(place)
    build(place, 3)
    add(graph, "new")
    graph.load([{"type": "Person", "data": records(1)[3]["data"]}], "merge")
    again = omnigraph.open(place)
    assert again.verify(deep=True).is_sound
    assert list(again.export()) == list(graph.export())
    assert len(again.nodes("Person")) == PEOPLE
    assert graph.commits() == again.commits()


def test_history_and_schema_are_those_of_the_graph_that_is_there(tmp_path) -> None:
    place = tmp_path / "people.omni"
    graph = build(place, 1)
    first = graph.commits()[-1].commit_id
    assert graph.at(commit=first)
    shutil.rmtree(place)
    made = omnigraph.init(place, "node Stone { name: String @key  weight: F64 }")
    made.load([{"type": "Stone", "data": {"name": "granite", "weight": 2.5}}], "append")
    body = "query q() { match { $s: Stone } return { $s.weight } }"
    assert graph.query(body).rows == [{"s.weight": 2.5}]
    assert graph.schema == made.schema
    assert graph.commits() == made.commits()
    with pytest.raises(OmniError):
        graph.at(commit=first)
    with pytest.raises(OmniError):
        graph.query("query q() { match { $p: Person } return { $p.name } }")


def test_a_view_of_the_replaced_graph_never_shows_rows_of_the_other(tmp_path) -> None:
    place = tmp_path / "people.omni"
    graph = build(place, 1)
    view = graph.at()
    shutil.rmtree(place)
    build(place, 3)
    for read in (READS["a scan"], READS["neighbours of all"]):
        with pytest.raises(OmniError):
            read(view)


def test_a_recreated_branch_is_read_as_it_is(tmp_path) -> None:
    graph = build(tmp_path / "people.omni", 1)
    counted = "query q() { match { $p: Person  $p.grade = 3 } return { count($p) as n } }"
    for name in ("p3", "p13"):
        reference = build(tmp_path / f"reference-{name}.omni", 1)
        wanted = f'query q() {{ delete Person where name = "{name}" }}'
        reference.mutate(wanted)
        graph.create_branch("work")
        graph.mutate(wanted, branch="work")
        graph.optimize(branch="work")
        assert graph.query(counted, branch="work").rows == reference.query(counted).rows
        rows = graph.branch("work").nodes("Person").to_arrow().sort_by("name")
        assert rows == reference.nodes("Person").to_arrow().sort_by("name")
        graph.delete_branch("work")


def test_kernels_in_this_process_read_the_graph_that_is_there(tmp_path) -> None:
    place = tmp_path / "people.omni"
    graph = build(place, 1)
    graph.at().export_files(tmp_path / "first")
    shutil.rmtree(place)
    made = build(place, 3)
    exported = made.at().export_files(tmp_path / "second")
    assert exported.rows == len(list(made.export()))
    text = b"".join(Path(file).read_bytes() for file in (tmp_path / "second").rglob("*.jsonl"))
    assert sorted(text.splitlines()) == sorted(b"".join(made.at().export_jsonl()).splitlines())


def test_the_shell_reads_the_graph_that_is_there(tmp_path, capsys) -> None:
    place, body = tmp_path / "people.omni", "match { $p: Person  $p.grade = 3 } return { $p.name }"
    shell = Shell(build(place, 1), OperatorConfig(), "main")
    shell.format = "json"
    assert shell.run(body)
    shutil.rmtree(place)
    made = build(place, 3)
    capsys.readouterr()
    assert shell.run(body)
    rows = made.query(f"query q() {{ {body} }}").rows
    assert json.loads(capsys.readouterr().out)["rows"] == rows


def test_a_spark_worker_that_is_used_again_reads_the_graph_that_is_there(tmp_path, spark) -> None:
    place = tmp_path / "people.omni"
    body = "query q() { match { $p: Person  $p.grade = 3 } return { $p.name, $p.note } }"
    for seed in (1, 3):
        shutil.rmtree(place, ignore_errors=True)
        graph = build(place, seed)
        rows = graph.query(body, engine="spark", session=spark).rows
        assert sorted(map(str, rows)) == sorted(map(str, graph.query(body).rows))
        assert len(rows) == len([n for n in kept(seed) if n * seed % 10 == 3])


GRADES = "query q() { match { $p: Person  $p.grade > 4 } return { $p.name as name } }"


def frames_of(graph: Any, spark) -> list:
    """Return frames of the same people, by every way to a frame of them."""
    register(spark)
    reader = spark.read.format("omnigraph").option("type", "Person").option("where", "grade > 4")
    return [
        graph.query(GRADES, engine="spark", session=spark).to_spark(),
        graph.nodes("Person").to_spark(spark, where="grade > 4").select("name"),
        reader.load(graph.uri).select("name"),
    ]


def test_a_frame_of_the_replaced_graph_is_refused(tmp_path, spark) -> None:
    place = tmp_path / "people.omni"
    graph = build(place, 1)
    used, unused = frames_of(graph, spark), frames_of(graph, spark)
    assert len({frame.count() for frame in used}) == 1
    shutil.rmtree(place)
    build(place, 3)
    for frame in [*used, *unused]:
        with pytest.raises(Exception, match=r"no table at|CommitNotFound"):
            frame.collect()


def test_a_frame_never_shows_rows_of_an_earlier_copy_that_is_put_back(tmp_path, spark) -> None:
    """The copy has tables at the same addresses, with versions of the same numbers."""
    place, copy = tmp_path / "people.omni", tmp_path / "copy.omni"
    graph = build(place, 1)
    shutil.copytree(place, copy)
    graph.mutate('query q() { delete Person where name = "p5" }')
    rows = sorted(row["name"] for row in graph.query(GRADES).rows)
    used, unused = frames_of(graph, spark), frames_of(graph, spark)
    for frame in used:
        assert sorted(row.name for row in frame.collect()) == rows
    omnigraph.open(copy).mutate('query q() { delete Person where name = "p9" }')
    shutil.rmtree(place)
    copy.rename(place)
    for frame in unused:
        with pytest.raises(Exception, match=r"is not the one it was made of|CommitNotFound"):
            frame.collect()
    for frame in used:
        # A worker that still holds the old version in memory may still show it.
        assert names_unless_refused(frame) in (rows, None)


def names_unless_refused(frame) -> list[str] | None:
    with suppress(Exception):
        return sorted(row.name for row in frame.collect())
    return None


def kept(seed: int) -> list[int]:
    return [n for n in range(PEOPLE) if n != 10 * seed + 3]
