"""What a cluster has applied, for commands and servers that only read it. No lock is taken."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.cluster.cluster_config import read_storage_root
from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.cluster_files import (
    ClusterFiles,
    ReadLedger,
    find_policy,
    read_policy_text,
    read_query_texts,
)
from omnigraph.cluster.control_records import RecoverySidecar, read_sidecars
from omnigraph.cluster.resources import (
    CLUSTER_SCOPE,
    CONFIG_FILE,
    CONTROL_FOLDER,
    STATE_FILE,
    BlobAllowList,
    EmbeddingProfile,
    ResourceKind,
    digest_profile,
    find_resource_kind,
    graph_address,
    show_control_path,
)
from omnigraph.cluster.state_ledger import StateLedger
from omnigraph.errors import BadRequest, ClusterDiagnostic, Severity
from omnigraph.language.source import SourceText
from omnigraph.settings import EmbedProvider, Settings
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


_REFERENCE = re.compile(r"\$\{(\w+)\}", re.ASCII)


def choose_settings(
    settings: Settings,
    profile: EmbeddingProfile | None,
    environment: Mapping[str, str],
    *,
    requires_key: bool = True,
) -> Settings:
    """The same settings with the provider of a profile instead of that of the environment.

    A key is taken from the variable that the profile names and from no other, for it goes to the
    address of the profile. Without `requires_key` it may be missing until a text is embedded.

    Raises:
        BadRequest: the variable is not set.
    """
    if profile is None:
        return settings
    provider = EmbedProvider(profile.kind)
    key = None
    if profile.api_key is not None:
        key = _find_key(profile.api_key, environment, is_required=requires_key)
    embed = replace(
        settings.embed,
        provider=provider,
        base_url=profile.base_url,
        model=profile.model,
        openrouter_api_key=key if provider is EmbedProvider.OPENAI_COMPATIBLE else None,
        openai_api_key=key if provider is EmbedProvider.OPENAI else None,
        gemini_api_key=key if provider is EmbedProvider.GEMINI else None,
    )
    return replace(settings, embed=embed)


def _find_key(reference: str, environment: Mapping[str, str], *, is_required: bool) -> str | None:
    match = _REFERENCE.fullmatch(reference)
    assert match is not None, "a profile with another key is not applied"
    key = environment.get(match[1], "").strip() or None
    if key is None and is_required:
        raise BadRequest(f"{match[1]} is not set; the embedding profile takes its key from it")
    return key


@dataclass(frozen=True, slots=True)
class AddressedGraph:
    """Where a graph is, and what was applied that its verbs need."""

    place: str
    id: str
    uri: str
    embedding: EmbeddingProfile | None = None

    def choose_settings(self, settings: Settings) -> Settings:
        """The same settings with the embedding profile of the graph."""
        return choose_settings(settings, self.embedding, os.environ, requires_key=False)

    def read_queries(self, settings: Settings | None = None) -> tuple[SourceText, ...]:
        """The texts of its stored queries.

        Raises:
            ClusterError: one of them is not what was applied.
        """
        return read_applied_queries(self.place, self.id, settings=settings)


def find_applied_graph(
    place: str, graph_id: str, *, settings: Settings | None = None
) -> AddressedGraph:
    """A graph of the cluster at a folder or storage root.

    Raises:
        ClusterError: it was not applied; the message names those that were.
    """
    files = open_files(place, settings)
    found = read_applied(files)
    require_applied(found, graph_id)
    resources = found.ledger.resources
    provider = resources.get(resources[graph_address(graph_id)].embedding_provider or "")
    profile = None if provider is None else provider.embedding_profile
    return AddressedGraph(place, graph_id, files.graph_uri(graph_id), profile)


_MAX_READS = 5
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
    return read_snapshot_of(open_files(place, settings))


def read_snapshot_of(files: ClusterFiles) -> ServingSnapshot:
    """The same for a cluster whose storage root is known."""
    report = ClusterReport()
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
    for _ in range(_MAX_READS):
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


def fingerprint_snapshot(snapshot: ServingSnapshot) -> str:
    """A text that differs where the ledger, or the graphs under change, differ."""
    return _make_mark(snapshot.cas, snapshot.quarantined)


def find_fingerprint(files: ClusterFiles) -> str:
    """The mark of the snapshot that would be read now.

    Raises:
        ClusterError: there is no ledger, or it or a sidecar cannot be used.
    """
    found, report = read_applied(files), ClusterReport()
    sidecars = read_sidecars(files, report, Severity.ERROR)
    report.raise_if_errors()
    known = found.ledger.graph_ids
    return _make_mark(found.cas, {one.graph_id for one in sidecars.values()}.intersection(known))


def _make_mark(cas: str, pending: Iterable[str]) -> str:
    return " ".join((cas, *sorted(pending)))
