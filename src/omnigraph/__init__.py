"""A versioned lakehouse graph database: typed property graphs on Lance tables.

    import omnigraph

    graph = omnigraph.init("music.omni", schema)
    graph.load("music.jsonl", "append")
    graph.mutate('query add() { insert Artist { slug: "ada", name: "Ada Voss" } }')

The names below are the public ones. They are loaded when first used, because the command line
must be able to print its help without loading Arrow and Lance.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    from omnigraph import aio, errors
    from omnigraph.client.served_graph import ServedGraph, connect
    from omnigraph.graph.blobs import Blob
    from omnigraph.graph.embedding import embed
    from omnigraph.graph.graph import Branch, Graph, GraphView, clone, init, open, quarantine
    from omnigraph.graph.queries import QueryResult
    from omnigraph.history.change_feed import Baseline
    from omnigraph.history.diff import Diff
    from omnigraph.interchange.import_files import (
        ImportResult,
        import_files,
        import_networkx,
        infer_schema,
    )
    from omnigraph.interchange.schema_proposal import SchemaProposal
    from omnigraph.maintenance.autopilot import MaintainResult
    from omnigraph.maintenance.maintenance_results import (
        CleanupResult,
        OptimizeResult,
        RepairResult,
        VerifyResult,
    )
    from omnigraph.settings import Settings
    from omnigraph.storage.clone_graph import CloneResult
    from omnigraph.wire.change_results import CommitChanges, EntityHistory, FeedPage
    from omnigraph.wire.merge_results import ApplyResult, MergeResult
    from omnigraph.wire.read_results import BlobStat, SnapshotInfo
    from omnigraph.wire.write_results import LoadResult, MutationResult

_LAZY = {
    "ApplyResult": "omnigraph.wire.merge_results",
    "Baseline": "omnigraph.history.change_feed",
    "Blob": "omnigraph.graph.blobs",
    "BlobStat": "omnigraph.wire.read_results",
    "Branch": "omnigraph.graph.graph",
    "CleanupResult": "omnigraph.maintenance.maintenance_results",
    "CloneResult": "omnigraph.storage.clone_graph",
    "CommitChanges": "omnigraph.wire.change_results",
    "Diff": "omnigraph.history.diff",
    "EntityHistory": "omnigraph.wire.change_results",
    "FeedPage": "omnigraph.wire.change_results",
    "Graph": "omnigraph.graph.graph",
    "GraphView": "omnigraph.graph.graph",
    "ImportResult": "omnigraph.interchange.import_files",
    "LoadResult": "omnigraph.wire.write_results",
    "MaintainResult": "omnigraph.maintenance.autopilot",
    "MergeResult": "omnigraph.wire.merge_results",
    "MutationResult": "omnigraph.wire.write_results",
    "OptimizeResult": "omnigraph.maintenance.maintenance_results",
    "QueryResult": "omnigraph.graph.queries",
    "RepairResult": "omnigraph.maintenance.maintenance_results",
    "SchemaProposal": "omnigraph.interchange.schema_proposal",
    "ServedGraph": "omnigraph.client.served_graph",
    "Settings": "omnigraph.settings",
    "SnapshotInfo": "omnigraph.wire.read_results",
    "VerifyResult": "omnigraph.maintenance.maintenance_results",
    "clone": "omnigraph.graph.graph",
    "connect": "omnigraph.client.served_graph",
    "embed": "omnigraph.graph.embedding",
    "import_files": "omnigraph.interchange.import_files",
    "import_networkx": "omnigraph.interchange.import_files",
    "infer_schema": "omnigraph.interchange.import_files",
    "init": "omnigraph.graph.graph",
    "open": "omnigraph.graph.graph",
    "quarantine": "omnigraph.graph.graph",
}

__all__ = [
    "INTERNAL_SCHEMA_VERSION",
    "ApplyResult",
    "Baseline",
    "Blob",
    "BlobStat",
    "Branch",
    "CleanupResult",
    "CloneResult",
    "CommitChanges",
    "Diff",
    "EntityHistory",
    "FeedPage",
    "Graph",
    "GraphView",
    "ImportResult",
    "LoadResult",
    "MaintainResult",
    "MergeResult",
    "MutationResult",
    "OptimizeResult",
    "QueryResult",
    "RepairResult",
    "SchemaProposal",
    "ServedGraph",
    "Settings",
    "SnapshotInfo",
    "VerifyResult",
    "__version__",
    "aio",
    "clone",
    "connect",
    "embed",
    "errors",
    "import_files",
    "import_networkx",
    "infer_schema",
    "init",
    "open",
    "quarantine",
]


def __getattr__(name: str) -> object:
    if name in ("aio", "errors"):
        return import_module(f"omnigraph.{name}")
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'omnigraph' has no attribute '{name}'")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
