"""Read the manifest: its format stamp, single versions or the newest one, and its history."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from uuid import uuid4

from omnigraph.cache import Cache
from omnigraph.errors import (
    HistoricalVersionReclaimed,
    ManifestCorrupt,
    StampRefused,
    StorageFailure,
)
from omnigraph.identity import CommitId
from omnigraph.storage.manifest.commit_records import (
    CommitRecord,
    RecoveryAudit,
    decode_audit,
    decode_commit,
)
from omnigraph.storage.manifest.manifest_state import (
    COLUMNS,
    STAMP_KEY,
    ManifestState,
    Row,
    RowKind,
    decode_state,
)
from omnigraph.storage.tables.checksums import LOG
from omnigraph.storage.tables.file_integrity import find_lost_after
from omnigraph.storage.tables.file_probes import read_file_mark
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import Generation, TableLocation
from omnigraph.storage.tables.manifest_table import MARK, ManifestTableState, read_state
from omnigraph.storage.tables.table import Table, open_newest, open_table
from omnigraph.version import INTERNAL_SCHEMA_VERSION

MAX_TRACKED_BRANCHES = 4_096
"""Number of branches whose newest known version is remembered."""


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """A version that was the newest of its branch, and the mark of its file."""

    version: int
    mark: Hashable


@dataclass(slots=True)
class _Known:
    """The graph last seen at an address, and the newest known versions of its branches."""

    identity: str
    generation: Generation
    newest: dict[str | None, SeenVersion] = field(default_factory=dict)


_lock = threading.Lock()
_known: dict[str, _Known] = {}


def get_known_generation(manifest_uri: str) -> Generation | None:
    """Return the generation of the graph with this manifest address; None if none was seen."""
    known = _known.get(manifest_uri)
    return None if known is None else known.generation


def resolve_generation(
    manifest: TableLocation, identity: str, newest: SeenVersion | None = None
) -> Generation:
    """Return the generation of a graph whose manifest was just read.

    `identity` is that assigned at its creation. `newest` is the version read, if it was the newest
    one.
    """
    known = _known.get(manifest.uri)
    is_same = known is not None and known.identity == identity
    if known is not None and is_same and newest is not None:
        is_same = _is_same_line(manifest, known.newest.get(manifest.branch), newest)
    with _lock:
        if known is not _known.get(manifest.uri):
            # Another process began a generation concurrently, maybe of other files than those read.
            is_same = False
        if known is None or not is_same:
            name = identity if manifest.uri not in _known else f"{identity}.{uuid4().hex[:12]}"
            known = _Known(identity, Generation(manifest.uri, name))
            _known[manifest.uri] = known
        if newest is not None:
            _note(known, manifest.branch, newest)
    return known.generation


def note_published(manifest: TableLocation, published: SeenVersion) -> None:
    """Remember a version that this process just published."""
    with _lock:
        known = _known.get(manifest.uri)
        if known is not None and known.generation == manifest.generation:
            _note(known, manifest.branch, published)


def _note(known: _Known, branch: str | None, found: SeenVersion) -> None:
    seen = known.newest.pop(branch, found)
    known.newest[branch] = found if seen.version <= found.version else seen
    if len(known.newest) > MAX_TRACKED_BRANCHES:
        del known.newest[next(iter(known.newest))]


def _is_same_line(manifest: TableLocation, seen: SeenVersion | None, newest: SeenVersion) -> bool:
    """Return whether the branch still has the version seen before.

    A version that cleanup has removed counts as changed, which only costs the cache.
    """
    if seen is None:
        return True
    if seen.version == newest.version:
        return seen.mark == newest.mark
    return find_mark(manifest, seen.version) == seen.mark


_RELEASES = {
    1: "0.3.1 or earlier",
    2: "0.4.1 to 0.6.1",
    3: "0.6.2 to 0.7.2",
    4: "0.8.x",
    5: "an unreleased build",
    6: "0.9.x to 0.10.x",
}
_IDENTITY_COLUMN = "stable_table_id"


def require_stamp(metadata: Mapping[str, str], columns: list[str]) -> int:
    """Return the format stamp; raise unless it is the supported one.

    Nothing else of a manifest may be decoded before this check.
    """
    text = metadata.get(STAMP_KEY)
    if text is None:
        return _refuse_unstamped(columns)
    if not text.isascii() or not text.isdigit():
        raise StampRefused(
            f"__manifest carries the stamp {text!r}, which is not a number: the graph may be "
            "corrupt; keep its files as they are and look for a backup",
            text,
            INTERNAL_SCHEMA_VERSION,
        )
    found = int(text)
    if found > INTERNAL_SCHEMA_VERSION:
        raise StampRefused(
            f"__manifest is stamped at internal schema v{found}, this build expects "
            f"v{INTERNAL_SCHEMA_VERSION}; upgrade omnigraph",
            text,
            INTERNAL_SCHEMA_VERSION,
        )
    if found < INTERNAL_SCHEMA_VERSION:
        raise _make_too_old_error(found)
    return found


def _refuse_unstamped(columns: list[str]) -> int:
    if _IDENTITY_COLUMN not in columns:
        raise _make_too_old_error(1)
    raise StampRefused(
        "__manifest carries no stamp: either an interrupted initialization of an old build, or "
        "damaged metadata; delete the root and initialize again only if you know that the "
        "initialization failed; preserve it in any other case",
        None,
        INTERNAL_SCHEMA_VERSION,
    )


def _make_too_old_error(found: int) -> StampRefused:
    release = _RELEASES.get(found, "an unrecognized older release")
    return StampRefused(
        f"__manifest is stamped at internal schema v{found}, written by omnigraph {release}; "
        f"this build reads v{INTERNAL_SCHEMA_VERSION} only. With that release run "
        "`omnigraph export`, then with this one `omnigraph init` and "
        "`omnigraph load --mode overwrite`: data, vectors and blobs survive, history and "
        "branches do not (see the upgrade guide)",
        str(found),
        INTERNAL_SCHEMA_VERSION,
    )


_NAMES = COLUMNS.names


@dataclass(frozen=True)
class ManifestSnapshot:
    """One version of the manifest on one of its physical branches, folded and checked."""

    table_state: ManifestTableState = field(repr=False)
    state: ManifestState = field(repr=False)
    stamp: int
    mark: Hashable = field(repr=False)
    """Distinguishes versions of the same number, if the graph was replaced."""
    locations: dict[tuple[str, str | None], TableLocation] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Locations of its tables by path and branch, filled on demand and shared by the versions
    published in this process."""

    @property
    def table(self) -> Table:
        return self.table_state.table

    @property
    def version(self) -> int:
        return self.table.version

    @property
    def location(self) -> TableLocation:
        return self.table.location

    @property
    def generation(self) -> Generation:
        """The generation of the graph, by which caches are keyed."""
        generation = self.location.generation
        assert generation is not None, "known since the manifest was read"
        return generation


def read_manifest(location: TableLocation, version: int) -> ManifestSnapshot:
    return _apply_lineage(open_table(location, version), is_newest=False)


def read_newest(location: TableLocation, warm: ManifestSnapshot | None = None) -> ManifestSnapshot:
    """Return the newest version; `warm` itself if it still is the newest."""
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
    table_state: ManifestTableState, state: ManifestState, base: ManifestSnapshot
) -> ManifestSnapshot:
    """Return the version that this process just published on `base`."""
    mark = mark_of(table_state.table)
    note_published(table_state.table.location, SeenVersion(table_state.table.version, mark))
    return ManifestSnapshot(table_state, state, base.stamp, mark, base.locations)


def _apply_lineage(table: Table, *, is_newest: bool) -> ManifestSnapshot:
    mark = mark_of(table)
    stamp = require_stamp(table.schema_metadata, table.schema.names)
    _require_columns(table)
    if is_newest:
        _require_newest(table)
    with translate_errors(f"decoding {table!r}"):
        table_state = read_state(table)
        rows: list[Row] = table_state.rows.select(_NAMES).to_pylist()
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
        table_state = replace(table_state, table=Table(known, table.native, table.columns))
    return ManifestSnapshot(table_state, state, stamp, mark)


def _require_columns(table: Table) -> None:
    """Raise unless it has the columns of a manifest, which a damaged file may lack."""
    for column in (*COLUMNS, MARK):
        at = table.schema.get_field_index(column.name)
        if at < 0 or table.schema.field(at).type != column.type:
            raise ManifestCorrupt(
                f"version {table.version} of {table.location} has no column {column.name} of type "
                f"{column.type}: its file is damaged; restore it from a backup"
            )


def _require_newest(table: Table) -> None:
    """Raise if a newer version existed and is missing: its publish must not be lost silently."""
    lost = find_lost_after(table.location, table.version)
    if lost is not None:
        raise ManifestCorrupt(
            f"version {lost} of {table.location} was written and is gone, and with it what it "
            "published; restore its file from a backup. If this is a copy that was made while the "
            "graph was written, make another with `omnigraph clone`. To go on from version "
            f"{table.version} instead, remove {table.location}/{LOG}"
        )


@dataclass
class _Listed:
    """The commits visible at one version."""

    table_state: ManifestTableState
    by_id: Mapping[CommitId, CommitRecord]

    @cached_property
    def newest_first(self) -> tuple[CommitRecord, ...]:
        return sort_newest_first(self.by_id)


class History:
    """Commits and audits of one manifest branch; a newer version costs only its additions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[int, tuple[tuple[CommitRecord, ...], tuple[RecoveryAudit, ...]]] = {}
        self._listed: _Listed | None = None

    def commits(self, manifest: ManifestSnapshot) -> tuple[CommitRecord, ...]:
        """Return every commit visible at this version, newest first."""
        return self._list(manifest).newest_first

    def commits_by_id(self, manifest: ManifestSnapshot) -> Mapping[CommitId, CommitRecord]:
        """Return every commit visible at this version by id."""
        return self._list(manifest).by_id

    def _list(self, manifest: ManifestSnapshot) -> _Listed:
        listed = self._listed
        # A version without a later publish is requested repeatedly.
        if listed is None or listed.table_state is not manifest.table_state:
            pieces = self._read(manifest)
            found = {commit.commit_id: commit for commits, _ in pieces for commit in commits}
            listed = self._listed = _Listed(manifest.table_state, found)
        return listed

    def audits(self, manifest: ManifestSnapshot) -> tuple[RecoveryAudit, ...]:
        """Return every recovery recorded at this version, oldest first."""
        found: dict[tuple[str, str], RecoveryAudit] = {}
        for audit in (audit for _, audits in self._read(manifest) for audit in audits):
            known = found.get((audit.operation_id, audit.kind))
            found[audit.operation_id, audit.kind] = known.join(audit) if known else audit
        return tuple(sorted(found.values(), key=lambda a: (a.created_at, a.operation_id)))

    def find(
        self, manifest: ManifestSnapshot, is_wanted: Callable[[CommitRecord], bool]
    ) -> CommitRecord | None:
        """Return some commit visible at this version that satisfies the predicate."""
        pieces = self._read(manifest)
        return next((c for commits, _ in pieces for c in commits if is_wanted(c)), None)

    def find_commit(self, manifest: ManifestSnapshot, commit_id: CommitId) -> CommitRecord | None:
        return self._list(manifest).by_id.get(commit_id)

    def _read(
        self, manifest: ManifestSnapshot
    ) -> Iterable[tuple[tuple[CommitRecord, ...], tuple[RecoveryAudit, ...]]]:
        state_ids = set(manifest.table_state.fragment_ids)
        ids = [f.id for f in manifest.table.fragments() if f.id not in state_ids]
        with self._lock:
            fresh = [id for id in ids if id not in self._seen]
            with translate_errors(f"decoding the history of {manifest.location}"):
                if fresh:
                    # One scan for all of them: a first read meets a fragment for every publish.
                    self._seen |= _decode(manifest.table, fresh)
                recent: list[Row] = manifest.table_state.recent.select(_NAMES).to_pylist()
                return [*(self._seen[id] for id in ids), _split(recent)]


def sort_newest_first(commits: Mapping[CommitId, CommitRecord]) -> tuple[CommitRecord, ...]:
    """Sort commits topologically, descendants first; unrelated ones by time, newest first.

    Manifest versions of different branches are not comparable, so a merge needs both criteria.
    """
    children = Counter(parent for one in commits.values() for parent in one.parents)
    ready = [_Newer(one) for id, one in commits.items() if not children[id]]
    heapify(ready)
    ordered: list[CommitRecord] = []
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
    """Orders commits in a heap, newest first."""

    commit: CommitRecord

    def __lt__(self, other: _Newer) -> bool:
        return self.commit.order > other.commit.order


def _decode(
    table: Table, fragments: list[int]
) -> Mapping[int, tuple[tuple[CommitRecord, ...], tuple[RecoveryAudit, ...]]]:
    rows: dict[int, list[Row]] = {id: [] for id in fragments}
    scanned = table.scan(_NAMES, fragments=fragments, with_row_address=True)
    addresses = scanned.column("_rowaddr").to_pylist()
    for address, one in zip(addresses, scanned.select(_NAMES).to_pylist(), strict=True):
        rows[address >> 32].append(one)
    return {id: _split(found) for id, found in rows.items()}


def _split(rows: list[Row]) -> tuple[tuple[CommitRecord, ...], tuple[RecoveryAudit, ...]]:
    commits = tuple(decode_commit(r) for r in rows if r["object_type"] == RowKind.GRAPH_COMMIT)
    audits = tuple(decode_audit(r) for r in rows if r["object_type"] == RowKind.RECOVERY_AUDIT)
    return commits, audits


MAX_CACHED_MANIFESTS = 64


class ManifestCache:
    """Cache of recent manifest versions by location, which names the generation of the graph."""

    def __init__(self, capacity: int = MAX_CACHED_MANIFESTS) -> None:
        self._kept: Cache[tuple[TableLocation, int], ManifestSnapshot] = Cache(capacity)

    def keep(self, manifest: ManifestSnapshot) -> None:
        self._kept.keep((manifest.location, manifest.version), manifest)

    def read(self, location: TableLocation, version: int) -> ManifestSnapshot:
        """Return an existing version; a cached one that cleanup removed does not count.

        Raises:
            HistoricalVersionReclaimed: cleanup removed it.
        """
        known = self._kept.find((location, version))
        if known is not None and find_mark(location, version) == known.mark:
            return known
        manifest = read_manifest(location, version)
        self.keep(manifest)
        return manifest


# --- marks of versions ----------------------------------------------------------------------------


def mark_of(table: Table) -> Hashable:
    """Return a mark that no other version of the same number has: its file, or its newest data."""
    folder = table.location.local_folder
    if folder is not None:
        return read_file_mark(folder, table.version)
    newest = table.newest_fragment()
    return None if newest is None else tuple(file.path for file in newest.files)


def find_mark(location: TableLocation, version: int) -> Hashable:
    """Return the mark of the existing version; None if there is none."""
    folder = location.local_folder
    if folder is not None:
        return read_file_mark(folder, version)
    with suppress(HistoricalVersionReclaimed, StorageFailure):
        return mark_of(open_table(location, version))
    return None
