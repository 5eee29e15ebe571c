"""Clocks that disagree, and are set while things happen: cleanup never takes what is needed."""

from __future__ import annotations

import base64
import errno
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import omnigraph
from crash.fault_points import MANIFEST, NODES, At, Stopped, fail, parked, stop, watched
from crash.harness import environment
from omnigraph.errors import (
    ConflictError,
    FilesMissing,
    HistoricalVersionReclaimed,
    WriterBusy,
)
from omnigraph.graph.graph import Graph
from omnigraph.maintenance import cleanup
from omnigraph.settings import FenceMode, Settings
from omnigraph.storage.graph_root import GraphRoot, read_clock_us
from omnigraph.storage.orphans import list_removable_paths

SCHEMA = "node Person { name: String @key  age: I32? }"
NAMES = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
DAY_US = 86_400_000_000
SEEDS = range(12)


def with_clock(
    place: Path,
    shift_us: int,
    grace_s: float,
    fence: FenceMode = FenceMode.AUTO,
    *,
    verify_reads: bool = False,
) -> Graph:
    """A handle with a shifted clock."""
    settings = Settings(cleanup_grace_s=grace_s, writer_fence=fence, verify_reads=verify_reads)
    graph = omnigraph.open(place, settings=settings)
    root = graph._open.views.root
    object.__setattr__(root, "now_us", lambda: read_clock_us() + shift_us)
    return graph


def names(graph: Graph, branch: str = "main") -> set[str]:
    return {row["p.name"] for row in graph.query(NAMES, branch=branch).rows}


def make_people(folder: Path) -> Path:
    """A graph with three people, a commit each."""
    place = folder / "g.omni"
    with omnigraph.init(place, SCHEMA) as graph:
        for name in ("Ada", "Ben", "Cy"):
            graph.load([{"type": "Person", "data": {"name": name}}], "append")
    return place


class Interrupting:
    """Records whose reading lets others do something in the middle of a load."""

    def __init__(self, names: list[str], meanwhile) -> None:
        self.names, self.meanwhile = names, meanwhile

    def __iter__(self):
        for number, name in enumerate(self.names):
            if number == len(self.names) // 2:
                self.meanwhile()
            yield {"type": "Person", "data": {"name": name}}


@pytest.mark.parametrize("shifts", [(-3, 0), (0, 2), (-2, 2), (5, -5), (0.002, 0)])
def test_cleanups_whose_clocks_disagree_spare_what_is_being_written(tmp_path, shifts):
    place = tmp_path / "g.omni"
    with omnigraph.init(place, SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "Ada"}}], "append")
        graph.create_branch("side")
    first, second = (with_clock(place, int(days * DAY_US), 60.0) for days in shifts)

    def clean_twice() -> None:
        for cleaner in (first, second):
            cleaner.cleanup(keep=1, confirm=True)

    writer = with_clock(place, -2 * DAY_US, 60.0)
    for branch in ("main", "side"):
        writer.load(Interrupting(["Ben", "Cy"], clean_twice), "append", branch=branch)
        clean_twice()
        assert names(with_clock(place, 0, 60.0), branch) == {"Ada", "Ben", "Cy"}
    assert with_clock(place, 0, 60.0).verify(deep=True).findings == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_clock_makes_cleanup_remove_acknowledged_files(tmp_path, seed):
    print(f"seed {seed}")
    chance = random.Random(seed)
    place = tmp_path / "g.omni"
    omnigraph.init(place, SCHEMA).close()
    shown: dict[str, set[str]] = {"main": set()}

    def any_handle() -> Graph:
        shift = chance.choice([0, 0, 1, -1, 3, -3, 30, -30]) * DAY_US + chance.randrange(DAY_US)
        return with_clock(place, shift, chance.choice([0.0, 60.0, 86_400.0]))

    def clean() -> None:
        any_handle().cleanup(keep=chance.choice([1, 2, 5]), confirm=True)

    for turn in range(12):
        branch = chance.choice(sorted(shown))
        match chance.randrange(5):
            case 0:
                clean()
            case 1 if len(shown) < 4:
                any_handle().create_branch(f"b{turn}", source=branch)
                shown[f"b{turn}"] = set(shown[branch])
            case 2 if branch != "main":
                try:
                    any_handle().delete_branch(branch)
                except ConflictError:
                    continue  # another one was made from it
                del shown[branch]
            case _:
                fresh = [f"p{turn}-{n}" for n in range(chance.randint(1, 4))]
                records = Interrupting(fresh, clean if chance.random() < 0.5 else lambda: None)
                any_handle().load(records, "append", branch=branch)
                shown[branch] |= set(fresh)
    graph = with_clock(place, 0, 60.0)
    assert {branch: names(graph, branch) for branch in shown} == shown
    assert graph.verify(deep=True).findings == ()


@pytest.mark.parametrize("damaged", ["main", "side"])
def test_cleanup_refuses_while_a_file_that_is_shown_is_missing_and_names_it(tmp_path, damaged):
    place = tmp_path / "g.omni"
    with omnigraph.init(place, SCHEMA) as graph:
        for name in ("Ada", "Ben"):
            graph.load([{"type": "Person", "data": {"name": name}}], "append")
        graph.create_branch("side")
        graph.load([{"type": "Person", "data": {"name": "Cy"}}], "append", branch="side")
    pattern = "nodes/*/data/*.lance" if damaged == "main" else "nodes/*/tree/*/data/*.lance"
    victim = sorted(place.glob(pattern))[0]
    victim.unlink()
    before = sorted(path for path in place.rglob("*") if path.is_file())
    with omnigraph.open(place) as graph, pytest.raises(FilesMissing, match=victim.name) as caught:
        graph.cleanup(keep=1, confirm=True)
    assert set(caught.value.files) == {str(victim)}
    assert [path for path in before if not path.exists()] == []


def test_orphan_candidates_of_a_clock_ahead_do_not_wait_for_it(tmp_path):
    place = tmp_path / "g.omni"
    with omnigraph.init(place, SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "Ada"}}], "append")
        stray = next((place / "nodes").iterdir()) / "data" / "stray.lance"
        stray.write_bytes(b"left by a writer that died")
    ahead = with_clock(place, 30 * DAY_US, 60.0)
    ahead.cleanup(keep=1, confirm=True)
    for shift in (0, DAY_US):
        with_clock(place, shift, 60.0).cleanup(keep=1, confirm=True)
    assert not stray.exists()


def test_no_writer_is_about_to_commit_while_table_versions_are_removed(tmp_path):
    """With them go files without a reference that are a week old, by a clock that may be wrong."""
    place = make_people(tmp_path)
    held = []

    def ask_for_the_fence() -> None:
        others = GraphRoot.at(str(place), Settings(writer_wait_s=0.0))
        with pytest.raises(WriterBusy):
            others.acquire_fence()
        held.append(True)

    removal = At("before", "remove_versions", NODES, ask_for_the_fence)
    with watched(removal), omnigraph.open(place) as graph:
        graph.cleanup(keep=1, confirm=True)
    assert held == [True]


def test_unreferenced_files_stay_with_removed_versions_where_the_fence_may_be_lost(tmp_path):
    """Lance would take it along once it is a week old, by a clock that may be wrong."""
    place = make_people(tmp_path)
    (table,) = (place / "nodes").iterdir()
    early, late = (table / "data" / name for name in ("early.lance", "late.lance"))

    def stage(file: Path) -> None:
        file.write_bytes(b"staged")
        os.utime(file, (0, 0))

    stage(early)
    removal = At("before", "remove_versions", NODES, lambda: stage(late))
    with watched(removal):
        with_clock(place, DAY_US, 60.0, FenceMode.OFF).cleanup(keep=1, confirm=True)
    assert removal.met == 1
    assert (early.exists(), late.exists()) == (True, True)
    with omnigraph.open(place) as graph:
        assert names(graph) == {"Ada", "Ben", "Cy"}
        assert graph.verify(deep=True).findings == ()


def test_nor_is_it_removed_when_space_is_freed_on_a_full_disk(tmp_path):
    place = make_people(tmp_path)
    (table,) = (place / "nodes").iterdir()
    with watched(At("before", "commit", MANIFEST, stop)), pytest.raises(Stopped):
        omnigraph.open(place).mutate('query q() { insert Person { name: "Dee" } }')
    staged = table / "data" / "staged.lance"
    staged.write_bytes(b"staged")
    os.utime(staged, (0, 0))
    full = At("before", "commit", MANIFEST, fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with watched(full):
        graph = with_clock(place, DAY_US, 60.0, FenceMode.OFF)
        done = graph.cleanup(keep=1, confirm=True).tables
    assert full.met == 2, "it was recovered when there was space"
    assert [row.old_versions_removed > 0 for row in done] == [True, True]
    assert staged.exists()
    assert names(graph) == {"Ada", "Ben", "Cy", "Dee"}
    assert graph.verify(deep=True, history=True).findings == ()


def make_versions_with_files_of_every_kind(place: Path) -> None:
    """Versions whose data, deletions, indexes and blobs are needed no longer, and a branch."""
    schema = "node Doc { key: String @key  n: I32? @index  text: String? @index  body: Blob? }"
    with omnigraph.init(place, schema) as graph:

        def load(turn: int, branch: str = "main") -> None:
            body = "base64:" + base64.b64encode(bytes([turn]) * 200_000).decode()
            rows = [{"key": f"{n}", "n": n + turn, "text": f"word{turn} {n}"} for n in range(40)]
            rows[0]["body"] = body
            graph.load([{"type": "Doc", "data": row} for row in rows], "merge", branch=branch)

        for turn in range(2):
            load(turn)
            graph.mutate("query q() { delete Doc where n > 35 }")
            graph.optimize()
        graph.create_branch("side")
        for turn in range(2, 4):
            load(turn)
            load(turn + 9, "side")
            graph.mutate("query q() { delete Doc where n < 15 }", branch="side")
            graph.optimize()


def list_table_files(place: Path) -> set[str]:
    files = (file for file in (place / "nodes").rglob("*") if file.is_file())
    return {file.relative_to(place).as_posix() for file in files}


@pytest.mark.parametrize("are_old", [False, True])
def test_removing_by_list_takes_what_lance_would(tmp_path, are_old):
    """Lance does not check references of files that are a week old."""
    with_list, by_lance = (tmp_path / name / "g.omni" for name in ("a", "b"))
    make_versions_with_files_of_every_kind(with_list)
    if are_old:
        for file in with_list.glob("nodes/**/*"):
            os.utime(file, (0, 0))
    shutil.copytree(with_list, by_lance)
    before = list_table_files(with_list)
    counts = []
    for place, mode in ((with_list, FenceMode.OFF), (by_lance, FenceMode.AUTO)):
        done = with_clock(place, DAY_US, 60.0, mode).cleanup(keep=1, confirm=True).tables
        counts.append([(row.old_versions_removed, row.bytes_removed) for row in done])
    assert list_table_files(with_list) == list_table_files(by_lance)
    assert counts[0] == counts[1]
    gone = before - list_table_files(with_list)
    kinds = {part for path in gone for part in path.split("/")[2:-1] if part.islower()}
    assert {"_versions", "_transactions", "data", "_deletions", "_indices"} <= kinds
    assert [path for path in gone if path.endswith(".blob")]
    with omnigraph.open(with_list) as graph:
        assert len(graph.nodes("Doc", branch="side")) == 37
        assert graph.verify(deep=True, history=True).findings == ()


def test_files_are_not_read_to_find_what_to_remove(tmp_path):
    """The version a branch starts at stays without files that only it needs; no branch reads it."""
    place = tmp_path / "g.omni"
    make_versions_with_files_of_every_kind(place)
    for turn in range(1, 4):
        for file in place.glob("nodes/**/*"):
            os.utime(file, (0, 0))
        with with_clock(place, turn * DAY_US, 60.0, FenceMode.OFF, verify_reads=True) as graph:
            done = graph.cleanup(keep=1, confirm=True).tables
            assert [row.error for row in done] == [None, None]
            assert [row.old_versions_removed > 0 for row in done] == [True, True]
            graph.mutate(f'query q() {{ update Doc set {{ text: "{turn}" }} where n > 10 }}')
            graph.optimize()


@pytest.mark.parametrize("kept", ["_versions", "_transactions"])
def test_a_removal_that_fails_halfway_is_finished_by_the_next(tmp_path, kept):
    place = make_people(tmp_path)
    trouble = At("before", "delete", f"nodes/*/{kept}/*", fail(OSError("stuck")))
    with watched(trouble):
        done = with_clock(place, DAY_US, 60.0, FenceMode.OFF).cleanup(keep=1, confirm=True).tables
    assert ["stuck" in (row.error or "") for row in done] == [True, False]
    graph = with_clock(place, DAY_US, 60.0, FenceMode.OFF)
    assert graph.verify(deep=True).findings == ()
    done = graph.cleanup(keep=1, confirm=True).tables
    assert [row.error for row in done] == [None, None]
    (table,) = (place / "nodes").iterdir()
    assert len(list(table.glob("_versions/*.manifest"))) == 1
    assert names(graph) == {"Ada", "Ben", "Cy"}


def test_versions_are_listed_before_they_are_removed_where_the_fence_may_be_lost(tmp_path):
    place = make_people(tmp_path)
    (table,) = (place / "nodes").iterdir()
    listed = []

    def look() -> None:
        listed.append(list_removable_paths(GraphRoot.at(str(place)).store))

    with watched(At("before", "remove_versions", NODES, look)):
        with_clock(place, DAY_US, 60.0, FenceMode.OFF).cleanup(keep=1, confirm=True)
    (paths,) = listed
    assert {one for one in paths if f"{table.name}/_versions/" in one}


def test_a_write_whose_files_were_removed_as_old_ones_starts_over(tmp_path):
    place = make_people(tmp_path)

    def set_the_clock_and_clean() -> None:
        week_ago = time.time() - 8 * 86_400
        for file in place.glob("nodes/*/data/*.lance"):
            os.utime(file, (week_ago, week_ago))
        with_clock(place, DAY_US, 60.0).cleanup(keep=1, confirm=True)

    staged = At("after", "write_fragments", NODES, set_the_clock_and_clean)
    with watched(staged), omnigraph.open(place) as graph:
        graph.mutate('query q() { insert Person { name: "Dee" } }')
        assert names(graph) == {"Ada", "Ben", "Cy", "Dee"}
        assert graph.verify(deep=True).findings == ()
    assert staged.met == 2


OTHERS = """
import sys
from pathlib import Path
from trust.test_clocks import DAY_US, FenceMode, with_clock

place = Path(sys.argv[1])
others = with_clock(place, 0, 60.0, FenceMode.OFF)
for name in ("Eve", "Fay"):
    others.mutate('query q() { insert Person { name: "%s" } }' % name, branch="side")
with_clock(place, DAY_US, 60.0, FenceMode.OFF).cleanup(keep=1, confirm=True)
"""


def test_a_publish_of_a_suspended_writer_overwrites_nothing_that_others_wrote(
    tmp_path, monkeypatch
):
    place = make_people(tmp_path)
    with omnigraph.open(place) as graph:
        graph.create_branch("side", commit=graph.commits()[-1].commit_id)
    suspended_s = [0.0]
    for module in ("publish", "tables.table_commit"):
        monkeypatch.setattr(f"omnigraph.storage.{module}.read_boot_clock", lambda: suspended_s[0])

    def suspend() -> None:
        command = [sys.executable, "-c", OTHERS, str(place)]
        subprocess.run(command, check=True, env=environment())
        suspended_s[0] += 60.0

    with watched(At("before", "commit", f"{MANIFEST}/tree/*", suspend)):
        late = with_clock(place, 0, 60.0, FenceMode.OFF)
        merged = late.merge("main", into="side")
    with omnigraph.open(place) as graph:
        assert merged.commit in graph.commits(branch="side")
        assert names(graph, "side") == {"Ada", "Ben", "Cy", "Eve", "Fay"}
        assert graph.verify(deep=True, history=True).findings == ()


def test_nothing_starts_at_a_version_that_a_cleanup_is_about_to_remove(tmp_path):
    """A lease may expire before the version is removed."""
    place = make_people(tmp_path)
    new, *_, old = omnigraph.open(place).commits()
    with watched(At("before", "remove_versions", MANIFEST, stop)):
        cleaning = with_clock(place, DAY_US, 60.0, FenceMode.OFF)
        with pytest.raises(Stopped):  # to other writers it looks suspended
            cleaning.cleanup(keep=1, confirm=True)
    graph = with_clock(place, DAY_US, 60.0, FenceMode.OFF)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.tag("then", at=old.commit_id)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.create_branch("then", commit=old.commit_id)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.set_consumer("then", old.commit_id)
    graph.tag("now", at=new.commit_id)
    graph.cleanup(keep=3, confirm=True)
    with pytest.raises(HistoricalVersionReclaimed):  # it may still be suspended
        graph.tag("then", at=graph.commits()[2].commit_id)
    graph.cleanup(keep=1, confirm=True)
    assert list_removable_paths(GraphRoot.at(str(place)).store) == frozenset()
    assert names(graph) == {"Ada", "Ben", "Cy"}
    assert [tag.name for tag in graph.tags()] == ["now"]
    assert graph.verify(deep=True, history=True).findings == ()


@pytest.mark.parametrize("is_done", [False, True], ids=["is about to go", "is gone"])
def test_a_consumer_is_refused_a_commit_after_which_one(tmp_path, is_done):
    """The feed would not come from there to the newest commit."""
    place = make_people(tmp_path)
    graph = with_clock(place, DAY_US, 60.0, FenceMode.OFF)
    _, _, early, *_ = graph.commits()
    graph.tag("kept", at=early.commit_id)
    if is_done:
        graph.cleanup(keep=1, confirm=True)
    else:
        with watched(At("before", "remove_versions", MANIFEST, stop)), pytest.raises(Stopped):
            with_clock(place, DAY_US, 60.0, FenceMode.OFF).cleanup(keep=1, confirm=True)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.set_consumer("reader", early.commit_id)
    assert graph.consumers() == []
    graph.set_consumer("reader")


@pytest.mark.parametrize("mode", [FenceMode.AUTO, FenceMode.OFF])
def test_a_version_published_again_during_a_cleanup_stays(tmp_path, monkeypatch, mode):
    """It was prepared before, and comes to the fence before table versions are removed."""
    place = tmp_path / "g.omni"
    with omnigraph.init(place, f"{SCHEMA} node Pet {{ name: String @key }}") as graph:
        for name in ("Ada", "Ben", "Cy"):
            graph.load([{"type": "Person", "data": {"name": name}}], "append")
        early = graph.commits()[1].commit_id
        graph.create_branch("side")
        graph.load([{"type": "Pet", "data": {"name": "Rex"}}], "append", branch="side")
        for name in ("Dee", "Eve"):
            graph.load([{"type": "Person", "data": {"name": name}}], "append")

    def open_and_restore():
        graph = with_clock(place, 0, 60.0, mode)
        return lambda: graph.restore(early, branch="side")

    find_unneeded = cleanup._find_unneeded
    with parked("after", "write_deletions", NODES, open_and_restore) as restoring:

        def find_late(*seen):
            restoring.finish()
            return find_unneeded(*seen)

        monkeypatch.setattr(cleanup, "_find_unneeded", find_late)
        done = with_clock(place, DAY_US, 60.0, mode).cleanup(keep=1, confirm=True).tables
    assert [row.error for row in done] == [None, None, None]
    with omnigraph.open(place) as graph:
        assert names(graph, "side") == {"Ada", "Ben"}
        assert graph.verify(deep=True, history=True).findings == ()


FENCES = pytest.mark.parametrize(("mode", "intents"), [(FenceMode.OFF, 1), (FenceMode.AUTO, 0)])


@FENCES
def test_a_new_table_has_an_intent_where_the_fence_may_be_lost(tmp_path, mode, intents):
    """Or a cleanup would remove it before the graph shows it, and the file of the publish too."""
    place = make_people(tmp_path)
    intents_seen = []

    def look() -> None:
        intents_seen.append(len(list(place.glob("__recovery/*.json"))))

    with watched(At("before", "commit", MANIFEST, look)):
        graph = with_clock(place, 0, 60.0, mode)
        graph.apply_schema(f"{SCHEMA} node City {{ name: String @key }}")
    assert intents_seen == [intents]
    assert list(place.glob("__recovery/*.json")) == []
    assert len(graph.nodes("City")) == 0


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_file_of_the_manifest_stays_until_that_has_moved_where_the_fence_may_be_lost(
    tmp_path, branch
):
    """Its writer may be suspended right before the publish, on the newest version.

    A file of a table differs: a write proves that it exists before it writes the intent.
    """
    place = make_people(tmp_path)
    with omnigraph.open(place) as graph:
        graph.create_branch("side")
        graph.load([{"type": "Person", "data": {"name": "Dee"}}], "append", branch="side")
    manifest = place / "__manifest"
    if branch == "side":
        (manifest,) = (manifest / "tree").iterdir()
    (table,) = (place / "nodes").iterdir()
    strays = [folder / "data" / "stray.lance" for folder in (manifest, table)]
    for stray in strays:
        stray.write_bytes(b"staged")

    def clean(*days: int) -> list[bool]:
        for day in days:
            with_clock(place, day * DAY_US, 60.0, FenceMode.OFF).cleanup(keep=1, confirm=True)
        return [stray.exists() for stray in strays]

    assert clean(1, 2, 3) == [True, False]
    other = "side" if branch == "main" else "main"
    for written, left in ((other, [True, False]), (branch, [False, False])):
        with omnigraph.open(place) as graph:
            graph.load([{"type": "Person", "data": {"name": written}}], "append", branch=written)
        assert clean(4) == left


def test_a_cleanup_that_others_overtake_says_nothing_of_damage(tmp_path, monkeypatch):
    """Versions needed before it acquired the fence may be removed by then."""
    place = make_people(tmp_path)
    others = omnigraph.open(place)
    look = cleanup.find_missing

    def look_late(opened):
        monkeypatch.setattr(cleanup, "find_missing", look)
        others.mutate('query q() { delete Person where name = "Ada" }')
        others.optimize()
        others.cleanup(keep=1, confirm=True)
        return look(opened)

    monkeypatch.setattr(cleanup, "find_missing", look_late)
    with omnigraph.open(place) as graph:
        done = graph.cleanup(keep=2, confirm=True)
        assert [row.error for row in done.tables] == [None, None]
        assert names(graph) == {"Ben", "Cy"}


@FENCES
def test_an_adopted_table_has_an_intent_where_the_fence_may_be_lost(tmp_path, mode, intents):
    """Or a cleanup would remove the version before the branch shows it."""
    place = tmp_path / "g.omni"
    with omnigraph.init(place, SCHEMA) as graph:
        graph.create_branch("side")
        graph.load([{"type": "Person", "data": {"name": "Ada"}}], "append")
    intents_seen = []

    def look() -> None:
        intents_seen.append(len(list(place.glob("__recovery/*.json"))))

    with watched(At("before", "commit", MANIFEST, look)):
        graph = with_clock(place, 0, 60.0, mode)
        graph.merge("main", into="side")
        assert names(graph, "side") == {"Ada"}
    assert intents_seen == [intents]
    assert list(place.glob("__recovery/*.json")) == []
