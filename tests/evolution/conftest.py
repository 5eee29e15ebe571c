from __future__ import annotations

import shutil

import pytest

import omnigraph
from evolution.library import make_library


@pytest.fixture(scope="session")
def library_template(tmp_path_factory):
    place = tmp_path_factory.mktemp("template") / "library.omni"
    make_library(place)
    return place


@pytest.fixture
def library_place(library_template, tmp_path):
    return shutil.copytree(library_template, tmp_path / "library.omni")


@pytest.fixture
def library(library_place):
    return omnigraph.open(library_place, actor="librarian")
