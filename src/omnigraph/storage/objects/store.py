"""What a store of control objects promises, whatever is underneath."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from omnigraph.errors import StorageFailure, StorageKind

CHUNK_BYTES = 8 << 20
"""So much of a large object is in memory at a time."""


class StoreKind(StrEnum):
    LOCAL = "local"
    S3 = "s3"


@dataclass(frozen=True, slots=True)
class Versioned:
    """The bytes of an object, and the tag by which a conditional replace names them.

    On disk and on S3 a tag stands for the *content*: bytes that come back bring their tag back.
    An object that is replaced by `put_if_match` must therefore carry a nonce that is fresh on
    every write, or a writer may mistake a newer state for the one it read.
    """

    data: bytes
    tag: str


class ObjectStore(Protocol):
    """Objects below one root, by relative path.

    A reader sees an object whole or not at all. An object that cannot be read is an error and
    never "absent": only a store that says so makes an object absent. Paths are made by
    `omnigraph.storage.layout`; `""` stands for the root where a prefix is asked for.
    """

    @property
    def kind(self) -> StoreKind: ...

    @property
    def uri(self) -> str:
        """The root as Lance takes it."""
        ...

    @property
    def identity(self) -> str:
        """The same text for every spelling of this root, to key locks within a process."""
        ...

    @property
    def storage_options(self) -> Mapping[str, str]:
        """What Lance needs to reach the root. Holds secrets: neither log nor store it."""
        ...

    def uri_of(self, path: str) -> str:
        """The address of `path` as Lance takes it."""
        ...

    def get(self, path: str) -> bytes:
        """The object. Raises `StorageFailure(NOT_FOUND)` where there is none."""
        ...

    def find(self, path: str) -> bytes | None: ...

    def get_versioned(self, path: str) -> Versioned:
        """The object with its tag. Raises `StorageFailure(NOT_FOUND)` where there is none."""
        ...

    def find_versioned(self, path: str) -> Versioned | None: ...

    def chunks(self, path: str) -> Iterator[bytes]:
        """The object in pieces of at most `CHUNK_BYTES`, for those that may be large.

        Raises `StorageFailure(NOT_FOUND)` where there is none.
        """
        ...

    def put(self, path: str, data: bytes, *, durably: bool = True) -> None:
        """Make `data` the object, replacing what is there; durable on return.

        Put not `durably`, it is there at once, and after a power cut it may be what it was before,
        or damaged: for what can be made again.
        """
        ...

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        """The same for what may be large; if the chunks end with an error, nothing is written."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object; False where one exists. One of any number of callers gets True.

        Raises:
            OutcomeUnknown: contact was lost and the object may or may not be ours.
        """
        ...

    def put_if_match(self, path: str, data: bytes, tag: str) -> bool:
        """Replace the object if it still has `tag`; False if it changed or is gone.

        Raises:
            OutcomeUnknown: contact was lost and the replacement may or may not have happened.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether there is an object at `path`, or any below it."""
        ...

    def list(self, prefix: str) -> tuple[str, ...]:
        """Names of the objects directly below `prefix`, sorted; empty where there is nothing."""
        ...

    def list_prefixes(self, prefix: str) -> tuple[str, ...]:
        """Names directly below `prefix` that have objects below them, sorted."""
        ...

    def delete(self, path: str, *, durably: bool = True) -> None:
        """Remove the object at `path`, if there is one.

        Removed not `durably`, it is gone at once but may be back after a power cut. Anything made
        durable in the same folder afterwards makes the removal durable as well.
        """
        ...

    def delete_all(self, paths: Sequence[str]) -> None:
        """Remove the objects at these paths, where there are any. Not atomic; safe to repeat."""
        ...

    def delete_prefix(self, path: str) -> None:
        """Remove every object below `path`. Not atomic; safe to repeat."""
        ...


def require_path(path: str) -> str:
    """`path` itself; raise if it could lead out of the root, whatever file it was read from."""
    parts = path.split("/")
    if not all(parts) or "." in parts or ".." in parts:
        raise StorageFailure(StorageKind.PERMANENT, f"not a path below a root: {path!r}")
    return path


def require_prefix(prefix: str) -> str:
    return require_path(prefix) if prefix else ""
