"""Looking whether everything is in order, and finding what was broken on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from crash.fault_points import MANIFEST, At, fail, watched
from maintenance.library_graph import (
    BOOK,
    READER,
    READS,
    book,
    entry,
    native,
    reader,
    run,
    snapshot,
    table,
    write_a_little,
)
from omnigraph.errors import ConflictError, ManifestCorrupt, NotFoundError
from omnigraph.graph.graph import quarantine
from omnigraph.storage.manifest.manifest_changes import Publication, SetVersion
from omnigraph.storage.prepared_write import open_writable
from omnigraph.storage.publish import publish
from omnigraph.storage.tables.stage_table import stage_fresh
from omnigraph.storage.tables.table_commit import commit_exact


def checks(result):
    return {(one.check, one.branch, one.table_key) for one in result.findings}


def files(place):
    return {path: path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("deep", [False, True])
def test_a_graph_in_order_has_no_findings_and_looking_changes_nothing(library, place, deep):
    write_a_little(library)
    library.create_branch("dev")
    write_a_little(library, branch="dev", mark="d")
    library.optimize()
    library.cleanup(keep=2, confirm=True)
    before = files(place)
    result = omnigraph.open(place, read_only=True).verify(deep=deep)
    assert result.is_sound
    assert result.checked["branches"] == 2
    assert ("rows" in result.checked) is deep
    assert files(place) == before


def test_a_missing_index_is_worth_knowing_and_no_finding(library):
    assert library.verify().is_sound
    assert any("has no BTREE index" in note.message for note in library.verify().notes)
    library.optimize()
    write_a_little(library)
    assert any("does not cover 4 rows" in note.message for note in library.verify().notes)


def test_drift_is_found(library):
    native(library, READER).delete("slug = 'ann'")
    assert checks(library.verify()) == {("drift", "main", READER)}


def test_a_missing_version_is_found(library, place):
    one = entry(library, BOOK)
    file = f"{one.path}/_versions/{(1 << 64) - 1 - one.version:020d}.manifest"
    (place / file).unlink()
    found = checks(omnigraph.open(place, read_only=True).verify())
    assert ("unreadable", "main", BOOK) in found


def test_a_file_that_cannot_be_read_is_found_by_looking_deep(library, place):
    one = table(library, BOOK).native.get_fragments()[0].metadata.files[0].path
    data = place / entry(library, BOOK).path / "data" / one
    data.write_bytes(b"\0" * data.stat().st_size)
    fresh = omnigraph.open(place, read_only=True)
    assert checks(fresh.verify(deep=True)) >= {("damaged_file", "main", BOOK)}
    for log in place.rglob("_checksums.log"):
        log.unlink()
    assert checks(fresh.verify(deep=True)) >= {("unreadable", "main", BOOK)}


def _publish(graph, key, rows, count=None):
    """Make a table show rows no check has seen, as only a bug could."""
    shown = snapshot(graph)
    one = shown.entries[key]
    staged = stage_fresh(shown.table(key), rows, properties={})
    done = commit_exact(staged)
    change = SetVersion(
        one.identity, key, done.version, None, done.row_count if count is None else count, None
    )
    publish(shown.root, shown.ref, Publication(changes=(change,)))


def test_an_id_that_is_there_twice_is_found(library):
    _publish(library, READER, table(library, READER).scan(filter="slug = 'ann'"))
    assert library.verify().is_sound
    (finding,) = library.verify(deep=True).findings
    assert (finding.check, finding.table_key) == ("duplicate_id", READER)
    assert "'ann'" in finding.message


def test_an_edge_without_its_node_is_found(library):
    rows = table(library, READS).scan().slice(0, 1)
    names = rows.schema.names
    rows = rows.set_column(names.index("id"), rows.schema.field("id"), pa.array(["lost"]))
    rows = rows.set_column(names.index("dst"), rows.schema.field("dst"), pa.array(["nobody"]))
    _publish(library, READS, rows)
    (finding,) = library.verify(deep=True).findings
    assert (finding.check, finding.table_key) == ("orphan_edge", READS)
    assert "'nobody'" in finding.message


def test_a_row_count_that_is_wrong_is_found(library):
    rows = table(library, READER).scan(filter="slug = 'ann'")
    rows = rows.set_column(0, rows.schema.field(0), pa.array(["other"]))
    _publish(library, READER, rows, count=7)
    assert ("row_count", "main", READER) in checks(library.verify())


def test_a_branch_that_cannot_be_read_does_not_hide_the_others(library, place):
    ref = library.create_branch("dev")
    native(library, READER).delete("slug = 'ann'")
    for file in (place / f"__manifest/tree/{ref.incarnation}").rglob("*.manifest"):
        file.unlink()
    found = checks(omnigraph.open(place, read_only=True).verify())
    assert ("branch", "dev", None) in found
    assert ("drift", "main", READER) in found


def test_an_interrupted_write_is_reported_and_its_table_versions_are_no_drift(library, place):
    with watched(At("before", "commit", MANIFEST, fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            run(graph, 'insert Reader {slug: "zed", name: "Z"}')
    result = omnigraph.open(place, read_only=True).verify()
    assert result.is_sound
    assert "pending_write" in {note.check for note in result.notes}


def test_leftovers_are_reported(library, place):
    library.create_branch("dev")
    library.load([book("d")], "append", branch="dev")
    library.delete_branch("dev")
    stray = open_writable(snapshot(library), entry(library, READER))
    assert not stray.is_fork
    found = {note.check for note in library.verify().notes}
    assert "unreferenced_fork" in found


# --- quarantine -----------------------------------------------------------------------------------


@pytest.fixture
def broken(place, library):
    """A graph whose only intent is no intent at all."""
    (place / "__recovery").mkdir(exist_ok=True)
    (place / "__recovery/01BROKEN.json").write_text("{")
    with pytest.raises(ManifestCorrupt):
        omnigraph.open(place)
    return place


def test_an_intent_that_cannot_be_read_is_found_and_can_be_set_aside(broken):
    assert checks(omnigraph.open(broken, read_only=True).verify()) == {("intent", None, None)}
    kept = quarantine(broken, "01BROKEN")
    assert Path(broken / kept).read_text() == "{"
    graph = omnigraph.open(broken)
    graph.load([reader("new")], "append")
    assert graph.verify().is_sound


def test_it_stays_if_it_may_be_what_explains_a_table_ahead_of_the_graph(broken, library):
    native(library, READER).delete("slug = 'ann'")
    with pytest.raises(ConflictError, match="was not quarantined"):
        quarantine(broken, "01BROKEN")
    assert (broken / "__recovery/01BROKEN.json").exists()


def test_an_intent_of_a_newer_format_is_handled_as_unreadable(place, library):
    (place / "__recovery").mkdir(exist_ok=True)
    (place / "__recovery/01NEWER.json").write_text(json.dumps({"schema_version": 99}))
    quarantine(place, "01NEWER")
    omnigraph.open(place)


@pytest.mark.parametrize("name", ["01ABSENT", "../escape"])
def test_only_a_pending_write_can_be_set_aside(place, name):
    with pytest.raises((NotFoundError, omnigraph.errors.BadRequest)):
        quarantine(place, name)
