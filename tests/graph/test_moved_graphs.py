"""A graph is a folder: it may be copied and moved, and what is left behind no longer matters."""

from __future__ import annotations

import json
import shutil

import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from graph.music_graph import LABEL, contents, everything, files_below, ids, refusal, run
from graph.test_interruptions import Crash, crash, kinds, stop
from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.tables.location import relocate_version


@pytest.mark.parametrize("read_only", [True, False])
def test_a_graph_that_was_moved_is_the_same_graph(branched, music_place, tmp_path, read_only):
    before = everything(branched)
    there = tmp_path / "elsewhere" / "new name.omni"
    there.parent.mkdir()
    music_place.rename(there)
    graph = omnigraph.open(there, read_only=read_only)
    assert everything(graph) == before
    assert graph.verify(deep=True).is_sound


def test_reading_a_moved_graph_writes_nothing(branched, music_place, tmp_path):
    there = tmp_path / "moved.omni"
    music_place.rename(there)
    before = list(files_below(there))
    everything(omnigraph.open(there, read_only=True))
    assert list(files_below(there)) == before


def test_a_copy_does_not_need_the_original(branched, music_place, tmp_path):
    before = everything(branched)
    there = shutil.copytree(music_place, tmp_path / "copy.omni")
    shutil.rmtree(music_place)
    graph = omnigraph.open(there)
    assert everything(graph) == before
    run(graph, LABEL.format("after"), branch="deep")
    graph.create_branch("again", source="deep")
    run(graph, LABEL.format("more"), branch="again")
    assert ids(graph, "Label", branch="again") == (
        {"wave", "drift", "on-main", "on-dev", "on-deep", "after", "more"}
    )
    assert graph.verify(deep=True).is_sound


def test_a_copy_does_not_see_what_becomes_of_the_original(branched, music_place, tmp_path):
    before = everything(branched)
    there = shutil.copytree(music_place, tmp_path / "copy.omni")
    for name in ("deep", "dev"):
        branched.delete_branch(name)
    run(branched, 'delete Label where slug != ""')
    branched.cleanup(keep=1, confirm=True)
    assert everything(omnigraph.open(there, read_only=True)) == before


def test_cleaning_a_copy_takes_nothing_from_its_branches(branched, music_place, tmp_path):
    before = {name: contents(branched, branch=name) for name in branched.branches()}
    there = shutil.copytree(music_place, tmp_path / "copy.omni")
    graph = omnigraph.open(there)
    run(graph, 'delete Label where slug != ""')
    run(graph, 'insert Label {slug: "only", name: "Only"}')
    graph.cleanup(keep=1, confirm=True)
    for name in ("dev", "deep"):
        assert contents(graph, branch=name) == before[name]
    assert graph.verify(deep=True).is_sound


def test_cleaning_under_another_spelling_of_the_address_takes_nothing(music, music_place, tmp_path):
    """One process reaches the graph through a link and makes branches, another one cleans."""
    link = tmp_path / "link"
    link.symlink_to(music_place)
    graph, through_link = omnigraph.open(music_place), omnigraph.open(link)
    through_link.create_branch("dev")
    run(through_link, LABEL.format("on-dev"), branch="dev")
    before = contents(graph, branch="dev")
    run(graph, 'delete Label where slug != ""')
    run(graph, LABEL.format("only"))
    graph.cleanup(keep=1, confirm=True)
    for one in (graph, through_link, omnigraph.open(link), omnigraph.open(music_place)):
        assert contents(one, branch="dev") == before


def recorded_bases(place):
    """Every version of a branch, and whether it would be written differently at `place`."""
    root = GraphRoot.at(str(place))
    files = sorted(place.glob("**/tree/*/_versions/*.manifest"))
    tables = [file.parents[3].relative_to(place).as_posix() for file in files]
    return {
        file: relocate_version(file.read_bytes(), root.store.uri_of(table)) == file.read_bytes()
        for file, table in zip(files, tables, strict=True)
    }


def test_the_first_writer_at_a_new_address_leaves_no_old_one(branched, music_place, tmp_path):
    there = tmp_path / "moved.omni"
    music_place.rename(there)
    assert not any(recorded_bases(there).values())
    omnigraph.open(there).close()
    assert all(recorded_bases(there).values())
    before = list(files_below(there))
    omnigraph.open(there).close()
    assert [f for f in files_below(there) if "__writer" not in f[0]] == [
        f for f in before if "__writer" not in f[0]
    ]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("at", ["__manifest/tree/*", "nodes/*/tree/*", "*address.json"])
def test_a_writer_that_dies_while_it_records_the_new_address_leaves_it_to_the_next(
    branched, music_place, tmp_path, moment, at
):
    before = everything(branched)
    there = tmp_path / "moved.omni"
    music_place.rename(there)
    with observed(Trouble(moment, "put*", f"*{at}", instead=crash)), pytest.raises(Crash):
        omnigraph.open(there)
    assert everything(omnigraph.open(there, read_only=True)) == before
    graph = omnigraph.open(there)
    assert everything(graph) == before
    assert all(recorded_bases(there).values())


@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize(
    ("moment", "action", "path", "outcome"),
    [
        ("after", "put", "__recovery/*", ["Abandoned"]),
        ("after", "commit", "*/nodes/*", ["RolledForward"]),
        ("before", "commit", "*/__manifest*", ["RolledForward"]),
        ("after", "commit", "*/__manifest*", []),
    ],
    ids=["announced", "moved", "unpublished", "published"],
)
def test_an_interrupted_write_is_recovered_at_the_new_address_of_the_graph(
    music, music_place, tmp_path, branch, moment, action, path, outcome
):
    music.create_branch("dev")
    write = LABEL.format("late")
    operation = stop(music_place, moment, action, path, write=write, branch=branch)
    there = tmp_path / "moved.omni"
    music_place.rename(there)
    reader = omnigraph.open(there, read_only=True)
    assert [one.operation_id for one in reader.recovery_pending()] == [operation]
    graph = omnigraph.open(there)
    assert [one.operation_id for one in graph.recovered_on_open] == [operation]
    assert kinds(graph, branch) == outcome
    assert ("late" in ids(graph, "Label", branch=branch)) == (outcome != ["Abandoned"])
    run(graph, LABEL.format("next"), branch=branch)
    assert graph.verify(deep=True).is_sound


def test_an_interrupted_write_of_another_graph_is_refused_and_retained(
    music, music_place, tmp_path
):
    other = omnigraph.init(tmp_path / "other.omni", music.schema)
    other.close()
    operation = stop(music_place, "after", "commit", "*/nodes/*", write=LABEL.format("late"))
    file = music_place / "__recovery" / f"{operation}.json"
    strange = tmp_path / "other.omni/__recovery" / file.name
    strange.parent.mkdir(exist_ok=True)
    body = json.loads(file.read_text())
    del body["crc32"]  # any change would break it
    unnamed = {name: value for name, value in body["requires"].items() if name != "graph"}
    for changed, text in (
        (body, "belongs to another graph"),
        (body | {"requires": unnamed}, "not a complete intent"),
    ):
        strange.write_text(json.dumps(changed))
        with refusal(ManifestCorrupt, text):
            omnigraph.open(tmp_path / "other.omni")
        found = omnigraph.open(tmp_path / "other.omni", read_only=True).verify()
        assert [one.check for one in found.findings] == ["intent"]
    assert strange.exists()


def test_a_branch_that_shares_files_with_something_else_is_refused(branched, music_place):
    """A folder from a stranger must not make us read files outside of it."""
    for file in music_place.glob("nodes/*/tree/*/_versions/*.manifest"):
        data, name = file.read_bytes(), file.parents[3].name.encode()
        file.write_bytes(data.replace(b"/" + name, b"/" + b"x" * len(name)))
    graph = omnigraph.open(music_place, read_only=True)
    with refusal(ManifestCorrupt, "which is not part of it"):
        contents(graph, ["Label"], branch="deep")
    assert not graph.verify().is_sound
