"""Creating a graph: a claim, the schema files, the tables, and one commit that makes it exist.

Whatever fails, nothing is deleted unless it is certain that the manifest was not created and
that the deleted objects are this attempt's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from omnigraph.errors import (
    AlreadyInitialized,
    InitializationClaimed,
    InitializationCommitted,
    InitializationIndeterminate,
    OmniError,
)
from omnigraph.identity import MAIN, CommitId, EntityKind, TableIdentity, TableKey
from omnigraph.storage.clone_claim import require_finished
from omnigraph.storage.first_seen import write_empty_list
from omnigraph.storage.layout import (
    ADDRESS,
    INIT_CLAIM,
    MANIFEST,
    SCHEMA_FILES,
    SCHEMA_IR,
    SCHEMA_SOURCE,
    SCHEMA_STATE,
    make_table_path,
)
from omnigraph.storage.manifest.commits import INIT_KIND, Commit, encode_commit
from omnigraph.storage.manifest.encoded_rows import encode_rows
from omnigraph.storage.manifest.manifest_changes import (
    NewCommit,
    Publication,
    Register,
    SetVersion,
    apply_publication,
)
from omnigraph.storage.manifest.manifest_rows import COLUMNS, PRIMARY_KEY, STAMP_KEY
from omnigraph.storage.manifest.read import ManifestSnapshot, read_manifest
from omnigraph.storage.manifest.state import ManifestState, SchemaContract
from omnigraph.storage.objects.conditional_put_probe import require_create_if_absent
from omnigraph.storage.objects.store import ObjectStore, StoreKind
from omnigraph.storage.relocate import encode_address_note
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.commit import commit_exact
from omnigraph.storage.tables.ledger import stage_ledger
from omnigraph.storage.tables.schemas import mark_primary_key
from omnigraph.storage.tables.stage_table import stage_create
from omnigraph.version import INTERNAL_SCHEMA_VERSION

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
    genesis = NewCommit(CommitId(root.ids.next()), actor, root.now_us(), kind=INIT_KIND)
    created = _create(root, tables, contract, genesis)
    _finish(root, created)
    return created


def _refuse_used(store: ObjectStore, *, force: bool) -> None:
    require_finished(store)
    for path in (MANIFEST_VERSIONS,) if force else (MANIFEST, *SCHEMA_FILES):
        if store.exists(path):
            raise AlreadyInitialized(store.uri, path)


def is_initialized(store: ObjectStore) -> bool:
    """Whether there is a graph, and not just what a failed attempt left."""
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
    write_empty_list(root.store)
    if root.store.kind is StoreKind.LOCAL:
        root.hold().release()  # makes the files of the locks


def _create(
    root: GraphRoot, tables: Sequence[NewTable], contract: SchemaContract, genesis: NewCommit
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
        uuid=str(uuid4()),
        properties={},
    )
    return commit_exact(staged).version


def _create_manifest(
    root: GraphRoot,
    tables: Sequence[NewTable],
    versions: dict[TableIdentity, int],
    contract: SchemaContract,
    genesis: NewCommit,
) -> None:
    changes = [Register(t.identity, t.table_key, t.path) for t in tables]
    pins = [SetVersion(t.identity, t.table_key, versions[t.identity], None, 0) for t in tables]
    publication = Publication(changes=(*changes, *pins), commit=genesis, contract=contract)
    state = apply_publication(ManifestState(), publication, MAIN, None, None)
    commit = Commit(
        genesis.commit_id,
        MAIN,
        GENESIS_VERSION,
        None,
        None,
        genesis.actor_id,
        genesis.created_at,
        kind=genesis.kind,
    )
    stamp = {STAMP_KEY: str(INTERNAL_SCHEMA_VERSION)}
    rows, lineage = encode_rows(state, [encode_commit(commit)])
    staged = stage_ledger(
        root.manifest(),
        mark_primary_key(COLUMNS, PRIMARY_KEY).with_metadata(stamp),
        pa.concat_tables(rows),
        lineage,
        uuid=str(uuid4()),
        properties={},
    )
    commit_exact(staged)


def _probe_genesis(root: GraphRoot, genesis: NewCommit, error: OmniError) -> ManifestSnapshot:
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
