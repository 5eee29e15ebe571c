"""Diagnostics of clusters: their codes, their severities, and the report that collects them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from omnigraph.errors import (
    ClusterDiagnostic,
    ClusterError,
    CompileError,
    Diagnostic,
    OmniError,
    Severity,
)


class Warn(str):
    """The meaning of a code that is a warning."""

    __slots__ = ()


CONFIG_CODES: Mapping[str, str] = {
    "config_dir_not_found": "There is no such folder, or it has no `cluster.yaml`.",
    "cluster_config_read_error": "`cluster.yaml` cannot be read, or is not UTF-8.",
    "invalid_cluster_yaml": "The text is not YAML, or a key or value is not one of the format.",
    "duplicate_yaml_key": "A key appears twice.",
    "future_phase_field": "A key that is reserved.",
    "removed_streaming_declaration": "`streaming` is not a key of a graph any more.",
    "unsupported_cluster_config_version": "`version` is not 1.",
    "empty_metadata_name": "`metadata.name` is blank.",
    "unsupported_state_backend": "`state.backend` is not `cluster`.",
    "invalid_storage_root": "`storage` is not a path or an address.",
    "storage_root_invalid": "The address given on the command line is not one of a cluster.",
    "invalid_resource_id": "A graph, policy or provider cannot have this name.",
    "schema_file_missing": "The schema file cannot be read.",
    "schema_parse_error": "A syntax error in a schema.",
    "schema_catalog_error": "A schema that contradicts itself.",
    "query_dir_unreadable": "The folder of queries cannot be read.",
    "query_dir_empty": Warn("The folder of queries has no `.gq` file."),
    "query_file_missing": "The query file cannot be read.",
    "query_parse_error": "A syntax error in a query file.",
    "duplicate_query_name": "Two queries of a graph have the same name.",
    "query_key_mismatch": "The keys of `queries` and the queries of the files differ.",
    "query_typecheck_error": "A query does not fit the schema of its graph.",
    "query_typecheck_skipped": Warn("Queries were not checked because the schema has mistakes."),
    "policy_file_missing": "The policy file cannot be read.",
    "policy_invalid": "A mistake in a policy bundle.",
    "policy_missing_applies_to": "A policy is bound to nothing.",
    "policy_mixed_binding_kinds": "A policy is bound to the cluster and to graphs.",
    "duplicate_policy_binding": "Two policies are bound to the same graph, or to the cluster.",
    "dangling_graph_reference": "There is no such graph.",
    "dangling_embedding_provider_reference": "There is no such embedding provider.",
    "wrong_kind_reference": "A reference to a resource of another kind.",
    "invalid_embedding_provider": "An embedding provider that cannot be used as declared.",
    "embedding_api_key_inline": "An API key in the file instead of `${VARIABLE}`.",
    "embedding_api_key_required": "The provider needs `api_key`.",
    "invalid_external_blob_base": "A base of external blobs is not an absolute, plain address.",
    "invalid_external_blob_policy": "Bases of external blobs overlap, or a scope does not fit.",
    "external_blob_ingress_default_deny": Warn("The graph accepts no external blobs."),
}

STATE_CODES: Mapping[str, str] = {
    "state_missing": "There is no ledger but there are graphs; run `cluster import`.",
    "state_already_exists": "There is a ledger already.",
    "state_read_error": "The ledger cannot be read.",
    "state_write_error": "The ledger cannot be written, or it is unknown whether it was.",
    "invalid_state_json": "The ledger is damaged, or was edited by hand.",
    "unsupported_state_version": "The ledger is of another version.",
    "state_cas_mismatch": "Another operator wrote the ledger concurrently; nothing was recorded.",
    "state_lock_held": "Another operator holds the lock.",
    "state_lock_disabled": Warn("`state.lock` is false: only the ledger itself is protected."),
    "state_lock_missing": "There is no lock to remove.",
    "state_lock_id_mismatch": "The lock has another id.",
    "state_lock_error": "The lock cannot be taken or removed.",
    "state_lock_read_error": "The lock cannot be read.",
    "invalid_state_lock": "The lock file is damaged.",
    "unsupported_state_lock_version": "The lock file is of another version.",
    "conflicting_graph_manifest_observation": "A graph is older than when it was last observed.",
}

APPLY_CODES: Mapping[str, str] = {
    "schema_preview_unavailable": Warn("The steps of a schema change cannot be shown."),
    "apply_unsupported_change": Warn("A change that `apply` leaves alone."),
    "apply_dependency_blocked": Warn("A change waits for another one."),
    "apply_approval_invariant_violation": "An approval was removed or used before it was needed.",
    "approval_not_required": "The change needs no approval.",
    "approval_stale": Warn("An approval was given for another state or configuration."),
    "approval_write_error": "The approval cannot be written.",
    "approval_read_error": Warn("An approval cannot be read."),
    "invalid_approval_artifact": Warn("An approval is damaged."),
    "unsupported_approval_version": Warn("An approval is of another version."),
    "graph_create_failed": "A graph could not be created.",
    "graph_create_skipped": Warn("A graph was not created because an earlier change failed."),
    "schema_apply_failed": "A graph could not be given its schema.",
    "schema_apply_skipped": Warn("A schema was not applied because an earlier change failed."),
    "graph_delete_failed": "A graph could not be deleted.",
    "graph_delete_skipped": Warn("A graph was not deleted because an earlier change failed."),
    "graph_delete_export_in_progress": "Another process is working on the graph to be deleted.",
    "resource_content_changed": "A file changed while it was being applied.",
    "resource_payload_write_error": "A query or policy cannot be written to the catalog.",
}

RECOVERY_CODES: Mapping[str, str] = {
    "cluster_recovery_pending": Warn("An interrupted change of a graph is not finished."),
    "cluster_recovery_rolled_forward": Warn(
        "An interrupted change had been made and was recorded."
    ),
    "cluster_recovery_unattributed": "The schema of a graph was changed without an intent.",
    "graph_create_incomplete": "What an interrupted creation left is not a graph.",
    "graph_delete_incomplete": Warn("An interrupted deletion left something."),
    "recovery_sidecar_read_error": Warn("The intent of a change cannot be read."),
    "recovery_sidecar_write_error": "The intent of a change cannot be written.",
    "recovery_sidecar_cleanup_failed": Warn("The intent of a finished change cannot be removed."),
    "invalid_recovery_sidecar": Warn("The intent of a change is damaged."),
    "unsupported_recovery_sidecar_version": Warn("The intent of a change is of another version."),
    "graph_observation_error": "A graph cannot be opened.",
    "catalog_payload_missing": "A query or policy is not in the catalog.",
    "catalog_payload_mismatch": Warn("A query or policy of the catalog is not what was applied."),
    "catalog_payload_read_error": "A query or policy of the catalog cannot be read.",
}

SERVING_CODES: Mapping[str, str] = {
    "cluster_state_missing": "There is no ledger: nothing has been applied yet.",
    "cluster_empty": "The ledger has no graph.",
    "cluster_no_healthy_graphs": "Every graph waits for a recovery.",
    "catalog_payload_digest_mismatch": "A query or policy of the catalog is not what was applied.",
    "policy_bindings_missing": "The ledger does not say what a policy is bound to.",
    "embedding_provider_missing": "A graph uses a provider that the ledger does not have.",
    "embedding_provider_profile_missing": "The ledger does not say what a provider is.",
    "embedding_provider_digest_mismatch": "The record of a provider was edited by hand.",
    "external_blob_policy_digest_mismatch": "The record of a graph was edited by hand.",
    "graph_not_applied": "The ledger has no such graph.",
}

CLUSTER_CODES: Mapping[str, str] = {
    **CONFIG_CODES,
    **STATE_CODES,
    **APPLY_CODES,
    **RECOVERY_CODES,
    **SERVING_CODES,
}

WARNINGS = frozenset(code for code, meaning in CLUSTER_CODES.items() if isinstance(meaning, Warn))
"""Codes of warnings: they do not make a command fail unless they keep it from its result."""


def make_diagnostic(
    code: str, path: str, message: str, severity: Severity | None = None
) -> ClusterDiagnostic:
    """Make a diagnostic; by default with the severity of its code."""
    assert code in CLUSTER_CODES, code
    usual = Severity.WARNING if code in WARNINGS else Severity.ERROR
    return ClusterDiagnostic(code, severity or usual, path, message)


def refuse(code: str, path: str, message: str) -> ClusterError:
    """Make the error of one diagnostic that ends a command."""
    return ClusterError([make_diagnostic(code, path, message, Severity.ERROR)])


@contextmanager
def refusing(code: str, path: str) -> Iterator[None]:
    """Turn errors of storage and of graphs inside a block into a refusal with this code."""
    try:
        yield
    except ClusterError:
        raise
    except OmniError as error:
        raise refuse(code, path, error.message) from error


def locate_mistake(code: str, found: Diagnostic) -> ClusterDiagnostic:
    """Make the diagnostic of a mistake in a text, at its position, as in `library.pg:3:7`."""
    message = f"{found.message}; {found.hint}" if found.hint else found.message
    return make_diagnostic(code, f"{found.source}:{found.line}:{found.column}", message)


@contextmanager
def refusing_text(code: str) -> Iterator[None]:
    """Turn the mistakes of a text that is read inside a block into refusals with this code."""
    try:
        yield
    except CompileError as error:
        raise ClusterError([locate_mistake(code, one) for one in error.diagnostics]) from error


@dataclass
class ClusterReport:
    """Diagnostics in the order of discovery, each once."""

    found: list[ClusterDiagnostic] = field(default_factory=list)

    def add(self, code: str, path: str, message: str, severity: Severity | None = None) -> None:
        self.extend([make_diagnostic(code, path, message, severity)])

    def extend(self, diagnostics: Iterable[ClusterDiagnostic]) -> None:
        self.found += [one for one in dict.fromkeys(diagnostics) if one not in self.found]

    def collect(self, severity: Severity | None = None) -> _Collecting:
        """Report a refusal inside a block, which ends there; by default with its severity."""
        return _Collecting(self, severity)

    @property
    def has_errors(self) -> bool:
        return any(one.is_error for one in self.found)

    def raise_if_errors(self) -> None:
        if self.has_errors:
            raise ClusterError(self.found)


@dataclass(frozen=True, slots=True)
class _Collecting:
    """A block whose refusals are reported."""

    report: ClusterReport
    severity: Severity | None

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, ClusterError):
            return False
        self.report.extend(
            one if self.severity is None else msgspec.structs.replace(one, severity=self.severity)
            for one in error.diagnostics
        )
        return True
