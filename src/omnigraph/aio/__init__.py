"""Graphs for programs with an event loop: the verbs of a graph as coroutines.

    graph = await omnigraph.aio.open("music.omni")
    result = await graph.query("query q() { match { $a: Artist } return { $a.name } }")

The engine works in threads, so that it never holds up the loop.
"""

from omnigraph.aio.async_graph import AsyncBranch as AsyncBranch
from omnigraph.aio.async_graph import AsyncGraph as AsyncGraph
from omnigraph.aio.async_graph import AsyncView as AsyncView
from omnigraph.aio.async_graph import connect as connect
from omnigraph.aio.async_graph import open as open

__all__ = ["AsyncBranch", "AsyncGraph", "AsyncView", "connect", "open"]
