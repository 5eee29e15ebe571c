"""Graphs for the behaviour tests, copied from one that is made once."""

from __future__ import annotations

import shutil

import pytest

import omnigraph
from graph.music import RECORDS, SCHEMA


@pytest.fixture(scope="session")
def music_template(tmp_path_factory):
    place = tmp_path_factory.mktemp("template") / "music.omni"
    omnigraph.init(place, SCHEMA, actor="loader").load(RECORDS, "append")
    return place


@pytest.fixture
def music_place(music_template, tmp_path):
    """Where a loaded music graph of this test's own is."""
    return shutil.copytree(music_template, tmp_path / "music.omni")


@pytest.fixture
def music(music_place):
    return omnigraph.open(music_place, actor="tester")
