"""Create, relocate and remove a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.errors import (
    AlreadyInitialized,
    CloneUnfinished,
    InitializationClaimed,
    InitializationCommitted,
    InitializationIndeterminate,
    ManifestCorrupt,
    OmniError,
    StorageFailure,
    StorageKind,
)
from omnigraph.identity import MAIN, CommitId, EntityKind, TableIdentity, TableKey
from omnigraph.settings import Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import (
    ADDRESS,
    CLONE_CLAIM,
    INIT_CLAIM,
    MANIFEST,
    SCHEMA_FILES,
    SCHEMA_IR,
    SCHEMA_SOURCE,
    SCHEMA_STATE,
    make_table_path,
    make_tables_folder,
    probe_path,
)
from omnigraph.storage.manifest.commit_records import (
    INIT_KIND,
    CommitMetadata,
    CommitRecord,
    encode_commit,
)
from omnigraph.storage.manifest.manifest_changes import (
    Publication,
    Register,
    SetVersion,
    apply_publication,
)
from omnigraph.storage.manifest.manifest_reader import ManifestSnapshot, read_manifest
from omnigraph.storage.manifest.manifest_state import (
    COLUMNS,
    PRIMARY_KEY,
    STAMP_KEY,
    ManifestState,
    SchemaContract,
    encode_rows,
)
from omnigraph.storage.objects.object_store import ObjectStore, StoreKind
from omnigraph.storage.objects.open_store import require_create_if_absent
from omnigraph.storage.orphans import write_empty_candidates
from omnigraph.storage.sealed_records import RecordKind, StoredRecord
from omnigraph.storage.tables.file_integrity import rewritten_version
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.location import is_flat_name, relocate_version
from omnigraph.storage.tables.manifest_table import stage_manifest_rows
from omnigraph.storage.tables.stage_table import stage_create
from omnigraph.storage.tables.table_commit import commit_exact
from omnigraph.storage.writer_fence import FenceGuard
from omnigraph.version import INTERNAL_SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CloneClaim:
    """The claim of a clone on its target; a released one claims nothing."""

    attempt_id: str = ""
    source: str = "an unknown graph"
    is_released: bool = False


CLONE_CLAIMS = RecordKind(
    what="the claim of a clone", type=CloneClaim, base_path=CLONE_CLAIM, key=None
)


def find_claim(store: ObjectStore) -> CloneClaim | None:
    found = CLONE_CLAIMS.find_stored(store)
    return None if found is None else decode_claim(found)


def decode_claim(found: StoredRecord[CloneClaim]) -> CloneClaim:
    """Decode a claim; a damaged one claims the target as well."""
    try:
        return found.record
    except ManifestCorrupt:
        return CloneClaim()


def require_finished(store: ObjectStore) -> None:
    """Raise `CloneUnfinished` if a clone to this path is in progress, or was interrupted."""
    claim = find_claim(store)
    if claim is not None and not claim.is_released:
        raise CloneUnfinished(store.uri, claim.source)


def release_claim(store: ObjectStore, claim: CloneClaim) -> bool:
    """Release a claim; False if another clone has taken it meanwhile."""
    found, released = CLONE_CLAIMS.find_stored(store), replace(claim, is_released=True)
    if found is None or found.data != CLONE_CLAIMS.encode(claim):
        return False
    if not CLONE_CLAIMS.swap(store, released, found):
        return False
    CLONE_CLAIMS.remove(store)
    return True


@dataclass(frozen=True, slots=True)
class AddressNote:
    """The address at which all branches of a graph are based."""

    uri: str


ADDRESS_NOTES = RecordKind(
    what="the address of a graph", type=AddressNote, base_path=ADDRESS, key=None
)


def is_at_home(root: GraphRoot) -> bool:
    """Return whether the graph was last written at its present address."""
    return ADDRESS_NOTES.holds(root.store, AddressNote(root.store.uri))


def rebase_address(root: GraphRoot) -> None:
    """Rebase the graph to its present address, unless that has been done."""
    if is_at_home(root):
        return
    with root.acquire_fence() as guard:
        if not is_at_home(root):  # another writer may have been first
            relocate(root, guard)


def relocate(root: GraphRoot, guard: FenceGuard) -> None:
    """Rewrite the address of the graph in every version that records another.

    Raises:
        ManifestCorrupt: a version is not laid out as expected, or refers to files elsewhere.
    """
    with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
        for _ in pool.map(lambda one: _relocate(root, guard, *one), _list_branches(root)):
            continue
    if not is_at_home(root):
        guard.check()
        ADDRESS_NOTES.put(root.store, AddressNote(root.store.uri))


def _list_branches(root: GraphRoot) -> Iterator[tuple[str, str]]:
    """Yield every branch with a folder, by its table and its name."""
    for path in (MANIFEST, *root.table_paths()):
        for name in root.store.list_prefixes(f"{path}/tree"):
            if is_flat_name(name):
                yield path, name


def _relocate(root: GraphRoot, guard: FenceGuard, path: str, branch: str) -> None:
    for version in list_version_files(root.store, f"{path}/tree/{branch}"):
        found = root.store.find_versioned(version)
        if found is None:
            continue  # removed since it was listed
        try:
            moved = relocate_version(found.data, root.store.uri_of(path))
        except ManifestCorrupt as error:
            raise ManifestCorrupt(f"{version}: {error.message}") from error
        if moved != found.data:
            guard.check()
            with rewritten_version(root.location(path, branch), version.rpartition("/")[2]):
                # With an expired lease, another writer may have removed or rewritten it.
                root.store.put_if_match(version, moved, found.tag)


def list_version_files(store: ObjectStore, folder: str) -> list[str]:
    """List the version files of a table or of a branch."""
    names = store.list(f"{folder}/_versions")
    return [f"{folder}/_versions/{name}" for name in names if name.endswith(".manifest")]


GENESIS_VERSION = 1

MANIFEST_VERSIONS = f"{MANIFEST}/_versions"
"""A graph exists once it has a manifest version."""


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to create."""

    identity: TableIdentity
    table_key: TableKey
    schema: pa.Schema

    @property
    def path(self) -> str:
        return make_table_path(EntityKind(self.table_key.partition(":")[0]), self.identity)


def initialize(
    root: GraphRoot,
    tables: Sequence[NewTable],
    contract: SchemaContract,
    *,
    force: bool = False,
    actor: str | None = None,
) -> ManifestSnapshot:
    """Create the graph, with a first commit of the actor; return its manifest version.

    `force` replaces the schema files and empty tables of an earlier attempt that created no graph.

    Raises:
        AlreadyInitialized: there is a graph, or files of an earlier attempt.
        InitializationClaimed: another attempt is in progress, or died holding its claim.
        InitializationIndeterminate: it is unknown whether the graph was created.
        InitializationCommitted: the graph was created and something failed afterwards.
    """
    _refuse_used(root.store, force=force)
    require_create_if_absent(root.store, root.ids)
    _claim(root.store, InitClaim(root.ids.next(), tuple(table.path for table in tables)))
    try:
        _refuse_used(root.store, force=force)
    except AlreadyInitialized:
        INIT_CLAIMS.remove(root.store)
        raise
    _write_schema_files(root.store, contract, force=force)
    if force:
        _drop_leftovers(root.store, tables)
    genesis = CommitMetadata(
        commit_id=CommitId(root.ids.next()),
        actor_id=actor,
        created_at=root.now_us(),
        kind=INIT_KIND,
    )
    created = _create(root, tables, contract, genesis)
    _finish(root, created)
    return created


def _refuse_used(store: ObjectStore, *, force: bool) -> None:
    require_finished(store)
    for path in (MANIFEST_VERSIONS,) if force else (MANIFEST, *SCHEMA_FILES):
        if store.exists(path):
            raise AlreadyInitialized(store.uri, path)


def is_initialized(store: ObjectStore) -> bool:
    """Return whether there is a graph, and not just the files of a failed attempt."""
    return store.exists(MANIFEST_VERSIONS)


@dataclass(frozen=True, slots=True)
class InitClaim:
    """The claim of an attempt to create a graph, with the tables it creates."""

    attempt_id: str = "unknown"
    tables: tuple[str, ...] = ()


INIT_CLAIMS = RecordKind(
    what="the claim of a creation", type=InitClaim, base_path=INIT_CLAIM, key=None
)


def _claim(store: ObjectStore, claim: InitClaim) -> None:
    if not INIT_CLAIMS.create(store, claim):
        raise InitializationClaimed(store.uri, _find_claimant(store))


def _find_claimant(store: ObjectStore) -> str:
    try:
        return (INIT_CLAIMS.find(store) or InitClaim()).attempt_id
    except ManifestCorrupt:
        return InitClaim().attempt_id


def _write_schema_files(store: ObjectStore, contract: SchemaContract, *, force: bool) -> None:
    written: list[str] = []
    try:
        for path, text in list_mirror_files(contract):
            # Listed before it is written: a failed call may have written it all the same, and the
            # claim keeps other attempts out.
            written.append(path)
            data = text.encode()
            if force:
                store.put(path, data)
            elif not store.put_if_absent(path, data):
                written.pop()
                raise AlreadyInitialized(store.uri, path)
    except OmniError:
        _undo(store, written)
        raise


def _undo(store: ObjectStore, written: Sequence[str]) -> None:
    """Remove the files of this attempt, then its claim, best effort.

    The claim is left if a removal fails, so that nothing builds on a partial state.
    """
    try:
        for path in written:
            store.delete(path)
        INIT_CLAIMS.remove(store)
    except OmniError:
        return


def _drop_leftovers(store: ObjectStore, tables: Sequence[NewTable]) -> None:
    """Remove the tables of an earlier attempt; without a manifest version there is no graph."""
    for path in (MANIFEST, *(table.path for table in tables)):
        if store.exists(path):
            store.delete_prefix(path)


def list_mirror_files(contract: SchemaContract) -> tuple[tuple[str, str], ...]:
    """Return the files that mirror the schema, in the order they are written."""
    return (
        (SCHEMA_SOURCE, contract.source),
        (SCHEMA_IR, contract.ir),
        (SCHEMA_STATE, contract.state),
    )


def write_control_files(root: GraphRoot) -> None:
    """Write the control files that every graph has, so that a missing one is detected."""
    ADDRESS_NOTES.put(root.store, AddressNote(root.store.uri))
    write_empty_candidates(root.store)
    if root.store.kind is StoreKind.LOCAL:
        root.acquire_fence().release()  # creates the lock files


def _create(
    root: GraphRoot, tables: Sequence[NewTable], contract: SchemaContract, genesis: CommitMetadata
) -> ManifestSnapshot:
    try:
        versions = {t.identity: _create_table(root, t) for t in tables}
        _create_manifest(root, tables, versions, contract, genesis)
    except OmniError as error:
        return _probe_genesis(root, genesis, error)
    try:
        return read_manifest(root.manifest(), GENESIS_VERSION)
    except OmniError as error:
        raise InitializationCommitted(root.uri, str(error)) from error


def _create_table(root: GraphRoot, table: NewTable) -> int:
    staged = stage_create(
        root.location(table.path),
        mark_primary_key(table.schema, "id"),
        properties={},
    )
    return commit_exact(staged).version


def _create_manifest(
    root: GraphRoot,
    tables: Sequence[NewTable],
    versions: dict[TableIdentity, int],
    contract: SchemaContract,
    genesis: CommitMetadata,
) -> None:
    changes = [Register(t.identity, t.table_key, t.path) for t in tables]
    pins = [SetVersion(t.identity, t.table_key, versions[t.identity], None, 0) for t in tables]
    publication = Publication(changes=(*changes, *pins), commit=genesis, contract=contract)
    state = apply_publication(ManifestState(), publication, MAIN, None, None)
    commit = CommitRecord.publish(genesis, branch=MAIN, manifest_version=GENESIS_VERSION)
    stamp = {STAMP_KEY: str(INTERNAL_SCHEMA_VERSION)}
    rows, lineage = encode_rows(state, [encode_commit(commit)])
    staged = stage_manifest_rows(
        root.manifest(),
        mark_primary_key(COLUMNS, PRIMARY_KEY).with_metadata(stamp),
        pa.concat_tables(rows),
        lineage,
        properties={},
    )
    commit_exact(staged)


def _probe_genesis(root: GraphRoot, genesis: CommitMetadata, error: OmniError) -> ManifestSnapshot:
    """Read the first commit: if it is that of this attempt, the creation succeeded after all."""
    try:
        found = read_manifest(root.manifest(), GENESIS_VERSION)
        heads = [head.commit_id for head in found.state.heads.values()]
    except OmniError as probe:
        raise InitializationIndeterminate(root.uri, str(error), str(probe)) from error
    if heads != [genesis.commit_id]:
        probe_text = f"the graph there began with {', '.join(heads) or 'nothing'}"
        raise InitializationIndeterminate(root.uri, str(error), probe_text) from error
    return found


def _finish(root: GraphRoot, created: ManifestSnapshot) -> None:
    assert created.version == GENESIS_VERSION
    try:
        write_control_files(root)
        INIT_CLAIMS.remove(root.store)
    except OmniError as error:
        raise InitializationCommitted(root.uri, str(error)) from error


_MAX_REMOVALS = 5
"""The number of attempts to remove a graph that is being written."""


_OF_CREATION = frozenset(
    {INIT_CLAIM, MANIFEST, *SCHEMA_FILES, *map(make_tables_folder, EntityKind)}
)
"""The paths that a creation writes before there is a graph."""


def is_unfinished_creation(files: ObjectStore, path: str, settings: Settings) -> bool:
    """Return whether a path has only the files of a failed creation, which were never used.

    A graph, a clone in progress and other files are none.
    """
    if is_initialized(GraphRoot.at(files.uri_of(path), settings).store):
        return False
    names = {*files.list(path), *files.list_prefixes(path)}
    return all(name in _OF_CREATION or name.startswith(probe_path("")) for name in names)


@contextmanager
def exclude_writers(files: ObjectStore, path: str, settings: Settings) -> Iterator[str | None]:
    """Hold the fence of a graph to be removed, for the duration of a block.

    Yield the heartbeat of work outside of the fence: a load, an export by tasks, maintenance.

    Raises:
        WriterBusy: a writer holds the graph.
    """
    if not files.exists(path):
        yield None
        return
    # Opening a graph to read it needs no heartbeats, and so loads none of this.
    from omnigraph.storage.staging_heartbeat import list_heartbeats, remove_dead_heartbeat  # noqa: PLC0415

    root = GraphRoot.at(files.uri_of(path), settings)
    with root.acquire_fence() as guard:
        # To detect that a heartbeat in a bucket has timed out would take minutes.
        alive = (
            note.path
            for note in list_heartbeats(root.store)
            if not remove_dead_heartbeat(root.store, note, guard, is_silent=lambda _: False)
        )
        yield next(alive, None)


def remove_graph(files: ObjectStore, path: str) -> None:
    """Remove everything below `path`; links are removed and never followed.

    Raises:
        StorageFailure: not everything could be removed.
    """
    for _ in range(_MAX_REMOVALS):
        files.delete_prefix(path)
        if not files.exists(path):
            return
    raise StorageFailure(
        StorageKind.PRECONDITION,
        f"cannot remove {files.uri_of(path)}: it is a link or a file, or is being written",
    )
