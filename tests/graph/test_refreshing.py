"""A handle that cannot read what others have committed, and then can."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import omnigraph
from commands.quick_command import quick_command
from omnigraph.errors import OmniError

SCHEMA = "node Note { text: String @key  number: I64? }"
ALL = "query q() { match { $n: Note } return { $n.text, $n.number } order { $n.text } }"


@pytest.fixture
def place(tmp_path):
    graph = omnigraph.init(tmp_path / "graph", SCHEMA)
    graph.load([{"type": "Note", "data": {"text": "n1", "number": 1}}], "append")
    return tmp_path / "graph"


def list_files(place: Path) -> set[Path]:
    return {path for path in place.rglob("*") if path.is_file()}


def commit_elsewhere(place: Path, number: int) -> list[Path]:
    """A commit of another process, so that this one knows nothing of it; gives its files."""
    before = list_files(place)
    insert = f'query q() {{ insert Note {{ text: "n{number}", number: {number} }} }}'
    subprocess.run(quick_command("mutate", str(place), "-e", insert, "--quiet"), check=True)
    # What is read last comes first: whatever is read before a failure is remembered.
    return sorted(list_files(place) - before, key=lambda path: (path.parent.name != "data", path))


def make_rows(newest: int) -> list[dict[str, object]]:
    return [{"n.text": f"n{number}", "n.number": number} for number in range(1, newest + 1)]


def test_a_refresh_that_fails_anywhere_leaves_the_handle_whole(place):
    """Each file of a commit of another process is missing for a while, one after the other."""
    handle, missed = omnigraph.open(place), set()
    assert handle.query(ALL).rows == make_rows(1)
    for newest in (2, 3):
        view, commits = handle.at(branch="main"), handle.commits()
        for file in commit_elsewhere(place, newest):
            hidden = file.with_name(f"{file.name}.hidden")
            file.rename(hidden)
            try:
                # A required file that is missing is reported; another one is ignored.
                try:
                    assert handle.query(ALL).rows in (make_rows(newest - 1), make_rows(newest))
                    assert handle.commits()[-len(commits) :] == commits
                except OmniError:
                    missed.add(file.parent.relative_to(place).parts[0])
                assert view.query(ALL).rows == make_rows(newest - 1)
            finally:
                hidden.rename(file)
        assert handle.query(ALL).rows == make_rows(newest)
        assert handle.commits()[1:] == commits
    assert missed == {"__manifest", "nodes"}
    handle.mutate('query q() { insert Note { text: "n4", number: 4 } }')
    fresh = omnigraph.open(place)
    assert fresh.query(ALL).rows == make_rows(4)
    assert fresh.commits() == handle.commits()
    assert fresh.verify(deep=True).is_sound
