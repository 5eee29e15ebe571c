"""Create, move and remove a graph as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

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
from omnigraph.storage.tables.file_integrity import rewritten_version
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.location import is_flat_name, relocate_version
from omnigraph.storage.tables.manifest_table import stage_manifest_rows
from omnigraph.storage.tables.stage_table import stage_create
from omnigraph.storage.tables.table_commit import commit_exact
from omnigraph.storage.writer_fence import FenceGuard
from omnigraph.version import INTERNAL_SCHEMA_VERSION

_RELEASED = "is_released"


@dataclass(frozen=True)
class CloneClaim:
    """A claim as it was read, and the tag by which it is replaced."""

    data: bytes
    tag: str

    @property
    def is_released(self) -> bool:
        """True if the claim no longer reserves the target."""
        return self._body.get(_RELEASED) is True

    @property
    def source(self) -> str:
        return str(self._body.get("source", "an unknown graph"))

    @cached_property
    def _body(self) -> Mapping[str, object]:
        try:
            body = json.loads(self.data)
        except (ValueError, RecursionError):
            return {}
        return body if isinstance(body, dict) else {}


def find_claim(store: ObjectStore) -> CloneClaim | None:
    found = store.find_versioned(CLONE_CLAIM)
    return None if found is None else CloneClaim(found.data, found.tag)


def require_finished(store: ObjectStore) -> None:
    """Raise `CloneUnfinished` if a clone to this place is under way, or was interrupted."""
    claim = find_claim(store)
    if claim is not None and not claim.is_released:
        raise CloneUnfinished(store.uri, claim.source)


def encode_claim(attempt: str, source: str, *, is_released: bool = False) -> bytes:
    body = {"version": 1, "attempt_id": attempt, "source": source}
    return json.dumps(body | ({_RELEASED: True} if is_released else {})).encode()


def take_claim(store: ObjectStore, data: bytes, over: CloneClaim | None) -> bool:
    """Make a claim in place of the one that was found; False if that is no longer there."""
    if over is None:
        return store.put_if_absent(CLONE_CLAIM, data)
    return store.put_if_match(CLONE_CLAIM, data, over.tag)


def holds_claim(store: ObjectStore, data: bytes) -> bool:
    return store.find(CLONE_CLAIM) == data


def release_claim(store: ObjectStore, data: bytes, released: bytes) -> bool:
    """Give a claim up; False if another clone has taken it meanwhile."""
    claim = find_claim(store)
    if claim is None or claim.data != data or not take_claim(store, released, claim):
        return False
    store.delete(CLONE_CLAIM)
    return True


_FORMAT = 1


def is_at_home(root: GraphRoot) -> bool:
    """Return whether the branches of the graph were last written at its present address."""
    return root.store.find(ADDRESS) == encode_address_note(root.store.uri)


def rebase_address(root: GraphRoot) -> None:
    """Rebase the graph to its present address, unless that has been done."""
    if is_at_home(root):
        return
    with root.acquire_fence() as guard:
        if not is_at_home(root):  # another one may have been first
            relocate(root, guard)


def relocate(root: GraphRoot, guard: FenceGuard) -> None:
    """Write the address of the graph into every version that has another.

    Raises:
        ManifestCorrupt: a version is not laid out as expected, or refers to files elsewhere.
    """
    with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
        for _ in pool.map(lambda one: _relocate(root, guard, *one), _list_branches(root)):
            continue
    note = encode_address_note(root.store.uri)
    if root.store.find(ADDRESS) != note:
        guard.check()
        root.store.put(ADDRESS, note)


def encode_address_note(uri: str) -> bytes:
    """Encode the note that every branch is based at this address."""
    return json.dumps({"version": _FORMAT, "uri": uri}).encode()


def _list_branches(root: GraphRoot) -> Iterator[tuple[str, str]]:
    """Every branch of every table that has a folder: its table and its name."""
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
                # Where the fence is a lease, others may have removed it by now, or done the same.
                root.store.put_if_match(version, moved, found.tag)


def list_version_files(store: ObjectStore, folder: str) -> list[str]:
    """The files of the versions in the folder of a table or of a branch."""
    names = store.list(f"{folder}/_versions")
    return [f"{folder}/_versions/{name}" for name in names if name.endswith(".manifest")]


GENESIS_VERSION = 1

MANIFEST_VERSIONS = f"{MANIFEST}/_versions"
"""A graph exists from its first manifest version on; files without one do not belong to a graph."""


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to create: what it is called and what its columns are."""

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
    """Create the graph, with a first commit recorded for the actor; gives its manifest version.

    `force` replaces what an earlier attempt left without a graph: schema files and empty tables.

    Raises:
        AlreadyInitialized: there is a graph, or what an earlier attempt left.
        InitializationClaimed: another attempt is under way, or died holding its claim.
        InitializationIndeterminate: it cannot be told whether the graph was created.
        InitializationCommitted: the graph was created and something failed afterwards.
    """
    _refuse_used(root.store, force=force)
    require_create_if_absent(root.store, root.ids)
    attempt = root.ids.next()
    _claim(root.store, attempt, tables)
    try:
        _refuse_used(root.store, force=force)
    except AlreadyInitialized:
        root.store.delete(INIT_CLAIM)
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
    """Return whether there is a graph, and not just what a failed attempt left."""
    return store.exists(MANIFEST_VERSIONS)


def _claim(store: ObjectStore, attempt: str, tables: Sequence[NewTable]) -> None:
    claim = {"version": 1, "attempt_id": attempt, "tables": [t.path for t in tables]}
    if not store.put_if_absent(INIT_CLAIM, json.dumps(claim).encode()):
        raise InitializationClaimed(store.uri, _find_claimant(store))


def _find_claimant(store: ObjectStore) -> str:
    try:
        claim = json.loads(store.find(INIT_CLAIM) or b"{}")
    except (ValueError, RecursionError):
        return "unknown"
    return str(claim.get("attempt_id", "unknown")) if isinstance(claim, dict) else "unknown"


def _write_schema_files(store: ObjectStore, contract: SchemaContract, *, force: bool) -> None:
    written: list[str] = []
    try:
        for path, text in list_mirror_files(contract):
            # Noted before it is written: an attempt that fails may have written it all the same,
            # and under the claim nobody else does.
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
    """Remove this attempt's own files, then its claim.

    The claim stays if any removal fails, so that nothing builds on a partial state; the
    error the caller is raising already says what went wrong first.
    """
    try:
        for path in written:
            store.delete(path)
        store.delete(INIT_CLAIM)
    except OmniError:
        return


def _drop_leftovers(store: ObjectStore, tables: Sequence[NewTable]) -> None:
    """Remove tables an earlier attempt left; without a manifest version they belong to no graph."""
    for path in (MANIFEST, *(table.path for table in tables)):
        if store.exists(path):
            store.delete_prefix(path)


def list_mirror_files(contract: SchemaContract) -> tuple[tuple[str, str], ...]:
    """The files next to the manifest that repeat the schema, in the order they are written."""
    return (
        (SCHEMA_SOURCE, contract.source),
        (SCHEMA_IR, contract.ir),
        (SCHEMA_STATE, contract.state),
    )


def write_control_files(root: GraphRoot) -> None:
    """Write what stands beside the tables of every graph, so that what is missing is noticed."""
    root.store.put(ADDRESS, encode_address_note(root.store.uri))
    write_empty_candidates(root.store)
    if root.store.kind is StoreKind.LOCAL:
        root.acquire_fence().release()  # makes the files of the locks


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
    """Look for this attempt's own first commit: only then did it succeed after all."""
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
        root.store.delete(INIT_CLAIM)
    except OmniError as error:
        raise InitializationCommitted(root.uri, str(error)) from error


_MAX_REMOVALS = 5
"""So often files that a writer adds meanwhile are removed as well."""


_OF_CREATION = frozenset(
    {INIT_CLAIM, MANIFEST, *SCHEMA_FILES, *map(make_tables_folder, EntityKind)}
)
"""What an attempt to create a graph writes before there is one."""


def is_unfinished_creation(files: ObjectStore, path: str, settings: Settings) -> bool:
    """Return whether all that is there was left by a creation that failed.

    Nobody can have used it; a graph, a clone under way and files of somebody else are not it.
    """
    if is_initialized(GraphRoot.at(files.uri_of(path), settings).store):
        return False
    names = {*files.list(path), *files.list_prefixes(path)}
    return all(name in _OF_CREATION or name.startswith(probe_path("")) for name in names)


@contextmanager
def exclude_writers(files: ObjectStore, path: str, settings: Settings) -> Iterator[str | None]:
    """Hold the fence of a graph that is to be removed, for the duration of a block.

    Gives the heartbeat of somebody at work all the same: a load, an export by tasks, maintenance.

    Raises:
        WriterBusy: a writer holds the graph.
    """
    if not files.exists(path):
        yield None
        return
    # Opening a graph to read it needs no heartbeats, and so loads none of this.
    from omnigraph.storage.writer_heartbeat import list_heartbeats, remove_dead_heartbeat  # noqa: PLC0415

    root = GraphRoot.at(files.uri_of(path), settings)
    with root.acquire_fence() as guard:
        # Whether the author of a note in a bucket is silent would take minutes to find out.
        alive = (
            note.path
            for note in list_heartbeats(root.store)
            if not remove_dead_heartbeat(root.store, note, guard, is_silent=lambda _: False)
        )
        yield next(alive, None)


def remove_graph(files: ObjectStore, path: str) -> None:
    """Remove everything below `path`; links are removed and never followed.

    Raises:
        StorageFailure: something is still there.
    """
    for _ in range(_MAX_REMOVALS):
        files.delete_prefix(path)
        if not files.exists(path):
            return
    raise StorageFailure(
        StorageKind.PRECONDITION,
        f"cannot remove {files.uri_of(path)}: it is a link or a file, or is being written",
    )
