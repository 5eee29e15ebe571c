"""Tags: names for commits that stay whatever is written, renamed or cleaned up later."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import omnigraph
from graph.music_graph import add_artist, contents, refusal
from omnigraph.errors import (
    AlreadyExists,
    BadRequest,
    BranchNotFound,
    CommitNotFound,
    ConflictError,
    HistoricalVersionReclaimed,
    ManifestCorrupt,
    TagNotFound,
)


def test_a_tag_shows_the_commit_it_names_whatever_follows(music, music_place):
    before = contents(music)
    tag = music.tag("v1")
    add_artist(music, "z")
    assert list(music.at("v1").export()) == before
    assert list(music.at("tag:v1").export()) == before
    assert (tag.commit_id, tag.branch, tag.actor_id) == (
        music.commits()[1].commit_id,
        "main",
        "tester",
    )
    assert omnigraph.open(music_place, read_only=True).tags() == [tag]


def test_a_tag_is_created_at_any_revision(music):
    first = add_artist(music, "a")
    add_artist(music, "b")
    music.create_branch("dev")
    third = add_artist(music, "c", "dev")
    assert music.tag("by-commit", first.commit_id).commit_id == first.commit_id
    assert music.tag("by-version", str(first.manifest_version)).commit_id == first.commit_id
    assert music.tag("by-branch", "dev").commit_id == third.commit_id
    assert music.tag("bound", branch="dev").commit_id == third.commit_id
    assert music.branch("dev").tag("verb").commit_id == third.commit_id
    assert music.tag("of-a-tag", "by-commit").commit_id == first.commit_id
    names = ["bound", "by-branch", "by-commit", "by-version", "of-a-tag", "verb"]
    assert [tag.name for tag in music.tags()] == names


def test_a_fresh_branch_is_tagged_at_the_commit_it_started_from(music):
    head = music.commits()[0]
    music.create_branch("dev")
    assert music.tag("start", branch="dev").commit_id == head.commit_id


def test_a_tag_does_not_move(music):
    music.tag("v1")
    add_artist(music, "z")
    with refusal(AlreadyExists, "tag 'v1' already exists"):
        music.tag("v1")
    assert music.delete_tag("v1").name == "v1"
    assert music.tag("v1").commit_id == music.commits()[0].commit_id


def test_tags_that_do_not_exist_and_names_that_cannot_be(music):
    with refusal(TagNotFound, "tag 'v1' not found"):
        music.delete_tag("v1")
    with refusal(TagNotFound, "tag 'v1' not found"):
        music.at("tag:v1")
    with refusal(BadRequest, "tag name cannot be empty"):
        music.tag(" ")
    with refusal(BadRequest, "must not contain '..'"):
        music.tag("a..b")
    with refusal(BadRequest, "cannot be called 'main'"):
        music.tag("main")
    with refusal(CommitNotFound, "0" * 26):
        music.tag("v1", "0" * 26)
    with refusal(BranchNotFound, "nowhere"):
        music.tag("v1", branch="nowhere")
    assert music.tags() == []


def test_a_handle_that_only_reads_makes_and_deletes_no_tag(music, music_place):
    music.tag("v1")
    reader = omnigraph.open(music_place, read_only=True)
    with refusal(BadRequest, "read-only"):
        reader.tag("v2")
    with refusal(BadRequest, "read-only"):
        reader.delete_tag("v1")


def test_cleanup_keeps_what_a_tag_names_and_no_longer_once_it_is_deleted(music):
    tagged = add_artist(music, "kept")
    expected = contents(music)
    lost = add_artist(music, "lost")
    music.tag("v1", tagged.commit_id)
    for n in range(4):
        add_artist(music, f"x{n}")
    music.cleanup(keep=1, confirm=True)
    assert list(music.at("v1").export()) == expected
    with pytest.raises(HistoricalVersionReclaimed):
        music.at(lost.commit_id)
    music.delete_tag("v1")
    music.cleanup(keep=1, confirm=True)
    with pytest.raises(HistoricalVersionReclaimed):
        music.at(tagged.commit_id)


def test_a_deleted_commit_cannot_be_tagged(music):
    first = add_artist(music, "a")
    add_artist(music, "b")
    music.cleanup(keep=1, confirm=True)
    with pytest.raises(HistoricalVersionReclaimed):
        music.tag("v1", first.commit_id)
    assert music.tags() == []


def test_a_branch_with_tagged_commits_is_not_deleted(music):
    music.create_branch("dev")
    music.tag("start", branch="dev")  # a commit of main
    add_artist(music, "z", "dev")
    music.tag("end", branch="dev")
    with refusal(ConflictError, "has commits tagged end; delete those tags first"):
        music.delete_branch("dev")
    music.delete_tag("end")
    music.delete_branch("dev")
    assert len(list(music.at("start").export())) == len(contents(music))


def test_one_of_many_makes_a_tag(music, music_place):
    handles = [omnigraph.open(music_place, actor=f"a{n}") for n in range(4)]
    made, refused = [], []

    def attempt(graph):
        try:
            made.append(graph.tag("v1"))
        except AlreadyExists as error:
            refused.append(error)

    threads = [threading.Thread(target=attempt, args=[graph]) for graph in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 3)
    assert music.tags() == made


def test_a_record_that_is_none_is_an_error(music, music_place: Path):
    music.tag("v1")
    (record,) = (music_place / "_refs" / "tags").iterdir()
    record.write_text('{"version": 1}')
    with pytest.raises(ManifestCorrupt):
        music.tags()
    record.write_text(record.read_text().replace("1", "2"))
    with pytest.raises(ManifestCorrupt):
        music.at("tag:v1")
