"""Open the store of an address, observe its writes and probe its conditional puts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import cast

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.identity import UlidSource
from omnigraph.settings import Settings
from omnigraph.storage.layout import probe_path
from omnigraph.storage.objects.local_store import LocalObjectStore
from omnigraph.storage.objects.object_store import (
    DurableWriteObserver,
    LocalAddress,
    ObjectStore,
    S3Address,
    get_observer,
    parse_address,
)

_WRITES = frozenset(
    {"put", "put_chunks", "put_if_absent", "put_if_match", "delete", "delete_prefix"}
)


class ObservedStore:
    """Proxy of a store that reports durable writes to an observer.

    A refused conditional write is reported before the attempt and not afterwards.
    """

    def __init__(self, inner: ObjectStore, observer: DurableWriteObserver) -> None:
        self._inner, self._observer = inner, observer

    def __getattr__(self, name: str) -> object:
        member = getattr(self._inner, name)
        return partial(self._write, name, member) if name in _WRITES else member

    def delete_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            # One by one, so that an observer may stop between any two.
            self._write("delete", self._inner.delete, path)

    def _write(
        self, action: str, write: Callable[..., object], path: str, *rest: object, **options: object
    ) -> object:
        self._observer.before(action, path)
        is_written = write(path, *rest, **options)
        if is_written is not False:
            self._observer.after(action, path)
        return is_written


_NAME_ATTEMPTS = 4


def require_create_if_absent(store: ObjectStore, ids: UlidSource) -> None:
    """Verify that the store refuses to create an object twice.

    Raises:
        StorageFailure: it does not, or the check failed.
    """
    with _probe_object(store, ids) as path:
        if store.put_if_absent(path, b""):
            raise StorageFailure(
                StorageKind.CONFIGURATION,
                f"{store.uri} cannot hold a graph that is written to: the store ignores the "
                "condition 'only if absent', and writers would overwrite each other",
            )


def supports_put_if_match(store: ObjectStore, ids: UlidSource) -> bool:
    """Return whether the store replaces an object on the right tag, and only then."""
    with _probe_object(store, ids) as path:
        first = store.get_versioned(path).tag
        is_replaced = store.put_if_match(path, b"replaced", first)
        return is_replaced and not store.put_if_match(path, b"lost", first)


@contextmanager
def _probe_object(store: ObjectStore, ids: UlidSource) -> Iterator[str]:
    """Create a fresh probe object, removed afterwards; existing objects are not touched."""
    path = _create_probe(store, ids)
    try:
        yield path
    except BaseException:
        with suppress(StorageFailure):  # the result of the probe matters more
            store.delete(path)
        raise
    store.delete(path)


def _create_probe(store: ObjectStore, ids: UlidSource) -> str:
    try:
        for _ in range(_NAME_ATTEMPTS):
            path = probe_path(ids.next())
            if store.put_if_absent(path, b""):
                return path
    except StorageFailure as failure:
        # The path of the probe is irrelevant to users; the root they cannot write to is not.
        message = f"{store.uri} cannot be written to: {failure.message}"
        raise StorageFailure(failure.kind, message) from failure
    raise StorageFailure(
        StorageKind.PRECONDITION,
        f"{store.uri} reports {_NAME_ATTEMPTS} fresh names as existing",
    )


def open_store(uri: str, settings: Settings | None = None) -> ObjectStore:
    """Open the store at a path, a `file://` or an `s3://` address, without any I/O.

    Raises:
        BadRequest: the address is not one of these.
    """
    store = _open(uri, settings or Settings())
    watching = get_observer()
    return store if watching is None else cast("ObjectStore", ObservedStore(store, watching))


def _open(uri: str, settings: Settings) -> ObjectStore:
    match parse_address(uri):
        case LocalAddress(path):
            return LocalObjectStore(path)
        case S3Address() as address:
            # The S3 client costs 25 ms to import, saved by local commands.
            from omnigraph.storage.objects.s3_store import S3ObjectStore  # noqa: PLC0415

            return S3ObjectStore(address, settings.aws)


def normalize_root(uri: str) -> str:
    """Return the canonical address of a root: an absolute path, or an address without final slash.

    Raises:
        BadRequest: the address is not one of a folder or of a bucket.
    """
    match parse_address(uri):
        case LocalAddress(path):
            # What is above a link is known to the file system only.
            return str(path.resolve() if ".." in path.parts else path)
        case address:
            return address.uri
