"""The one cache of table metadata and index pages shared by every handle of this process."""

from __future__ import annotations

import os

from lance import Session  # type: ignore[attr-defined]  # public, though not declared so

from omnigraph.storage.tables.location import TableLocation

INDEX_CACHE_BYTES = 1 << 30
METADATA_CACHE_BYTES = 20 << 20
"""Enough for the files of about two thousand fragments.

Each commit leaves some 45 kB of a version that is rarely asked for again, so in a process that
lives for long this is what it fills up to.
"""


class _Held:
    """A session, and which of the graphs that lived at an address it has read.

    Lance keeps what it has read of a table by address, version and fragment number. Of two tables
    that live at one address one after the other it would take rows of the one for rows of the
    other. So each is read through a session of its own; that is rare, and the other tables of the
    process may as well be read again.
    """

    __slots__ = ("generations", "session")

    def __init__(self) -> None:
        self.session = Session(
            index_cache_size_bytes=INDEX_CACHE_BYTES,
            metadata_cache_size_bytes=METADATA_CACHE_BYTES,
        )
        self.generations: dict[str, str] = {}


# Keyed by process id: a forked child must not touch the parent's session, whose threads it does
# not have. `setdefault` is atomic, so no lock is needed that a fork could leave held for ever.
_held_by_process: dict[int, _Held] = {}


def open_shared_session(location: TableLocation | None = None) -> Session:
    """The session of this process; it knows nothing of other tables that lived at this address."""
    process = os.getpid()
    held = _held_by_process.get(process) or _held_by_process.setdefault(process, _Held())
    if location is None or location.generation is None:
        return held.session
    graph, generation = location.generation.graph, location.generation.name
    if held.generations.setdefault(graph, generation) != generation:
        held = _Held()
        held.generations[graph] = generation
        _held_by_process[process] = held
    return held.session
