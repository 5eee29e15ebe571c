"""Creating a graph, killed after each of its durable writes."""

from __future__ import annotations

import random

import pytest

import omnigraph
from crash.checks import check, content_of
from crash.cuts import Cut
from crash.harness import side_by_side
from crash.town import INIT, SCHEMA
from omnigraph.errors import AlreadyInitialized, GraphNotFound, InitializationClaimed
from omnigraph.storage.layout import INIT_CLAIM, MANIFEST, SCHEMA_FILES
from omnigraph.storage.objects.counting import install_observer

pytestmark = pytest.mark.crash

EMPTY = {"main": ("1 commits",)}


@pytest.fixture(scope="module")
def writes(tmp_path_factory):
    """The durable writes of an undisturbed creation."""
    cut = Cut(None)
    cut.arm()
    install_observer(cut)
    try:
        made = omnigraph.init(tmp_path_factory.mktemp("whole") / "town", SCHEMA)
    finally:
        install_observer(None)
    assert content_of(made) == EMPTY
    return cut.writes


def is_graph(place):
    try:
        omnigraph.open(place, read_only=True)
    except GraphNotFound:
        return False
    return True


def create_again(place):
    """What the messages say: look, remove the claim of a dead attempt, and try once more."""
    is_used = any((place / name).exists() for name in (*SCHEMA_FILES, MANIFEST))
    if (place / INIT_CLAIM).exists():
        with pytest.raises(AlreadyInitialized if is_used else InitializationClaimed):
            omnigraph.init(place, SCHEMA)
        with pytest.raises(InitializationClaimed, match=INIT_CLAIM):
            omnigraph.init(place, SCHEMA, force=True)
        (place / INIT_CLAIM).unlink()
    omnigraph.init(place, SCHEMA, force=is_used)


def explore(workers, folder, after):
    """Kill a creation after so many writes; tells whether a graph was made by then."""
    place = folder / f"cut-{after}"
    ended = workers.run(place, INIT, after)
    was_made = is_graph(place)
    assert was_made or not ended.is_acknowledged
    if was_made:
        with pytest.raises(AlreadyInitialized):
            omnigraph.init(place, SCHEMA)
        with pytest.raises(AlreadyInitialized):
            omnigraph.init(place, SCHEMA, force=True)
    else:
        with pytest.raises(GraphNotFound):
            omnigraph.open(place)
        create_again(place)
    assert check(place, {"new": EMPTY})
    return was_made


def test_a_creation_cut_anywhere_left_a_graph_or_can_be_done_again(
    workers, tmp_path, writes, explored
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    cuts = sorted(random.Random(seed).sample(range(len(writes) + 1), 4))
    side_by_side(lambda after: explore(workers, tmp_path, after), cuts)
    explored.add("init", len(cuts))


@pytest.mark.slow
def test_a_creation_cut_everywhere_left_a_graph_or_can_be_done_again(
    workers, tmp_path, writes, explored
):
    cuts = range(len(writes) + 2)
    made = side_by_side(lambda after: explore(workers, tmp_path, after), cuts)
    assert made == sorted(made), "a later cut left less"
    assert made[0] is False
    assert made[-2:] == [True, True]
    explored.add("init", len(cuts))
