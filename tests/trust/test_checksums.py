"""Checksums of files are recorded when they are written, and verified on request."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ManifestCorrupt, OmniError, StorageFailure
from omnigraph.settings import Settings

SCHEMA = "node Person { name: String @key\n age: I64? }"
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"


def insert(name: str) -> str:
    return f'query q() {{ insert Person {{ name: "{name}", age: 7 }} }}'


@pytest.fixture
def place(tmp_path) -> Path:
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph:
        for name in ("Ada", "Bob"):
            graph.mutate(insert(name))
        graph.create_branch("side")
        graph.mutate(insert("Cy"), branch="side")
        graph.mutate(insert("Dee"))
    return tmp_path / "g"


def flip(file: Path, at: int = -1) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def data_file(place: Path, written: int = 0) -> Path:
    """A data file of the people on main, by when it was written."""
    (table,) = place.glob("nodes/*")
    return sorted(table.glob("data/*.lance"), key=lambda file: file.stat().st_mtime_ns)[written]


def finding(place: Path, check: str, **how: bool):
    with omnigraph.open(place, read_only=True) as graph:
        found = [one for one in graph.verify(**how).findings if one.check == check]
    assert found, f"no {check}"
    return found


def test_a_flipped_bit_is_found_with_the_file_the_rows_and_the_commits(place):
    with omnigraph.open(place, read_only=True) as graph:
        commits = {one.commit_id for one in graph.commits()[:-1]}
    file = data_file(place)
    flip(file, 40)
    on_main = next(f for f in finding(place, "damaged_file", deep=True) if f.branch == "main")
    assert on_main.file == file.relative_to(place).as_posix()
    assert on_main.table_key == "node:Person"
    assert on_main.rows == 1
    assert set(on_main.commits) == commits, "every commit since the first insert shows the row"
    assert "the 1 rows of fragment 0" in on_main.message


def test_verify_outlives_a_file_over_which_lance_ends_the_process(place):
    """A message with a zero byte in it does: here, that an encoding is unknown, by its name."""
    file = data_file(place)
    content = file.read_bytes()
    assert b"ColumnEncoding" in content
    file.write_bytes(content.replace(b"ColumnEncoding", b"Colum\0\0\0\0oding"))
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph.cli", "verify", "--deep", "--history", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{file.name} is not what was written" in done.stdout
    assert done.returncode == 1, done.stderr


def test_a_file_that_was_cut_is_found_without_reading_rows(place):
    file = data_file(place)
    file.write_bytes(file.read_bytes()[:-1])
    (main, *_) = finding(place, "damaged_file", deep=False)
    assert "bytes it was written with" in main.message


def test_a_file_without_a_checksum_is_counted_and_no_finding(place):
    for log in place.rglob("_checksums.log"):
        log.unlink()
    with omnigraph.open(place, read_only=True) as graph:
        result = graph.verify(deep=True)
    assert result.is_sound
    (note,) = [one for one in result.notes if one.check == "no_checksum"]
    assert result.checked["files"] == 0
    assert int(note.message.split()[0]) > 5


def test_every_file_of_a_fresh_graph_has_a_checksum(place):
    with omnigraph.open(place) as graph:
        graph.optimize()
        graph.cleanup(keep=1, confirm=True)
        result = graph.verify(deep=True, history=True)
    assert result.is_sound
    assert [one for one in result.notes if one.check == "no_checksum"] == []
    assert result.checked["files"] > 5


@pytest.mark.parametrize("written", [0, -1])
def test_reads_verify_files_on_request(place, written):
    flip(data_file(place, written), 40)
    verifying = Settings.from_environment({"OMNIGRAPH_VERIFY_READS": "true"})
    with (
        omnigraph.open(place, read_only=True, settings=verifying) as graph,
        pytest.raises(StorageFailure, match="its checksum differs"),
    ):
        graph.query(COUNT)


def test_damage_to_a_past_commit_is_found_by_looking_at_history(place):
    (table,) = place.glob("nodes/*")
    oldest = max(table.glob("_versions/*.manifest"))
    flip(oldest)
    with omnigraph.open(place, read_only=True) as graph:
        assert graph.verify(deep=True).is_sound
        assert not graph.verify(deep=True, history=True).is_sound


def test_a_newest_manifest_version_that_vanished_is_not_forgotten(place):
    newest = min((place / "__manifest" / "_versions").glob("*.manifest"))
    content = newest.read_bytes()
    newest.unlink()
    for read_only in (True, False):
        with pytest.raises(ManifestCorrupt, match="was written and is gone"):
            omnigraph.open(place, read_only=read_only).query(COUNT)
    newest.write_bytes(content)
    assert omnigraph.open(place).query(COUNT).rows == [{"n": 3}]


def test_a_newer_manifest_version_known_elsewhere_is_found_without_checksums(place):
    with omnigraph.open(place) as graph:
        graph.create_branch("late")
    min((place / "__manifest" / "_versions").glob("*.manifest")).unlink()
    (place / "__manifest" / "_checksums.log").unlink()
    (found,) = finding(place, "lost_version")
    assert "branch 'late' starts at it" in found.message


def test_cleanup_refuses_while_the_manifest_version_a_branch_starts_at_is_missing(place):
    """It references files of the parent, which nothing else retains."""
    start = max(place.glob("__manifest/tree/*/_versions/*.manifest"))
    content = start.read_bytes()
    start.unlink()
    before = {file for file in place.rglob("*") if file.is_file()}
    with omnigraph.open(place, settings=Settings(cleanup_grace_s=0.0)) as graph:
        with pytest.raises(ManifestCorrupt, match="was written and is gone"):
            graph.cleanup(keep=1, confirm=True)
        assert before <= {file for file in place.rglob("*") if file.is_file()}
        start.write_bytes(content)
        graph.cleanup(keep=1, confirm=True)
        assert graph.verify(deep=True, history=True).is_sound


def test_cleanup_names_the_version_of_a_branch_whose_footer_points_beyond_any_file(place):
    version = max(place.glob("nodes/*/tree/*/_versions/*.manifest"))
    content = bytearray(version.read_bytes())
    content[-9] ^= 0x80
    version.write_bytes(content)
    with (
        omnigraph.open(place) as graph,
        pytest.raises(ManifestCorrupt, match=f"{version.name}.* has no footer"),
    ):
        graph.cleanup(keep=1, confirm=True)


def test_cleanup_spares_what_a_branch_shows_whose_fork_lost_its_ref(place):
    (ref,) = place.glob("nodes/*/_refs/branches/*.json")
    content = ref.read_bytes()
    ref.unlink()
    before = {file for file in place.rglob("*") if file.is_file()}
    with omnigraph.open(place, settings=Settings(cleanup_grace_s=0.0)) as graph:
        for _ in range(2):
            with pytest.raises(ManifestCorrupt, match=ref.name):
                graph.cleanup(keep=1, confirm=True)
        assert graph.query(COUNT, branch="side").rows == [{"n": 3}]
    assert before <= {file for file in place.rglob("*") if file.is_file()}
    (found,) = finding(place, "missing_fork")
    assert found.branch == "side"
    ref.write_bytes(content)
    assert omnigraph.open(place).verify(deep=True).is_sound


@pytest.mark.parametrize(
    ("member", "value"), [("fork_version", 2), ("parent_incarnation", "01J9Z3N8Q4X7Y2K5M6P0R1S3T8")]
)
def test_a_branch_record_that_disagrees_with_the_manifest_is_found(place, member, value):
    """Written by an earlier build, without a checksum to compare."""
    file = place / "_refs" / "branches" / "side.json"
    body = json.loads(file.read_text()) | {member: value}
    del body["crc32"]
    if member == "parent_incarnation":
        body["parent"] = "gone"
    file.write_text(json.dumps(body))
    (first, *_) = finding(place, "branch_record")
    assert first.branch == "side"


def test_damage_is_a_typed_error_in_an_optimized_interpreter_as_well(place):
    """With `-O` assertions are left out; what refuses damage must not be one."""
    for file in (place / "__manifest" / "_versions").glob("*.manifest"):
        file.write_bytes(file.read_bytes()[:-40] + bytes(40))
    script = (
        "import sys, omnigraph\n"
        "from omnigraph.errors import OmniError\n"
        "try:\n"
        "    omnigraph.open(sys.argv[1], read_only=True).verify()\n"
        "except OmniError as error:\n"
        "    print(error.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", script, str(place)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip()


def test_flipping_any_bit_of_a_manifest_version_never_gives_an_untyped_error(place):
    file = min((place / "__manifest" / "_versions").glob("*.manifest"))
    content = file.read_bytes()
    for at in range(0, len(content), 37):
        flip(file, at)
        try:
            omnigraph.open(place, read_only=True).query(COUNT)
        except OmniError:
            pass
        finally:
            file.write_bytes(content)


@pytest.mark.parametrize(
    ("stored", "damaged"),
    [(b"omnigraph.stable_property_id", None), (b"\x12\x02id", b"\x12\x02ie"), (b"int64", b"float")],
    ids=["property id", "name", "type"],
)
def test_a_damaged_schema_of_a_table_is_a_typed_error(place, stored, damaged):
    (table,) = place.glob("nodes/*")
    file = min(table.glob("_versions/*.manifest"))
    content = file.read_bytes()
    at = content.rindex(stored)
    if damaged is None:  # the number after it
        at += len(stored) + 4
        stored, damaged = content[at : at + 1], b"x"
    file.write_bytes(content[:at] + damaged + content[at + len(stored) :])
    rows = "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
    with omnigraph.open(place, read_only=True) as graph, pytest.raises(OmniError):
        graph.query(rows)


def test_a_graph_that_was_moved_is_not_reported_as_damaged(place, tmp_path):
    """The first writer at an address writes it into the versions of every branch."""
    moved = tmp_path / "elsewhere"
    place.rename(moved)
    with omnigraph.open(moved, settings=Settings(verify_reads=True)) as graph:
        graph.mutate(insert("Eve"), branch="side")
        result = graph.verify(deep=True, history=True)
    assert result.findings == ()
    assert [one for one in result.notes if one.check == "no_checksum"] == []


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shallow", [False, True])
def test_every_file_of_a_clone_has_a_checksum(place, tmp_path, shallow):
    with omnigraph.open(place) as graph:
        graph.optimize()
    omnigraph.clone(place, tmp_path / "clone", shallow=shallow)
    with omnigraph.open(tmp_path / "clone", read_only=True) as graph:
        result = graph.verify(deep=True, history=True)
    assert result.findings == ()
    assert {one.check for one in result.notes} <= {"index"}
    assert result.checked["files"] > 5
    flip(data_file(tmp_path / "clone"), 40)
    finding(tmp_path / "clone", "damaged_file", deep=True, history=True)


def test_damage_is_not_cloned(place, tmp_path):
    file = data_file(place)
    flip(file, 40)
    with pytest.raises(ManifestCorrupt, match=f"{file.name} is not what was written"):
        omnigraph.clone(place, tmp_path / "clone")
    flip(file, 40)
    omnigraph.clone(place, tmp_path / "clone", force=True)
    assert omnigraph.open(tmp_path / "clone").verify(deep=True, history=True).is_sound


def test_a_copy_of_a_graph_under_writes_says_what_to_do(place, tmp_path):
    """Its log was copied later than its versions, and knows of one that is not there."""
    copy = tmp_path / "copy"
    shutil.copytree(place, copy)
    with omnigraph.open(place) as graph:
        graph.mutate(insert("Eve"))
    log = copy / "__manifest" / "_checksums.log"
    log.write_bytes((place / "__manifest" / "_checksums.log").read_bytes())
    with pytest.raises(ManifestCorrupt, match="make another with `omnigraph clone`") as caught:
        omnigraph.open(copy)
    assert f"remove {log}" in caught.value.message
    log.unlink()
    with omnigraph.open(copy) as graph:
        assert graph.query(COUNT).rows == [{"n": 3}]
        graph.mutate(insert("Fay"))
        assert graph.verify(deep=True, history=True).is_sound


def test_a_damaged_list_of_what_nothing_refers_to_only_delays_its_removal(place):
    (table,) = place.glob("nodes/*")
    (table / "data" / "left.lance").write_bytes(b"left behind")
    settings = Settings(cleanup_grace_s=0.0)
    with omnigraph.open(place, settings=settings) as graph:
        graph.cleanup(keep=9, confirm=True)
        flip(place / "__maintenance" / "unreferenced.json", 40)
        assert {"unreferenced_list"} <= {one.check for one in graph.verify().notes}
        assert graph.cleanup(keep=9, confirm=True).reclaimed == ()
        assert len(graph.cleanup(keep=9, confirm=True).reclaimed) == 1
        assert {one.check for one in graph.verify().notes} <= {"index"}


@pytest.mark.parametrize("at", ["Infinity", "null", '"soon"', "[" * 100_000])
def test_a_list_of_orphan_candidates_with_an_invalid_time_is_started_again(place, at):
    file = place / "__maintenance" / "unreferenced.json"
    file.write_text(f'{{"version": 2, "first_seen": {{"nodes/x": {{"at": {at}, "notes": []}}}}}}')
    with omnigraph.open(place) as graph:
        assert {"unreferenced_list"} <= {one.check for one in graph.verify().notes}
        graph.cleanup(keep=9, confirm=True)
    assert "nodes/x" not in file.read_text()


def test_a_fresh_graph_has_all_its_small_files(tmp_path):
    with omnigraph.init(tmp_path / "fresh", SCHEMA) as graph:
        assert graph.verify(deep=True, history=True).notes == ()
