"""Files of a cluster in its storage root: the ledger with its tag, and verified applied texts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.resources import (
    CONTROL_FOLDER,
    GRAPH_SUFFIX,
    GRAPHS_FOLDER,
    STATE_FILE,
    ResourceKind,
    digest_file,
    find_resource_kind,
    make_graph_path,
    make_payload_path,
    query_address,
    show_control_path,
)
from omnigraph.cluster.state_ledger import StateLedger, decode_ledger, encode_ledger
from omnigraph.errors import CompileError, NotFoundError, Severity, StorageError
from omnigraph.language.source import SourceText
from omnigraph.settings import Settings
from omnigraph.storage.control_files import ControlFiles, open_control_files


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """A ledger as it was read: its content, and the tag by which it is replaced."""

    ledger: StateLedger
    tag: str
    cas: str
    """`sha256:…` of the bytes."""


@dataclass(frozen=True)
class ClusterFiles:
    """One storage root."""

    root: str
    settings: Settings

    @cached_property
    def control(self) -> ControlFiles:
        """What is below `__cluster`."""
        return open_control_files(f"{self.root}/{CONTROL_FOLDER}", self.settings)

    @cached_property
    def graphs(self) -> ControlFiles:
        """The root itself, below which the graphs are."""
        return open_control_files(self.root, self.settings)

    def graph_uri(self, graph_id: str) -> str:
        return self.graphs.uri_of(make_graph_path(graph_id))

    def has_root(self, graph_id: str) -> bool:
        """Whether there is anything at the root of a graph."""
        return self.graphs.exists(make_graph_path(graph_id))

    def require_root(self, graph_id: str) -> None:
        """Raise unless there is something at the root of a graph.

        Raises:
            NotFoundError: there is nothing.
        """
        if not self.has_root(graph_id):
            raise NotFoundError(
                f"there is nothing at {self.graph_uri(graph_id)}; run `omnigraph cluster refresh`"
            )

    def list_roots(self) -> list[str]:
        """The names of all graphs below the root, whether the ledger knows them or not."""
        names = self.graphs.list_prefixes(GRAPHS_FOLDER)
        return [n.removesuffix(GRAPH_SUFFIX) for n in names if n.endswith(GRAPH_SUFFIX)]

    # --- the ledger ---

    def find_ledger(self) -> ReadLedger | None:
        """The ledger, if there is one.

        Raises:
            ClusterError: it cannot be read, or is not what was written.
        """
        try:
            found = self.control.find_versioned(STATE_FILE)
        except StorageError as error:
            place = show_control_path(STATE_FILE)
            raise refuse("state_read_error", place, error.message) from error
        if found is None:
            return None
        cas = f"sha256:{hashlib.sha256(found.data).hexdigest()}"
        return ReadLedger(decode_ledger(found.data), found.tag, cas)

    def write_ledger(self, ledger: StateLedger, over: ReadLedger | None) -> ReadLedger:
        """Make this the ledger, in place of the one that was read.

        Raises:
            ClusterError: there is another one by now, or it cannot be written.
        """
        place, data = show_control_path(STATE_FILE), encode_ledger(ledger)
        try:
            if over is None:
                is_written = self.control.put_if_absent(STATE_FILE, data)
            else:
                is_written = self.control.put_if_match(STATE_FILE, data, over.tag)
        except StorageError as error:
            raise refuse("state_write_error", place, error.message) from error
        if not is_written:
            message = "another operator wrote the ledger meanwhile; nothing was recorded, try again"
            raise refuse("state_cas_mismatch", place, message)
        written = self.find_ledger()
        if written is None:
            raise refuse(
                "state_write_error", place, "the ledger is gone right after it was written"
            )
        return written

    # --- the catalog ---

    def find_payload(self, address: str, digest: str) -> bytes | None:
        """The text of a query or policy as it was applied, unverified.

        Raises:
            StorageError: it cannot be read.
        """
        return self.control.find(make_payload_path(address, digest))

    def write_payload(self, address: str, data: bytes) -> None:
        """Keep the text of a query or policy; one that is there and sound stays as it is.

        Raises:
            StorageError: it cannot be written.
        """
        path = make_payload_path(address, digest_file(data))
        if self.control.find(path) != data:
            self.control.put(path, data)


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


def list_payloads(ledger: StateLedger) -> list[tuple[str, str]]:
    """The texts that the catalog should have, by address and digest."""
    kinds = (ResourceKind.QUERY, ResourceKind.POLICY)
    return [
        (address, record.digest)
        for address, record in sorted(ledger.resources.items())
        if find_resource_kind(address) in kinds
    ]


def check_payload(
    files: ClusterFiles, address: str, digest: str, report: ClusterReport
) -> str | None:
    """The code of what is wrong with a text of the catalog, reported; None if nothing is."""
    try:
        data = files.find_payload(address, digest)
    except StorageError as error:
        report.add("catalog_payload_read_error", address, error.message)
        return "catalog_payload_read_error"
    if data is None:
        code, message = "catalog_payload_missing", "its text is not in the catalog"
    elif digest_file(data) != digest:
        code, message = "catalog_payload_mismatch", "its text in the catalog was changed"
    else:
        return None
    report.add(code, address, f"{message}; the next apply writes it again", Severity.WARNING)
    return code
