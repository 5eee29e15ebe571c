"""Every version of one entity, with its commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import HistoricalVersionReclaimed
from omnigraph.execution.stored_rows import read_by_id
from omnigraph.history.change_feed import Source
from omnigraph.history.entity_changes import convert_images
from omnigraph.identity import ID_COLUMN, TableIdentity
from omnigraph.storage.manifest import CommitRecord, TableEntry
from omnigraph.storage.tables import ROW_ID, UPDATED_AT
from omnigraph.wire.change_results import EntityHistory, EntityVersion, Image

EXISTING = "existing"
"""The operation reported at the oldest readable commit."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """An entity at a commit: the table version searched, and the row found."""

    commit: CommitRecord
    entry: TableEntry | None
    image: Image | None
    written_at: int | None
    """The version of the table that wrote its row."""

    @property
    def is_own(self) -> bool:
        """True if the branch of the commit owns the table, so that its versions only ascend."""
        return self.entry is not None and self.entry.owner == self.commit.incarnation


def read_entity_history(source: Source, type_: NodeType | EdgeType, id: str) -> EntityHistory:
    """Return the versions of an entity along the first-parent history of a branch."""
    line = _list_line(source)
    scan = _HistoryScan(source, type_.identity, id)
    try:
        versions, is_complete = scan.find_versions(line), True
    except HistoricalVersionReclaimed:
        # Few commits are left then, and between them there may be gaps.
        versions, is_complete = scan.walk(line)
    return EntityHistory(type_.kind, type_.name, id, tuple(versions), is_complete)


def _list_line(source: Source) -> list[CommitRecord]:
    """List the commits from the head to the first, by first parents."""
    line, at = [], source.commits.get(source.head)
    while at is not None:
        line.append(at)
        at = None if at.parent_commit_id is None else source.commits[at.parent_commit_id]
    return line


class _HistoryScan:
    """Reads one entity at commits of a first-parent history."""

    def __init__(self, source: Source, identity: TableIdentity, id: str) -> None:
        self._source, self._identity, self._id = source, identity, id
        self._last: _Seen | None = None

    def find_versions(self, line: Sequence[CommitRecord]) -> list[EntityVersion]:
        """Find every version by bisection, wherever the entity may have changed.

        Raises:
            HistoricalVersionReclaimed: a commit that must be read was removed.
        """
        oldest, newest = self._look(line[-1]), self._look(line[0])
        versions = list(self._find_between(line, newest, oldest))
        if oldest.image is not None:
            versions.append(EntityVersion.of(oldest.commit.shown, "insert", oldest.image))
        return versions

    def _find_between(
        self, line: Sequence[CommitRecord], newest: _Seen, oldest: _Seen
    ) -> Iterator[EntityVersion]:
        """Yield the changes after the oldest commit up to the newest."""
        if len(line) < 2 or _is_unchanged_between(line, newest, oldest):
            return
        if len(line) == 2:
            if newest.image != oldest.image:
                yield EntityVersion.of(
                    newest.commit.shown, _choose_op(oldest, newest), newest.image
                )
            return
        half = len(line) // 2
        middle = self._look(line[half])
        yield from self._find_between(line[: half + 1], newest, middle)
        yield from self._find_between(line[half:], middle, oldest)

    def walk(self, line: Sequence[CommitRecord]) -> tuple[list[EntityVersion], bool]:
        """Return the versions up to the first removed commit, and whether there is none."""
        versions: list[EntityVersion] = []
        later: _Seen | None = None
        is_complete = True
        try:
            for commit in line:
                seen = self._look(commit)
                if later is not None and later.image != seen.image:
                    op = _choose_op(seen, later)
                    versions.append(EntityVersion.of(later.commit.shown, op, later.image))
                later = seen
        except HistoricalVersionReclaimed:
            is_complete = False
        if later is not None and later.image is not None:
            op = "insert" if is_complete else EXISTING
            versions.append(EntityVersion.of(later.commit.shown, op, later.image))
        return versions, is_complete

    def _look(self, commit: CommitRecord) -> _Seen:
        """Read the entity at a commit; an unchanged table is not read again."""
        state = self._source.state(commit)
        types = {t.identity: t for t in state.catalog.by_table_key.values()}
        type_ = types.get(self._identity)
        entry = None if type_ is None else state.snapshot.entries[type_.table_key]
        last = self._last
        if last is not None and entry is not None and entry == last.entry:
            seen = _Seen(commit, entry, last.image, last.written_at)
        elif type_ is None:
            seen = _Seen(commit, None, None, None)
        else:
            table, ids = state.snapshot.table(type_.table_key), pa.array([self._id], pa.string())
            image = next(iter(convert_images(read_by_id(table, ids, type_))), None)
            stamps = (
                table.lookup(ID_COLUMN, ids, [ROW_ID, UPDATED_AT]).column(UPDATED_AT).to_pylist()
            )
            seen = _Seen(commit, entry, image, next(iter(stamps), None))
        self._last = seen
        return seen


def _choose_op(earlier: _Seen, later: _Seen) -> str:
    if earlier.image is None:
        return "insert"
    return "delete" if later.image is None else "update"


def _is_unchanged_between(line: Sequence[CommitRecord], newest: _Seen, oldest: _Seen) -> bool:
    """Return whether both ends of a history prove that the entity did not change between them.

    The versions of a table only ascend on the branch that owns it. So if both ends show the same
    one, all commits between them do; and a row of the newest that was written before the oldest was
    present throughout.
    """
    if not newest.is_own or not oldest.is_own or newest.image != oldest.image:
        return False
    assert newest.entry is not None, "an own table is one"
    assert oldest.entry is not None, "an own table is one"
    is_one_branch = len({commit.incarnation for commit in line}) == 1
    if not is_one_branch or newest.entry.owner_branch != oldest.entry.owner_branch:
        return False
    if newest.entry == oldest.entry:
        return True
    has_one_schema = not any("schema" in commit.details for commit in line)
    was_written_before = (newest.written_at or newest.entry.version) <= oldest.entry.version
    return newest.image is not None and has_one_schema and was_written_before
