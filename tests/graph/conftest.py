"""Graphs for the behaviour tests, copied from one that is made once."""

from __future__ import annotations

import shutil

import pytest

import omnigraph
from graph.music_graph import LABEL, RECORDS, SCHEMA, run


@pytest.fixture(scope="session")
def music_template(tmp_path_factory):
    place = tmp_path_factory.mktemp("template") / "music.omni"
    omnigraph.init(place, SCHEMA, actor="loader").load(RECORDS, "append")
    return place


@pytest.fixture
def music_place(music_template, tmp_path):
    """Return the address of a loaded music graph of this test."""
    return shutil.copytree(music_template, tmp_path / "music.omni")


@pytest.fixture
def music(music_place):
    return omnigraph.open(music_place, actor="tester")


@pytest.fixture
def branched(music):
    """A graph with a branch, a branch of that, and rows of each in one table."""
    run(music, LABEL.format("on-main"))
    music.create_branch("dev")
    run(music, LABEL.format("on-dev"), branch="dev")
    music.create_branch("deep", source="dev")
    run(music, LABEL.format("on-deep"), branch="deep")
    run(music, 'delete Label where slug = "nova"', branch="deep")
    music.optimize()
    return music
