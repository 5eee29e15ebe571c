from __future__ import annotations

import multiprocessing

import pytest

from omnigraph.storage.tables.location import TableLocation
from storage.tables.race_workers import PROCESSES, join_race


@pytest.fixture
def location(tmp_path) -> TableLocation:
    return TableLocation(str(tmp_path / "table"))


@pytest.fixture(scope="session")
def racers():
    """Processes that start a given function at the same moment, one call each.

    They are spawned, never forked: Lance hangs in some forked children.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES)
    with context.Pool(PROCESSES, initializer=join_race, initargs=(barrier,)) as pool:

        def race(function, *arguments: tuple) -> list:
            assert len(arguments) == PROCESSES
            return pool.starmap_async(function, arguments, chunksize=1).get(timeout=600)

        yield race
