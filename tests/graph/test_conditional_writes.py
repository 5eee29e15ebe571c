"""Writes that only happen on the head the caller expects, and writes by many threads."""

from __future__ import annotations

import threading

import omnigraph
from graph.music_graph import (
    UNKNOWN_COMMIT,
    affected,
    contents,
    edge,
    entities,
    ids,
    node,
    refusal,
    run,
    run_together,
)
from omnigraph.errors import KeyConflict, OmniError, PreconditionFailed, ReadSetChanged

INSERT = 'insert Artist {slug: "z", name: "Z"}'
NOTHING = 'update Artist set {bio: "x"} where born > 3000'


def head(graph, branch="main"):
    return graph.snapshot(branch).graph_commit_id


def test_a_write_on_the_expected_head_happens(music):
    result = run(music, INSERT, expected_head=head(music))
    assert result.commit.commit_id == head(music)
    again = music.load([node("Artist", slug="y", name="Y")], "append", expected_head=head(music))
    assert again.commit.commit_id == head(music)


def test_a_write_on_another_head_changes_nothing(music):
    old = head(music)
    run(music, INSERT)
    before, commits = contents(music), music.commits()
    for attempt in (
        lambda: run(music, 'insert Artist {slug: "y", name: "Y"}', expected_head=old),
        lambda: run(music, 'update Artist set {bio: "x"} where slug = "ada"', expected_head=old),
        lambda: run(music, 'delete Artist where slug = "ada"', expected_head=old),
        lambda: music.load([node("Artist", slug="y", name="Y")], "merge", expected_head=old),
        lambda: music.load([node("Take", studio="s", number=1)], "overwrite", expected_head=old),
        lambda: music.load(b"", "append", expected_head=UNKNOWN_COMMIT),
    ):
        with refusal(PreconditionFailed, f"is at commit {head(music)}"):
            attempt()
    assert (contents(music), music.commits()) == (before, commits)


def test_a_conditional_write_that_changes_nothing_still_checks(music):
    old = head(music)
    assert run(music, NOTHING, expected_head=old).commit is None
    run(music, INSERT)
    with refusal(PreconditionFailed, "not at the expected"):
        run(music, NOTHING, expected_head=old)


def test_the_head_of_a_fresh_branch_is_where_it_came_from(music):
    at_fork = head(music)
    music.create_branch("dev")
    run(music, INSERT)
    assert head(music, "dev") == at_fork
    run(music, INSERT, branch="dev", expected_head=at_fork)
    with refusal(PreconditionFailed, "branch 'dev'"):
        run(music, INSERT, branch="dev", expected_head=at_fork)


def test_eight_threads_share_one_graph_object(music):
    def work(number):
        return [
            run(
                music,
                f'insert Artist {{slug: "t{number}-{n}", name: "T"}} '
                f'insert Influences {{from: "t{number}-{n}", to: "ada"}}',
            ).commit.commit_id
            for n in range(3)
        ]

    made = [id for found in run_together(8, work) for id in found]
    assert len(set(made)) == 24
    line = music.commits()
    assert {c.commit_id for c in line} >= set(made)
    assert [c.parent_commit_id for c in line[:-1]] == [c.commit_id for c in line[1:]]
    assert len(ids(music, "Artist")) == 5 + 24
    assert len(ids(music, "Influences")) == 6 + 24


def test_of_sixteen_handles_that_append_one_id_one_wins_and_their_other_rows_land(music_place):
    handles = [omnigraph.open(music_place, actor=f"h{number}") for number in range(16)]

    def work(number):
        handles[number].load([node("Label", slug=f"own{number}", name="N")], "append")
        return handles[number].load([node("Label", slug="same", name=f"by {number}")], "append")

    outcomes = run_together(16, work)
    refused = [o for o in outcomes if isinstance(o, OmniError)]
    assert [type(error) for error in refused] == [KeyConflict] * 15
    (winner,) = [n for n, outcome in enumerate(outcomes) if outcome not in refused]
    labels = entities(handles[0], "Label")
    assert labels["same"]["name"] == f"by {winner}"
    assert {f"own{number}" for number in range(16)} <= labels.keys()
    line = handles[0].commits()
    assert len(line) == 2 + 16 + 1
    assert [c.parent_commit_id for c in line[:-1]] == [c.commit_id for c in line[1:]]
    assert handles[0].recovery_pending() == []


def test_of_many_conditional_writes_one_wins_each_round(music):
    def work(number):
        wins = 0
        for _ in range(4):
            expected = head(music)
            try:
                run(music, f'insert Take {{studio: "s", number: {number}}}', expected_head=expected)
                wins += 1
            except PreconditionFailed:
                continue
        return wins

    before = len(music.commits())
    wins = sum(run_together(6, work))
    assert 1 <= wins <= 24
    assert len(music.commits()) == before + wins


def test_threads_that_count_up_lose_no_step(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", "node Counter { slug: String @key  n: I64 }")
    run(graph, 'insert Counter {slug: "c", n: 0}')

    def work(_number):
        done = 0
        while done < 3:
            view = graph.at()
            (record,) = view.export(["Counter"])
            try:
                run(
                    graph,
                    'update Counter set {n: $n} where slug = "c"',
                    "$n: I64",
                    params={"n": record["data"]["n"] + 1},
                    expected_head=view.commit_id,
                )
                done += 1
            except (PreconditionFailed, ReadSetChanged):
                continue
        return done

    assert sum(run_together(4, work)) == 12
    assert entities(graph, "Counter")["c"]["n"] == 12


def test_threads_reading_see_whole_commits(music):
    stop = threading.Event()
    mixtures = []

    def read():
        while not stop.is_set():
            view = music.at()
            nodes = sum(1 for r in view.export(["Artist"]) if r["data"]["id"].startswith("r"))
            edges = sum(1 for r in view.export(["Influences"]) if r["from"].startswith("r"))
            if nodes != edges:
                mixtures.append((nodes, edges))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(8):
        music.load(
            [node("Artist", slug=f"r{n}", name="R"), edge("Influences", f"r{n}", "ada")], "append"
        )
    stop.set()
    for reader in readers:
        reader.join()
    assert mixtures == []


def test_an_overwrite_is_not_prepared_again(music):
    # The overwrite is prepared on the old head while another handle commits.
    result = affected(music, INSERT)
    assert result == (1, 0)
    outcomes = run_together(
        3, lambda n: music.load([node("Take", studio="s", number=n)], "overwrite").commit
    )
    refused = [o for o in outcomes if isinstance(o, Exception)]
    assert all(isinstance(error, ReadSetChanged) for error in refused)
    assert len(refused) < 3
    assert len(ids(music, "Take")) == 1
