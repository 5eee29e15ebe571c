"""What a server serves of a cluster: what was applied, verified. Reading it takes no lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.cluster.applied_texts import find_policy, read_policy_text, read_query_texts
from omnigraph.cluster.cluster_files import ClusterFiles, ReadLedger
from omnigraph.cluster.cluster_place import open_files, read_applied
from omnigraph.cluster.cluster_report import ClusterReport
from omnigraph.cluster.recovery_sidecars import RecoverySidecar, read_sidecars
from omnigraph.cluster.resource_addresses import (
    CLUSTER_SCOPE,
    ResourceKind,
    find_resource_kind,
    graph_address,
)
from omnigraph.cluster.resource_digests import digest_profile
from omnigraph.cluster.resource_settings import BlobAllowList, EmbeddingProfile
from omnigraph.cluster.state_ledger import StateLedger
from omnigraph.errors import ClusterDiagnostic, Severity
from omnigraph.language.source import SourceText
from omnigraph.settings import Settings

_MOST_READS = 5
"""So often it is read again while an operator is changing it."""


@dataclass(frozen=True, slots=True)
class AppliedGraph:
    """One graph, and what goes with it."""

    id: str
    uri: str
    queries: tuple[SourceText, ...]
    """The files of its stored queries."""
    policy: SourceText | None
    """The bundle that is bound to it."""
    embedding: EmbeddingProfile | None
    external_blobs: BlobAllowList


@dataclass(frozen=True, slots=True)
class ServingSnapshot:
    """A cluster as of one ledger."""

    root: str
    revision: int
    cas: str
    graphs: tuple[AppliedGraph, ...]
    quarantined: Mapping[str, str]
    """Graphs whose interrupted change is not settled, and why."""
    server_policy: SourceText | None
    """The bundle that is bound to the cluster."""
    diagnostics: tuple[ClusterDiagnostic, ...]


def read_serving_snapshot(place: str, *, settings: Settings | None = None) -> ServingSnapshot:
    """What a server serves of the cluster at a folder or storage root.

    Raises:
        ClusterError: nothing was applied, or what was applied is not whole; with every mistake.
    """
    files, report = open_files(place, settings), ClusterReport()
    found, sidecars = _read_at_rest(files, report)
    report.raise_if_errors()
    ledger = found.ledger
    pending = {one.graph_id: one for one in sidecars.values() if one.graph_id in ledger.graph_ids}
    for graph_id, sidecar in sorted(pending.items()):
        report.add("cluster_recovery_pending", graph_address(graph_id), _say_pending(sidecar))
    _require_bindings(ledger, report)
    healthy = [one for one in ledger.graph_ids if one not in pending]
    graphs = tuple(_read_graph(files, ledger, one, report) for one in healthy)
    address = find_policy(ledger, CLUSTER_SCOPE)
    server_policy = None if address is None else read_policy_text(files, ledger, address, report)
    if not ledger.graph_ids:
        report.add("cluster_empty", files.root, "no graph was applied")
    elif not healthy:
        report.add("cluster_no_healthy_graphs", files.root, "every graph waits for a recovery")
    report.raise_if_errors()
    return ServingSnapshot(
        root=files.root,
        revision=ledger.state_revision,
        cas=found.cas,
        graphs=graphs,
        quarantined={graph_id: _say_pending(one) for graph_id, one in sorted(pending.items())},
        server_policy=server_policy,
        diagnostics=tuple(report.found),
    )


def _read_at_rest(
    files: ClusterFiles, report: ClusterReport
) -> tuple[ReadLedger, Mapping[str, RecoverySidecar]]:
    """The ledger and the sidecars that go with it.

    An operator removes sidecars right after the ledger was written; read in between, they would
    keep graphs from being served that are in order.
    """
    before = read_sidecars(files, report, Severity.ERROR)
    for _ in range(_MOST_READS):
        found = read_applied(files)
        after = read_sidecars(files, report, Severity.ERROR)
        if after == before:
            break
        before = after
    return found, after


def _say_pending(sidecar: RecoverySidecar) -> str:
    return (
        f"an interrupted {sidecar.kind} of {sidecar.started_at} is not settled; "
        "run `omnigraph cluster apply`"
    )


def _require_bindings(ledger: StateLedger, report: ClusterReport) -> None:
    for address, record in sorted(ledger.resources.items()):
        if find_resource_kind(address) is ResourceKind.POLICY and not record.applies_to:
            message = "the ledger does not say what the policy is bound to; apply it again"
            report.add("policy_bindings_missing", address, message)


def _read_graph(
    files: ClusterFiles, ledger: StateLedger, graph_id: str, report: ClusterReport
) -> AppliedGraph:
    record = ledger.resources[graph_address(graph_id)]
    policy = find_policy(ledger, graph_address(graph_id))
    return AppliedGraph(
        id=graph_id,
        uri=files.graph_uri(graph_id),
        queries=read_query_texts(files, ledger, graph_id, report),
        policy=None if policy is None else read_policy_text(files, ledger, policy, report),
        embedding=_find_profile(ledger, graph_id, record.embedding_provider, report),
        external_blobs=record.external_blobs,
    )


def _find_profile(
    ledger: StateLedger, graph_id: str, address: str | None, report: ClusterReport
) -> EmbeddingProfile | None:
    if address is None:
        return None
    record = ledger.resources.get(address)
    if record is None:
        message = f"graph '{graph_id}' uses it, and it was not applied"
        report.add("embedding_provider_missing", address, message)
        return None
    profile = record.embedding_profile
    if profile is None:
        message = "the ledger does not say what the provider is; apply it again"
        report.add("embedding_provider_profile_missing", address, message)
        return None
    if digest_profile(profile) != record.digest:
        message = "its record is not what was applied: the ledger was edited by hand"
        report.add("embedding_provider_digest_mismatch", address, message)
    return profile
