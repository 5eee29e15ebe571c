"""Frames through Spark Connect: what they show of filters and of commits that come later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from connect_packages import install_connect

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("connect_frames_worker.py")
PINNED = ("load of a commit", "to_spark", "query", "view", "SQL view")


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict:
    """Return what the worker read from six frames, and from six more without a plan cache."""
    folder = tmp_path_factory.mktemp("connect")
    done = subprocess.run(
        [sys.executable, str(WORKER), str(folder / "g.omni")],
        capture_output=True,
        text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable} | install_connect(folder / "packages"),
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["session"].startswith("pyspark.sql.connect")
    return found


def test_queries_on_one_frame_do_not_see_each_others_filters(seen):
    assert seen["filters"] == {name: [10, 100, 11, 150, 50] for name in ("load", *PINNED)}


@pytest.mark.parametrize("kind", ["cached", "not cached"])
def test_frames_of_a_commit_and_views_do_not_move(seen, kind):
    assert {name: seen[kind][name] for name in PINNED} == {name: [0, 0] for name in PINNED}


def test_a_loaded_frame_is_pinned_at_its_first_action_as_long_as_the_server_keeps_its_plan(seen):
    assert seen["cached"]["load"] == [10, 10]


def test_a_loaded_frame_moves_where_the_server_keeps_no_plans(seen):
    """If this fails after an upgrade, Spark Connect has changed, and the how-to is stale."""
    assert seen["not cached"]["load"] == [10, 20]
