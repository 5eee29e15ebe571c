"""Commits, their order, and the graph as it was at each of them."""

from __future__ import annotations

import pytest

import omnigraph
from graph.music_graph import add_artist, contents, ids, node, refusal, run
from omnigraph.errors import BadRequest, BranchNotFound, CommitNotFound, StorageError


def artists(view):
    return {record["data"]["id"] for record in view.export(["Artist"])}


def test_commits_come_newest_first_in_one_line(music):
    added = [add_artist(music, f"a{n}") for n in range(5)]
    commits = music.commits()
    assert [c.commit_id for c in commits[:5]] == [c.commit_id for c in reversed(added)]
    assert [c.parent_commit_id for c in commits[:-1]] == [c.commit_id for c in commits[1:]]
    genesis = commits[-1]
    assert (genesis.parent_commit_id, genesis.actor_id, genesis.manifest_version) == (
        None,
        "loader",
        1,
    )
    versions = [c.manifest_version for c in commits]
    assert versions == sorted(versions, reverse=True)
    assert len(set(versions)) == len(versions)


def test_a_commit_remembers_its_actor(music, music_place):
    assert [c.actor_id for c in music.commits()] == ["loader", "loader"]
    assert add_artist(music, "a").actor_id == "tester"
    assert add_artist(music, "b", actor="somebody").actor_id == "somebody"
    unnamed = omnigraph.open(music_place)
    assert add_artist(unnamed, "c").actor_id is None
    assert music.commit(music.commits()[1].commit_id).actor_id == "somebody"


def test_a_commit_is_shown_from_any_branch(music):
    music.create_branch("dev")
    made = add_artist(music, "z", branch="dev")
    assert music.commit(made.commit_id) == made
    assert music.commit(f" {made.commit_id} ", "dev") == made
    assert made.branch == "dev"
    with refusal(CommitNotFound, "nope"):
        music.commit("nope")
    with refusal(BranchNotFound, "gone"):
        music.commits("gone")


def test_the_wire_form_of_a_commit(music):
    made = add_artist(music, "z")
    assert made.wire() == {
        "graph_commit_id": made.commit_id,
        "graph_branch": "main",
        "graph_manifest_version": 3,
        "parent_commit_id": music.commits()[1].commit_id,
        "merged_parent_commit_id": None,
        "actor_id": "tester",
        "created_at": made.created_at,
        "kind": "mutation",
        "tables": [{"table_key": "node:Artist", "inserted": 1, "updated": 0, "deleted": 0}],
    }


def test_every_commit_shows_the_graph_as_it_was(music):
    before = contents(music)
    expected = {music.commits()[0].commit_id: before}
    for statements in (
        'insert Artist {slug: "z", name: "Z"} insert Influences {from: "z", to: "ada"}',
        'update Artist set {bio: "x"} where born = 1985',
        'delete Artist where slug = "ada"',
    ):
        commit = run(music, statements).commit
        expected[commit.commit_id] = contents(music)
    music.load([node("Label", slug="new", name="N")], "merge")
    for commit_id, records in expected.items():
        view = music.at(commit=commit_id)
        assert list(view.export()) == records
        assert view.commit_id == commit_id
        assert list(music.at(version=music.commit(commit_id).manifest_version).export()) == records
        assert list(music.at(snapshot=view.info().snapshot_id).export()) == records


def test_the_first_commit_is_the_empty_graph(music):
    genesis = music.commits()[-1]
    assert list(music.at(commit=genesis.commit_id).export()) == []
    assert list(music.at(version=1).export()) == []


def test_a_view_does_not_move(music):
    view = music.at()
    before = list(view.export())
    add_artist(music, "z")
    assert list(view.export()) == before
    assert "z" in artists(music.at())


def test_points_that_do_not_exist(music):
    with refusal(BadRequest, "up to 2, not 3"):
        music.at(version=3)
    with refusal(BadRequest, "not 0"):
        music.at(version=0)
    with refusal(CommitNotFound, "nope"):
        music.at(commit="nope")
    with refusal(BadRequest, "is not a snapshot id"):
        music.at(snapshot="manifest:main:vx")
    with refusal(BadRequest, "give one of"):
        music.at(version=1, commit="x")


def test_time_travel_on_branches_and_forks_of_forks(music):
    first = add_artist(music, "m1")
    music.create_branch("dev")
    second = add_artist(music, "m2")
    d1 = add_artist(music, "d1", "dev")
    music.create_branch("dev/deep", source="dev")
    d2 = add_artist(music, "d2", "dev")
    e1 = add_artist(music, "e1", "dev/deep")
    base = {"ada", "ben", "cy", "dee", "fay"}
    expected = {
        first: {"m1"},
        second: {"m1", "m2"},
        d1: {"m1", "d1"},
        d2: {"m1", "d1", "d2"},
        e1: {"m1", "d1", "e1"},
    }
    for commit, added in expected.items():
        for bound in ("main", "dev", "dev/deep"):
            found = artists(music.at(commit=commit.commit_id, branch=bound))
            assert found == base | added, (commit.branch, bound)
    assert ids(music, "Artist", branch="dev/deep") == base | expected[e1]
    by_version = {
        ("dev/deep", e1.manifest_version): {"m1", "d1", "e1"},
        ("dev/deep", d1.manifest_version): {"m1", "d1"},
        ("dev/deep", first.manifest_version): {"m1"},
        ("dev/deep", 2): set(),
        ("dev", d2.manifest_version): {"m1", "d1", "d2"},
        ("main", second.manifest_version): {"m1", "m2"},
    }
    for (branch, version), added in by_version.items():
        assert artists(music.at(version=version, branch=branch)) == base | added, (branch, version)
    lineage = [c.commit_id for c in music.commits("dev/deep")[:3]]
    assert lineage == [e1.commit_id, d1.commit_id, first.commit_id]
    assert e1.parent_commit_id == d1.commit_id


def test_a_snapshot_id_names_a_commit_or_a_version(music):
    info = music.snapshot()
    assert info.snapshot_id == info.graph_commit_id == music.commits()[0].commit_id
    assert info.graph_manifest_version == 2
    assert info.internal_schema_version == omnigraph.INTERNAL_SCHEMA_VERSION
    assert list(music.at(snapshot="manifest:main:v1").export()) == []
    assert {t.table_key: t.row_count for t in info.tables} == {
        "edge:Influences": 6,
        "edge:Made": 5,
        "edge:Sampled": 2,
        "edge:SignedTo": 3,
        "node:Album": 4,
        "node:Artist": 5,
        "node:Label": 3,
        "node:Take": 0,
    }


def test_a_commit_of_a_deleted_branch_is_reported_as_deleted(music):
    music.create_branch("dev")
    made = add_artist(music, "z", "dev")
    music.delete_branch("dev")
    with pytest.raises((BadRequest, CommitNotFound, StorageError)) as refused:
        music.at(commit=made.commit_id)
    assert isinstance(refused.value, CommitNotFound)


def test_history_is_the_same_for_a_handle_opened_later(music, music_place):
    for n in range(3):
        add_artist(music, f"a{n}")
    other = omnigraph.open(music_place, read_only=True)
    assert other.commits() == music.commits()
    assert contents(other) == contents(music)
