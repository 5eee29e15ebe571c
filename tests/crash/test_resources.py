"""Machines that run out of something: a typed error, nothing lost, and reads continue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crash.harness import environment

pytestmark = pytest.mark.crash

PAIR = "insert_node_and_edge"
FORKS = "first_write_of_many_tables_on_a_branch"
SCRIPT = Path(__file__).with_name("resource_limits.py")


def squeeze(folder: Path, what: str, operation: str, before: tuple[str, ...] = ()) -> list[dict]:
    """Return the outcomes as fewer resources are missing; the last attempt succeeds."""
    command = [*before, sys.executable, str(SCRIPT), str(folder), what, operation]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    reported = [json.loads(line) for line in done.stdout.splitlines()]
    assert (reported[-1]["ended"], reported[-1]["found"]) == ("done", "new")
    assert len(reported) > 1, "nothing was ever missing"
    return reported


def mounted(folder: Path) -> tuple[str, ...]:
    """Return the prefix of a command that gives it a file system of its own at the folder."""
    prefix = ["unshare", "--mount"] + ([] if os.getuid() == 0 else ["--map-root-user"])
    mount = f'mount -t tmpfs tmpfs "{folder}"'
    if subprocess.run([*prefix, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a file system of our own")
    return (*prefix, "sh", "-c", f'{mount} && exec "$@"', "sh")


def fill_the_disk(folder, operation, explored):
    reported = squeeze(folder, "files", operation, mounted(folder))
    for one in reported[:-1]:
        assert "No space left" in one["ended"], one
    explored.add("full disk", len(reported))


def test_a_disk_that_is_full_at_any_file_of_a_write_loses_nothing(tmp_path, explored):
    fill_the_disk(tmp_path, PAIR, explored)


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation",
    ["update", "delete_with_cascade", "load_append", "load_overwrite", FORKS, "create_branch"],
)
def test_a_disk_that_is_full_at_any_file_of_any_operation_loses_nothing(
    tmp_path, explored, operation
):
    fill_the_disk(tmp_path, operation, explored)


def test_a_file_system_that_became_read_only_refuses_writers_and_serves_readers(tmp_path):
    refused, _ = squeeze(tmp_path, "everything", PAIR, mounted(tmp_path))
    for ended in (refused["ended"], refused["opened"]):
        assert ended.startswith("StorageFailure")
        assert "ead-only file system" in ended
    assert refused["found"] == "old"


@pytest.mark.slow
@pytest.mark.parametrize("operation", [PAIR, FORKS])
def test_files_that_may_not_grow_are_a_typed_error_and_lose_nothing(tmp_path, explored, operation):
    reported = squeeze(tmp_path, "bytes", operation)
    assert "too large" in reported[0]["ended"]
    explored.add("file size", len(reported))


@pytest.mark.slow
@pytest.mark.parametrize("operation", [PAIR, FORKS])
def test_a_process_without_file_handles_gets_a_typed_error_and_loses_nothing(
    tmp_path, explored, operation
):
    reported = squeeze(tmp_path, "handles", operation)
    explored.add("file handles", len(reported))
