"""Where a table is: its root, the branch of it that is meant, and how to reach the store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote, urlsplit

from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.tables.checksums import ChecksumLogs

_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def is_flat_name(branch: str) -> bool:
    """Branch names are ULIDs: nested names poison each other, reused ones confuse caches."""
    return _ULID.fullmatch(branch) is not None


def require_flat_name(branch: str) -> None:
    """Raise unless this can be the name of a physical branch: it becomes part of a path."""
    if not is_flat_name(branch):
        raise ManifestCorrupt(f"a physical branch name must be a ULID, not {branch!r}")


@dataclass(frozen=True, slots=True)
class Generation:
    """One of the graphs that may live at an address, one after the other."""

    graph: str
    """The address, the same for all tables of the graph."""
    name: str


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The address of a table, or of one branch of it. No branch means main.

    Two tables may live at one address one after the other. The generation of their graph tells
    them apart in everything that is kept in memory; None is whichever is there. `storage_options`
    may hold credentials, so it is neither shown nor compared.
    """

    uri: str
    branch: str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False, compare=False)
    generation: Generation | None = field(default=None, repr=False)
    graph_folder: str | None = field(default=None, repr=False, compare=False)
    """The folder of the graph the table belongs to; None where it is on an object store."""
    is_verified: bool = field(default=False, repr=False, compare=False)
    """Whether files are compared with their checksums before they are first read."""
    checksum_logs: ChecksumLogs | None = field(default=None, repr=False, compare=False)
    """What is read of the checksums, for whoever looks at many branches; None reads them anew."""
    native_uri: str = field(init=False, repr=False, compare=False)
    """The address to open. A branch opened by its own address can be pickled and pinned."""
    local_folder: str | None = field(init=False, repr=False, compare=False)
    """The folder its files are in; None where they are on an object store."""

    def __post_init__(self) -> None:
        uri = native_uri = self.uri.rstrip("/")
        if self.branch is not None:
            require_flat_name(self.branch)
            native_uri = f"{uri}/tree/{self.branch}"
        # Kept, not computed when they are asked for: a small commit asks fifty times.
        object.__setattr__(self, "uri", uri)
        object.__setattr__(self, "native_uri", native_uri)
        object.__setattr__(self, "local_folder", _find_local_folder(native_uri))

    def __str__(self) -> str:
        return self.native_uri

    @property
    def cache_key(self) -> tuple[str, str]:
        """What anything kept in memory about the table is kept under."""
        return self.native_uri, "" if self.generation is None else self.generation.name

    @property
    def native_options(self) -> dict[str, str] | None:
        return dict(self.storage_options) if self.storage_options else None

    def on_branch(self, branch: str | None) -> TableLocation:
        """The same table on another branch."""
        return replace(self, branch=branch)

    def of_generation(self, generation: Generation) -> TableLocation:
        """The same address, once it is known which table is there."""
        return replace(self, generation=generation)


def _find_local_folder(uri: str) -> str | None:
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri
    return unquote(urlsplit(f"file://{rest}").path) if scheme == "file" else None
