"""Cloning a graph to another address: what is copied, and what is not."""

from __future__ import annotations

import random
import shutil
import threading
from base64 import b64encode

import lance
import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from graph.music_graph import LABEL, contents, everything, files_below, refusal, run
from graph.test_interruptions import Crash, crash, stop
from graph.test_moved_graphs import recorded_bases
from omnigraph.errors import (
    AlreadyInitialized,
    BadRequest,
    BranchNotFound,
    CloneUnfinished,
    GraphNotFound,
    HistoricalVersionReclaimed,
)
from omnigraph.storage.graph_lifecycle import find_claim
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import CLONE_CLAIM


@pytest.fixture
def there(tmp_path):
    return tmp_path / "far" / "clone.omni"


def history(graph):
    return {name: graph.commits(name) for name in graph.branches()}


def test_a_clone_has_every_branch_commit_and_row(branched, music_place, there):
    before = everything(branched), history(branched)
    done = omnigraph.clone(music_place, there)
    assert done.branches == ("main", "deep", "dev")
    shutil.rmtree(music_place)
    graph = omnigraph.open(there)
    assert (everything(graph), history(graph)) == before
    assert graph.verify(deep=True).is_sound
    assert all(recorded_bases(there).values())


def test_a_clone_is_written_merged_from_and_cleaned_like_any_graph(branched, music_place, there):
    omnigraph.clone(music_place, there)
    shutil.rmtree(music_place)
    graph = omnigraph.open(there)
    for name in graph.branches():
        run(graph, LABEL.format(f"new-{name}"), branch=name)
    graph.create_branch("more", source="deep")
    run(graph, 'delete Artist where slug = "ada"', branch="more")
    before = {name: contents(graph, branch=name) for name in graph.branches()}
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    assert {name: contents(graph, branch=name) for name in graph.branches()} == before
    assert graph.verify(deep=True).is_sound


def test_cloning_changes_nothing_in_the_source(branched, music_place, there):
    before = list(files_below(music_place))
    omnigraph.clone(music_place, there)
    omnigraph.clone(music_place, there.with_name("shallow.omni"), shallow=True)
    assert list(files_below(music_place)) == before


def test_a_clone_keeps_the_identity_so_ids_of_commits_mean_the_same(music, music_place, there):
    omnigraph.clone(music_place, there)
    clone = omnigraph.open(there)
    assert clone.catalog == music.catalog
    assert clone.commits() == music.commits()
    run(clone, LABEL.format("there"))
    run(music, LABEL.format("here"))
    assert clone.commits()[1:] == music.commits()[1:]
    assert clone.commits()[0] != music.commits()[0]


def test_blobs_come_along(tmp_path, there):
    source = omnigraph.init(tmp_path / "b.omni", "node P { slug: String @key  photo: Blob? }")
    photos = {"small": b"x", "medium": b"y" * 100_000, "large": bytes(range(256)) * 40_000}
    source.load(
        [
            {"type": "P", "data": {"slug": name, "photo": f"base64:{b64encode(data).decode()}"}}
            for name, data in photos.items()
        ],
        "append",
    )
    source.create_branch("dev")
    run(source, 'delete P where slug = "small"', branch="dev")
    omnigraph.clone(tmp_path / "b.omni", there)
    shutil.rmtree(tmp_path / "b.omni")
    clone = omnigraph.open(there, read_only=True)
    for name, data in photos.items():
        assert clone.read_blob("P", name, "photo").read() == data
        if name != "small":
            assert clone.read_blob("P", name, "photo", branch="dev").read() == data


def test_only_the_named_branch_and_its_ancestors_are_copied(branched, music_place, there):
    branched.create_branch("other")
    run(branched, LABEL.format("on-other"), branch="other")
    done = omnigraph.clone(music_place, there, branches=["dev"])
    assert done.branches == ("main", "dev")
    graph = omnigraph.open(there)
    for name in ("main", "dev"):
        assert contents(graph, branch=name) == contents(branched, branch=name)
        assert graph.commits(name) == branched.commits(name)
    with refusal(BranchNotFound, "deep"):
        contents(graph, branch="deep")
    assert graph.verify(deep=True).is_sound
    assert {one.check for one in graph.verify().notes} <= {"index"}, "nothing is left over"


def test_a_branch_of_a_branch_brings_its_parents(branched, music_place, there):
    done = omnigraph.clone(music_place, there, branches=["deep"], shallow=True)
    assert done.branches == ("main", "deep", "dev")
    shutil.rmtree(music_place)
    graph = omnigraph.open(there)
    assert graph.verify(deep=True).is_sound
    run(graph, LABEL.format("on"), branch="deep")


def test_a_branch_that_is_not_there_cannot_be_copied(music, music_place, there):
    with refusal(BranchNotFound, "nowhere"):
        omnigraph.clone(music_place, there, branches=["nowhere"])


def test_a_shallow_clone_has_the_newest_state_and_the_list_of_commits(branched, music_place, there):
    for number in range(5):
        run(branched, LABEL.format(f"n{number}"))
    now = {name: contents(branched, branch=name) for name in branched.branches()}
    full = omnigraph.clone(music_place, there)
    small = omnigraph.clone(music_place, there.with_name("s.omni"), shallow=True)
    assert small.versions < full.versions
    graph = omnigraph.open(there.with_name("s.omni"))
    assert {name: contents(graph, branch=name) for name in graph.branches()} == now
    assert history(graph) == history(branched)
    with pytest.raises(HistoricalVersionReclaimed):
        list(graph.at(commit=graph.commits()[2].commit_id).export())
    assert graph.verify(deep=True).is_sound


def test_tags_on_states_of_the_graph_come_along(music, music_place, there):
    version = music.commits()[0].manifest_version
    run(music, LABEL.format("later"))
    lance.dataset(str(music_place / "__manifest")).tags.create("kept", version)
    for name, shallow in (("full", False), ("small", True)):
        place = there.with_name(name)
        omnigraph.clone(music_place, place, shallow=shallow)
        tags = lance.dataset(str(place / "__manifest")).tags.list()
        assert {tag: found["version"] for tag, found in tags.items()} == {"kept": version}
        clone = omnigraph.open(place)
        clone.cleanup(keep=1, confirm=True)
        assert list(clone.at(commit=music.commits()[1].commit_id).export())


def test_an_interrupted_write_of_the_source_is_no_part_of_the_clone(music_place, there):
    stop(music_place, "after", "commit", "*/nodes/*", write=LABEL.format("half"))
    omnigraph.clone(music_place, there)
    assert (music_place / "__recovery").exists()
    clone = omnigraph.open(there)
    assert clone.recovered_on_open == []
    assert clone.verify(deep=True).is_sound
    run(clone, LABEL.format("half"))


def test_a_moved_source_can_be_cloned_before_it_is_written(branched, music_place, there, tmp_path):
    before = everything(branched)
    music_place.rename(tmp_path / "moved.omni")
    omnigraph.clone(tmp_path / "moved.omni", there)
    assert everything(omnigraph.open(there)) == before


# --- where it may go ------------------------------------------------------------------------------


def test_a_graph_is_never_overwritten(music, music_place, tmp_path, there):
    other = omnigraph.init(tmp_path / "other.omni", "node A { slug: String @key }")
    for force in (False, True):
        with refusal(AlreadyInitialized, "already holds a graph"):
            omnigraph.clone(music_place, tmp_path / "other.omni", force=force)
    assert other.verify().is_sound


def test_a_clone_is_not_created_inside_its_source_or_the_other_way_round(music_place):
    for place in (music_place / "inside", music_place.parent, music_place):
        with refusal(BadRequest, "one is in the other"):
            omnigraph.clone(music_place, place)


def test_there_must_be_a_graph_to_copy(tmp_path, there):
    with pytest.raises(GraphNotFound):
        omnigraph.clone(tmp_path / "nothing", there)
    assert not there.exists()


# --- interrupted ----------------------------------------------------------------------------------


def cut_clone(place, there, after):
    """Clone up to a number of durable writes; return whether the clone was complete."""
    seen = []

    class Counting:
        def before(self, action, path):
            pass

        def after(self, action, path):
            seen.append(path)
            if len(seen) == after:
                raise Crash

    with observed(Counting()):
        try:
            omnigraph.clone(place, there)
        except Crash:
            return False
    return True


def test_a_clone_that_was_interrupted_is_no_graph_and_can_be_started_over(
    branched, music_place, tmp_path
):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance, before = random.Random(seed), everything(branched)
    with observed(Trouble("before", "never")) as watched:
        omnigraph.clone(music_place, tmp_path / "whole.omni")
    writes = len(watched.seen)
    chosen = {1, 2, writes - 1, writes, *(chance.randrange(1, writes) for _ in range(6))}
    for after in sorted(chosen):
        place = tmp_path / f"cut-{after}.omni"
        assert not cut_clone(music_place, place, after)
        claim = find_claim(GraphRoot.at(str(place)).store)
        if claim is not None and not claim.is_released:
            for attempt in (
                lambda place=place: omnigraph.open(place),
                lambda place=place: omnigraph.open(place, read_only=True),
                lambda place=place: omnigraph.init(place, branched.schema, force=True),
                lambda place=place: omnigraph.clone(music_place, place),
                lambda place=place: omnigraph.clone(place, tmp_path / "of-a-part"),
            ):
                with refusal(CloneUnfinished, "--force"):
                    attempt()
            omnigraph.clone(music_place, place, force=True)
        elif after < writes - 1:
            omnigraph.clone(music_place, place)  # it had only tried the store
        clone = omnigraph.open(place, read_only=True)
        assert everything(clone) == before
        assert clone.verify(deep=True).is_sound


def test_starting_over_leaves_nothing_of_the_first_attempt(branched, music_place, there):
    last = Trouble("before", "put_if_match", CLONE_CLAIM, instead=crash)
    with observed(last), pytest.raises(Crash):
        omnigraph.clone(music_place, there)
    omnigraph.clone(music_place, there, branches=["main"], shallow=True, force=True)
    graph = omnigraph.open(there)
    assert graph.branches() == ["main"]
    assert list(there.glob("**/tree/*")) == []


# --- beside others --------------------------------------------------------------------------------


def test_a_cleanup_of_the_source_while_it_is_copied_is_waited_out(branched, music_place, there):
    """A file of the first plan is removed before it is copied; the second plan has fewer."""
    for number in range(3):
        run(branched, LABEL.format(f"n{number}"))
    branched.optimize()

    def clean():
        omnigraph.open(music_place).cleanup(keep=1, confirm=True)

    with observed(Trouble("after", "put_chunks", instead=clean)) as trouble:
        omnigraph.clone(music_place, there)
    assert trouble.is_over
    clone = omnigraph.open(there, read_only=True)
    assert {name: contents(clone, branch=name) for name in clone.branches()} == {
        name: contents(branched, branch=name) for name in branched.branches()
    }
    assert clone.verify(deep=True).is_sound


def test_clones_beside_writers_show_the_graph_after_some_commit(music, music_place, tmp_path):
    music.create_branch("dev")
    over, written = threading.Event(), []

    def write(branch):
        graph, number = omnigraph.open(music_place), 0
        while not over.is_set():
            label = f"{branch}-{number}"
            run(
                graph,
                f'insert Artist {{slug: "{label}", name: "N"}} '
                f'insert Influences {{from: "{label}", to: "ada"}}',
                branch=branch,
            )
            written.append(label)
            number += 1

    writers = [threading.Thread(target=write, args=(name,)) for name in ("main", "dev")]
    for writer in writers:
        writer.start()
    try:
        for number in range(5):
            seen = len(written)
            omnigraph.clone(music_place, tmp_path / f"c{number}.omni", shallow=number % 2 == 1)
            while len(written) < seen + 2:
                over.wait(0.001)
    finally:
        over.set()
        for writer in writers:
            writer.join()
    for number in range(5):
        clone = omnigraph.open(tmp_path / f"c{number}.omni")
        assert clone.recovered_on_open == []
        for name in ("main", "dev"):
            head = clone.commits(name)[0].commit_id
            assert contents(clone, branch=name) == list(music.branch(name).at(commit=head).export())
        run(clone, LABEL.format("after"), branch="dev")
        assert clone.verify(deep=True).is_sound


def rows_at(graph, tag):
    return list(graph.at(tag).export())


def test_a_clone_has_the_tags_and_the_consumers(branched, music_place, there):
    branched.tag("first")
    branched.tag("aside", at="dev")
    branched.set_consumer("index")
    run(branched, LABEL.format("later"))
    omnigraph.clone(music_place, there)
    with omnigraph.open(there) as clone:
        assert clone.tags() == branched.tags()
        assert clone.consumers() == branched.consumers()
        assert rows_at(clone, "first") == rows_at(branched, "first")
        clone.cleanup(keep=1, confirm=True)
        assert rows_at(clone, "first") == rows_at(branched, "first")
        assert clone.verify(deep=True, history=True).is_sound


def test_a_shallow_clone_keeps_what_tags_name(branched, music_place, there):
    branched.tag("first")
    branched.set_consumer("index")
    run(branched, LABEL.format("later"))
    run(branched, LABEL.format("latest"))
    omnigraph.clone(music_place, there, shallow=True)
    with omnigraph.open(there) as clone:
        assert rows_at(clone, "first") == rows_at(branched, "first")
        assert clone.consumers() == []  # what it has yet to read is not there


def test_a_clone_of_one_branch_leaves_the_tags_of_others(branched, music_place, there):
    branched.tag("here")
    branched.tag("aside", at="dev")
    omnigraph.clone(music_place, there, branches=["main"])
    with omnigraph.open(there) as clone:
        assert [tag.name for tag in clone.tags()] == ["here"]
        assert clone.verify().is_sound


@pytest.mark.parametrize("shallow", [False, True])
def test_a_graph_that_was_cleaned_up_can_be_cloned(branched, music_place, there, shallow):
    """The versions its branches start at may be removed; a clone does not need them."""
    for number in range(3):
        for name in branched.branches():
            run(branched, LABEL.format(f"{name}-{number}"), branch=name)
            run(branched, 'update Artist set { name: "again" } where slug = "ada"', branch=name)
    branched.cleanup(keep=1, confirm=True)
    before = {name: contents(branched, branch=name) for name in branched.branches()}
    omnigraph.clone(music_place, there, shallow=shallow)
    shutil.rmtree(music_place)
    with omnigraph.open(there) as clone:
        assert {name: contents(clone, branch=name) for name in clone.branches()} == before
        for name in clone.branches():
            run(clone, LABEL.format(f"new-{name}"), branch=name)
        clone.cleanup(keep=1, confirm=True)
        assert clone.verify(deep=True, history=True).is_sound
