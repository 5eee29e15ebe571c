"""The files of a cluster in its storage root: the ledger with its tag, and the catalog."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from omnigraph.cluster.cluster_layout import (
    CONTROL_FOLDER,
    GRAPH_SUFFIX,
    GRAPHS_FOLDER,
    STATE_FILE,
    make_graph_path,
    make_payload_path,
    show_control_path,
)
from omnigraph.cluster.cluster_report import refuse
from omnigraph.cluster.resource_digests import digest_file
from omnigraph.cluster.state_ledger import StateLedger, decode_ledger, encode_ledger
from omnigraph.errors import StorageError
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
