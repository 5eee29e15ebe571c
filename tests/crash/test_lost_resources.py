"""Machines that do not let us write: a typed error, nothing lost, and reads continue."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import omnigraph
from crash.crash_checks import check, content_of
from crash.crash_scenario import create
from crash.harness import environment
from crash.lost_resources import READS
from crash.tracer import is_supported
from omnigraph.errors import GraphNotFound

pytestmark = pytest.mark.crash

SCRIPT = Path(__file__).with_name("lost_resources.py")
TYPED = ("StorageFailure configuration", "RecoveryRequired")


@pytest.fixture
def folder():
    """A folder that every user may enter, unlike that of other tests."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def place(folder):
    graph = create(folder / "town")
    graph.create_branch("dev")
    graph.create_branch("old")
    return folder / "town"


def without(what: str, place: Path, elsewhere: Path) -> dict[str, str]:
    """Return the outcomes of everything tried by a process that lost a resource."""
    command = [sys.executable, str(SCRIPT), what, str(place), str(elsewhere / "elsewhere")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_refused(reported: dict[str, str], place: Path) -> None:
    """Check that readers continued, writers reported the reason, and the graph is unchanged."""
    for name, ended in reported.items():
        assert (ended == "done") if name in READS else ended.startswith(TYPED), (name, ended)
    with pytest.raises(GraphNotFound):
        omnigraph.open(place.with_name("new"))


@pytest.mark.skipif(not is_supported(), reason="the kernel cannot refuse us system calls")
def test_a_file_system_without_hard_links_refuses_writers_and_serves_readers(place, tmp_path):
    before = content_of(omnigraph.open(place))
    reported = without("links", place, tmp_path)
    assert reported.pop("delete a branch") == "done", "nothing is made, so no link is needed"
    check_refused(reported, place)
    assert "hard links" in reported["open to write"]
    assert "hard links" in reported["create"]
    del before["old"]
    assert check(place, {"untouched": before})


def test_a_graph_that_may_not_be_written_refuses_writers_and_serves_readers(place, tmp_path):
    before = content_of(omnigraph.open(place))
    change_modes(place, 0o555, 0o444)
    reported = without("rights", place, tmp_path)
    check_refused(reported, place)
    assert "cannot be written to" in reported["open to write"]
    assert "ermission denied" in reported["open to write"]
    change_modes(place, 0o755, 0o644)
    assert check(place, {"untouched": before})


def change_modes(place: Path, folders: int, files: int) -> None:
    for path in [place, *place.rglob("*")]:
        path.chmod(folders if path.is_dir() else files)


def test_a_graph_that_may_not_be_read_is_not_mistaken_for_none(place, tmp_path):
    reported = unreadable(place, tmp_path)
    for name, ended in reported.items():
        assert ended.startswith("StorageFailure configuration"), (name, ended)
    assert content_of(omnigraph.open(place))


def unreadable(place: Path, elsewhere: Path) -> dict[str, str]:
    place.chmod(0)
    try:
        return without("sight", place, elsewhere)
    finally:
        place.chmod(0o755)
