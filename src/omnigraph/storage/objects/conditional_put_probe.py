"""Finding out what a store really does with conditions, before anything depends on it.

A store that ignores "only if absent" loses commits without a word, so a graph must not be
written there. Reading needs no probe, and does none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.identity import UlidSource
from omnigraph.storage.layout import probe_path
from omnigraph.storage.objects.store import ObjectStore

_NAME_ATTEMPTS = 4


def require_create_if_absent(store: ObjectStore, ids: UlidSource) -> None:
    """Pass if the store refuses to create an object twice.

    Raises:
        StorageFailure: it does not, or it cannot be asked.
    """
    with _probe_object(store, ids) as path:
        if store.put_if_absent(path, b""):
            raise StorageFailure(
                StorageKind.CONFIGURATION,
                f"{store.uri} cannot hold a graph that is written to: the store ignores the "
                "condition 'only if absent', and writers would overwrite each other",
            )


def supports_put_if_match(store: ObjectStore, ids: UlidSource) -> bool:
    """Whether the store replaces an object on the right tag, and only then."""
    with _probe_object(store, ids) as path:
        first = store.get_versioned(path).tag
        is_replaced = store.put_if_match(path, b"replaced", first)
        return is_replaced and not store.put_if_match(path, b"lost", first)


@contextmanager
def _probe_object(store: ObjectStore, ids: UlidSource) -> Iterator[str]:
    """A fresh object of our own, removed afterwards; one that was there is left alone."""
    path = _create_probe(store, ids)
    try:
        yield path
    except BaseException:
        with suppress(StorageFailure):  # what the probe found out matters more
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
        # The object is nobody's business; what matters is where nothing can be written.
        message = f"{store.uri} cannot be written to: {failure.message}"
        raise StorageFailure(failure.kind, message) from failure
    raise StorageFailure(
        StorageKind.PRECONDITION,
        f"{store.uri} says that {_NAME_ATTEMPTS} fresh names are all taken",
    )
