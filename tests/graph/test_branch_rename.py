"""Renaming a branch: the same branch by another name, whatever happens on the way."""

from __future__ import annotations

import pytest

import omnigraph
from crash.fault_points import At, Stopped, stop, watched
from graph.music_graph import UNKNOWN_COMMIT, add_artist, contents, ids, refusal, run
from omnigraph.errors import AlreadyExists, BadRequest, BranchNotFound


@pytest.fixture
def dev(music):
    """A branch with a commit of its own, and one made from it with another."""
    music.create_branch("dev")
    add_artist(music, "d1", "dev")
    music.create_branch("deep", source="dev")
    add_artist(music, "e1", "deep")
    return music


def test_a_renamed_branch_retains_its_commits_and_accepts_writes(dev, music_place):
    before, commits = contents(dev, branch="dev"), dev.commits("dev")
    ref = dev.rename_branch("dev", "team/new")
    assert (ref.name, ref.renamed_from) == ("team/new", "dev")
    assert dev.branches() == ["main", "deep", "team/new"]
    assert contents(dev, branch="team/new") == before
    assert dev.commits("team/new") == commits
    assert dev.snapshot("team/new").snapshot_id == commits[0].commit_id
    after = add_artist(dev, "d2", "team/new")
    assert after.parent_commit_id == commits[0].commit_id
    fresh = omnigraph.open(music_place)
    assert [c.commit_id for c in fresh.commits("team/new")[:2]] == [
        after.commit_id,
        commits[0].commit_id,
    ]
    for commit in (after, *commits):
        assert fresh.at(commit.commit_id).commit_id == commit.commit_id
    assert fresh.verify(deep=True).is_sound


def test_expected_heads_hold_across_a_rename(dev):
    head = dev.commits("dev")[0].commit_id
    dev.rename_branch("dev", "new")
    with pytest.raises(omnigraph.errors.PreconditionFailed):
        run(dev, 'delete Artist where slug = "d1"', branch="new", expected_head=UNKNOWN_COMMIT)
    run(dev, 'delete Artist where slug = "d1"', branch="new", expected_head=head)


def test_a_branch_created_from_it_still_reads_its_versions(dev):
    version = dev.commits("dev")[0].manifest_version
    dev.rename_branch("dev", "new")
    found = {r["data"]["id"] for r in dev.at(version=version, branch="deep").export(["Artist"])}
    assert "d1" in found
    assert "e1" not in found


def test_the_old_name_is_free_and_makes_another_branch(dev):
    old = contents(dev, branch="dev")
    dev.rename_branch("dev", "new")
    with refusal(BranchNotFound, "dev"):
        dev.commits("dev")
    dev.create_branch("dev", source="new")
    add_artist(dev, "x1", "dev")
    add_artist(dev, "n1", "new")
    assert "x1" not in ids(dev, "Artist", branch="new")
    assert contents(dev, branch="new") != old
    assert dev.commits("dev")[0].parent_commit_id == dev.commits("new")[1].commit_id
    assert dev.at("branch:dev").commit_id == dev.commits("dev")[0].commit_id


def test_tags_and_cleanup_follow_the_branch(dev):
    tag = dev.tag("t", branch="dev")
    expected = contents(dev, branch="dev")
    dev.rename_branch("dev", "new")
    for n in range(3):
        add_artist(dev, f"n{n}", "new")
    dev.cleanup(keep=1, confirm=True)
    assert list(dev.at("t").export()) == expected
    assert dev.at("t").commit_id == tag.commit_id


def test_names_that_are_refused(dev):
    with refusal(AlreadyExists, "branch 'deep' already exists"):
        dev.rename_branch("dev", "deep")
    with refusal(BadRequest, "'main' cannot be renamed"):
        dev.rename_branch("main", "other")
    with refusal(BadRequest, "'main' cannot be created"):
        dev.rename_branch("dev", "main")
    with refusal(BranchNotFound, "nobody"):
        dev.rename_branch("nobody", "other")
    with refusal(BadRequest, "must not contain"):
        dev.rename_branch("dev", "a..b")
    with refusal(AlreadyExists, "already exists"):
        dev.rename_branch("dev", "dev")
    assert dev.branches() == ["main", "deep", "dev"]


def test_a_branch_object_has_its_new_name(dev):
    branch = dev.branch("dev")
    branch.rename("new")
    assert branch.name == "new"
    assert branch.commits() == dev.commits("new")


REFS = "_refs/branches/*"
FAULT_POINTS = [
    ("before", "put_if_absent"),
    ("after", "put_if_absent"),
    ("before", "delete"),
    ("after", "delete"),
    ("before", "put_if_match"),
    ("after", "put_if_match"),
]


@pytest.fixture(params=FAULT_POINTS, ids=[" ".join(one) for one in FAULT_POINTS])
def interrupted(request, dev, music_place):
    """A graph with an interrupted rename of its branch `dev` to `new`."""
    dev.close()
    moment, action = request.param
    fault_point = At(moment, action, REFS, stop)
    with watched(fault_point), pytest.raises(Stopped):
        omnigraph.open(music_place).rename_branch("dev", "new")
    assert fault_point.met == 1
    return omnigraph.open(music_place, actor="next")


def names_of_it(graph):
    return sorted(set(graph.branches()) - {"main", "deep"})


def test_an_interrupted_rename_leaves_one_branch_by_one_name_or_by_two(interrupted):
    names = names_of_it(interrupted)
    assert names in (["dev"], ["new"], ["dev", "new"])
    held = {tuple(c.commit_id for c in interrupted.commits(name)) for name in names}
    assert len(held) == 1
    # A write by either name is seen by the other.
    made = add_artist(interrupted, "w1", names[0])
    assert {interrupted.commits(name)[0].commit_id for name in names} == {made.commit_id}


def test_a_write_by_the_new_name_recovers_it(interrupted):
    if "new" not in interrupted.branches():
        return
    add_artist(interrupted, "w1", "new")
    assert names_of_it(interrupted) == ["new"]
    assert interrupted.verify(deep=True).is_sound


def test_renaming_again_recovers_it(interrupted):
    if "new" in interrupted.branches():
        with pytest.raises((AlreadyExists, BranchNotFound)):
            interrupted.rename_branch("dev", "new")
    else:
        interrupted.rename_branch("dev", "new")
    assert names_of_it(interrupted) == ["new"]
    interrupted.rename_branch("new", "newer")
    assert names_of_it(interrupted) == ["newer"]


def test_deleting_another_branch_takes_nothing_from_it(interrupted):
    interrupted.create_branch("other")
    interrupted.delete_branch("other")
    for name in names_of_it(interrupted):
        assert "d1" in ids(interrupted, "Artist", branch=name)


def test_deleting_it_by_its_newest_name_takes_the_other_along(interrupted):
    interrupted.delete_branch("deep")
    *_, newest = names_of_it(interrupted)
    interrupted.delete_branch(newest)
    assert names_of_it(interrupted) == []
    assert interrupted.verify(deep=True).is_sound


def test_a_write_by_the_old_name_that_dies_too_is_recovered_first(interrupted, music_place):
    if names_of_it(interrupted) != ["dev", "new"]:
        return
    interrupted.close()
    with watched(At("after", "*", "*/nodes/*", stop, nth=1)), pytest.raises(Stopped):
        add_artist(omnigraph.open(music_place), "w1", "dev")
    graph = omnigraph.open(music_place)
    add_artist(graph, "w2", "new")
    assert names_of_it(graph) == ["new"]
    assert "w2" in ids(graph, "Artist", branch="new")
    assert graph.recovery_pending() == []
    assert graph.verify(deep=True).is_sound
