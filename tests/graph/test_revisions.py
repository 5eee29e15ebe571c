"""Revisions as one text: branch, tag, commit, version, time or snapshot."""

from __future__ import annotations

import datetime

import pytest

from graph.music_graph import LABEL, add_artist, contents, node, refusal, run
from omnigraph.errors import (
    BadRequest,
    CommitNotFound,
    HistoricalVersionReclaimed,
    NotFoundError,
    PreconditionFailed,
)


def at_time(commit) -> str:
    moment = datetime.datetime.fromtimestamp(commit.created_at / 1e6, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def story(music):
    """Three commits on main, each with what the graph held then, and a branch with one more."""
    held = {}
    for slug in ("a1", "a2", "a3"):
        commit = add_artist(music, slug)
        held[commit] = contents(music)
    music.create_branch("dev")
    commit = add_artist(music, "d1", "dev")
    held[commit] = contents(music, branch="dev")
    return held


def test_every_spelling_of_a_commit_leads_to_it(music, story):
    for commit, expected in story.items():
        for place in (
            commit.commit_id,
            f" {commit.commit_id} ",
            f"commit:{commit.commit_id}",
            f"snapshot:{commit.commit_id}",
            f"manifest:{commit.branch}:v{commit.manifest_version}",
            f"snapshot:manifest:{commit.branch}:v{commit.manifest_version}",
        ):
            assert list(music.at(place).export()) == expected, place
        for place in (
            str(commit.manifest_version),
            f"version:{commit.manifest_version}",
            at_time(commit),
            f"time:{at_time(commit)}",
        ):
            view = music.at(place, branch=commit.branch)
            assert list(view.export()) == expected, place
            assert list(music.branch(commit.branch).at(place).export()) == expected


def test_the_beginning_of_an_id_is_enough_where_it_fits_one_commit(music, story):
    commits = [c.commit_id for c in music.commits("dev")]
    for commit, expected in story.items():
        shortest = next(
            n
            for n in range(6, 27)
            if sum(one.startswith(commit.commit_id[:n]) for one in commits) == 1
        )
        for place in (commit.commit_id[:shortest], commit.commit_id[:shortest].lower()):
            assert list(music.at(place).export()) == expected, place


def test_a_beginning_of_several_ids_is_refused(music, story):
    first = next(iter(story)).commit_id
    with refusal(BadRequest, "commits, such as"):
        music.at(first[:6])


def test_a_branch_is_read_as_it_is_now(music, story):
    assert list(music.at("dev").export()) == contents(music, branch="dev")
    assert list(music.at("branch:dev").export()) == contents(music, branch="dev")
    assert list(music.at("main").export()) == contents(music)


def test_a_time_between_two_commits_shows_the_earlier_one(music, story):
    commits = list(story)
    day = datetime.datetime.fromtimestamp(commits[0].created_at / 1e6, datetime.UTC).date()
    later = (day + datetime.timedelta(days=2)).isoformat()
    assert list(music.at(later).export()) == contents(music)
    with refusal(BadRequest, "no commit as early as 2001-01-01"):
        music.at("2001-01-01")


def test_an_ambiguous_name_is_refused_and_says_how_to_write_it(music):
    music.create_branch("2026-11-16")
    with refusal(BadRequest, "is a branch and a time; write branch:2026-11-16 or time:2026-11-16"):
        music.at("2026-11-16")
    assert music.at("branch:2026-11-16").info().graph_branch == "2026-11-16"
    music.create_branch("same")
    music.tag("same")
    with refusal(BadRequest, "write branch:same or tag:same"):
        music.at("same")
    music.create_branch("2")
    with refusal(BadRequest, "write branch:2 or version:2"):
        music.at("2")
    assert music.at("version:2").info().graph_manifest_version == 2


@pytest.mark.parametrize("length", [14, 26], ids=["the beginning of an id", "a whole id"])
@pytest.mark.parametrize("named", ["branch", "tag"])
def test_a_name_like_a_commit_must_say_which_is_meant(music, story, named, length):
    commit = list(story)[-1].commit_id
    name = commit[:length]
    music.create_branch(name) if named == "branch" else music.tag(name)
    for use in (music.at, music.revert, music.cherry_pick, music.restore, music.commit_changes):
        with refusal(BadRequest, f"is a {named} and a commit; write {named}:{name} or commit:"):
            use(name)
    assert music.at(f"commit:{name}").info().graph_commit_id == commit
    expected = contents(music)
    assert list(music.at(f"{named}:{name}").export()) == expected


@pytest.mark.parametrize("place", ["nowhere", "", "no/such", "branch", "999999999999999999999"])
def test_a_name_of_nothing_is_not_found(music, place):
    with refusal(NotFoundError, f"'{place}'"):
        music.at(place)


def test_explicit_names_of_nothing(music):
    with refusal(CommitNotFound, "ZZZZZZ"):
        music.at("commit:ZZZZZZ")
    with refusal(BadRequest, "is not a version"):
        music.at("version:two")
    with refusal(BadRequest, "is not a time"):
        music.at("time:yesterday")
    with refusal(BadRequest, "up to 2, not 3"):
        music.at("3")
    with refusal(BadRequest, "give one of"):
        music.at("main", version=1)


def test_a_query_reports_the_snapshot_of_a_revision(music, story):
    commit = next(iter(story))
    music.tag("v1", commit.commit_id)
    count = "query q() { match { $a: Artist } return { count($a) as n } }"
    assert music.at("v1").query(count).wire()["target"] == {
        "branch": None,
        "snapshot": commit.commit_id,
    }
    assert music.at("dev").query(count).wire()["target"] == {"branch": "dev", "snapshot": None}


def test_a_tilde_leads_to_commits_before(music, story):
    music.tag("v1")
    newest = music.commits()
    for start in ("HEAD", "main", "v1", newest[0].commit_id, newest[0].commit_id[:25]):
        assert music.commit(start) == newest[0]
        assert music.commit(f"{start}~") == music.commit(f"{start}~1") == newest[1]
        assert music.commit(f"{start}~0") == newest[0]
        assert music.commit(f"{start}~1~2") == music.commit(f"{start}~3") == newest[3]
        assert list(music.at(f"{start}~1").export()) == story[newest[1]]


def test_head_is_that_of_the_branch_that_is_worked_on(music, story):
    dev = music.branch("dev")
    assert dev.commit("HEAD") == dev.commits()[0] == music.commit("HEAD", "dev")
    assert dev.commit("HEAD~1") == music.commits()[0], "a branch continues from its source"
    assert list(dev.at("HEAD~1").export()) == contents(music)


def test_more_steps_than_there_are_commits_are_refused(music):
    first = music.commits()[-1]
    with refusal(BadRequest, f"commit {first.commit_id} has 0 commits before it, not 2"):
        music.at(f"{first.commit_id}~2")


def test_a_branch_called_head_must_say_so(music):
    music.create_branch("HEAD")
    assert music.at("HEAD").info().graph_branch == "main"
    assert music.at("branch:HEAD").info().graph_branch == "HEAD"


def list_objects(music, commit):
    """Objects that stand for this commit, which is the newest of `dev`."""
    dev = music.branch("dev")
    return [commit, music.tag("here", commit), dev, dev.at()]


def test_every_object_that_names_a_commit_is_accepted_as_one(music, story):
    commit, expected = list(story.items())[-1]
    for place in list_objects(music, commit):
        assert list(music.at(place).export()) == expected, place
        assert list(music.at(commit=place).export()) == expected, place
        assert music.commit(place) == commit
        assert music.commit_changes(place).commit == commit
        assert {change.id for change in music.diff("main", place)} == {"d1"}
        assert music.tag(f"of-{type(place).__name__}", place).commit_id == commit.commit_id
        assert music.cherry_pick(place, dry_run=True).applied_commit_id == commit.commit_id
        assert music.restore(place, branch="dev", dry_run=True).commit is None
        made = music.create_branch(f"from-{type(place).__name__}", commit=place)
        assert made.fork_head == commit.commit_id
    assert music.commit(made) == commit


@pytest.mark.parametrize("spell", [lambda c: c, lambda _: "newest", lambda c: c.commit_id[:25]])
def test_an_expected_head_may_be_named_like_any_commit(music, story, spell):
    before, newest = music.commits()[1], music.commits()[0]
    music.tag("newest")
    with refusal(PreconditionFailed, "main"):
        run(music, LABEL.format("x"), expected_head=before)
    assert run(music, LABEL.format("x"), expected_head=spell(newest)).commit is not None
    with refusal(PreconditionFailed, newest.commit_id):
        music.load([node("Label", slug="y", name="Y")], "append", expected_head=spell(newest))
    with refusal(PreconditionFailed, newest.commit_id):
        music.merge("dev", expected_head=spell(newest))
    with refusal(PreconditionFailed, newest.commit_id):
        music.apply_schema(music.schema, expected_head=spell(newest))


def test_a_commit_is_a_position_of_the_feed(music, story):
    commits = list(story)
    page = music.changes(commits[1])
    assert [block.commit for block in page.blocks] == [commits[2]]
    assert music.set_consumer("copy", commits[1]).commit_id == commits[1].commit_id


def test_a_time_may_be_given_as_a_datetime(music, story):
    commit, expected = next(iter(story.items()))
    moment = datetime.datetime.fromtimestamp(commit.created_at / 1e6, datetime.UTC)
    assert list(music.at(moment).export()) == expected
    elsewhere = moment.astimezone(datetime.timezone(datetime.timedelta(hours=5)))
    assert music.commit(elsewhere) == commit
    with refusal(BadRequest, "has no time zone"):
        music.at(moment.replace(tzinfo=None))


@pytest.mark.parametrize("place", [3.5, b"main", ["main"], object()])
def test_a_value_that_names_no_commit_is_reported_plainly(music, place):
    for use in (music.at, music.commit, music.revert, music.restore, music.commit_changes):
        with refusal(BadRequest, f"not by a {type(place).__name__}"):
            use(place)


def test_a_reclaimed_commit_is_named(music, story):
    music.cleanup(keep=1, confirm=True)
    gone = next(iter(story))
    with refusal(HistoricalVersionReclaimed, f"the state of commit {gone.commit_id} "):
        music.at(gone)
    assert music.commit(gone.commit_id[:25]) == gone, "what it was is still known"
