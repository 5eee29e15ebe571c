import pytest

import omnigraph
from server.conftest import make_people
from server.serving import serving


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """An open server of one small graph, for all tests of a module."""
    with serving(make_people(tmp_path_factory.mktemp("served") / "people.omni")) as server:
        yield server


@pytest.fixture(scope="module")
def url(running) -> str:
    return f"http://{running.address}{running.graph}"


@pytest.fixture
def graph(url):
    with omnigraph.connect(url) as connected:
        yield connected
