"""Files of a cluster in its storage root: control records, the catalog, and roots of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse, refusing
from omnigraph.cluster.resources import (
    CONTROL_FOLDER,
    GRAPH_SUFFIX,
    GRAPHS_FOLDER,
    digest_file,
    make_graph_path,
    make_payload_path,
    show_control_path,
)
from omnigraph.errors import NotFoundError, Severity
from omnigraph.settings import Settings
from omnigraph.storage.control_files import ControlFiles, open_control_files
from omnigraph.storage.sealed_records import SEAL, is_sealed, seal
from omnigraph.typed_reading import convert_into
from omnigraph.types.json_value import parse_json
from omnigraph.types.row_problems import ValueRefused

FORMAT = 1
"""The format of every control record."""
_JSON = ".json"


@dataclass(frozen=True)
class ClusterFiles:
    """The storage root of a cluster."""

    root: str
    settings: Settings

    @cached_property
    def control(self) -> ControlFiles:
        """The control files, below `__cluster`."""
        return open_control_files(f"{self.root}/{CONTROL_FOLDER}", self.settings)

    @cached_property
    def graphs(self) -> ControlFiles:
        """The root itself, below which the graphs are."""
        return open_control_files(self.root, self.settings)

    def graph_uri(self, graph_id: str) -> str:
        return self.graphs.uri_of(make_graph_path(graph_id))

    def has_root(self, graph_id: str) -> bool:
        """Return whether there is anything at the root of a graph."""
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
        """List the names of all graphs below the root, recorded in the ledger or not."""
        names = self.graphs.list_prefixes(GRAPHS_FOLDER)
        return [n.removesuffix(GRAPH_SUFFIX) for n in names if n.endswith(GRAPH_SUFFIX)]

    def find_payload(self, address: str, digest: str) -> bytes | None:
        """Return an applied query or policy from the catalog, unverified.

        Raises:
            ClusterError: it cannot be read.
        """
        with refusing("catalog_payload_read_error", address):
            return self.control.find(make_payload_path(address, digest))

    def write_payload(self, address: str, data: bytes) -> None:
        """Store a query or policy in the catalog, unless it is there already.

        Raises:
            ClusterError: it cannot be written.
        """
        path = make_payload_path(address, digest_file(data))
        with refusing("resource_payload_write_error", address):
            if self.control.find(path) != data:
                self.control.put(path, data)

    def check_payload(self, address: str, digest: str, report: ClusterReport) -> str | None:
        """Verify a text of the catalog; return the code of its problem, which is reported."""
        problems = ClusterReport()
        with problems.collect():
            data = self.find_payload(address, digest)
            if data is None:
                message = "its text is not in the catalog; the next apply writes it again"
                problems.add("catalog_payload_missing", address, message, Severity.WARNING)
            elif digest_file(data) != digest:
                message = "its text in the catalog was changed; the next apply writes it again"
                problems.add("catalog_payload_mismatch", address, message)
        report.extend(problems.found)
        return problems.found[0].code if problems.found else None


Record = TypeVar("Record", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[Record]):
    """A kind of control record: a sealed JSON document, with the codes of its problems."""

    what: str
    """Its name with an article, for messages."""
    type: type[Record]
    unreadable: str
    unsupported: str
    invalid: str
    unwritable: str
    version: str = "schema_version"
    """The member with the format."""
    find_problem: Callable[[Record, str], str | None] = lambda _record, _path: None
    """Return the reason why the members of the record at a path do not fit together."""
    advice: str = ""

    def encode(self, record: Record) -> bytes:
        return format_document(seal(msgspec.to_builtins(record)))

    def decode(self, data: bytes, path: str) -> Record:
        """Return the record in a file.

        Raises:
            ClusterError: it is damaged, or of another format.
        """
        try:
            body = parse_json(data)
            version = body.get(self.version) if isinstance(body, dict) else None
            if isinstance(version, int) and version != FORMAT:
                name = self.what.partition(" ")[2]
                message = f"the {name} has version {version}; this release reads {FORMAT}"
                raise refuse(self.unsupported, show_control_path(path), message)
            if isinstance(body, dict) and not is_sealed(body):
                raise ValueRefused("its checksum is not that of its content")
            if isinstance(body, dict):
                body.pop(SEAL, None)
            record = convert_into(body, self.type)
            problem = self.find_problem(record, path)
        except (ValueRefused, msgspec.ValidationError) as error:
            problem = str(error)
        if problem is not None:
            message = f"not {self.what}: {problem}{self.advice}"
            raise refuse(self.invalid, show_control_path(path), message)
        return record

    def find(self, files: ClusterFiles, path: str) -> Record | None:
        """Return the record at a path, if there is one.

        Raises:
            ClusterError: it cannot be read.
        """
        with refusing(self.unreadable, show_control_path(path)):
            data = files.control.find(path)
        return None if data is None else self.decode(data, path)

    def list_all(
        self, files: ClusterFiles, folder: str, report: ClusterReport, severity: Severity
    ) -> list[Record]:
        """List the records of a folder by name; unusable ones are reported with this severity."""
        names: Sequence[str] = ()
        with report.collect(severity), refusing(self.unreadable, show_control_path(folder)):
            names = files.control.list(folder)
        found: list[Record | None] = []
        for name in names:
            if name.endswith(_JSON):
                with report.collect(severity):
                    found.append(self.find(files, f"{folder}/{name}"))
        return [one for one in found if one is not None]

    def write(self, files: ClusterFiles, path: str, record: Record) -> None:
        """Write a record, in place of any other.

        Raises:
            ClusterError: it cannot be written.
        """
        with refusing(self.unwritable, show_control_path(path)):
            files.control.put(path, self.encode(record))


def format_document(body: object) -> bytes:
    """Encode a document indented, with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
