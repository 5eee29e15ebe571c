"""Removal of files of old commits: what is removed, what is retained, and refusals."""

from __future__ import annotations

import datetime
import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import lance
import pytest

import omnigraph
from crash.fault_points import INTENTS, MANIFEST, At, fail, parked, watched
from maintenance.library_graph import (
    BOOK,
    READER,
    TABLES,
    by_key,
    entry,
    intents,
    native,
    rows_of,
    run,
    snapshot,
    table,
    write_a_little,
)
from omnigraph.errors import (
    BadRequest,
    HistoricalVersionReclaimed,
    ManifestCorrupt,
    OmniError,
    RecoveryRequired,
    RetryableCommitConflict,
    StorageFailure,
    StorageKind,
    UncoveredDrift,
)
from omnigraph.maintenance.retention import ReachabilityScan, Retention
from omnigraph.settings import FenceMode, Settings
from omnigraph.storage.graph_root import read_clock_us
from omnigraph.storage.layout import ORPHAN_CANDIDATES, STAGING
from omnigraph.storage.prepared_write import mint_ticket, open_writable
from omnigraph.storage.staging_heartbeat import keep_heartbeat
from omnigraph.storage.tables import table_commit
from omnigraph.storage.tables.fragments import write_uncommitted
from omnigraph.storage.tables.remove_versions import list_versions
from omnigraph.storage.tables.stage_table import stage_overwrite
from omnigraph.storage.transaction import commit_write
from omnigraph.storage.write_plan import WriterKind
from omnigraph.writer.change import PlanContent, WriteOptions

DAY = datetime.timedelta(days=1)


def find_name(graph, slug, branch="main"):
    """The name of a reader, if there is one."""
    readers = (record["data"] for record in graph.export(["Reader"], branch=branch))
    return next((one["name"] for one in readers if one["slug"] == slug), None)


def versions(graph, key, branch="main"):
    one = entry(graph, key, branch)
    return list_versions(graph._open.views.root.location(one.path, one.owner_branch))


def manifest_versions(graph):
    return list_versions(graph._open.views.root.manifest())


def readable(graph, branch="main"):
    """Count the newest commits that can be read without a gap."""
    count = 0
    for one in graph.commits(branch):
        try:
            list(graph.at(commit=one.commit_id, branch=branch).export())
        except HistoricalVersionReclaimed:
            break
        count += 1
    return count


# --- the policy -----------------------------------------------------------------------------------


def test_no_policy_is_refused_and_the_message_proposes_one(library):
    with pytest.raises(BadRequest, match="--keep 10"):
        library.cleanup(confirm=True)


@pytest.mark.parametrize("policy", [{"keep": -1}, {"older_than": -DAY}])
def test_a_policy_that_means_nothing_is_refused(library, policy):
    with pytest.raises(BadRequest):
        library.cleanup(**policy, confirm=True)


def test_without_confirmation_nothing_is_removed_and_the_answer_is_what_would_be(library):
    write_a_little(library)
    before, files = manifest_versions(library), len(list_versions_of_all(library))
    proposed = library.cleanup(keep=1)
    assert not proposed.confirm
    assert (manifest_versions(library), len(list_versions_of_all(library))) == (before, files)
    done = library.cleanup(keep=1, confirm=True)
    assert by_key(done.tables) == by_key(proposed.tables)
    assert by_key(done.tables)[BOOK].old_versions_removed == 5
    assert by_key(done.tables)[BOOK].bytes_removed > 0


def list_versions_of_all(graph):
    return [(key, version) for key in TABLES for version in versions(graph, key)]


@pytest.mark.parametrize("keep", [0, 1])
def test_keeping_one_commit_leaves_what_every_branch_shows_now(library, keep):
    write_a_little(library)
    before = rows_of(library)
    library.cleanup(keep=keep, confirm=True)
    assert versions(library, BOOK) == [entry(library, BOOK).version]
    assert rows_of(library) == before
    assert readable(library) == 1
    assert len(library.commits()) == 6, "the history is retained"


def test_keeping_more_commits_than_there_are_removes_no_commit(library):
    write_a_little(library)
    library.cleanup(keep=99, confirm=True)
    assert readable(library) == len(library.commits())


def test_the_newest_commits_stay_readable(library):
    write_a_little(library, 8)
    library.cleanup(keep=3, confirm=True)
    assert readable(library) == 3
    with pytest.raises(HistoricalVersionReclaimed):
        library.at(commit=library.commits()[4].commit_id)


def test_an_age_alone_never_leaves_fewer_than_three_commits(library):
    write_a_little(library)
    library.cleanup(older_than=datetime.timedelta(0), confirm=True)
    assert readable(library) == 3


def test_young_commits_stay_whatever_their_number(library):
    write_a_little(library, 6)
    library.cleanup(keep=1, older_than=DAY, confirm=True)
    assert readable(library) == len(library.commits())


def test_a_tagged_version_of_the_manifest_keeps_all_it_shows(library):
    write_a_little(library)
    wanted = library.commits()[3]
    before = rows_at(library, wanted)
    lance.dataset(f"{library.uri}/__manifest").tags.create("audit", wanted.manifest_version)
    library.cleanup(keep=1, confirm=True)
    assert rows_at(library, wanted) == before


def rows_at(graph, one):
    return sorted(str(record) for record in graph.at(commit=one.commit_id).export())


def test_the_manifest_has_a_row_of_its_own_and_shrinks(library):
    write_a_little(library, 10)
    done = library.cleanup(keep=2, confirm=True)
    assert done.tables[-1].table_key == "__manifest"
    assert done.tables[-1].old_versions_removed >= 9
    assert len(manifest_versions(library)) == 2


# --- branches -------------------------------------------------------------------------------------


def test_a_branch_that_inherits_an_old_version_keeps_it(library):
    library.create_branch("old")
    write_a_little(library)
    before = rows_of(library, "old")
    library.cleanup(keep=1, confirm=True)
    shown = [entry(library, BOOK, branch).version for branch in ("old", "main")]
    assert versions(library, BOOK) == shown
    assert rows_of(library, "old") == before
    run(library, 'insert Book {slug: "o", title: "O"}', "old")


def test_a_fork_keeps_its_own_commits(library):
    library.create_branch("dev")
    write_a_little(library, 4, branch="dev")
    library.cleanup(keep=2, confirm=True)
    assert readable(library, "dev") >= 2
    assert len(versions(library, BOOK, "dev")) == 2


def test_leftovers_of_a_deleted_branch_are_removed_at_once(library):
    library.create_branch("dev")
    write_a_little(library, branch="dev")
    fork = entry(library, BOOK, "dev")
    library.delete_branch("dev")
    done = library.cleanup(keep=1, confirm=True)
    assert f"{fork.path}/tree/{fork.owner_branch}" in done.reclaimed
    assert not Path(f"{library.uri}/{fork.path}/tree/{fork.owner_branch}").exists()


def test_keeping_more_than_an_earlier_cleanup_did_finds_nothing_missing(tmp_path):
    """Rows merged from a branch that was deleted since were removed with the commit."""
    with omnigraph.init(tmp_path / "g.omni", "node Person { name: String @key }") as graph:
        graph.create_branch("side")
        for name, branch in (("Ada", "side"), ("Ben", "main")):
            graph.load([{"type": "Person", "data": {"name": name}}], "append", branch=branch)
        graph.merge("side")
        graph.delete_branch("side")
        for name in ("Cy", "Dee"):
            graph.load([{"type": "Person", "data": {"name": name}}], "append")
        for keep in (1, 10):
            done = graph.cleanup(keep=keep, confirm=True)
            assert [row.error for row in done.tables] == [None, None]
        assert len(graph.nodes("Person")) == 4


def test_an_unreferenced_fork_is_removed_and_the_legitimate_one_beside_it_stays(library, impatient):
    library.create_branch("dev")
    write_a_little(library, branch="dev")
    stray = open_writable(snapshot(library), entry(library, BOOK, "dev"))
    before = rows_of(library, "dev")
    assert impatient.cleanup(keep=1, confirm=True).reclaimed == (), "it may be in the making"
    done = impatient.cleanup(keep=1, confirm=True)
    assert [name.rpartition("/")[2] for name in done.reclaimed] == [stray.table.location.branch]
    assert rows_of(library, "dev") == before


def test_a_fork_that_is_being_prepared_is_left_alone(place, library):
    library.create_branch("dev")

    def work():
        graph = omnigraph.open(place)
        return lambda: run(graph, 'insert Reader {slug: "n", name: "N"}', "dev")

    with parked("after", "create_branch", "*/nodes/*", work) as writing:
        library.cleanup(keep=1, confirm=True)
        writing.finish()
    assert find_name(library, "n", "dev") == "N"


def test_a_fork_that_cannot_be_removed_now_is_removed_later(library, place):
    library.create_branch("dev")
    write_a_little(library, branch="dev")
    library.delete_branch("dev")
    trouble = At("before", "delete_branch", "*/nodes/*", fail(OSError("busy")))
    settings = Settings(cleanup_grace_s=0)
    with watched(trouble):
        failed = omnigraph.open(place, settings=settings).cleanup(keep=1, confirm=True)
    assert [row.table_key for row in failed.tables if row.error] != []
    again = omnigraph.open(place, settings=settings).cleanup(keep=1, confirm=True)
    assert not any(row.error for row in again.tables)
    assert again.reclaimed


def test_files_not_removed_with_their_name_are_removed_by_a_cleanup(library, place, impatient):
    ref = library.create_branch("dev")
    write_a_little(library, 1, branch="dev")
    left = place / "__manifest/tree" / ref.incarnation
    with watched(At("before", "delete_branch", MANIFEST, fail(OSError("busy")))):
        omnigraph.open(place).delete_branch("dev")
    assert left.exists()
    library.create_branch("dev")
    done = impatient.cleanup(keep=1, confirm=True)
    assert f"__manifest/tree/{ref.incarnation}" in done.reclaimed
    assert not left.exists()
    assert rows_of(library, "dev") == rows_of(library)
    assert library.verify(deep=True).findings == ()


def test_a_folder_without_a_reference_is_removed(library, impatient):
    library.create_branch("dev")
    write_a_little(library, branch="dev")
    fork = entry(library, BOOK, "dev")
    library.delete_branch("dev")
    Path(f"{library.uri}/{fork.path}/_refs/branches/{fork.owner_branch}.json").unlink()
    impatient.cleanup(keep=1, confirm=True)
    done = impatient.cleanup(keep=1, confirm=True)
    assert f"{fork.path}/tree/{fork.owner_branch}" in done.reclaimed


# --- files of dead writers ------------------------------------------------------------------------


def stray_file(graph):
    """A row written to a file that no version names, as a writer leaves it that died."""
    opened = table(graph, READER)
    written = write_uncommitted(opened, opened.scan().slice(0, 1))
    return f"{opened.location.uri}/data/{written[0].files[0].path}"


def test_files_of_a_dead_writer_are_removed_by_the_second_cleanup_after_the_grace(
    library, impatient
):
    stray = stray_file(library)
    first = impatient.cleanup(keep=1, confirm=True)
    assert Path(stray).exists()
    assert first.reclaimed == ()
    assert json.loads(Path(f"{library.uri}/{ORPHAN_CANDIDATES}").read_text())["first_seen"]
    library.cleanup(keep=1, confirm=True)
    assert Path(stray).exists(), "it was seen, but not for long enough"
    done = impatient.cleanup(keep=1, confirm=True)
    assert not Path(stray).exists()
    assert stray.removeprefix(f"{library.uri}/") in done.reclaimed
    assert by_key(done.tables)[READER].bytes_removed > 0
    assert json.loads(Path(f"{library.uri}/{ORPHAN_CANDIDATES}").read_text())["first_seen"] == {}


def test_files_that_get_a_version_after_all_stay(library, impatient, place):
    def work():
        graph = omnigraph.open(place)
        return lambda: run(graph, 'insert Reader {slug: "n", name: "N"}')

    with parked("after", "write_fragments", "*/nodes/*", work) as writing:
        impatient.cleanup(keep=1, confirm=True)
        writing.finish()
    impatient.cleanup(keep=1, confirm=True)
    assert find_name(library, "n") == "N"
    assert library.verify(deep=True).findings == ()


@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize(
    "statements",
    [
        'insert Reader {slug: "n", name: "N"}',
        'update Reader set {name: "N"} where slug = "ann"',
        'delete Reader where slug = "ann"',
    ],
    ids=["insert", "update", "delete"],
)
def test_a_write_whose_files_were_removed_starts_over(
    place, library, impatient, branch, statements
):
    library.create_branch("dev")
    expected = omnigraph.open(place)
    expected.create_branch("reference", source=branch)
    run(expected, statements, "reference")

    def work():
        graph = omnigraph.open(place)
        return lambda: run(graph, statements, branch)

    moment = "write_deletions" if statements.startswith("delete") else "write_fragments"
    with parked("after", moment, "*/nodes/*", work) as writing:
        for _ in range(2):
            impatient.cleanup(keep=1, confirm=True)
        writing.finish()
    assert rows_of(library, branch) == rows_of(library, "reference")
    assert library.verify(deep=True).findings == ()


@pytest.mark.parametrize("days", [-30, -2, 2, 30])
def test_a_clock_that_jumps_while_a_write_is_prepared_changes_nothing(library, days):
    shift_us = [0]
    root = replace(library._open.views.root, now_us=lambda: read_clock_us() + shift_us[0])
    seen = replace(snapshot(library), root=root)
    with keep_heartbeat(root) as note:
        shift_us[0] = days * 86_400_000_000
        ticket, options = mint_ticket(seen, note), WriteOptions(branch="main")
        write = PlanContent().complete(seen, ticket, WriterKind.LOAD, options)
        with root.acquire_fence() as guard:
            assert commit_write(write, guard).commit is not None


def test_half_written_files_of_killed_processes_are_removed(library, impatient, place):
    left = [
        place / ".omnigraph-tmp-0123",
        place / "_refs/branches/.omnigraph-tmp-4567",
        place / "__manifest/_versions/.tmp_1.manifest_xyz",
        place / "__manifest/_transactions/.tmpAbC",
    ]
    for file in left:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"half")
    library.cleanup(keep=5, confirm=True)
    assert all(file.exists() for file in left), "they are too young"
    impatient.cleanup(keep=5, confirm=True)
    assert not any(file.exists() for file in left)


def test_input_of_ended_loads_and_unknown_tables_are_removed(library, impatient, place):
    staged, unknown = place / STAGING / "x/part", place / "nodes/00000000000000ff-00000000000000ff"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"rows")
    shutil.copytree(table(library, BOOK).location.uri, unknown)
    for _ in range(2):
        assert staged.exists()
        assert unknown.exists()
        done = impatient.cleanup(keep=5, confirm=True)
    assert not staged.exists()
    assert not unknown.exists()
    assert {f"{STAGING}/x", f"nodes/{unknown.name}"} <= set(done.reclaimed)


# --- refusals and faults --------------------------------------------------------------------------


def everything(place):
    return {p for p in place.rglob("*") if p.is_file()}


def test_drift_of_main_must_be_repaired_first(library, place):
    write_a_little(library)
    native(library, READER).delete("slug = 'ann'")
    before = everything(place)
    with pytest.raises(UncoveredDrift, match="omnigraph repair"):
        library.cleanup(keep=1, confirm=True)
    assert everything(place) >= before


def test_a_missing_version_of_a_branch_stops_it_before_anything_is_removed(library, place):
    library.create_branch("dev")
    write_a_little(library)
    one = entry(library, BOOK, "dev")
    Path(f"{library.uri}/{one.path}/_versions/{(1 << 64) - 1 - one.version:020d}.manifest").unlink()
    before = everything(place)
    graph = omnigraph.open(place)
    with pytest.raises(OmniError):
        graph.cleanup(keep=1, confirm=True)
    assert everything(place) >= before


def test_a_branch_that_cannot_be_read_stops_it_before_anything_is_removed(library, place):
    ref = library.create_branch("dev")
    write_a_little(library)
    shutil.rmtree(f"{library.uri}/__manifest/tree/{ref.incarnation}")
    before = everything(place)
    with pytest.raises(OmniError):
        omnigraph.open(place).cleanup(keep=1, confirm=True)
    assert everything(place) >= before


class Disturbed(ReachabilityScan):
    """Fail to read a graph a number of times, as if a branch were deleted in between."""

    def __init__(self, graph, times, *, branches_move):
        super().__init__(graph._open.views.root, Retention(1))
        self.graph, self.times, self.branches_move = graph, times, branches_move
        self.looks = 0

    def _mark(self):
        self.looks += 1
        if self.looks > self.times:
            return super()._mark()
        if self.branches_move:
            self.graph.create_branch(f"b{self.looks}")
        raise StorageFailure(StorageKind.NOT_FOUND, "it was there a moment ago")


def test_branches_created_and_deleted_while_it_lists_are_no_error(library):
    marker = Disturbed(library, 12, branches_move=True)
    assert len(marker.mark().refs) == 13
    assert marker.looks == 13


def test_an_unreadable_version_of_an_idle_branch_is_soon_an_error(library):
    marker = Disturbed(library, 12, branches_move=False)
    with pytest.raises(StorageFailure, match="a moment ago"):
        marker.mark()
    assert marker.looks == 5


def test_an_intent_that_cannot_be_read_stops_it_before_anything_is_removed(library, place):
    write_a_little(library)
    (place / "__recovery").mkdir(exist_ok=True)
    (place / "__recovery/01BROKEN.json").write_text("{")
    before = everything(place)
    with pytest.raises(ManifestCorrupt):
        library.cleanup(keep=1, confirm=True)
    with pytest.raises(ManifestCorrupt):
        library.cleanup(keep=1)
    assert everything(place) >= before


def test_a_write_that_cannot_be_recovered_stops_it_before_anything_is_removed(library, place):
    with watched(At("before", "commit", MANIFEST, fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            run(graph, 'insert Reader {slug: "zed", name: "Z"}')
    native(library, READER).delete("slug = 'ann'")
    before = everything(place)
    with pytest.raises(RecoveryRequired):
        library.cleanup(keep=1, confirm=True)
    assert everything(place) >= before


def test_an_interrupted_write_is_recovered_and_its_versions_are_safe(library, place):
    write_a_little(library)
    with watched(At("before", "commit", MANIFEST, fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            run(graph, 'insert Reader {slug: "zed", name: "Z"}')
    library.cleanup(keep=1, confirm=True)
    assert intents(place) == []
    assert "'zed'" in str(rows_of(library))


def test_one_table_that_fails_is_reported_and_the_others_are_cleaned(library, place):
    write_a_little(library)
    path = entry(library, BOOK).path
    trouble = At("before", "remove_versions", f"*/{path}", fail(OSError("stuck")))
    with watched(trouble):
        done = by_key(omnigraph.open(place).cleanup(keep=1, confirm=True).tables)
    assert "stuck" in done[BOOK].error
    assert done[BOOK].old_versions_removed == 0
    assert done[READER].error is None
    assert done[READER].old_versions_removed == 5
    again = by_key(library.cleanup(keep=1, confirm=True).tables)
    assert again[BOOK].old_versions_removed == 5


def test_cleaning_then_optimizing_then_writing_works(library):
    write_a_little(library)
    library.create_branch("dev")
    library.cleanup(keep=1, confirm=True)
    library.optimize()
    library.cleanup(keep=1, confirm=True)
    run(library, 'update Book set {year: 9} where slug = "a"')
    run(library, 'delete Book where slug = "b"')
    run(library, 'insert Book {slug: "n", title: "N"}', "dev")
    assert library.verify(deep=True).findings == ()


def test_a_branch_can_be_started_at_every_commit_that_can_be_read(library):
    """Versions of the manifest that branches start at stay, and with them all they show."""
    for number in range(3):
        library.create_branch(f"b{number}")
        write_a_little(library, 2, mark=f"m{number}")
    library.cleanup(keep=1, confirm=True)
    library.cleanup(keep=3, confirm=True)
    started = 0
    for one in library.commits():
        try:
            library.create_branch(f"at-{one.commit_id}".lower(), commit=one.commit_id)
        except HistoricalVersionReclaimed:
            continue
        started += 1
        assert rows_of(library, f"at-{one.commit_id}".lower()) == rows_at(library, one)
    assert started
    assert library.verify(deep=True).findings == ()
    library.cleanup(keep=1, confirm=True)


def test_a_manifest_that_cannot_be_cleaned_keeps_all_it_shows(library, place):
    write_a_little(library)
    trouble = At("before", "remove_versions", MANIFEST, fail(OSError("stuck")))
    with watched(trouble):
        done = by_key(omnigraph.open(place).cleanup(keep=1, confirm=True).tables)
    assert "stuck" in done["__manifest"].error
    assert readable(library) == len(library.commits())
    library.cleanup(keep=1, confirm=True)
    assert readable(library) == 1


# --- beside others --------------------------------------------------------------------------------


def test_a_branch_cannot_start_at_a_removed_commit(library):
    write_a_little(library)
    old = library.commits()[4]
    library.cleanup(keep=1, confirm=True)
    with pytest.raises(HistoricalVersionReclaimed):
        library.create_branch("past", commit=old.commit_id)
    assert library.branches() == ["main"]


def test_a_branch_started_at_an_old_commit_concurrently_retains_all_of_it(place, library):
    write_a_little(library)
    old = library.commits()[4]
    expected = rows_at(library, old)

    def work():
        graph = omnigraph.open(place)
        return lambda: graph.cleanup(keep=1, confirm=True)

    # Versions of tables go last, without the fence; the branch comes right before that.
    with parked("before", "remove_versions", "*/__manifest", work) as cleaning:
        thread = omnigraph.open(place, settings=Settings(writer_wait_s=0.2))
        with pytest.raises(OmniError) as busy:
            thread.create_branch("past", commit=old.commit_id)
        assert busy.value.code == "writer_busy"
        cleaning.finish()
    with pytest.raises(HistoricalVersionReclaimed):
        library.create_branch("past", commit=old.commit_id)
    assert expected


def test_a_cleanup_that_waited_for_a_writer_lists_again(place, library):
    """A cleanup does not decide by what it read before it acquired the fence."""
    write_a_little(library)
    done = []

    def work():
        graph = omnigraph.open(place)
        return lambda: run(graph, 'update Book set {year: 77} where slug = "a"')

    with parked("after", "put", INTENTS, work) as writing:
        cleaning = threading.Thread(
            target=lambda: done.append(library.cleanup(keep=1, confirm=True))
        )
        cleaning.start()
        cleaning.join(0.5)
        assert cleaning.is_alive(), "cleaning must wait for the writer"
        writing.finish()
        cleaning.join(600)
    (result,) = done
    assert [row.error for row in result.tables if row.error] == []
    assert versions(library, BOOK) == [entry(library, BOOK).version]
    assert len(manifest_versions(library)) == 1
    assert table(library, BOOK).scan(["year"], "slug = 'a'").column(0).to_pylist() == [77]
    assert library.verify(deep=True).findings == ()


def test_a_writer_on_an_old_version_starts_over_however_much_was_removed(place, library):
    def work():
        graph = omnigraph.open(place)
        return lambda: run(graph, 'update Reader set {name: "Late"} where slug = "ann"')

    with parked("after", "write_fragments", "*/nodes/*", work) as late:
        for number in range(4):
            run(library, f'update Reader set {{name: "N{number}"}} where slug = "ann"')
        library.cleanup(keep=1, confirm=True)
        late.finish()
    assert find_name(library, "ann") == "Late"
    assert library.verify(deep=True).findings == ()


def test_an_outdated_hint_of_the_newest_version_does_not_mislead(library):
    """A process that died after a commit leaves the hint of the one before."""
    write_a_little(library, 2)
    one = entry(library, READER)
    handle = table(library, READER)
    note = Path(f"{handle.location.uri}/_versions/latest_version_hint.json")
    old = note.read_bytes()
    write_a_little(library, 3, mark="y")
    note.write_bytes(old)
    library.cleanup(keep=1, confirm=True)
    assert handle.version == one.version
    assert handle.newest_version() == entry(library, READER).version
    run(library, 'insert Reader {slug: "after", name: "A"}')


def test_a_commit_suspended_while_its_version_number_was_cleaned_up_is_detected(
    library, monkeypatch
):
    """A commit that Lance accepts below the newest version is not a commit."""
    monkeypatch.setattr(table_commit, "SUSPEND_THRESHOLD_S", 0.0)
    handle = table(library, READER)

    def work():
        late = stage_overwrite(handle, handle.scan(), properties={})
        return lambda: table_commit.commit_exact(late)

    with parked("before", "commit", "*/nodes/*", work) as late:
        for number in range(4):
            run(library, f'update Reader set {{name: "N{number}"}} where slug = "ann"')
        library.cleanup(keep=1, confirm=True)
        with pytest.raises(RetryableCommitConflict):
            late.finish()
    assert find_name(library, "ann") == "N3"
    library.cleanup(keep=1, confirm=True)
    assert versions(library, READER) == [entry(library, READER).version]


def test_where_the_fence_is_a_lease_recent_versions_stay(place, library):
    write_a_little(library)
    before = versions(library, BOOK)
    loose = omnigraph.open(place, settings=Settings(writer_fence=FenceMode.OFF))
    loose.cleanup(keep=1, confirm=True)
    assert versions(library, BOOK) == before
    library.cleanup(keep=1, confirm=True)
    assert versions(library, BOOK) == before[-1:]


def test_branches_that_were_never_written_stay_what_they_were(library, place):
    """They are read from their parents: from main, from a branch, and from one of its kind."""
    library.create_branch("dev")
    write_a_little(library, 1, branch="dev")
    library.create_branch("idle")
    library.create_branch("of-dev", source="dev")
    library.create_branch("of-idle", source="idle")
    content = {name: rows_of(library, name) for name in library.branches()}
    for mark in ("y", "z"):
        for name in ("main", "dev"):
            write_a_little(library, 2, branch=name, mark=mark)
        library.cleanup(keep=1, confirm=True)
    fresh = omnigraph.open(place)
    for name in ("idle", "of-dev", "of-idle"):
        assert rows_of(fresh, name) == content[name]
        write_a_little(fresh, 1, branch=name, mark="w")
    assert fresh.verify(deep=True).is_sound


@pytest.mark.parametrize("part", ["__manifest/tree/{}/_versions", "__manifest/_refs/branches"])
def test_damage_to_a_branch_that_was_never_written_stops_it(library, place, part):
    ref = library.create_branch("idle")
    write_a_little(library, 2)
    folder = place / part.format(ref.incarnation)
    file = next(one for one in folder.iterdir() if one.suffix == ".manifest" or "refs" in part)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    before = everything(place)
    with pytest.raises(OmniError):
        omnigraph.open(place).cleanup(keep=1, confirm=True)
    assert everything(place) >= before
