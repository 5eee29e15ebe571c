"""A branch whose record vanished is distinguished from a deleted one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import omnigraph
from crash.fault_points import MANIFEST, At, Stopped, stop, watched
from omnigraph.errors import BranchNotFound, ConflictError, ManifestCorrupt, RecoveryRequired
from omnigraph.settings import Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.tables.table_branches import delete_branch

SCHEMA = "node Person { name: String @key }"
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
NOBODY_WRITES = Settings(cleanup_grace_s=0.0)


def insert(name: str) -> str:
    return f'query q() {{ insert Person {{ name: "{name}" }} }}'


@pytest.fixture
def place(tmp_path) -> Path:
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph:
        graph.mutate(insert("Ada"))
        graph.create_branch("side")
        graph.mutate(insert("Bob"), branch="side")
    return tmp_path / "g"


def record_of(place: Path, name: str = "side") -> Path:
    return place / "_refs" / "branches" / f"{name}.json"


def lose(place: Path) -> tuple[str, bytes]:
    """The id of the branch whose record was deleted, and the record."""
    record = record_of(place)
    content = record.read_bytes()
    record.unlink()
    return json.loads(content)["incarnation"], content


def lost(place: Path) -> list[str]:
    with omnigraph.open(place, read_only=True) as graph:
        return [one.message for one in graph.verify().findings if one.check == "lost_branch"]


def unnamed(graph: omnigraph.Graph) -> list[str]:
    return [note.message for note in graph.verify().notes if note.check == "unnamed_branch"]


def files(place: Path) -> set[Path]:
    return {path for path in place.rglob("*") if path.is_file()}


def marks(place: Path) -> list[str]:
    return [path.stem for path in (place / "_refs" / "deleted").glob("*.json")]


def test_verify_names_the_branch_the_file_to_restore_and_the_other_way_out(place):
    id, _ = lose(place)
    (message,) = lost(place)
    assert "'side'" in message
    assert "restore _refs/branches/side.json from a backup" in message
    assert f"omnigraph branch delete {id}" in message


def test_cleanup_refuses_until_the_record_is_back_and_removes_nothing(place):
    _, record = lose(place)
    before = files(place)
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        for _ in range(2):
            with pytest.raises(ManifestCorrupt, match="the record of 'side' is missing"):
                graph.cleanup(keep=1, confirm=True)
    assert before <= files(place)
    record_of(place).write_bytes(record)
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        graph.cleanup(keep=1, confirm=True)
        assert graph.query(COUNT, branch="side").rows == [{"n": 2}]


def test_a_branch_that_lost_its_record_can_be_given_up_by_its_id(place):
    id, _ = lose(place)
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        graph.delete_branch(id)
        assert lost(place) == []
        graph.cleanup(keep=1, confirm=True)
        assert graph.verify(deep=True).is_sound
        with pytest.raises(BranchNotFound):
            graph.delete_branch(id)
    assert marks(place) == []


def test_a_deleted_branch_is_not_mistaken_for_a_lost_one(place):
    with omnigraph.open(place) as graph:
        graph.delete_branch("side")
        assert graph.verify().is_sound
    assert marks(place) == []


@pytest.mark.parametrize("nth", [1, 2])
def test_a_deletion_that_was_interrupted_is_not_mistaken_for_a_loss(place, nth):
    """Between the mark and the record, and between the record and the branch of the manifest."""
    at = At("before", "delete", record_of(Path()).as_posix(), stop)
    if nth == 2:
        at = At("before", "delete_branch", MANIFEST, stop)
    with watched(at):
        graph = omnigraph.open(place)
        with pytest.raises(Stopped):
            graph.delete_branch("side")
    assert at.met == 1
    assert lost(place) == []
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        assert len(marks(place)) == 1
        graph.cleanup(keep=1, confirm=True)
        assert marks(place) == []
        assert graph.verify(deep=True).is_sound
        assert ("side" in graph.branches()) == (nth == 1)


def test_a_branch_that_was_marked_and_lived_on_is_protected_again_after_a_cleanup(place):
    with watched(At("before", "delete", record_of(Path()).as_posix(), stop)):
        graph = omnigraph.open(place)
        with pytest.raises(Stopped):
            graph.delete_branch("side")
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        graph.cleanup(keep=5, confirm=True)
    lose(place)
    assert len(lost(place)) == 1


def test_a_creation_that_was_interrupted_is_not_mistaken_for_a_loss(place):
    with watched(At("after", "create_branch", MANIFEST, stop)):
        graph = omnigraph.open(place)
        with pytest.raises(Stopped):
            graph.create_branch("more")
    assert lost(place) == []
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        graph.cleanup(keep=1, confirm=True)
        assert graph.verify(deep=True).is_sound


def test_an_interrupted_write_to_a_branch_that_lost_its_record_is_retained(place):
    """Recovered as one of a deleted branch it would cost the branch its forked tables."""
    with watched(At("after", "commit", MANIFEST, stop)):
        graph = omnigraph.open(place)
        with pytest.raises(Stopped):
            graph.mutate(insert("Cy"), branch="side")
    _, record = lose(place)
    with omnigraph.open(place, read_only=True) as graph:
        assert graph.recovery_pending()
    with pytest.raises(RecoveryRequired, match="the record of its branch is lost"):
        omnigraph.open(place)
    record_of(place).write_bytes(record)
    with omnigraph.open(place) as graph:
        assert graph.query(COUNT, branch="side").rows == [{"n": 3}]
        assert graph.verify(deep=True).is_sound


def test_a_record_that_vanished_before_the_first_commit_is_noticed(place):
    with omnigraph.open(place) as graph:
        graph.create_branch("bare")
        assert unnamed(graph) == []
    record = record_of(place, "bare").read_bytes()
    id = json.loads(record)["incarnation"]
    record_of(place, "bare").unlink()
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        (finding,) = graph.verify().findings
        assert (finding.check, id in finding.message) == ("lost_branch", True)
        for _ in range(2):
            with pytest.raises(ManifestCorrupt, match=id):
                graph.cleanup(keep=1, confirm=True)
    record_of(place, "bare").write_bytes(record)
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        graph.cleanup(keep=1, confirm=True)
        assert graph.query(COUNT, branch="bare").rows == [{"n": 1}]
        record_of(place, "bare").unlink()
        graph.delete_branch(id)
        assert graph.verify(deep=True).is_sound


def test_a_branch_whose_creation_was_interrupted_is_not_lost(place):
    with watched(At("before", "put_if_absent", "_refs/branches/bare.json", stop)):
        graph = omnigraph.open(place)
        with pytest.raises(Stopped):
            graph.create_branch("bare")
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        assert graph.verify().is_sound
        assert len(unnamed(graph)) == 1
        graph.cleanup(keep=1, confirm=True)
        assert unnamed(graph) == []


def test_a_ref_of_the_manifest_without_a_folder_does_not_stop_cleanup(place):
    """A creator on a lease may leave one, if it was suspended while its folder was removed."""
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        graph.create_branch("bare")
        id = json.loads(record_of(place, "bare").read_bytes())["incarnation"]
        record_of(place, "bare").unlink()
        shutil.rmtree(place / "__manifest" / "tree" / id)
        graph.cleanup(keep=1, confirm=True)
        assert graph.verify(deep=True).is_sound
    assert not (place / "__manifest" / "_refs" / "branches" / f"{id}.json").exists()


def test_a_branch_removed_while_its_creator_was_suspended_is_not_found_by_name_either(place):
    refs = place / "__manifest" / "_refs" / "branches"
    before = set(refs.iterdir())

    def sleep_while_others_clean_up() -> None:
        (new,) = set(refs.iterdir()) - before
        (place / "__writer.lock").unlink()
        delete_branch(GraphRoot.at(str(place)).manifest(), new.stem)

    at = At("after", "put_if_absent", "_refs/branches/late.json", sleep_while_others_clean_up)
    with watched(at), omnigraph.open(place) as graph:
        with pytest.raises(ConflictError, match="create it again"):
            graph.create_branch("late")
        assert graph.branches() == ["main", "side"]
        graph.create_branch("late")
        assert graph.query(COUNT, branch="late").rows == [{"n": 1}]
    assert at.met == 2


def test_a_branch_that_was_deleted_leaves_no_folder(place):
    with omnigraph.open(place, settings=NOBODY_WRITES) as graph:
        trees = {path for path in place.rglob("tree/*") if path.is_dir()}
        assert len(trees) == 2, "of the manifest and of the table that was written"
        graph.delete_branch("side")
        graph.cleanup(keep=1, confirm=True)
        assert graph.verify(deep=True).is_sound
    assert {path for path in place.rglob("tree/*") if path.is_dir()} == set()
