"""The texts of stored queries and policies as they were applied, verified by their digests."""

from __future__ import annotations

from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_report import ClusterReport
from omnigraph.cluster.resource_addresses import (
    ResourceKind,
    find_resource_kind,
    query_address,
)
from omnigraph.cluster.resource_digests import digest_file
from omnigraph.cluster.state_ledger import StateLedger
from omnigraph.errors import CompileError, StorageError
from omnigraph.language.source import SourceText


def find_policy(ledger: StateLedger, scope: str) -> str | None:
    """The address of the policy that is bound to a graph or to the cluster, if one is."""
    for address, record in sorted(ledger.resources.items()):
        is_policy = find_resource_kind(address) is ResourceKind.POLICY
        if is_policy and scope in (record.applies_to or ()):
            return address
    return None


def read_policy_text(
    files: ClusterFiles, ledger: StateLedger, address: str, report: ClusterReport
) -> SourceText | None:
    """The bundle, named after the resource; None if that is reported as wrong."""
    name = f"{address.partition('.')[2]}.policy.yaml"
    return _read_text(files, address, ledger.resources[address].digest, name, report)


def read_query_texts(
    files: ClusterFiles, ledger: StateLedger, graph_id: str, report: ClusterReport
) -> tuple[SourceText, ...]:
    """The files of queries of a graph, each once, named as they were in the configuration."""
    found: dict[str, SourceText] = {}
    for name, record in ledger.select_queries(graph_id).items():
        if record.digest in found:
            continue
        shown = record.source or f"{name}.gq"
        address = query_address(graph_id, name)
        text = _read_text(files, address, record.digest, shown, report)
        if text is not None:
            found[record.digest] = text
    return tuple(found.values())


def _read_text(
    files: ClusterFiles, address: str, digest: str, name: str, report: ClusterReport
) -> SourceText | None:
    try:
        data = files.find_payload(address, digest)
    except StorageError as error:
        report.add("catalog_payload_read_error", address, error.message)
        return None
    if data is None:
        message = "its text is not in the catalog; run `omnigraph cluster refresh` and apply again"
        report.add("catalog_payload_missing", address, message)
        return None
    if digest_file(data) != digest:
        message = "its text in the catalog is not what was applied; run `omnigraph cluster refresh`"
        report.add("catalog_payload_digest_mismatch", address, message)
        return None
    try:
        return SourceText.from_bytes(data, name)
    except CompileError as error:
        report.add("catalog_payload_read_error", address, error.message)
        return None
