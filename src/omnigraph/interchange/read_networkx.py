"""Graphs of NetworkX as tables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from omnigraph.errors import BadRequest, MissingPackage
from omnigraph.interchange.record_tables import RecordTables
from omnigraph.interchange.source_tables import SourceGraph

_ORIGIN = "the NetworkX graph"


def read_networkx(source: Any, node_type: str | None, edge_type: str | None) -> SourceGraph:  # noqa: ANN401
    """The nodes and edges of a graph of any kind, a table for each type.

    Raises:
        BadRequest: it is no such graph.
        MissingPackage: NetworkX is not installed.
    """
    if find_spec("networkx") is None:
        raise MissingPackage("networkx", "importing from NetworkX", "pip install networkx")
    import networkx  # noqa: PLC0415 - optional

    if not isinstance(source, networkx.Graph):
        raise BadRequest(f"give a graph of NetworkX, not {type(source).__name__}")
    tables, lost = RecordTables(_ORIGIN, _ORIGIN), []
    for node, attributes in source.nodes(data=True):
        name, properties = _take_type(attributes, node_type, "Node")
        tables.add_node(name, str(node), properties)
    for first, second, attributes in source.edges(data=True):
        name, properties = _take_type(attributes, edge_type, "Edge")
        tables.add_edge(name, (str(first), str(second)), properties)
    if source.graph:
        lost.append(f"attributes of the whole graph: {', '.join(map(str, source.graph))}")
    if not source.is_directed():
        lost.append("the edges have no direction; they are kept from first to second end")
    return SourceGraph(tables.list_tables(), tuple(lost))


def _take_type(
    attributes: Mapping[Any, object], name: str | None, otherwise: str
) -> tuple[str, dict[str, object]]:
    properties = {str(key): value for key, value in attributes.items()}
    if name is None:
        return otherwise, properties
    return str(properties.pop(name, otherwise)), properties
