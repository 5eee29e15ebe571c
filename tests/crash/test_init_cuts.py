"""Creating a graph, killed after each of its durable writes."""

from __future__ import annotations

import random

import pytest

from crash.crash_checks import check, content_of
from crash.crash_scenario import INIT, SCHEMA
from crash.crash_stores import GROUNDS
from crash.harness import side_by_side
from crash.kill_points import Cut
from omnigraph.errors import AlreadyInitialized, GraphNotFound, InitializationClaimed
from omnigraph.storage.layout import INIT_CLAIM, MANIFEST, SCHEMA_FILES
from omnigraph.storage.objects.object_store import install_observer
from store_places import init_graph, open_graph, root_of

pytestmark = pytest.mark.crash

EMPTY = {"main": ("1 commits",)}


@pytest.fixture
def writes(ground):
    """The durable writes of an undisturbed creation."""
    cut = Cut(None)
    cut.arm()
    install_observer(cut)
    try:
        made = init_graph(ground.folder / "whole", SCHEMA)
    finally:
        install_observer(None)
    assert content_of(made) == EMPTY
    return cut.writes


def is_graph(place):
    try:
        open_graph(place, read_only=True)
    except GraphNotFound:
        return False
    return True


def create_again(place):
    """Follow the messages: look, remove the claim of a dead attempt, and try once more."""
    store = root_of(place).store
    is_used = any(store.exists(name) for name in (*SCHEMA_FILES, MANIFEST))
    if store.exists(INIT_CLAIM):
        with pytest.raises(AlreadyInitialized if is_used else InitializationClaimed):
            init_graph(place, SCHEMA)
        with pytest.raises(InitializationClaimed, match=INIT_CLAIM):
            init_graph(place, SCHEMA, force=True)
        store.delete(INIT_CLAIM)
    init_graph(place, SCHEMA, force=is_used)


def explore(workers, folder, after):
    """Kill a creation after a number of writes; return whether the graph was created."""
    place = folder / f"cut-{after}"
    ended = workers.run(place, INIT, after)
    was_made = is_graph(place)
    assert was_made or not ended.is_acknowledged
    if was_made:
        with pytest.raises(AlreadyInitialized):
            init_graph(place, SCHEMA)
        with pytest.raises(AlreadyInitialized):
            init_graph(place, SCHEMA, force=True)
    else:
        with pytest.raises(GraphNotFound):
            open_graph(place)
        create_again(place)
    assert check(place, {"new": EMPTY})
    return was_made


@GROUNDS
def test_a_creation_cut_anywhere_left_a_graph_or_can_be_done_again(
    workers, ground, writes, explored
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    cuts = sorted(random.Random(seed).sample(range(len(writes) + 1), 4))
    side_by_side(lambda after: explore(workers, ground.folder, after), cuts)
    explored.add("init", len(cuts))


@pytest.mark.slow
def test_a_creation_cut_everywhere_left_a_graph_or_can_be_done_again(
    workers, ground, writes, explored
):
    cuts = range(len(writes) + 2)
    made = side_by_side(lambda after: explore(workers, ground.folder, after), cuts)
    assert made == sorted(made), "a later cut left less"
    assert made[0] is False
    assert made[-2:] == [True, True]
    explored.add("init", len(cuts))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"7", b"{", b"[" * 100_000],
    ids=["", "list", "number", "half", "depths"],
)
def test_a_damaged_claim_is_a_claim(tmp_path, content):
    (tmp_path / INIT_CLAIM).write_bytes(content)
    with pytest.raises(InitializationClaimed, match="unknown"):
        init_graph(tmp_path, SCHEMA)
    assert (tmp_path / INIT_CLAIM).read_bytes() == content
