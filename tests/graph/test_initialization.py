"""Creating a graph: refusals, and what is left when a step fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from graph.music_graph import SCHEMA, contents, files_below, node, refusal, run
from omnigraph.errors import (
    AlreadyInitialized,
    CompileError,
    InitializationClaimed,
    InitializationCommitted,
    InitializationIndeterminate,
    StorageFailure,
)

SMALL = "node Page { slug: String @key  title: String? }\nedge Links: Page -> Page"
FOLDERS = {"__manifest", "__maintenance", "nodes", "edges"}
LOCKS = {"__writer.lock", "__writer_queue.lock"}
SCHEMA_FILES = {"_schema.pg", "_schema.ir.json", "__schema_state.json"}
CLAIM = "__init_claim.json"


@pytest.fixture
def place(tmp_path):
    return tmp_path / "g.omni"


def left(place):
    """List the entries of a folder besides hidden files."""
    if not place.exists():
        return set()
    return {p.name for p in place.iterdir() if not p.name.startswith(".")}


def is_usable(place):
    graph = omnigraph.open(place)
    graph.load([node("Page", slug="a")], "append")
    return len(contents(graph)) == 1


def test_a_new_graph_has_its_files_and_no_others(place):
    omnigraph.init(place, SMALL)
    assert left(place) == SCHEMA_FILES | FOLDERS | LOCKS
    assert (place / "_schema.pg").read_text() == SMALL


def test_a_schema_with_mistakes_writes_nothing(place):
    with pytest.raises(CompileError):
        omnigraph.init(place, "node A { x: Strin }")
    assert left(place) == set()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("file", sorted(SCHEMA_FILES))
def test_failing_at_a_schema_file_leaves_nothing_and_may_be_repeated(place, file, moment):
    with observed(Trouble(moment, "put_if_absent", file)), refusal(StorageFailure, "trouble"):
        omnigraph.init(place, SMALL)
    assert left(place) == set()
    omnigraph.init(place, SMALL)
    assert is_usable(place)


def test_a_clean_up_that_fails_keeps_the_claim_and_the_first_error(place):
    class Both(Trouble):
        def before(self, action, path):
            if (action, path) == ("delete", "_schema.pg"):
                raise StorageFailure("transient", "cannot delete")
            super().before(action, path)

    trouble = Both("after", "put_if_absent", "_schema.ir.json")
    with observed(trouble), refusal(StorageFailure, "trouble after put_if_absent"):
        omnigraph.init(place, SMALL)
    assert CLAIM in left(place)
    with pytest.raises(AlreadyInitialized):
        omnigraph.init(place, SMALL)
    with pytest.raises(InitializationClaimed):
        omnigraph.init(place, SMALL, force=True)


def test_an_answer_lost_after_a_table_was_created_is_no_failure(place):
    with observed(Trouble("after", "commit", "*/nodes/*")):
        omnigraph.init(place, SMALL)
    assert is_usable(place)


def test_failing_at_a_table_keeps_everything_for_a_look(place):
    with (
        observed(Trouble("before", "commit", "*/nodes/*")),
        pytest.raises(InitializationIndeterminate) as refused,
    ):
        omnigraph.init(place, SMALL)
    assert "trouble" in str(refused.value)
    assert left(place) >= SCHEMA_FILES | {CLAIM}
    with pytest.raises(omnigraph.errors.GraphNotFound):
        omnigraph.open(place)


def test_leftovers_of_a_dead_attempt_can_be_replaced_once_its_claim_has_expired(place):
    with (
        observed(Trouble("before", "commit", "*/__manifest")),
        pytest.raises(InitializationIndeterminate),
    ):
        omnigraph.init(place, SMALL)
    (place / CLAIM).unlink()
    with pytest.raises(AlreadyInitialized):
        omnigraph.init(place, SMALL)
    omnigraph.init(place, SMALL, force=True)
    assert is_usable(place)
    assert CLAIM not in left(place)


def test_a_repeated_attempt_may_have_another_schema(place):
    trouble = Trouble("before", "commit", "*/__manifest")
    with observed(trouble), pytest.raises(InitializationIndeterminate):
        omnigraph.init(place, SMALL)
    (place / CLAIM).unlink()
    other = "node Page { slug: String @key  n: I64 }\nedge Links: Page -> Page { w: I32? }"
    graph = omnigraph.init(place, other, force=True)
    graph.load([node("Page", slug="a", n=3)], "append")
    assert contents(graph) == [{"type": "Page", "data": {"id": "a", "n": 3, "slug": "a"}}]


def test_an_answer_lost_after_the_manifest_was_created_is_no_failure(place):
    with observed(Trouble("after", "commit", "*/__manifest")):
        omnigraph.init(place, SMALL)
    assert CLAIM not in left(place)
    assert is_usable(place)


def test_an_answer_lost_with_no_way_to_look_stays_undecided(place):
    def hide():
        (place / "__manifest").rename(place / "hidden")
        raise StorageFailure("transient", "answer lost")

    with (
        observed(Trouble("after", "commit", "*/__manifest", instead=hide)),
        refusal(InitializationIndeterminate, "answer lost"),
    ):
        omnigraph.init(place, SMALL)
    assert left(place) >= SCHEMA_FILES | {CLAIM}
    (place / "hidden").rename(place / "__manifest")
    assert is_usable(place)


def test_the_first_commit_of_another_attempt_is_not_mistaken_for_ours(place, tmp_path):
    other = tmp_path / "other.omni"
    omnigraph.init(other, SMALL)

    def swap():
        shutil.rmtree(place / "__manifest")
        (other / "__manifest").rename(place / "__manifest")
        raise StorageFailure("transient", "answer lost")

    with (
        observed(Trouble("before", "commit", "*/__manifest", instead=swap)),
        refusal(InitializationIndeterminate, "the graph there began with"),
    ):
        omnigraph.init(place, SMALL)
    assert left(place) >= SCHEMA_FILES | {CLAIM}


def test_failing_after_the_manifest_was_created_says_so_and_deletes_nothing(place):
    with observed(Trouble("before", "delete", CLAIM)), refusal(InitializationCommitted, "trouble"):
        omnigraph.init(place, SMALL)
    assert left(place) >= SCHEMA_FILES | {CLAIM, "__manifest"}
    assert is_usable(place)
    with pytest.raises(AlreadyInitialized):
        omnigraph.init(place, SMALL, force=True)


def test_a_graph_that_was_created_and_cannot_be_read_back_is_not_mistaken_for_none(place):
    def hide():
        (place / "__manifest/data").rename(place / "hidden")

    with (
        observed(Trouble("after", "commit", "*/__manifest", instead=hide)),
        pytest.raises(InitializationCommitted),
    ):
        omnigraph.init(place, SMALL)
    assert left(place) >= SCHEMA_FILES | {CLAIM, "__manifest"}
    (place / "hidden").rename(place / "__manifest/data")
    assert is_usable(place)


class Afterwards(Trouble):
    """Fails only at what is written once the graph is made and its claim given back."""

    def before(self, action, path):
        if ("delete", CLAIM) in self.seen:
            super().before(action, path)


def test_failing_to_open_a_graph_that_was_just_created_leaves_it_whole(place):
    with observed(Afterwards("before", "put_if_absent")), refusal(StorageFailure, "trouble"):
        omnigraph.init(place, SMALL)
    assert left(place) == SCHEMA_FILES | FOLDERS | LOCKS
    with pytest.raises(AlreadyInitialized):
        omnigraph.init(place, SMALL, force=True)
    assert is_usable(place)


def test_a_store_that_cannot_create_leaves_an_empty_root(place):
    with (
        observed(Trouble("before", "put_if_absent", "__create_if_absent_probe_*", times=9)),
        refusal(StorageFailure, "trouble"),
    ):
        omnigraph.init(place, SMALL)
    assert left(place) == set()


def test_a_graph_is_not_created_twice(place):
    omnigraph.init(place, SMALL)
    before = list(files_below(place))
    for force in (False, True):
        with refusal(AlreadyInitialized, "already holds a graph"):
            omnigraph.init(place, SMALL, force=force)
    assert list(files_below(place)) == before


def test_orphaned_schema_files_are_replaced_only_by_force(place):
    place.mkdir()
    (place / "_schema.pg").write_text("old")
    with refusal(AlreadyInitialized, "_schema.pg"):
        omnigraph.init(place, SMALL)
    assert left(place) == {"_schema.pg"}
    omnigraph.init(place, SMALL, force=True)
    assert (place / "_schema.pg").read_text() == SMALL
    assert is_usable(place)


def test_a_claim_is_never_stolen(place):
    place.mkdir()
    (place / CLAIM).write_text('{"version": 1, "attempt_id": "somebody"}')
    with refusal(InitializationClaimed, "somebody"):
        omnigraph.init(place, SMALL)
    assert left(place) == {CLAIM}


ONE_INIT = """
import sys, omnigraph
from omnigraph.errors import OmniError
print("ready", flush=True)
sys.stdin.readline()
try:
    omnigraph.init(sys.argv[1], open(sys.argv[2]).read())
    print("made")
except OmniError as error:
    print(type(error).__name__)
"""


@pytest.mark.crash
def test_of_two_processes_that_make_one_graph_one_wins(tmp_path):
    schema = tmp_path / "schema.pg"
    schema.write_text(SCHEMA)
    processes = [start_init(tmp_path / "r0", schema) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = sorted(process.communicate(timeout=600)[0].strip() for process in processes)
    assert said[1] == "made"
    assert said[0] in ("InitializationClaimed", "AlreadyInitialized")
    graph = omnigraph.open(tmp_path / "r0")
    run(graph, 'insert Artist {slug: "a", name: "A"}')
    assert len(graph.commits()) == 2


def start_init(place: Path, schema: Path):
    return subprocess.Popen(
        [sys.executable, "-c", ONE_INIT, str(place), str(schema)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
