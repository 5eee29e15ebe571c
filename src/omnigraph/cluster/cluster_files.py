"""Resources of a cluster by address, its files in the storage root, and the sealed ones of those.

    __cluster/state.json                                  the ledger
    __cluster/lock.json                                   the lock of the operator at work
    __cluster/resources/query/<graph>/<name>/<digest>.gq  applied queries
    __cluster/resources/policy/<name>/<digest>.yaml       applied policies
    __cluster/recoveries/<id>.json                        intents of unfinished changes of graphs
    __cluster/approvals/<id>.json                         approvals
    graphs/<id>.omni                                      the graphs

Control files have a folder of their own, so that what is locked is not the folder in git. Those of
JSON are sealed records of storage: `ControlRecords` gives their problems the codes of a cluster.
"""

from __future__ import annotations

import hashlib
import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from omnigraph.cluster.cluster_diagnostics import (
    ClusterReport,
    make_diagnostic,
    refuse,
    refusing,
)
from omnigraph.errors import ClusterDiagnostic, ClusterError, NotFoundError, Severity
from omnigraph.settings import Settings
from omnigraph.storage.layout import find_name
from omnigraph.storage.objects import ObjectStore, normalize_root, open_store
from omnigraph.storage.sealed_records import (
    DamagedRecord,
    NewerRecord,
    RecordKind,
    StoredRecord,
)
from omnigraph.wire.http_protocol import check_graph_id, is_graph_id

CONFIG_FILE = "cluster.yaml"
CONTROL_FOLDER = "__cluster"
GRAPHS_FOLDER = "graphs"
GRAPH_SUFFIX = ".omni"

STATE_FILE = "state.json"
LOCK_FILE = "lock.json"
RECOVERIES = "recoveries"
APPROVALS_FOLDER = "approvals"
_MANAGED = re.compile(f"(?P<root>.+)/{GRAPHS_FOLDER}/[^/]+{re.escape(GRAPH_SUFFIX)}")

RESOURCE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
CLUSTER_SCOPE = "cluster"
"""The scope of a policy that decides about the server itself."""


class ResourceKind(StrEnum):
    GRAPH = "graph"
    SCHEMA = "schema"
    QUERY = "query"
    POLICY = "policy"
    PROVIDER = "provider"


def graph_address(graph_id: str) -> str:
    return f"{ResourceKind.GRAPH}.{graph_id}"


def schema_address(graph_id: str) -> str:
    return f"{ResourceKind.SCHEMA}.{graph_id}"


def query_address(graph_id: str, name: str) -> str:
    return f"{ResourceKind.QUERY}.{graph_id}.{name}"


def policy_address(name: str) -> str:
    return f"{ResourceKind.POLICY}.{name}"


def provider_address(name: str) -> str:
    return f"{ResourceKind.PROVIDER}.embedding.{name}"


def find_resource_kind(address: str) -> ResourceKind:
    """Return the kind of a resource from its address, which is valid."""
    return ResourceKind(address.partition(".")[0])


def find_graph_id(address: str) -> str | None:
    """Return the graph of a graph, schema or query; None for policies and providers.

    >>> find_graph_id("query.library.overdue"), find_graph_id("policy.readers")
    ('library', None)
    """
    kind, graph_id, *_ = address.split(".")
    return graph_id if kind in ("graph", "schema", "query") else None


def is_resource_address(text: str) -> bool:
    """Return whether a text is a valid address of a resource."""
    match text.split("."):
        case ["graph" | "schema", graph_id]:
            return is_graph_id(graph_id)
        case ["query", graph_id, name]:
            return is_graph_id(graph_id) and bool(RESOURCE_NAME.fullmatch(name))
        case ["policy", name] | ["provider", "embedding", name]:
            return bool(RESOURCE_NAME.fullmatch(name))
        case _:
            return False


def make_graph_path(graph_id: str) -> str:
    """Return the path of a graph; its id is validated, because the path may be deleted.

    >>> make_graph_path("library")
    'graphs/library.omni'
    """
    return f"{GRAPHS_FOLDER}/{check_graph_id(graph_id)}{GRAPH_SUFFIX}"


def make_payload_path(address: str, digest: str) -> str:
    """Return the path of an applied query or policy.

    >>> make_payload_path("query.library.overdue", "ab12")
    'resources/query/library/overdue/ab12.gq'
    """
    kind, _, rest = address.partition(".")
    suffix = {"query": ".gq", "policy": ".yaml"}[kind]
    return f"resources/{kind}/{rest.replace('.', '/')}/{digest}{suffix}"


def show_control_path(path: str) -> str:
    """Return a control file's path as messages name it.

    >>> show_control_path(STATE_FILE)
    '__cluster/state.json'
    """
    return f"{CONTROL_FOLDER}/{path}"


def digest_file(data: bytes) -> str:
    """Return the digest of a file, without its byte order mark."""
    return hashlib.sha256(data.removeprefix(BOM_UTF8)).hexdigest()


@dataclass(frozen=True)
class ClusterFiles:
    """The storage root of a cluster."""

    root: str
    settings: Settings

    @cached_property
    def control(self) -> ObjectStore:
        """The control files, below `__cluster`."""
        return open_store(f"{self.root}/{CONTROL_FOLDER}", self.settings)

    @cached_property
    def graphs(self) -> ObjectStore:
        """The root itself, below which the graphs are."""
        return open_store(self.root, self.settings)

    def graph_uri(self, graph_id: str) -> str:
        return self.graphs.uri_of(make_graph_path(graph_id))

    def has_root(self, graph_id: str) -> bool:
        """Return whether there is anything at the root of a graph."""
        return self.graphs.exists(make_graph_path(graph_id))

    def require_root(self, graph_id: str) -> None:
        """Raise unless there is something at the root of a graph."""
        if not self.has_root(graph_id):
            raise NotFoundError(
                f"there is nothing at {self.graph_uri(graph_id)}; run `omnigraph cluster refresh`"
            )

    def list_roots(self) -> list[str]:
        """List the names of all graphs below the root, recorded in the ledger or not."""
        names = self.graphs.list_prefixes(GRAPHS_FOLDER)
        return [n.removesuffix(GRAPH_SUFFIX) for n in names if n.endswith(GRAPH_SUFFIX)]

    def find_payload(self, address: str, digest: str) -> bytes | None:
        """Return an applied query or policy from the catalog, unverified."""
        with refusing("catalog_payload_read_error", address):
            return self.control.find(make_payload_path(address, digest))

    def write_payload(self, address: str, data: bytes) -> None:
        """Store a query or policy in the catalog, unless it is there already."""
        path = make_payload_path(address, digest_file(data))
        with refusing("resource_payload_write_error", address):
            if self.control.find(path) != data:
                self.control.put(path, data)

    def find_payload_problem(self, address: str, digest: str) -> ClusterDiagnostic | None:
        """Verify a query or policy of the catalog."""
        try:
            data = self.find_payload(address, digest)
        except ClusterError as error:
            return error.diagnostics[0]
        code, problem = "catalog_payload_missing", "its text is not in the catalog"
        if data is not None:
            code, problem = "catalog_payload_mismatch", "its text in the catalog was changed"
            if digest_file(data) == digest:
                return None
        message = f"{problem}; the next apply writes it again"
        return make_diagnostic(code, address, message, Severity.WARNING)


def find_managing_root(uri: str, settings: Settings | None = None) -> str | None:
    """Return the storage root of the cluster that manages the graph at an address; None if none.

    Raises:
        BadRequest: the address is not one of a folder or of a bucket.
        StorageError: the storage cannot be read.
    """
    match = _MANAGED.fullmatch(normalize_root(uri))
    if match is None:
        return None
    control = open_store(f"{match['root']}/{CONTROL_FOLDER}", settings)
    return match["root"] if control.exists(STATE_FILE) else None


# --- control records ---

Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class ControlRecords(RecordKind[Record]):
    """A kind of sealed record in the control folder, with the codes of its problems."""

    unreadable: str
    unsupported: str
    invalid: str
    unwritable: str
    advice: str = ""
    unsealed: str | None = None
    """The message for a checksum that is wrong or missing, if it is not the usual one."""

    def show_path(self, name: str = "") -> str:
        """Return the path of a record as messages name it."""
        return show_control_path(self.path(name))

    def encode(self, record: Record) -> bytes:
        return super().encode(record) + b"\n"

    def decode(self, data: bytes, name: str = "") -> Record:
        try:
            return super().decode(data, name)
        except NewerRecord as error:
            kind = self.what.partition(" ")[2]
            message = f"the {kind} has version {error.version}; this release reads {self.version}"
            raise refuse(self.unsupported, self.show_path(name), message) from error
        except DamagedRecord as error:
            message = self.unsealed if self.unsealed and error.is_altered else error.reason
            raise refuse(self.invalid, self.show_path(name), message) from error

    def find(self, store: ObjectStore, name: str = "") -> Record | None:
        with refusing(self.unreadable, self.show_path(name)):
            return super().find(store, name)

    def find_stored(self, store: ObjectStore, name: str = "") -> StoredRecord[Record] | None:
        with refusing(self.unreadable, self.show_path(name)):
            return super().find_stored(store, name)

    def swap(self, store: ObjectStore, record: Record, over: StoredRecord[Record] | None) -> bool:
        with refusing(self.unwritable, show_control_path(self.path_of(record))):
            return super().swap(store, record, over)

    def put(self, store: ObjectStore, record: Record) -> None:
        with refusing(self.unwritable, show_control_path(self.path_of(record))):
            super().put(store, record)

    def list_usable(
        self, files: ClusterFiles, report: ClusterReport, severity: Severity = Severity.WARNING
    ) -> list[Record]:
        """List the records by name; unusable ones are reported."""
        listed = list[str]()
        with report.collect(severity), refusing(self.unreadable, show_control_path(self.base_path)):
            listed = [one for one in files.control.list(self.base_path) if one.endswith(".json")]
        found = list[Record | None]()
        for file in sorted(listed):
            with report.collect(severity):
                found.append(self._find_listed(files.control, file))
        return [one for one in found if one is not None]

    def _find_listed(self, store: ObjectStore, file: str) -> Record | None:
        name = find_name(file)
        if name is None:
            path = show_control_path(f"{self.base_path}/{file}")
            raise refuse(self.invalid, path, f"not {self.what}: no record has such a name")
        return self.find(store, name)
