"""Branches: names, isolation, deletion, and names that are used again."""

from __future__ import annotations

import json

import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from graph.music_graph import (
    UNKNOWN_COMMIT,
    add_artist,
    contents,
    entities,
    ids,
    node,
    refusal,
    run,
)
from omnigraph.errors import (
    AlreadyExists,
    BadRequest,
    BranchNotFound,
    CommitNotFound,
    ConflictError,
    StorageFailure,
)


def new_artists(graph, branch):
    return ids(graph, "Artist", branch=branch) - {"ada", "ben", "cy", "dee", "fay"}


def test_a_branch_starts_as_its_source_and_goes_its_own_way(music):
    music.create_branch("dev")
    assert contents(music, branch="dev") == contents(music)
    add_artist(music, "d", "dev")
    add_artist(music, "m")
    run(music, 'delete Artist where slug = "ada"', branch="dev")
    assert new_artists(music, "dev") == {"d"}
    assert new_artists(music, "main") == {"m"}
    assert "ada" in ids(music, "Artist")
    assert "ada" not in ids(music, "Artist", branch="dev")


def test_creating_a_branch_makes_no_commit_and_no_version(music):
    before, info = music.commits(), music.snapshot()
    music.create_branch("dev")
    assert music.commits() == before == music.commits("dev")
    assert music.snapshot() == info
    assert music.snapshot("dev").graph_manifest_version == info.graph_manifest_version


def test_deleting_a_branch_makes_no_commit_and_no_version(music):
    music.create_branch("dev")
    add_artist(music, "d", "dev")
    before, info = music.commits(), music.snapshot()
    music.delete_branch("dev")
    assert music.commits() == before
    assert music.snapshot() == info


def test_only_tables_that_are_written_are_forked(music):
    music.create_branch("dev")
    assert {t.table_branch for t in music.snapshot("dev").tables} == {None}
    add_artist(music, "d", "dev")
    forked = [t.table_key for t in music.snapshot("dev").tables if t.table_branch is not None]
    assert forked == ["node:Artist"]
    first = music.snapshot("dev").tables
    add_artist(music, "e", "dev")
    second = music.snapshot("dev").tables
    assert [t.table_branch for t in first] == [t.table_branch for t in second]


def test_a_failed_write_leaves_no_fork_behind(music, music_place):
    music.create_branch("dev")
    artist = next(t for t in music.snapshot().tables if t.table_key == "node:Artist")
    forks = music_place / artist.table_path / "_refs/branches"
    expected = music.snapshot("dev").graph_commit_id
    add_artist(music, "d", "dev")
    made = set(forks.iterdir())
    music.create_branch("other")
    for attempt in (
        lambda: music.load([node("Artist", slug="ada", name="X")], "append", branch="other"),
        lambda: run(
            music, 'insert Artist {slug: "z", name: "Z"}', branch="dev", expected_head=expected
        ),
    ):
        with pytest.raises(ConflictError):
            attempt()
    assert set(forks.iterdir()) == made


def test_rows_on_a_fork_that_was_never_shown_stay_unseen(music, music_place):
    """A fork of a dead writer whose intent is lost too: no branch owns it."""

    def die():
        raise KeyboardInterrupt

    music.create_branch("dev")
    with observed(Trouble("after", "commit", "*/nodes/*", instead=die)):
        graph = omnigraph.open(music_place)
        with pytest.raises(KeyboardInterrupt):
            add_artist(graph, "lost", "dev")
    (intent,) = (music_place / "__recovery").glob("*.json")
    intent.unlink()
    (orphan,) = music_place.glob("nodes/*/tree/*")
    assert new_artists(music, "dev") == set()
    add_artist(music, "d", "dev")
    assert new_artists(music, "dev") == {"d"}
    shown = next(t for t in music.snapshot("dev").tables if t.table_key == "node:Artist")
    assert shown.table_branch != orphan.name


def test_names_that_look_nested_live_side_by_side(music):
    for name in ("a", "a/b", "a/b/c", "a.b", "A"):
        music.create_branch(name)
        add_artist(music, f"in-{name}".replace("/", "-").lower() + str(len(name)), name)
    assert music.branches() == ["main", "A", "a", "a.b", "a/b", "a/b/c"]
    assert all(len(new_artists(music, name)) == 1 for name in music.branches()[1:])
    music.delete_branch("a")
    assert len(new_artists(music, "a/b")) == 1
    assert music.branches() == ["main", "A", "a.b", "a/b", "a/b/c"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "  ",
        "a//b",
        "/a",
        "a/",
        "a..b",
        "a b",
        "a.lock",
        "x" * 201,
        "a\nb",
        "a~b",
        "a:b",
        "a\\b",
    ],
)
def test_a_name_outside_the_rules_is_refused(music, music_place, name):
    with refusal(BadRequest, "branch name"):
        music.create_branch(name)
    assert music.branches() == ["main"]
    assert not (music_place / "__manifest/tree").exists()


@pytest.mark.parametrize("name", ["__schema_apply_lock__", "/__schema_apply_lock__"])
def test_a_name_of_the_system_is_refused_everywhere(music, name):
    for attempt in (
        lambda: music.create_branch(name),
        lambda: music.delete_branch(name),
        lambda: add_artist(music, "z", name),
        lambda: music.load(b"", "append", branch=name, base="main"),
    ):
        with refusal(BadRequest, "reserved"):
            attempt()


def test_main_is_neither_created_nor_deleted(music):
    with refusal(BadRequest, "'main' cannot be created"):
        music.create_branch("main")
    with refusal(BadRequest, "'main' cannot be deleted"):
        music.delete_branch(" main ")


def test_names_are_trimmed(music):
    music.create_branch("  dev ")
    assert music.branches() == ["main", "dev"]
    add_artist(music, "d", " dev")
    assert new_artists(music, "dev ") == {"d"}
    with refusal(AlreadyExists, "'dev' already exists"):
        music.create_branch("dev")


def test_a_branch_with_branches_of_its_own_is_not_deleted(music):
    music.create_branch("dev")
    add_artist(music, "d", "dev")
    music.create_branch("child", source="dev")
    with refusal(ConflictError, "is the source of child"):
        music.delete_branch("dev")
    assert new_artists(music, "child") == {"d"}
    music.delete_branch("child")
    music.delete_branch("dev")
    assert music.branches() == ["main"]


def test_deleting_what_is_not_there(music):
    for attempt in (
        lambda: music.delete_branch("dev"),
        lambda: music.create_branch("x", source="dev"),
        lambda: add_artist(music, "d", "dev"),
        lambda: music.commits("dev"),
        lambda: contents(music, branch="dev"),
    ):
        with refusal(BranchNotFound, "'dev' not found"):
            attempt()


def test_a_name_used_again_is_another_branch(music):
    first = music.create_branch("dev")
    old = add_artist(music, "old", "dev")
    music.delete_branch("dev")
    made_again = music.create_branch("dev")
    assert new_artists(music, "dev") == set()
    assert music.snapshot("dev").graph_commit_id == music.snapshot().graph_commit_id
    new = add_artist(music, "new", "dev")
    assert new.parent_commit_id == music.snapshot().graph_commit_id
    stored = music._open.views.commit(new.commit_id, "dev")
    assert first.incarnation != stored.incarnation == made_again.incarnation
    assert new_artists(music, "dev") == {"new"}
    with refusal(CommitNotFound, old.commit_id):
        music.at(commit=old.commit_id, branch="dev")


def test_a_write_prepared_on_an_earlier_branch_of_the_name_is_refused(music, music_place):
    music.create_branch("dev")
    other = omnigraph.open(music_place)
    view = other.at(branch="dev")
    music.delete_branch("dev")
    music.create_branch("dev")
    with refusal(omnigraph.errors.PreconditionFailed, "dev") as _:
        run(
            other,
            'insert Artist {slug: "z", name: "Z"}',
            branch="dev",
            expected_head=UNKNOWN_COMMIT,
        )
    assert add_artist(other, "z", "dev").parent_commit_id == view.commit_id
    assert new_artists(music, "dev") == {"z"}


def test_a_branch_can_start_at_an_earlier_commit(music):
    first = add_artist(music, "m1")
    add_artist(music, "m2")
    music.create_branch("then", commit=first.commit_id)
    assert new_artists(music, "then") == {"m1"}
    made = add_artist(music, "t", "then")
    assert made.parent_commit_id == first.commit_id
    assert new_artists(music, "main") == {"m1", "m2"}
    assert [c.commit_id for c in music.commits("then")[:2]] == [made.commit_id, first.commit_id]


def test_a_branch_can_start_at_a_commit_of_another_branch(music):
    music.create_branch("dev")
    first = add_artist(music, "d1", "dev")
    add_artist(music, "d2", "dev")
    ref = music.create_branch("then", commit=first.commit_id)
    assert (ref.parent, new_artists(music, "then")) == ("dev", {"d1"})
    with refusal(ConflictError, "is the source of then"):
        music.delete_branch("dev")
    add_artist(music, "t", "then")
    assert new_artists(music, "then") == {"d1", "t"}
    with refusal(CommitNotFound, "nope"):
        music.create_branch("never", commit="nope")


def test_a_branch_from_the_first_commit_is_empty(music):
    music.create_branch("empty", commit=music.commits()[-1].commit_id)
    assert contents(music, branch="empty") == []
    music.load([node("Label", slug="l", name="L")], "overwrite", branch="empty")
    assert ids(music, "Label", branch="empty") == {"l"}


def test_the_record_of_a_branch_says_where_it_came_from(music, music_place):
    ref = music.create_branch("team/x")
    stored = json.loads((music_place / "_refs/branches/team%2Fx.json").read_text())
    assert (stored["name"], stored["parent"], stored["actor_id"]) == ("team/x", "main", "tester")
    assert (stored["incarnation"], stored["fork_version"]) == (ref.incarnation, 2)


def test_an_answer_lost_after_creating_a_branch_is_no_failure(music_place):
    with observed(Trouble("after", "put_if_absent", "_refs/branches/*")):
        graph = omnigraph.open(music_place)
        graph.create_branch("dev")
    assert graph.branches() == ["main", "dev"]
    assert graph.commits("dev") == graph.commits()


def test_an_answer_lost_after_deleting_a_branch_is_no_failure(music_place):
    with observed(Trouble("after", "delete", "_refs/branches/*")):
        graph = omnigraph.open(music_place)
        graph.create_branch("dev")
        graph.delete_branch("dev")
    assert graph.branches() == ["main"]


def test_failing_to_remove_a_name_leaves_the_branch_as_it_was(music_place):
    with observed(Trouble("before", "delete", "_refs/branches/*")):
        graph = omnigraph.open(music_place)
        graph.create_branch("dev")
        add_artist(graph, "d", "dev")
        with refusal(StorageFailure, "trouble"):
            graph.delete_branch("dev")
    assert graph.branches() == ["main", "dev"]
    add_artist(graph, "e", "dev")
    assert new_artists(graph, "dev") == {"d", "e"}
    graph.delete_branch("dev")
    assert graph.branches() == ["main"]


def test_failing_to_make_the_physical_branch_makes_no_branch(music_place):
    with observed(Trouble("before", "create_branch")):
        graph = omnigraph.open(music_place)
        with refusal(StorageFailure, "trouble"):
            graph.create_branch("dev")
        assert graph.branches() == ["main"]
        graph.create_branch("dev")
    assert new_artists(graph, "dev") == set()


def test_an_answer_lost_after_making_the_physical_branch_is_no_failure(music_place):
    with observed(Trouble("after", "create_branch", times=2)):
        graph = omnigraph.open(music_place)
        graph.create_branch("dev")
        add_artist(graph, "d", "dev")
    assert new_artists(graph, "dev") == {"d"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_failing_to_remove_what_a_name_stood_for_is_no_failure(music_place, moment):
    with observed(Trouble(moment, "delete_branch")):
        graph = omnigraph.open(music_place)
        graph.create_branch("dev")
        add_artist(graph, "d", "dev")
        graph.delete_branch("dev")
    assert graph.branches() == ["main"]
    graph.create_branch("dev")
    assert new_artists(graph, "dev") == set()
    add_artist(graph, "e", "dev")
    assert new_artists(graph, "dev") == {"e"}


def test_the_branch_object_has_the_same_verbs(music):
    music.create_branch("dev")
    dev = music.branch("dev")
    made = dev.mutate('query q() { insert Artist {slug: "d", name: "D"} }').commit
    dev.load([node("Label", slug="l", name="L")], "append")
    assert dev.commits()[1] == made
    assert dev.snapshot().graph_branch == "dev"
    assert "d" in {r["data"]["id"] for r in dev.at(commit=made.commit_id).export(["Artist"])}
    assert "l" in {r["data"]["id"] for r in dev.export(["Label"])}
    dev.delete()
    assert music.branches() == ["main"]


def test_constraints_hold_on_a_branch_across_what_it_inherited(music):
    music.create_branch("dev")
    with refusal(omnigraph.errors.ConstraintViolated, "@card violation"):
        run(music, 'insert SignedTo {from: "ada", to: "nova"}', branch="dev")
    run(music, 'delete SignedTo where from = "ada"', branch="dev")
    run(music, 'insert SignedTo {from: "ada", to: "nova"}', branch="dev")
    signed = {(e["from"], e["to"]) for e in entities(music, "SignedTo", branch="dev").values()}
    assert ("ada", "nova") in signed
