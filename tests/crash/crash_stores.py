"""The stores on which crash tests interrupt graphs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from store_places import Place

FOLDER, BUCKET = "folder", "bucket"
GROUNDS = pytest.mark.parametrize(
    "ground", [FOLDER, pytest.param(BUCKET, marks=pytest.mark.object_store)], indirect=True
)
"""Marks a test that runs in a folder and, on request, in a bucket."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A graph to copy, and where to put the copies."""

    template: Place
    folder: Place
