"""A store for an address."""

from __future__ import annotations

from omnigraph.settings import Settings
from omnigraph.storage.objects.address import LocalAddress, S3Address, parse_address
from omnigraph.storage.objects.local_store import LocalObjectStore
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.objects.write_observer import CountingStore, get_observer


def open_store(uri: str, settings: Settings | None = None) -> ObjectStore:
    """The store at a path, a `file://` or an `s3://` address. Nothing is read or written yet.

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
            # The S3 client costs 25 ms to import, which local commands need not pay.
            from omnigraph.storage.objects.s3 import S3ObjectStore  # noqa: PLC0415

            return S3ObjectStore(address, settings.aws)
