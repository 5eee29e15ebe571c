"""Graphs, policies, stored queries and embedding profiles as they were applied to a cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_place import open_files
from omnigraph.cluster.profile_settings import choose_settings
from omnigraph.cluster.serving_mark import find_serving_mark, mark_snapshot
from omnigraph.cluster.serving_snapshot import AppliedGraph, read_snapshot_of
from omnigraph.language.source import SourceText
from omnigraph.policy import BundleKind, Policy, parse_bundle
from omnigraph.server.serving_source import GraphDefinition, ServingDefinitions
from omnigraph.settings import Settings
from omnigraph.stored_queries import parse_registry


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """What is applied to a cluster.

    It is read without any lock: texts are named by their digest, so that what the ledger says at
    one moment can be read as a whole.
    """

    files: ClusterFiles

    @classmethod
    def at(cls, place: str, settings: Settings) -> ClusterSource:
        """The cluster of a folder with a `cluster.yaml`, or of a storage root.

        The root is looked for once: whoever works on the files of the folder later does not
        concern a server.

        Raises:
            ClusterError: there is neither.
        """
        return cls(open_files(place, settings))

    @property
    def address(self) -> str:
        """The storage root, written so that no `cluster.yaml` in its folder is looked at."""
        root = self.files.root
        return root if "://" in root else Path(root).as_uri()

    @property
    def is_cluster(self) -> bool:
        return True

    def read(self) -> ServingDefinitions:
        found = read_snapshot_of(self.files)
        return ServingDefinitions(
            tuple(_define_graph(one) for one in found.graphs),
            found.server_policy is not None or any(one.policy for one in found.graphs),
            partial(_parse_policy, found.server_policy, BundleKind.CLUSTER),
            found.quarantined,
            found.revision,
            mark_snapshot(found),
        )

    def find_mark(self) -> str:
        return find_serving_mark(self.files)


def _define_graph(one: AppliedGraph) -> GraphDefinition:
    return GraphDefinition(
        one.id,
        one.uri,
        partial(_parse_policy, one.policy, BundleKind.GRAPH),
        partial(parse_registry, one.queries),
        partial(choose_settings, profile=one.embedding, environment=os.environ),
    )


def _parse_policy(source: SourceText | None, kind: BundleKind) -> Policy | None:
    return None if source is None else parse_bundle(source, kind)
