"""The one cache of table metadata and index pages shared by every handle of this process."""

from __future__ import annotations

import os

from lance import Session  # type: ignore[attr-defined]  # public, though not declared so

INDEX_CACHE_BYTES = 1 << 30
METADATA_CACHE_BYTES = 256 << 20

# Keyed by process id: a forked child must not touch the parent's session, whose threads it does
# not have. `setdefault` is atomic, so no lock is needed that a fork could leave held for ever.
_session_of_process: dict[int, Session] = {}


def shared_session(
    *,
    index_cache_bytes: int = INDEX_CACHE_BYTES,
    metadata_cache_bytes: int = METADATA_CACHE_BYTES,
) -> Session:
    """The session of this process; the sizes count only for the call that creates it."""
    session = _session_of_process.get(os.getpid())
    if session is not None:
        return session
    fresh = Session(
        index_cache_size_bytes=index_cache_bytes,
        metadata_cache_size_bytes=metadata_cache_bytes,
    )
    return _session_of_process.setdefault(os.getpid(), fresh)
