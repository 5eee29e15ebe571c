"""Open the store of an address, observe its writes and probe its conditional puts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

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
    StoreKind,
    Versioned,
    get_observer,
    parse_address,
)


class CountingStore:
    """Wrapper of a store that counts calls by kind and reports durable writes.

    A refused conditional write counts as a call and not as a durable write.
    """

    def __init__(self, inner: ObjectStore, observer: DurableWriteObserver | None = None) -> None:
        self._inner, self._observer = inner, observer
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.durable_writes = 0

    @property
    def kind(self) -> StoreKind:
        return self._inner.kind

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def identity(self) -> str:
        return self._inner.identity

    @property
    def storage_options(self) -> Mapping[str, str]:
        return self._inner.storage_options

    def uri_of(self, path: str) -> str:
        return self._inner.uri_of(path)

    def get(self, path: str) -> bytes:
        self._count("get")
        return self._inner.get(path)

    def find(self, path: str) -> bytes | None:
        self._count("find")
        return self._inner.find(path)

    def get_versioned(self, path: str) -> Versioned:
        self._count("get_versioned")
        return self._inner.get_versioned(path)

    def find_versioned(self, path: str) -> Versioned | None:
        self._count("find_versioned")
        return self._inner.find_versioned(path)

    def exists(self, path: str) -> bool:
        self._count("exists")
        return self._inner.exists(path)

    def list(self, prefix: str) -> tuple[str, ...]:
        self._count("list")
        return self._inner.list(prefix)

    def list_prefixes(self, prefix: str) -> tuple[str, ...]:
        self._count("list_prefixes")
        return self._inner.list_prefixes(prefix)

    def chunks(self, path: str) -> Iterator[bytes]:
        self._count("chunks")
        return self._inner.chunks(path)

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        self._write("put_chunks", path, lambda: self._inner.put_chunks(path, chunks))

    def put(self, path: str, data: bytes, *, durably: bool = True) -> None:
        self._write("put", path, lambda: self._inner.put(path, data, durably=durably))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._write_if("put_if_absent", path, lambda: self._inner.put_if_absent(path, data))

    def put_if_match(self, path: str, data: bytes, tag: str) -> bool:
        return self._write_if(
            "put_if_match", path, lambda: self._inner.put_if_match(path, data, tag)
        )

    def delete(self, path: str, *, durably: bool = True) -> None:
        self._write("delete", path, lambda: self._inner.delete(path, durably=durably))

    def delete_all(self, paths: Sequence[str]) -> None:
        if self._observer is None:
            self._write("delete_all", "", lambda: self._inner.delete_all(paths))
            return
        for path in paths:
            self.delete(path)  # each on its own, so that an observer may stop between any two

    def delete_prefix(self, path: str) -> None:
        self._write("delete_prefix", path, lambda: self._inner.delete_prefix(path))

    def _count(self, action: str) -> None:
        with self._lock:
            self.calls[action] += 1

    def _write(self, action: str, path: str, write: Callable[[], None]) -> None:
        def write_surely() -> bool:
            write()
            return True

        self._write_if(action, path, write_surely)

    def _write_if(self, action: str, path: str, write: Callable[[], bool]) -> bool:
        self._count(action)
        if self._observer is not None:
            self._observer.before(action, path)
        is_written = write()
        if is_written:
            with self._lock:
                self.durable_writes += 1
            if self._observer is not None:
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
    return store if watching is None else CountingStore(store, watching)


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
