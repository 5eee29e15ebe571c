"""One write slips in between another's preparation and its commit, at an exact moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from graph.music_graph import contents, edge, entities, ids, node, refusal, run
from omnigraph.errors import (
    BranchNotFound,
    ConstraintViolated,
    KeyConflict,
    PreconditionFailed,
    ReadSetChanged,
    WriterBusy,
)
from omnigraph.settings import Settings

PAGES = """\
node Page { slug: String @key  email: String?  made: DateTime?  n: I64?  @unique(email) }
"""


@pytest.fixture
def slip_in(music_place):
    """Return a graph whose next write conflicts with another writer right after its preparation."""
    blocks = []

    def slip(between, *, action="write_*", times=1, place=music_place, **given):
        other = omnigraph.open(place, settings=Settings(writer_wait_s=0.2))
        trouble = Trouble("before", action, "*", times=times, instead=lambda: between(other))
        block = observed(trouble)
        blocks.append(block)
        graph = omnigraph.open(place, actor="first")
        block.__enter__()
        return graph

    yield slip
    for block in blocks:
        block.__exit__(None, None, None)


def add(slug):
    return lambda graph: run(graph, f'insert Artist {{slug: "{slug}", name: "Other"}}')


def test_disjoint_inserts_both_land(slip_in):
    graph = slip_in(add("other"))
    first = run(graph, 'insert Artist {slug: "mine", name: "M"}').commit
    assert {"mine", "other"} <= ids(graph, "Artist")
    assert first.parent_commit_id == graph.commits()[1].commit_id
    assert graph.commits()[1].actor_id is None


def test_an_append_that_is_beaten_to_its_id_is_a_conflict(slip_in):
    graph = slip_in(add("same"))
    with refusal(KeyConflict, "'same' already has this id"):
        graph.load([node("Artist", slug="same", name="Mine")], "append")
    assert entities(graph, "Artist")["same"]["name"] == "Other"
    assert graph.recovery_pending() == []


def test_a_merge_that_is_beaten_to_its_id_is_applied_on_top(slip_in):
    graph = slip_in(add("same"))
    graph.load([node("Artist", slug="same", name="Mine", born=1950)], "merge")
    assert entities(graph, "Artist")["same"]["name"] == "Mine"
    assert len(graph.commits()) == 4


def test_a_partial_merge_keeps_what_the_other_wrote(slip_in):
    graph = slip_in(lambda other: run(other, 'update Artist set {bio: "o"} where slug = "ada"'))
    run(graph, 'merge Artist {slug: "ada", name: "Mine"}')
    ada = entities(graph, "Artist")["ada"]
    assert (ada["name"], ada["bio"], ada["born"]) == ("Mine", "o", 1970)


def test_a_unique_value_written_concurrently_is_detected(slip_in, tmp_path):
    place = tmp_path / "pages.omni"
    omnigraph.init(place, PAGES)

    def take(other):
        run(other, 'insert Page {slug: "o", email: "x@"}')

    text = "@unique violation on Page.email: value 'x@' held by 'o' and 'm'"
    graph = slip_in(take, place=place)
    with refusal(ConstraintViolated, text):
        run(graph, 'insert Page {slug: "m", email: "x@"}')
    run(graph, 'delete Page where slug = "o"')
    graph = slip_in(take, place=place)
    with refusal(ConstraintViolated, text):
        graph.load([node("Page", slug="m", email="x@")], "append")
    assert ids(graph, "Page") == {"o"}


def test_a_source_filled_up_concurrently_is_detected(slip_in):
    graph = slip_in(lambda other: run(other, 'insert SignedTo {from: "cy", to: "wave"}'))
    with refusal(ConstraintViolated, "source 'cy' has 2 edges (max 1)"):
        run(graph, 'insert SignedTo {from: "cy", to: "nova"}')


def test_an_end_deleted_concurrently_is_detected(slip_in):
    graph = slip_in(lambda other: run(other, 'delete Artist where slug = "dee"'))
    with refusal(ConstraintViolated, "dst 'dee' not found in Artist"):
        graph.load([edge("Influences", "ada", "dee")], "append")


def test_an_overwrite_of_a_branch_that_moved_is_asked_to_read_again(slip_in):
    graph = slip_in(lambda other: run(other, 'insert Label {slug: "o", name: "O"}'))
    before = {t.table_key: t.manifest_version for t in graph.snapshot().tables}
    take = [node("Take", studio="s", number=1)]
    with refusal(ReadSetChanged, "graph_head:main changed"):
        graph.load(take, "overwrite")
    after = {t.table_key: t.manifest_version for t in graph.snapshot().tables}
    assert {key for key in after if after[key] != before[key]} == {"node:Label"}
    graph.load(take, "overwrite")


@pytest.mark.parametrize(
    ("statements", "left"),
    [
        ('update Artist set {name: "x"} where slug = "ada"', {"other": "O"}),
        ('update Artist set {name: "x"} where name != "nobody"', {"other": "x"}),
        ('delete Artist where name != "nobody"', {}),
        (
            'insert Artist {slug: "z", name: "O"} update Artist set {name: "x"} where name = "O"',
            {"other": "x", "z": "x"},
        ),
    ],
    ids=["update by key", "update by value", "delete", "insert and update"],
)
def test_a_mutation_whose_branch_moved_is_run_again_on_what_is_there(slip_in, statements, left):
    """It is prepared again, and so includes the row written in between."""
    graph = slip_in(lambda other: run(other, 'insert Artist {slug: "other", name: "O"}'))
    run(graph, statements)
    names = "query q() { match { $a: Artist } return { $a.slug as slug, $a.name as name } }"
    found = {row["slug"]: row["name"] for row in graph.query(names).rows}
    assert {slug: found[slug] for slug in found if slug in ("other", "z")} == left


@pytest.mark.parametrize(
    "statements",
    [
        'insert Artist {slug: "z", name: "Z"}',
        'update Artist set {bio: "x"} where slug = "ada"',
        'delete Artist where slug = "ada"',
    ],
    ids=["insert", "update", "delete"],
)
def test_a_conditional_write_fails_when_the_head_moves(slip_in, statements):
    graph = slip_in(add("other"))
    head = graph.snapshot().graph_commit_id
    with refusal(PreconditionFailed, f"not at the expected {head}"):
        run(graph, statements, expected_head=head)
    assert len(graph.commits()) == 3


def test_now_stays_the_same_when_a_write_is_prepared_again(slip_in, tmp_path):
    place = tmp_path / "pages.omni"
    omnigraph.init(place, PAGES)

    def wait_and_write(other):
        run(other, 'insert Page {slug: "o", made: now()}')

    graph = slip_in(wait_and_write, place=place)
    run(graph, 'insert Page {slug: "m", made: now()}')
    made = {id: page["made"] for id, page in entities(graph, "Page").items()}
    assert made["m"] <= made["o"]


def test_a_write_that_lost_once_is_not_overtaken_again(slip_in):
    outcomes = []

    def push(other):
        try:
            outcomes.append(add(f"other{len(outcomes)}")(other).commit.commit_id)
        except WriterBusy as busy:
            outcomes.append(busy)

    graph = slip_in(push, times=2)
    first = run(graph, 'insert Artist {slug: "mine", name: "M"}').commit
    assert first.parent_commit_id == outcomes[0]
    assert isinstance(outcomes[1], WriterBusy)
    assert {"mine", "other0"} <= ids(graph, "Artist")


def test_a_branch_deleted_concurrently_is_not_found(slip_in, music):
    music.create_branch("dev")
    graph = slip_in(lambda other: other.delete_branch("dev"))
    with refusal(BranchNotFound, "'dev' not found"):
        run(graph, 'insert Artist {slug: "z", name: "Z"}', branch="dev")
    assert graph.branches() == ["main"]


def test_a_branch_created_again_concurrently_is_another_one(slip_in, music):
    music.create_branch("dev")
    run(music, 'insert Artist {slug: "old", name: "O"}', branch="dev")

    def make_again(other):
        other.delete_branch("dev")
        other.create_branch("dev")

    graph = slip_in(make_again)
    with refusal(ReadSetChanged, "branch_identifier:dev changed"):
        run(graph, 'update Artist set {bio: "x"} where slug = "old"', branch="dev")
    assert contents(graph, branch="dev") == contents(graph)


def test_a_first_write_beaten_to_its_fork_uses_the_fork_that_won(slip_in, music, music_place):
    music.create_branch("dev")

    def first_touch(other):
        run(other, 'insert Artist {slug: "other", name: "O"}', branch="dev")

    graph = slip_in(first_touch)
    run(graph, 'insert Artist {slug: "mine", name: "M"}', branch="dev")
    assert {"mine", "other"} <= ids(graph, "Artist", branch="dev")
    table = next(t for t in graph.snapshot("dev").tables if t.table_key == "node:Artist")
    forks = [p.stem for p in (music_place / table.table_path / "_refs/branches").iterdir()]
    assert forks == [table.table_branch]


def test_a_branch_created_concurrently_is_no_obstacle(slip_in):
    graph = slip_in(lambda other: other.create_branch("dev"))
    run(graph, 'update Artist set {bio: "x"} where slug = "ada"')
    assert entities(graph, "Artist", branch="dev")["ada"]["bio"] is None


def test_two_loads_that_want_one_branch_share_it(music_place):
    graph, gate = omnigraph.open(music_place), threading.Barrier(2)

    def load(slug):
        gate.wait()
        record = node("Label", slug=slug, name="N")
        return graph.load([record], "append", branch="new", base="main").branch_created

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(load, ["a", "b"])) == [False, True]
    assert {"a", "b"} <= ids(graph, "Label", branch="new")
