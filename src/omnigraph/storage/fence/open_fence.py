"""The fence for a store."""

from __future__ import annotations

import logging
from pathlib import Path

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.identity import UlidSource
from omnigraph.settings import FenceMode
from omnigraph.storage.fence.hold import Fence
from omnigraph.storage.fence.lease import LeaseFence, LeaseTerms
from omnigraph.storage.fence.local_fence import LocalFence, find_exclusion_problem
from omnigraph.storage.fence.process import ProcessFence
from omnigraph.storage.objects.conditional_put_probe import supports_put_if_match
from omnigraph.storage.objects.store import ObjectStore, StoreKind

log = logging.getLogger(__name__)

_warned: set[str] = set()


def open_fence(
    store: ObjectStore, mode: FenceMode, ids: UlidSource, terms: LeaseTerms | None = None
) -> Fence:
    """The strongest fence the root of `store` can have, after trying that it holds.

    The root must exist. Keep the result: trying an object store takes a few requests. `terms` are
    those of a lease, where it comes to one.

    Raises:
        StorageFailure: a fence is required and the storage cannot offer one.
    """
    if mode is FenceMode.OFF:
        return ProcessFence(store.identity)
    problem = _find_problem(store, ids)
    if problem is None:
        return _get_shared_fence(store, terms)
    if mode is FenceMode.REQUIRED:
        raise StorageFailure(
            StorageKind.CONFIGURATION,
            f"{store.uri} cannot keep writers in different processes apart: {problem}",
        )
    _warn_once(store, problem)
    return ProcessFence(store.identity)


def _find_problem(store: ObjectStore, ids: UlidSource) -> str | None:
    if store.kind is StoreKind.LOCAL:
        problem = find_exclusion_problem(Path(store.uri))
        return None if problem is None else f"the file system does not lock files, {problem}"
    if supports_put_if_match(store, ids):
        return None
    return "the store does not replace objects conditionally"


def _get_shared_fence(store: ObjectStore, terms: LeaseTerms | None) -> Fence:
    if store.kind is StoreKind.LOCAL:
        return LocalFence(Path(store.uri))
    return LeaseFence(store, terms=terms)


def _warn_once(store: ObjectStore, problem: str) -> None:
    if store.identity not in _warned:
        _warned.add(store.identity)
        log.warning("%s: %s; only one process at a time may write this graph", store.uri, problem)
