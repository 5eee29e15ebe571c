"""Which graph is at an address, as far as this process has seen.

A graph may be removed and created again where it was, or be replaced by an earlier copy of itself.
Versions then start over under the same addresses and numbers, and nothing that was kept in memory
may answer for them. So whatever is kept is kept for one *generation* of the graph. A generation
goes on as long as the newest manifest version that was seen is still what it was; when it is not,
the next one begins.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from uuid import uuid4

from omnigraph.storage.tables.location import Generation, TableLocation
from omnigraph.storage.tables.marks import find_mark

MOST_BRANCHES = 4_096
"""For how many branches of a graph the newest version seen is remembered."""


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """A manifest version that was the newest of its branch, and the mark of its file."""

    version: int
    mark: Hashable


@dataclass(slots=True)
class _Known:
    """What is known of the graph at one address."""

    identity: str
    generation: Generation
    newest: dict[str | None, SeenVersion] = field(default_factory=dict)


_lock = threading.Lock()
_known: dict[str, _Known] = {}


def get_known_generation(manifest_uri: str) -> Generation | None:
    """The generation of the graph whose manifest is at this address; None if none was seen."""
    known = _known.get(manifest_uri)
    return None if known is None else known.generation


def resolve_generation(
    manifest: TableLocation, identity: str, newest: SeenVersion | None = None
) -> Generation:
    """The generation of a graph whose manifest was just read.

    `identity` is what the graph was given when it was created. `newest` is what was read, if it was
    the newest version there is.
    """
    known = _known.get(manifest.uri)
    is_same = known is not None and known.identity == identity
    if known is not None and is_same and newest is not None:
        is_same = _is_same_line(manifest, known.newest.get(manifest.branch), newest)
    with _lock:
        if known is not _known.get(manifest.uri):
            # Somebody else began a generation meanwhile, of what may not be what we have read.
            is_same = False
        if known is None or not is_same:
            name = identity if manifest.uri not in _known else f"{identity}.{uuid4().hex[:12]}"
            known = _Known(identity, Generation(manifest.uri, name))
            _known[manifest.uri] = known
        if newest is not None:
            _note(known, manifest.branch, newest)
    return known.generation


def note_published(manifest: TableLocation, published: SeenVersion) -> None:
    """Remember a version that this process has just made the newest of its branch."""
    with _lock:
        known = _known.get(manifest.uri)
        if known is not None and known.generation == manifest.generation:
            _note(known, manifest.branch, published)


def _note(known: _Known, branch: str | None, found: SeenVersion) -> None:
    seen = known.newest.pop(branch, found)
    known.newest[branch] = found if seen.version <= found.version else seen
    if len(known.newest) > MOST_BRANCHES:
        del known.newest[next(iter(known.newest))]


def _is_same_line(manifest: TableLocation, seen: SeenVersion | None, newest: SeenVersion) -> bool:
    """Whether the branch still has the version that was seen on it.

    One that cleanup has removed counts as changed: that costs what is kept, and never an answer.
    """
    if seen is None:
        return True
    if seen.version == newest.version:
        return seen.mark == newest.mark
    return find_mark(manifest, seen.version) == seen.mark
