"""The applied state of a cluster, for commands and servers that only read it. No lock is taken."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from omnigraph.cluster.cluster_config import read_storage_root
from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse, refusing
from omnigraph.cluster.cluster_files import (
    CLUSTER_SCOPE,
    CONFIG_FILE,
    CONTROL_FOLDER,
    ClusterFiles,
    ResourceKind,
    digest_file,
    find_resource_kind,
    graph_address,
    query_address,
)
from omnigraph.cluster.cluster_state import ClusterState, EmbeddingProfile, digest_profile
from omnigraph.cluster.control_records import INTENTS, STATE_PATH, ReadLedger, find_ledger
from omnigraph.errors import BadRequest, ClusterDiagnostic, Severity
from omnigraph.language.source import SourceText
from omnigraph.settings import EmbedProvider, Settings
from omnigraph.storage.objects import normalize_root

_REFERENCE = re.compile(r"\$\{(\w+)\}", re.ASCII)
_MAX_READS = 5
"""Attempts to read the ledger and the intents of one moment while an operator is at work."""


def find_root(path: str) -> str:
    """Return the storage root of a cluster that is named by its folder, or by the root itself.

    Raises:
        ClusterError: there is neither.
    """
    if "://" in path:
        try:
            return normalize_root(path)
        except BadRequest as error:
            raise refuse("storage_root_invalid", path, error.message) from error
    folder = Path(path)
    is_root = (folder / CONTROL_FOLDER).is_dir() and not (folder / CONFIG_FILE).exists()
    return normalize_root(str(folder)) if is_root else read_storage_root(folder)


def open_files(path: str, settings: Settings | None = None) -> ClusterFiles:
    """Open the storage root of a cluster."""
    return ClusterFiles(find_root(path), settings or Settings())


# --- the definitions of one graph ---


def list_applied_graphs(path: str, *, settings: Settings | None = None) -> tuple[str, ...]:
    """List the ids of the applied graphs, sorted."""
    return _StateReader.of(path, settings).state.graph_ids


def find_graph_uri(path: str, graph_id: str, *, settings: Settings | None = None) -> str:
    """Return the root of an applied graph.

    Raises:
        ClusterError: there is no such graph; the message names those there are.
    """
    return find_applied_graph(path, graph_id, settings=settings).uri


def read_applied_policy(
    path: str, *, graph_id: str | None, settings: Settings | None = None
) -> SourceText:
    """Read the policy bundle that is bound to a graph or, without one, to the cluster.

    Raises:
        ClusterError: nothing is bound to it, or what is bound is not what was applied.
    """
    reader = _StateReader.of(path, settings, graph_id)
    scope = CLUSTER_SCOPE if graph_id is None else graph_address(graph_id)
    text = reader.read_policy(scope)
    reader.report.raise_if_errors()
    if text is None:
        raise refuse("policy_bindings_missing", scope, "no policy is bound to it")
    return text


def read_applied_queries(
    path: str, graph_id: str, *, settings: Settings | None = None
) -> tuple[SourceText, ...]:
    """Read the stored queries of a graph as they were applied.

    Raises:
        ClusterError: there is no such graph, or a text is not what was applied.
    """
    reader = _StateReader.of(path, settings, graph_id)
    texts = reader.read_queries(graph_id)
    reader.report.raise_if_errors()
    return texts


@dataclass(frozen=True, slots=True)
class AddressedGraph:
    """The address of an applied graph, and the definitions that its verbs need."""

    cluster: str
    id: str
    uri: str
    embedding: EmbeddingProfile | None = None

    def choose_settings(self, settings: Settings) -> Settings:
        """Return the settings with the embedding profile of the graph."""
        return choose_settings(settings, self.embedding, os.environ, requires_key=False)

    def read_queries(self, settings: Settings | None = None) -> tuple[SourceText, ...]:
        """Read its stored queries."""
        return read_applied_queries(self.cluster, self.id, settings=settings)


def find_applied_graph(
    path: str, graph_id: str, *, settings: Settings | None = None
) -> AddressedGraph:
    """Return a graph of the cluster at a folder or storage root.

    Raises:
        ClusterError: it was not applied; the message names those that were.
    """
    reader = _StateReader.of(path, settings, graph_id)
    uri, profile = reader.files.graph_uri(graph_id), reader.find_profile(graph_id)
    return AddressedGraph(path, graph_id, uri, profile)


def choose_settings(
    settings: Settings,
    profile: EmbeddingProfile | None,
    environment: Mapping[str, str],
    *,
    requires_key: bool = True,
) -> Settings:
    """Return the settings with the provider of a profile instead of that of the environment.

    A key is taken from the variable that the profile names and from no other, for it goes to the
    address of the profile. Without `requires_key` it may be missing until a text is embedded.

    Raises:
        BadRequest: the variable is not set.
    """
    if profile is None:
        return settings
    provider, key = EmbedProvider(profile.kind), None
    if profile.api_key is not None:
        match = _REFERENCE.fullmatch(profile.api_key)
        assert match is not None, "only references are applied"
        key = environment.get(match[1], "").strip() or None
        if key is None and requires_key:
            raise BadRequest(f"{match[1]} is not set; the embedding profile takes its key from it")
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


# --- the definitions of a server ---


@dataclass(frozen=True, slots=True)
class AppliedGraph:
    """An applied graph with its queries, its policy and its embedding profile."""

    id: str
    uri: str
    queries: tuple[SourceText, ...]
    """The files of its stored queries."""
    policy: SourceText | None
    """The policy bundle that is bound to it."""
    embedding: EmbeddingProfile | None


@dataclass(frozen=True, slots=True)
class ServingSnapshot:
    """A cluster at one revision of its ledger."""

    revision: int
    fingerprint: str
    """Changes with the ledger and with the graphs under change."""
    graphs: tuple[AppliedGraph, ...]
    quarantined: Mapping[str, str]
    """Graphs with an unfinished change, with the reason."""
    server_policy: SourceText | None
    """The policy bundle that is bound to the cluster."""
    diagnostics: tuple[ClusterDiagnostic, ...]


def read_serving_snapshot(path: str, *, settings: Settings | None = None) -> ServingSnapshot:
    """Read the definitions that a server serves of the cluster at a folder or storage root.

    Raises:
        ClusterError: nothing was applied, or what was applied is not whole; with every mistake.
    """
    return read_snapshot_of(open_files(path, settings))


def read_snapshot_of(files: ClusterFiles) -> ServingSnapshot:
    """Read the definitions that a server serves from a storage root."""
    found, pending = _read_consistently(files)
    state, report = found.record.applied_revision, ClusterReport()
    for graph_id, message in pending.items():
        report.add("cluster_recovery_pending", graph_address(graph_id), message)
    for address, record in sorted(state.resources.items()):
        if find_resource_kind(address) is ResourceKind.POLICY and not record.applies_to:
            message = "the ledger does not say what the policy is bound to; apply it again"
            report.add("policy_bindings_missing", address, message)
    healthy = [one for one in state.graph_ids if one not in pending]
    reader = _StateReader(files, state, report)
    graphs = tuple(reader.read_graph(one) for one in healthy)
    server_policy = reader.read_policy(CLUSTER_SCOPE)
    if not state.graph_ids:
        report.add("cluster_empty", files.root, "no graph was applied")
    elif not healthy:
        report.add("cluster_no_healthy_graphs", files.root, "every graph waits for a recovery")
    report.raise_if_errors()
    return ServingSnapshot(
        revision=found.record.state_revision,
        fingerprint=_make_fingerprint(found, pending),
        graphs=graphs,
        quarantined=pending,
        server_policy=server_policy,
        diagnostics=tuple(report.found),
    )


def find_fingerprint(files: ClusterFiles) -> str:
    """Return the fingerprint that a snapshot would have now, without reading all of it.

    Raises:
        ClusterError: there is no ledger, or it or an intent cannot be read.
    """
    return _make_fingerprint(*_read_consistently(files))


def _make_fingerprint(found: ReadLedger, pending: Iterable[str]) -> str:
    return " ".join((found.digest, *pending))


# --- reading ---


def _require_ledger(files: ClusterFiles) -> ReadLedger:
    found = find_ledger(files)
    if found is None:
        message = f"{files.root} has no ledger: run `omnigraph cluster apply` first"
        raise refuse("cluster_state_missing", STATE_PATH, message)
    return found


def _read_consistently(files: ClusterFiles) -> tuple[ReadLedger, Mapping[str, str]]:
    """Read the ledger, and the reasons of the graphs under change at the same moment.

    An operator removes intents right after writing the ledger; an intent read before that would
    quarantine a graph whose change is recorded.
    """
    report = ClusterReport()
    before = INTENTS.list_usable(files, report, Severity.ERROR)
    for _ in range(_MAX_READS):
        found = _require_ledger(files)
        after = INTENTS.list_usable(files, report, Severity.ERROR)
        if after == before:
            break
        before = after
    report.raise_if_errors()
    reasons = {one.graph_id: one.describe() for one in after}
    known = found.record.applied_revision.graph_ids
    return found, {one: reasons[one] for one in known if one in reasons}


@dataclass(frozen=True, slots=True)
class _StateReader:
    """Reads an applied state; definitions that are not what was applied are reported."""

    files: ClusterFiles
    state: ClusterState
    report: ClusterReport = field(default_factory=ClusterReport)

    @classmethod
    def of(cls, path: str, settings: Settings | None, graph_id: str | None = None) -> _StateReader:
        """Open the state of a cluster, which must have a graph if one is given."""
        files = open_files(path, settings)
        state = _require_ledger(files).record.applied_revision
        known = state.graph_ids
        if graph_id is not None and graph_id not in known:
            shown = f"applied: {', '.join(known)}" if known else "no graph has been applied yet"
            message = f"there is no graph '{graph_id}'; {shown}"
            raise refuse("graph_not_applied", graph_address(graph_id), message)
        return cls(files, state)

    def read_graph(self, graph_id: str) -> AppliedGraph:
        address = graph_address(graph_id)
        return AppliedGraph(
            id=graph_id,
            uri=self.files.graph_uri(graph_id),
            queries=self.read_queries(graph_id),
            policy=self.read_policy(address),
            embedding=self.find_profile(graph_id),
        )

    def read_policy(self, scope: str) -> SourceText | None:
        """Read the bundle of a scope, named after its resource."""
        address = self.state.find_policy(scope)
        if address is None:
            return None
        name = f"{address.partition('.')[2]}.policy.yaml"
        return self._read_text(address, self.state.resources[address].digest, name)

    def read_queries(self, graph_id: str) -> tuple[SourceText, ...]:
        """Read the query files of a graph, each once, named as in the configuration."""
        found: dict[str, SourceText] = {}
        for name, record in self.state.select_queries(graph_id).items():
            if record.digest not in found:
                shown = record.source or f"{name}.gq"
                text = self._read_text(query_address(graph_id, name), record.digest, shown)
                found |= {} if text is None else {record.digest: text}
        return tuple(found.values())

    def _read_text(self, address: str, digest: str, name: str) -> SourceText | None:
        with self.report.collect():
            data = self.files.find_payload(address, digest)
            advice = "run `omnigraph cluster refresh`"
            if data is None:
                message = f"its text is not in the catalog; {advice} and apply again"
                raise refuse("catalog_payload_missing", address, message)
            if digest_file(data) != digest:
                message = f"its text in the catalog is not what was applied; {advice}"
                raise refuse("catalog_payload_digest_mismatch", address, message)
            with refusing("catalog_payload_read_error", address):
                return SourceText.from_bytes(data, name)
        return None

    def find_profile(self, graph_id: str) -> EmbeddingProfile | None:
        address = self.state.resources[graph_address(graph_id)].embedding_provider
        if address is None:
            return None
        record = self.state.resources.get(address)
        profile = None if record is None else record.embedding_profile
        if record is None:
            message = f"graph '{graph_id}' uses it, and it was not applied"
            self.report.add("embedding_provider_missing", address, message)
        elif profile is None:
            message = "the ledger does not say what the provider is; apply it again"
            self.report.add("embedding_provider_profile_missing", address, message)
        elif digest_profile(profile) != record.digest:
            message = "its record is not what was applied: the ledger was edited by hand"
            self.report.add("embedding_provider_digest_mismatch", address, message)
        return profile
