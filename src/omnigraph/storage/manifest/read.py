"""Reading the manifest: one version of it, the newest one, and the history it keeps."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import CommitId
from omnigraph.storage.generations import SeenVersion, note_published, resolve_generation
from omnigraph.storage.manifest.commits import (
    Commit,
    RecoveryAudit,
    decode_audit,
    decode_commit,
)
from omnigraph.storage.manifest.manifest_rows import COLUMNS, Row, RowKind
from omnigraph.storage.manifest.stamp import require_stamp
from omnigraph.storage.manifest.state import ManifestState, decode_state
from omnigraph.storage.tables.checksums import LOG
from omnigraph.storage.tables.damage import find_lost_after
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.ledger import MARK, LedgerState, read_state
from omnigraph.storage.tables.location import Generation, TableLocation
from omnigraph.storage.tables.marks import find_mark, mark_of
from omnigraph.storage.tables.table import Table, open_newest, open_table

_NAMES = COLUMNS.names


@dataclass(frozen=True)
class ManifestSnapshot:
    """One version of the manifest on one of its physical branches, folded and checked."""

    ledger: LedgerState = field(repr=False)
    state: ManifestState = field(repr=False)
    stamp: int
    mark: Hashable = field(repr=False)
    """Tells it from a version of the same number, should the graph be replaced."""
    locations: dict[tuple[str, str | None], TableLocation] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Where its tables are, by path and branch, as far as anybody asked; shared by the versions
    that follow one another in one process."""

    @property
    def table(self) -> Table:
        return self.ledger.table

    @property
    def version(self) -> int:
        return self.table.version

    @property
    def location(self) -> TableLocation:
        return self.table.location

    @property
    def generation(self) -> Generation:
        """The generation of the graph: what everything kept in memory about it is kept for."""
        generation = self.location.generation
        assert generation is not None, "known since the manifest was read"
        return generation


def read_manifest(location: TableLocation, version: int) -> ManifestSnapshot:
    return _apply_lineage(open_table(location, version), is_newest=False)


def read_newest(location: TableLocation, warm: ManifestSnapshot | None = None) -> ManifestSnapshot:
    """The newest version; `warm` is given back when nothing was published since."""
    if warm is None or warm.location != location:
        return _apply_lineage(open_newest(location), is_newest=True)
    if location.local_folder is not None:
        is_there = find_mark(location, warm.version) == warm.mark
        if is_there and warm.table.newest_version() == warm.version:
            return warm
        return _apply_lineage(open_newest(location), is_newest=True)
    # Where looking for the newest version is a request, opening what was opened before costs no
    # other: only that shows whether it is the same.
    newest = open_newest(location)
    if newest.version == warm.version and mark_of(newest) == warm.mark:
        return warm
    return _apply_lineage(newest, is_newest=True)


def make_published_manifest(
    ledger: LedgerState, state: ManifestState, base: ManifestSnapshot
) -> ManifestSnapshot:
    """The version this process has just made the newest, on the one before."""
    mark = mark_of(ledger.table)
    note_published(ledger.table.location, SeenVersion(ledger.table.version, mark))
    return ManifestSnapshot(ledger, state, base.stamp, mark, base.locations)


def _apply_lineage(table: Table, *, is_newest: bool) -> ManifestSnapshot:
    mark = mark_of(table)
    stamp = require_stamp(table.schema_metadata, table.schema.names)
    _require_columns(table)
    if is_newest:
        _require_newest(table)
    with translate_errors(f"decoding {table!r}"):
        ledger = read_state(table)
        rows: list[Row] = ledger.rows.select(_NAMES).to_pylist()
        state = decode_state(rows)
    generation = resolve_generation(
        table.location,
        state.graph_identity,
        SeenVersion(table.version, mark) if is_newest else None,
    )
    supposed = table.location.generation
    if supposed != generation:
        known = table.location.of_generation(generation)
        if supposed is not None:
            # Opened as one of the graph that was here before, with what is known of that.
            return _apply_lineage(open_table(known, table.version), is_newest=is_newest)
        ledger = replace(ledger, table=Table(known, table.native, table.columns))
    return ManifestSnapshot(ledger, state, stamp, mark)


def _require_columns(table: Table) -> None:
    """Raise unless it has the columns of a manifest; a damaged file may say anything."""
    for column in (*COLUMNS, MARK):
        at = table.schema.get_field_index(column.name)
        if at < 0 or table.schema.field(at).type != column.type:
            raise ManifestCorrupt(
                f"version {table.version} of {table.location} has no column {column.name} of type "
                f"{column.type}: its file is damaged; restore it from a backup"
            )


def _require_newest(table: Table) -> None:
    """Raise if a newer version was there and is gone: what it published must not be forgotten."""
    lost = find_lost_after(table.location, table.version)
    if lost is not None:
        raise ManifestCorrupt(
            f"version {lost} of {table.location} was written and is gone, and with it what it "
            "published; restore its file from a backup. If this is a copy that was made while the "
            "graph was written, make another with `omnigraph clone`. To go on from version "
            f"{table.version} instead, remove {table.location}/{LOG}"
        )


class History:
    """Commits and audits of one manifest branch; a newer version costs only what it added."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[int, tuple[tuple[Commit, ...], tuple[RecoveryAudit, ...]]] = {}

    def commits(self, manifest: ManifestSnapshot) -> tuple[Commit, ...]:
        """Every commit visible at this version, newest first."""
        pieces = self._read(manifest)
        found = {commit.commit_id: commit for commits, _ in pieces for commit in commits}
        return sort_newest_first(found)

    def audits(self, manifest: ManifestSnapshot) -> tuple[RecoveryAudit, ...]:
        """Every recovery recorded at this version, oldest first."""
        found: dict[tuple[str, str], RecoveryAudit] = {}
        for audit in (audit for _, audits in self._read(manifest) for audit in audits):
            known = found.get((audit.operation_id, audit.kind))
            found[audit.operation_id, audit.kind] = known.join(audit) if known else audit
        return tuple(sorted(found.values(), key=lambda a: (a.created_at, a.operation_id)))

    def find(
        self, manifest: ManifestSnapshot, is_wanted: Callable[[Commit], bool]
    ) -> Commit | None:
        """A commit visible at this version; any of several."""
        pieces = self._read(manifest)
        return next((c for commits, _ in pieces for c in commits if is_wanted(c)), None)

    def find_commit(self, manifest: ManifestSnapshot, commit_id: CommitId) -> Commit | None:
        return next((c for c in self.commits(manifest) if c.commit_id == commit_id), None)

    def _read(
        self, manifest: ManifestSnapshot
    ) -> Iterable[tuple[tuple[Commit, ...], tuple[RecoveryAudit, ...]]]:
        state_ids = set(manifest.ledger.fragment_ids)
        ids = [f.id for f in manifest.table.fragments() if f.id not in state_ids]
        with self._lock:
            fresh = [id for id in ids if id not in self._seen]
            with translate_errors(f"decoding the history of {manifest.location}"):
                if fresh:
                    # One scan for all of them: a first read meets a fragment for every publish.
                    self._seen |= _decode(manifest.table, fresh)
                recent: list[Row] = manifest.ledger.recent.select(_NAMES).to_pylist()
                return [*(self._seen[id] for id in ids), _split(recent)]


def sort_newest_first(commits: Mapping[CommitId, Commit]) -> tuple[Commit, ...]:
    """The commits, each before those it came from; among others the one made last first.

    Branches count their manifest versions on their own, so after a merge these alone say nothing.
    """
    children = Counter(parent for one in commits.values() for parent in one.parents)
    ready = [_Newer(one) for id, one in commits.items() if not children[id]]
    heapify(ready)
    ordered: list[Commit] = []
    while ready:
        commit = heappop(ready).commit
        ordered.append(commit)
        for parent in commit.parents:
            children[parent] -= 1
            if not children[parent] and parent in commits:
                heappush(ready, _Newer(commits[parent]))
    return tuple(ordered)


@dataclass(frozen=True, slots=True)
class _Newer:
    """A commit that comes first in a heap if it is the newer one."""

    commit: Commit

    def __lt__(self, other: _Newer) -> bool:
        return self.commit.order > other.commit.order


def _decode(
    table: Table, fragments: list[int]
) -> Mapping[int, tuple[tuple[Commit, ...], tuple[RecoveryAudit, ...]]]:
    rows: dict[int, list[Row]] = {id: [] for id in fragments}
    scanned = table.scan(_NAMES, fragments=fragments, with_row_address=True)
    addresses = scanned.column("_rowaddr").to_pylist()
    for address, one in zip(addresses, scanned.select(_NAMES).to_pylist(), strict=True):
        rows[address >> 32].append(one)
    return {id: _split(found) for id, found in rows.items()}


def _split(rows: list[Row]) -> tuple[tuple[Commit, ...], tuple[RecoveryAudit, ...]]:
    commits = tuple(decode_commit(r) for r in rows if r["object_type"] == RowKind.GRAPH_COMMIT)
    audits = tuple(decode_audit(r) for r in rows if r["object_type"] == RowKind.RECOVERY_AUDIT)
    return commits, audits
