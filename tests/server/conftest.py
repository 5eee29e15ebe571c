import pytest

import omnigraph
from server.serving import PEOPLE, SCHEMA, serving


def make_people(place):
    graph = omnigraph.init(place, SCHEMA, actor="maria")
    graph.load(PEOPLE, "append")
    return place


@pytest.fixture
def people(tmp_path):
    """A small graph of one test."""
    return make_people(tmp_path / "people.omni")


@pytest.fixture
def server(people):
    """An open server of that graph."""
    with serving(people) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """An open server for tests that leave no trace others could stumble over."""
    with serving(make_people(tmp_path_factory.mktemp("shared") / "people.omni")) as running:
        yield running
