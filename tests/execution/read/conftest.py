from __future__ import annotations

import pytest

from execution.read.query_runner import Reading, music_graph
from omnigraph.execution.read.read_context import TraversalMethod


@pytest.fixture(scope="session")
def music_uri(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("music") / "music.omni"
    music_graph(path)
    return str(path)


@pytest.fixture(params=list(TraversalMethod), ids=str)
def music(music_uri, request) -> Reading:
    """The music graph, read once with every way of finding neighbours."""
    return Reading(music_uri, request.param)
