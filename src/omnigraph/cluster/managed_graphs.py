"""Graphs that a cluster manages: observe, create, migrate and delete them, and recover.

A change is announced by an intent before its first effect. A graph is never rolled back: an
interrupted change is recorded as made, or its intent is withdrawn. A change that cannot be resolved
keeps its intent, and the graph is left unchanged until it can.
"""

from __future__ import annotations

import msgspec

from omnigraph.cluster.cluster_diagnostics import refuse, refusing
from omnigraph.cluster.cluster_files import (
    ClusterFiles,
    digest_file,
    graph_address,
    make_graph_path,
    schema_address,
)
from omnigraph.cluster.cluster_session import ClusterSession
from omnigraph.cluster.control_records import (
    INTENTS,
    ChangeApproval,
    GraphIntent,
    IntentKind,
    find_approval,
    new_id,
    read_clock,
    remove_intents,
)
from omnigraph.cluster.desired_state import DesiredFile
from omnigraph.cluster.state_ledger import GraphObservation, StatusWord
from omnigraph.errors import ClusterError, OmniError, Severity
from omnigraph.graph.graph import Graph
from omnigraph.graph.graph import init as init_graph
from omnigraph.graph.graph import open as open_graph
from omnigraph.storage.graph_lifecycle import (
    find_active_writer,
    is_unfinished_creation,
    remove_graph,
)

UNATTRIBUTED = "actual_applied_state_pending"
CREATE_INCOMPLETE = "graph_create_incomplete"
"""Conditions of graphs whose interrupted change recovery could not resolve."""


def observe_graph(
    files: ClusterFiles, graph_id: str, *, recovers: bool = False
) -> GraphObservation:
    """Observe a graph root; with `recovers`, interrupted writes are finished or undone first."""
    observed = _make_observation(files, graph_id)
    try:
        if not files.has_root(graph_id):
            return msgspec.structs.replace(observed, exists=False)
        with open_graph(
            observed.graph_uri, read_only=not recovers, settings=files.settings
        ) as graph:
            return _observe_open(observed, graph)
    except OmniError as error:
        return msgspec.structs.replace(observed, error=error.message)


def _make_observation(files: ClusterFiles, graph_id: str) -> GraphObservation:
    return GraphObservation(
        address=graph_address(graph_id),
        graph_uri=files.graph_uri(graph_id),
        observed_at=read_clock(),
        exists=True,
    )


def _observe_open(observed: GraphObservation, graph: Graph) -> GraphObservation:
    """Add the version and the schema of an open graph."""
    return msgspec.structs.replace(
        observed,
        graph_manifest_version=graph.snapshot().graph_manifest_version,
        schema_digest=digest_file(graph.schema.encode()),
    )


# --- changes ---


def create_graph(
    cluster: ClusterSession, graph_id: str, schema: DesiredFile, approval: ChangeApproval | None
) -> None:
    """Create a graph with its schema, or raise a `ClusterError`."""
    files = cluster.files
    schema.require_unchanged(schema_address(graph_id))
    if approval is not None:
        _require_approval(cluster, approval)
    code, address = "graph_create_failed", graph_address(graph_id)
    uri, settings = files.graph_uri(graph_id), files.settings
    with refusing(code, address):
        if files.has_root(graph_id):
            message = f"something is at {uri}, which the ledger does not have"
            raise refuse(code, address, message)
        intent = _announce(
            cluster, IntentKind.GRAPH_CREATE, graph_id, digest=schema.digest, approval=approval
        )
        try:
            with init_graph(uri, schema.source, actor=cluster.actor, settings=settings) as graph:
                _finish(cluster, intent, graph, schema)
        except ClusterError:
            raise
        except OmniError:
            if not observe_graph(files, graph_id).exists:
                remove_intents(files, [intent], cluster.report)
            raise
    _consume(cluster, approval, intent)


def apply_graph_schema(cluster: ClusterSession, graph_id: str, schema: DesiredFile) -> None:
    """Apply a schema to a graph, or raise a `ClusterError`."""
    files, address = cluster.files, schema_address(graph_id)
    schema.require_unchanged(address)
    with refusing("schema_apply_failed", address):
        files.require_root(graph_id)
        before = _make_observation(files, graph_id)
        with open_graph(before.graph_uri, actor=cluster.actor, settings=files.settings) as graph:
            before = _observe_open(before, graph)
            if not graph.apply_schema(schema.source, dry_run=True).steps:
                # At most comments differ: the graph keeps its text.
                _record_schema(cluster, graph_id, schema.digest, schema.name, before)
                return
            version = before.graph_manifest_version
            intent = _announce(cluster, IntentKind.SCHEMA_APPLY, graph_id, version, schema.digest)
            try:
                graph.apply_schema(schema.source, actor=cluster.actor)
            except OmniError:
                if observe_graph(files, graph_id).graph_manifest_version == version:
                    remove_intents(files, [intent], cluster.report)
                raise
            _finish(cluster, intent, graph, schema)


def delete_graph(cluster: ClusterSession, graph_id: str, approval: ChangeApproval) -> None:
    """Delete a graph with everything in it, or raise a `ClusterError`."""
    files, address, path = cluster.files, graph_address(graph_id), make_graph_path(graph_id)
    _require_approval(cluster, approval)
    with refusing("graph_delete_failed", address):
        if files.has_root(graph_id):
            note = find_active_writer(files.graphs, path, files.settings)
            if note is not None:
                message = f"another process is working on the graph ({note}); wait, and apply again"
                raise refuse("graph_delete_export_in_progress", address, message)
        before = observe_graph(files, graph_id).graph_manifest_version
        intent = _announce(cluster, IntentKind.GRAPH_DELETE, graph_id, before, approval=approval)
        remove_graph(files.graphs, path)
    cluster.ledger.record_deletion(graph_id, approval.approval_id, cluster.actor)
    _consume(cluster, approval, intent)
    cluster.finished.append(intent)


def _announce(
    cluster: ClusterSession,
    kind: IntentKind,
    graph_id: str,
    version: int | None = None,
    digest: str | None = None,
    approval: ChangeApproval | None = None,
) -> GraphIntent:
    intent = GraphIntent(
        operation_id=new_id(),
        started_at=read_clock(),
        actor=cluster.actor,
        kind=kind,
        graph_id=graph_id,
        graph_uri=cluster.files.graph_uri(graph_id),
        observed_manifest_version=version,
        desired_schema_digest=digest,
        state_cas_base=None if cluster.base is None else cluster.base.cas,
        approval_id=None if approval is None else approval.approval_id,
    )
    INTENTS.write(cluster.files, intent.path, intent)
    return intent


def _finish(
    cluster: ClusterSession, intent: GraphIntent, graph: Graph, schema: DesiredFile
) -> None:
    """Record the version and the schema that a graph has after its change."""
    after = _observe_open(_make_observation(cluster.files, intent.graph_id), graph)
    version = after.graph_manifest_version
    intent = msgspec.structs.replace(intent, expected_manifest_version=version)
    INTENTS.write(cluster.files, intent.path, intent)
    _record_schema(cluster, intent.graph_id, schema.digest, schema.name, after)
    cluster.finished.append(intent)


def _record_schema(
    cluster: ClusterSession,
    graph_id: str,
    digest: str,
    source: str | None,
    observed: GraphObservation,
) -> None:
    live = observed.schema_digest or digest
    cluster.ledger.record_schema(graph_id, digest, source, live)
    cluster.ledger.observations[observed.address] = observed.compare(live)


def _require_approval(cluster: ClusterSession, approval: ChangeApproval) -> None:
    """Raise unless the approval is still stored and unused, right before its use."""
    if find_approval(cluster.files, approval.approval_id, cluster.report) != approval:
        message = f"the approval {approval.approval_id} is gone, or was used or changed meanwhile"
        raise refuse("apply_approval_invariant_violation", approval.resource, message)


def _consume(cluster: ClusterSession, approval: ChangeApproval | None, intent: GraphIntent) -> None:
    if approval is not None:
        consumed = approval.consume(intent.operation_id)
        cluster.ledger.approval_records[approval.approval_id] = consumed


# --- recovery ---


def recover_changes(cluster: ClusterSession) -> None:
    """Resolve the interrupted changes that can be resolved.

    Without a lock, a change that looks interrupted may be in progress elsewhere; then nothing is
    removed.
    """
    for intent in INTENTS.list_all(cluster.files, cluster.report):
        if _is_resolved(cluster, intent):
            cluster.finished.append(intent)
        else:
            cluster.pending.add(intent.graph_id)


def _is_resolved(cluster: ClusterSession, intent: GraphIntent) -> bool:
    if intent.kind is IntentKind.GRAPH_DELETE:
        return _resolve_deletion(cluster, intent)
    observed = observe_graph(cluster.files, intent.graph_id, recovers=True)
    if observed.is_open:
        return _resolve_schema(cluster, intent, observed)
    if intent.kind is IntentKind.GRAPH_CREATE:
        return not observed.exists or _remove_unfinished(cluster, intent, observed)
    message = f"the graph cannot be opened: {observed.error or 'it is not there'}"
    cluster.report.add("cluster_recovery_pending", observed.address, message)
    return False


def _resolve_schema(
    cluster: ClusterSession, intent: GraphIntent, observed: GraphObservation
) -> bool:
    """Resolve a creation or a migration by the schema of the graph."""
    graph_id, live = intent.graph_id, observed.schema_digest
    recorded = cluster.ledger.resources.get(schema_address(graph_id))
    if recorded is not None and live == recorded.held_digest:
        return True
    desired = cluster.desired.files.get(schema_address(graph_id))
    wanted = {intent.desired_schema_digest, cluster.desired.find_schema_digest(graph_id)}
    if live is None or live not in wanted:
        message = (
            "the graph has a schema that neither the ledger nor the interrupted change knows; "
            "put that schema into the configuration and apply again"
        )
        cluster.ledger.set_status([observed.address], StatusWord.DRIFTED, UNATTRIBUTED, message)
        cluster.report.add("cluster_recovery_unattributed", observed.address, message)
        return False
    source = None if desired is None else desired.name
    _record_schema(cluster, graph_id, live, source, observed)
    _roll_forward(cluster, intent)
    return True


def _remove_unfinished(
    cluster: ClusterSession, intent: GraphIntent, observed: GraphObservation
) -> bool:
    """Remove the files of a creation that never became a graph: nobody can have used them."""
    files, path, reason = cluster.files, make_graph_path(intent.graph_id), observed.error
    try:
        if (
            is_unfinished_creation(files.graphs, path, files.settings)
            and cluster.acquired is not None
        ):
            remove_graph(files.graphs, path)
            return True
    except OmniError as error:
        reason = error.message
    message = (
        f"the interrupted creation left a root that cannot be opened: {reason}; "
        f"remove {observed.graph_uri} and apply again"
    )
    cluster.ledger.set_status([observed.address], StatusWord.ERROR, CREATE_INCOMPLETE, message)
    cluster.report.add("graph_create_incomplete", observed.address, message)
    return False


def _resolve_deletion(cluster: ClusterSession, intent: GraphIntent) -> bool:
    graph_id, address, is_left = intent.graph_id, graph_address(intent.graph_id), None
    files, report = cluster.files, cluster.report
    with report.collect(Severity.WARNING), refusing("cluster_recovery_pending", address):
        has_root = files.has_root(graph_id)
        if not has_root and cluster.acquired is not None:
            # Empty folders may be left.
            remove_graph(files.graphs, make_graph_path(graph_id))
        is_left = has_root
    if is_left is None:
        return False
    if is_left:
        message = "the interrupted deletion left a part of the graph; it is planned again"
        report.add("graph_delete_incomplete", address, message)
    elif address in cluster.ledger.resources:
        cluster.ledger.record_deletion(graph_id, intent.approval_id, intent.actor)
        _roll_forward(cluster, intent)
    return True


def _roll_forward(cluster: ClusterSession, intent: GraphIntent) -> None:
    """Record an interrupted change as made."""
    if intent.approval_id is not None:
        approval = find_approval(cluster.files, intent.approval_id, cluster.report)
        _consume(cluster, approval, intent)
    recovered = msgspec.structs.replace(intent, recovered_at=read_clock())
    cluster.ledger.recovery_records[intent.operation_id] = recovered
    word = "deletion" if intent.kind is IntentKind.GRAPH_DELETE else intent.kind
    message = f"the interrupted {word} had been made; it is recorded now"
    address = graph_address(intent.graph_id)
    cluster.report.add("cluster_recovery_rolled_forward", address, message)
