"""Every value one entity had, with the commit that gave it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import HistoricalVersionReclaimed
from omnigraph.execution.stored_rows import read_by_id
from omnigraph.history.feed import Source, describe_cause
from omnigraph.history.images import Image, convert_images
from omnigraph.identity import CommitId, EntityKind, TableIdentity
from omnigraph.storage.manifest import Commit, TableEntry

EXISTING = "existing"
"""What an entity was at the oldest commit that can still be read."""


@dataclass(frozen=True, slots=True)
class EntityVersion:
    """What a commit made of an entity; without an image it was deleted."""

    commit: Commit
    op: str
    image: Image | None

    def wire(self) -> dict[str, object]:
        image = None if self.image is None else self.image.wire()
        return {"cause": describe_cause(self.commit), "op": self.op, "image": image}


@dataclass(frozen=True, slots=True)
class EntityHistory:
    """Every version of an entity, newest first.

    `is_complete` says whether all of the history could be read; cleanup removes old commits.
    """

    kind: EntityKind
    type_name: str
    id: str
    versions: tuple[EntityVersion, ...]
    is_complete: bool

    def wire(self) -> dict[str, object]:
        return {
            "kind": str(self.kind),
            "type_name": self.type_name,
            "id": self.id,
            "versions": [one.wire() for one in self.versions],
            "complete": self.is_complete,
        }


@dataclass(frozen=True, slots=True)
class _Seen:
    """An entity at a commit: in which table it was looked for, and what was found."""

    commit: Commit
    entry: TableEntry | None
    image: Image | None


def read_entity_history(source: Source, type_: NodeType | EdgeType, id: str) -> EntityHistory:
    """The versions of an entity along the first-parent line of a branch."""
    versions: list[EntityVersion] = []
    later: _Seen | None = None
    is_complete = True
    try:
        for seen in _walk_line(source, type_.identity, id):
            if later is not None and later.image != seen.image:
                versions.append(EntityVersion(later.commit, _choose_op(seen, later), later.image))
            later = seen
    except HistoricalVersionReclaimed:
        is_complete = False
    if later is not None and later.image is not None:
        op = "insert" if is_complete else EXISTING
        versions.append(EntityVersion(later.commit, op, later.image))
    return EntityHistory(type_.kind, type_.name, id, tuple(versions), is_complete)


def _choose_op(earlier: _Seen, later: _Seen) -> str:
    if earlier.image is None:
        return "insert"
    return "delete" if later.image is None else "update"


def _walk_line(source: Source, identity: TableIdentity, id: str) -> Iterator[_Seen]:
    """The entity at each commit, newest first; a table that did not move is read once."""
    at: CommitId | None = source.head
    last: _Seen | None = None
    while at is not None:
        commit = source.commits[at]
        state = source.state(commit)
        types = {t.identity: t for t in state.catalog.by_table_key.values()}
        type_ = types.get(identity)
        entry = None if type_ is None else state.snapshot.entries[type_.table_key]
        if last is not None and entry == last.entry:
            seen = _Seen(commit, entry, last.image)
        elif type_ is None:
            seen = _Seen(commit, None, None)
        else:
            table = state.snapshot.table(type_.table_key)
            rows = read_by_id(table, pa.array([id], pa.string()), type_)
            seen = _Seen(commit, entry, next(iter(convert_images(rows)), None))
        yield seen
        last, at = seen, commit.parent_commit_id
