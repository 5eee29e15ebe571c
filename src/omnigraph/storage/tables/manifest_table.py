"""The manifest table: a small *state* that is replaced and a *lineage* that only grows.

A publish is one transaction that removes the fragment with the state and adds a new one. Two
publishes on one base remove the same fragment, so exactly one succeeds and nothing is merged
silently.

Each publish also names the *anchor*, the first fragment of the lineage, which never changes. A late
publish is checked against the retained versions after its base. After a cleanup that may be the
newest one only, which removed another state fragment; the anchor is in both.

The newest lineage rows are in the file of the state and rewritten with it: a few more rows cost
nothing, a second file as much as the first. Beyond a limit they move to a file of their own, which
only compaction changes.

The fragment with the state is found from metadata: its file has a mark column that lineage files
omit. Within the file the mark tells state rows from lineage rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.fragment import FragmentMetadata

from omnigraph.errors import AlreadyExists, ManifestCorrupt
from omnigraph.storage.tables.fragments import write_uncommitted
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import (
    StagedTransaction,
    make_strict_update,
    stage_first_version,
    stage_operation,
)
from omnigraph.storage.tables.table import Table, is_table
from omnigraph.storage.tables.table_commit import CommittedVersion, commit_exact

STATE_MARK = "_state"
MARK = pa.field(STATE_MARK, pa.bool_())

RECENT_LINEAGE = 32
"""Lineage rows that remain in the file of the state."""
SMALL_FRAGMENTS = 8
"""Small lineage fragments that trigger a merge: they slow down reads and publishes."""
FULL_FRAGMENT_ROWS = 1024
"""A lineage fragment of this size is not merged again, so that the cost does not grow with age."""


@dataclass(frozen=True, slots=True)
class ManifestTableState:
    """The state at one version, and the fragments to remove to replace it."""

    table: Table
    rows: pa.Table
    fragment_ids: tuple[int, ...]
    recent: pa.Table
    """The lineage rows that share a file with the state."""
    anchor: FragmentMetadata | None
    """The fragment that every publish names; None if there is no fragment of lineage yet."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """The file of a state: its rows, and after them the newest of the lineage."""

    rows: pa.Table
    """One batch: batches would add up over the publishes of a handle, and each costs time."""
    state_rows: int

    @property
    def state(self) -> pa.Table:
        return self.rows.slice(0, self.state_rows)

    @property
    def recent(self) -> pa.Table:
        return self.rows.slice(self.state_rows)

    @property
    def has_recent(self) -> bool:
        return bool(self.rows.num_rows > self.state_rows)


def stage_manifest_rows(
    location: TableLocation,
    schema: pa.Schema,
    state: pa.Table,
    lineage: pa.Table,
    *,
    properties: Mapping[str, str],
) -> StagedTransaction:
    """Stage a new manifest table; exactly one creator wins. `schema` is that of its rows."""
    assert state.num_rows, (
        "a manifest needs state rows: replacing them makes concurrent publishes conflict"
    )
    if is_table(location):
        raise AlreadyExists(f"a table already exists at {location}")
    marked = schema.append(MARK)
    written = write_uncommitted(location, lineage) if lineage.num_rows else []
    written += write_uncommitted(location, _add_marks(_join_rows([state])).cast(marked))
    return stage_first_version(location, marked, written, properties=properties)


def read_state(table: Table) -> ManifestTableState:
    """Read the state rows from the file of the state only."""
    ids, anchor = _find_parts(table)
    if not ids:
        raise ManifestCorrupt(f"{table!r} is not a manifest, or has lost its state")
    # The fragment is replaced whole, never deleted from. A scan costs three times as much.
    rows = pa.concat_tables([table.take_fragment(id) for id in ids])
    is_state = pc.is_valid(rows.column(STATE_MARK))
    rows = rows.drop_columns([STATE_MARK])
    if pc.all(is_state).as_py():
        return ManifestTableState(table, rows, tuple(ids), rows.slice(0, 0), anchor)
    recent = rows.filter(pc.invert(is_state))
    return ManifestTableState(table, rows.filter(is_state), tuple(ids), recent, anchor)


def make_written_state(
    base: ManifestTableState, table: Table, file: StateFile
) -> ManifestTableState:
    """Return the state that a publish on `base` just wrote, without reading it back."""
    newest = table.newest_fragment()
    assert newest is not None, f"{table!r} has lost its state"
    if base.anchor is not None and _is_marked(table, newest):
        return ManifestTableState(table, file.state, (newest.id,), file.recent, base.anchor)
    ids, anchor = _find_parts(table)
    return ManifestTableState(table, file.state, tuple(ids), file.recent, anchor)


def make_state_file(
    base: ManifestTableState,
    state: Sequence[pa.Table],
    lineage: pa.Table,
    recent_lineage: int = RECENT_LINEAGE,
) -> StateFile:
    """Build the file of the next state with `lineage` added.

    Excess lineage is left out of it, and so is the first, which becomes the anchor.
    """
    if base.anchor is None or base.recent.num_rows + lineage.num_rows > recent_lineage:
        return _join_rows(state)
    return _join_rows(state, base.recent, lineage)


def stage_manifest(
    base: ManifestTableState,
    file: StateFile,
    lineage: pa.Table,
    *,
    properties: Mapping[str, str],
) -> StagedTransaction:
    """Stage a version that replaces the state, adds lineage and conflicts with every other.

    `file` is the result of `make_state_file` for them.
    """
    assert file.state_rows, "a manifest cannot lose its state"
    table = base.table
    added = write_uncommitted(table, _list_held_columns(_add_marks(file)))
    if not file.has_recent and (base.recent.num_rows or lineage.num_rows):
        added += write_uncommitted(table, pa.concat_tables([base.recent, lineage]))
    return stage_operation(
        table,
        _replace_state(base, added),
        properties=properties,
        inserted=file.state_rows + base.recent.num_rows + lineage.num_rows,
        deleted=base.rows.num_rows + base.recent.num_rows,
    )


def _replace_state(
    base: ManifestTableState, added: list[FragmentMetadata]
) -> LanceOperation.BaseOperation:
    """Build the operation that replaces the state by these fragments.

    Without an anchor there is only the state, and everything is overwritten, which Lance never
    rebases.
    """
    if base.anchor is None:
        return LanceOperation.Overwrite(base.table.native.lance_schema, added)
    return make_strict_update(
        base.table,
        removed_ids=list(base.fragment_ids),
        updated=[],
        added=added,
        sentinel=base.anchor,
    )


def name_anchor(table: Table, *, properties: Mapping[str, str]) -> CommittedVersion | None:
    """Commit a version that changes nothing but names the anchor; None if there is none.

    Used after a version that does not name it, since a late publish would not conflict with that.
    """
    _, anchor = _find_parts(table)
    if anchor is None:
        return None
    operation = make_strict_update(table, removed_ids=[], updated=[], added=[], sentinel=anchor)
    return commit_exact(stage_operation(table, operation, properties=properties))


def compact_lineage(
    table: Table,
    *,
    properties: Mapping[str, str],
    small_fragments: int = SMALL_FRAGMENTS,
    full_fragment_rows: int = FULL_FRAGMENT_ROWS,
) -> CommittedVersion | None:
    """Merge the small lineage fragments into one version of its own; None if there are too few.

    It names the anchor without changing it, as every publish does, so it conflicts with all of
    them. Row ids are not preserved: theirs are scattered, and storing each in the metadata of every
    later version would slow down publishing permanently.
    """
    state_ids, anchor = _find_parts(table)
    if anchor is None:
        return None
    small = [
        fragment.id
        for fragment in table.fragments()
        if fragment.id not in (anchor.id, *state_ids) and fragment.rows < full_fragment_rows
    ]
    if len(small) < max(small_fragments, 2):
        return None
    names = [name for name in table.schema.names if name != STATE_MARK]
    rows = table.scan(names, fragments=small)
    operation = make_strict_update(
        table,
        removed_ids=small,
        updated=[],
        added=write_uncommitted(table, rows),
        sentinel=anchor,
    )
    return commit_exact(stage_operation(table, operation, properties=properties))


def is_manifest_table(table: Table) -> bool:
    return STATE_MARK in table.columns.ids


def _find_parts(table: Table) -> tuple[list[int], FragmentMetadata | None]:
    """Return the fragments whose files have the mark column, and the first other one.

    Metadata suffices. Fragment ids ascend as fragments are added, and a merged fragment gets a new
    id, so the first one remains the first.
    """
    every = [fragment.metadata for fragment in table.native.get_fragments()]
    marked = [fragment.id for fragment in every if _is_marked(table, fragment)]
    others = (fragment for fragment in every if fragment.id not in marked)
    return marked, min(others, key=lambda fragment: fragment.id, default=None)


def _is_marked(table: Table, fragment: FragmentMetadata) -> bool:
    mark = table.columns.ids.get(STATE_MARK)
    return any(mark in file.fields for file in fragment.files)


def _list_held_columns(rows: pa.Table) -> pa.Table:
    """Drop columns that are entirely null: an absent column is null, and each costs time."""
    count, named = rows.num_rows, zip(rows.schema.names, rows.columns, strict=True)
    return rows.select([name for name, column in named if column.null_count < count])


def _join_rows(state: Sequence[pa.Table], *lineage: pa.Table) -> StateFile:
    rows = pa.concat_tables([*state, *lineage]).combine_chunks()
    return StateFile(rows, sum(piece.num_rows for piece in state))


def _add_marks(file: StateFile) -> pa.Table:
    """Return the rows with the mark that tells state from lineage."""
    others = file.rows.num_rows - file.state_rows
    mark = pa.array([True] * file.state_rows + [None] * others, MARK.type)
    return file.rows.append_column(MARK, mark)
