"""Where a cluster is, and what it has applied: for commands and servers that only read it."""

from __future__ import annotations

from pathlib import Path

from omnigraph.cluster.applied_texts import find_policy, read_policy_text, read_query_texts
from omnigraph.cluster.cluster_files import ClusterFiles, ReadLedger
from omnigraph.cluster.cluster_layout import (
    CONFIG_FILE,
    CONTROL_FOLDER,
    STATE_FILE,
    show_control_path,
)
from omnigraph.cluster.cluster_report import ClusterReport, refuse
from omnigraph.cluster.config_text import read_storage_root
from omnigraph.cluster.resource_addresses import CLUSTER_SCOPE, graph_address
from omnigraph.errors import BadRequest
from omnigraph.language.source import SourceText
from omnigraph.settings import Settings
from omnigraph.storage.control_files import normalize_root


def find_root(place: str) -> str:
    """The storage root of a cluster that is named by its folder, or by the root itself.

    Raises:
        ClusterError: there is neither.
    """
    if "://" in place:
        try:
            return normalize_root(place)
        except BadRequest as error:
            raise refuse("storage_root_invalid", place, error.message) from error
    folder = Path(place)
    is_root = (folder / CONTROL_FOLDER).is_dir() and not (folder / CONFIG_FILE).exists()
    return normalize_root(str(folder)) if is_root else read_storage_root(folder)


def open_files(place: str, settings: Settings | None = None) -> ClusterFiles:
    """The files of a cluster, wherever they are."""
    return ClusterFiles(find_root(place), settings or Settings())


def read_applied(files: ClusterFiles) -> ReadLedger:
    """The ledger of a cluster that was applied.

    Raises:
        ClusterError: there is none, or it cannot be used.
    """
    found = files.find_ledger()
    if found is None:
        message = f"{files.root} has no ledger: run `omnigraph cluster apply` first"
        raise refuse("cluster_state_missing", show_control_path(STATE_FILE), message)
    return found


def list_applied_graphs(place: str, *, settings: Settings | None = None) -> tuple[str, ...]:
    """The ids of the graphs that were applied, sorted."""
    return read_applied(open_files(place, settings)).ledger.graph_ids


def find_graph_uri(place: str, graph_id: str, *, settings: Settings | None = None) -> str:
    """The root of a graph that was applied.

    Raises:
        ClusterError: there is no such graph; the message names those there are.
    """
    files = open_files(place, settings)
    require_applied(read_applied(files), graph_id)
    return files.graph_uri(graph_id)


def read_applied_policy(
    place: str, *, graph_id: str | None, settings: Settings | None = None
) -> SourceText:
    """The bundle that is bound to a graph or, without one, to the cluster.

    Raises:
        ClusterError: nothing is bound to it, or what is bound is not what was applied.
    """
    files = open_files(place, settings)
    found = read_applied(files)
    if graph_id is not None:
        require_applied(found, graph_id)
    scope = CLUSTER_SCOPE if graph_id is None else graph_address(graph_id)
    address = find_policy(found.ledger, scope)
    if address is None:
        raise refuse("policy_bindings_missing", scope, "no policy is bound to it")
    report = ClusterReport()
    text = read_policy_text(files, found.ledger, address, report)
    report.raise_if_errors()
    assert text is not None, "what could not be read was reported"
    return text


def read_applied_queries(
    place: str, graph_id: str, *, settings: Settings | None = None
) -> tuple[SourceText, ...]:
    """The texts of the stored queries of a graph as they were applied.

    Raises:
        ClusterError: there is no such graph, or a text is not what was applied.
    """
    files = open_files(place, settings)
    found = read_applied(files)
    require_applied(found, graph_id)
    report = ClusterReport()
    texts = read_query_texts(files, found.ledger, graph_id, report)
    report.raise_if_errors()
    return texts


def require_applied(found: ReadLedger, graph_id: str) -> None:
    """Raise unless the ledger has the graph.

    Raises:
        ClusterError: it has not; the message names those it has.
    """
    known = found.ledger.graph_ids
    if graph_id not in known:
        shown = f"applied: {', '.join(known)}" if known else "no graph has been applied yet"
        message = f"there is no graph '{graph_id}'; {shown}"
        raise refuse("graph_not_applied", graph_address(graph_id), message)
