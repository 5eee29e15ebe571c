"""Changes and requirements of a publish, and the pure function that applies them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.errors import BadRequest, ExpectedVersionMismatch, ReadSetChanged
from omnigraph.identity import CommitId, EntityKind, TableIdentity, TableKey
from omnigraph.storage.layout import make_table_path
from omnigraph.storage.manifest.commit_records import CommitMetadata, CommitRecord, RecoveryAudit
from omnigraph.storage.manifest.manifest_state import (
    Head,
    ManifestState,
    Registration,
    SchemaContract,
    TableVersion,
)


@dataclass(frozen=True, slots=True)
class SetVersion:
    """Show another version of a table."""

    identity: TableIdentity
    table_key: TableKey
    version: int
    owner_branch: str | None
    row_count: int
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Register:
    """Add a table to the graph."""

    identity: TableIdentity
    table_key: TableKey
    path: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Rename a table; its path and versions are unchanged."""

    identity: TableIdentity
    expected_key: TableKey
    table_key: TableKey


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Hide a table from this version on."""

    identity: TableIdentity
    table_key: TableKey
    version: int


Change = SetVersion | Register | Rename | Tombstone


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Another schema, with its changes of whole tables."""

    contract: SchemaContract
    registered: tuple[Register, ...] = ()
    created: tuple[SetVersion, ...] = ()
    """The first versions of registered tables, which exist and are unreferenced."""
    renamed: tuple[Rename, ...] = ()
    dropped: tuple[Tombstone, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        return (*self.registered, *self.renamed, *self.created, *self.dropped)

    @property
    def concerned(self) -> frozenset[TableIdentity]:
        """The existing tables that it renames or drops."""
        renamed = frozenset(one.identity for one in self.renamed)
        return renamed | frozenset(one.identity for one in self.dropped)

    def rename(self, shown: SetVersion) -> SetVersion:
        """Return the version of a table under the name it has after the change."""
        names = (one.table_key for one in self.renamed if one.identity == shown.identity)
        return replace(shown, table_key=next(names, shown.table_key))


@dataclass(frozen=True, slots=True)
class ExactHead:
    """The head row of the branch must be exactly this one; None means it must be absent."""

    commit_id: CommitId | None


@dataclass(frozen=True, slots=True)
class Publication:
    """One publish: changes, requirements, and the commit and audits to record."""

    changes: tuple[Change, ...] = ()
    expected: Mapping[TableIdentity, tuple[TableKey, int]] = field(default_factory=dict)
    head: ExactHead | None = None
    commit: CommitMetadata | None = None
    audits: tuple[RecoveryAudit, ...] = ()
    contract: SchemaContract | None = None
    history: tuple[CommitRecord, ...] = ()
    """Commits of another branch that a merge brings in."""

    @property
    def is_empty(self) -> bool:
        return not (self.changes or self.commit or self.audits or self.contract)


def check_expectations(
    state: ManifestState, publication: Publication, branch: str, incarnation: str | None
) -> None:
    """Raise unless every requirement of the publication is satisfied.

    The order is fixed: the head first, then tables by name.
    """
    if publication.head is not None:
        found = state.head_of(branch, incarnation)
        actual = found.commit_id if found else None
        if actual != publication.head.commit_id:
            raise ReadSetChanged(f"graph_head:{branch}", publication.head.commit_id, actual)
    for identity, (key, version) in sorted(publication.expected.items(), key=lambda e: e[1]):
        _check_table(state, identity, key, version)


def _check_table(
    state: ManifestState, identity: TableIdentity, key: TableKey, version: int
) -> None:
    known = state.registrations.get(identity)
    if known is not None and known.table_key != key:
        raise ReadSetChanged(f"dataset_binding:{identity}", key, known.table_key)
    entry = state.by_identity.get(identity)
    actual = entry.version if entry else state.tombstones.get(identity, 0)
    if actual != version:
        raise ExpectedVersionMismatch(key, version, actual)


def apply_publication(
    state: ManifestState,
    publication: Publication,
    branch: str,
    incarnation: str | None,
    parent: CommitId | None,
) -> ManifestState:
    """Return the state after the publication; raise for names that would collide."""
    _refuse_repeats(publication.changes)
    for change in sorted(publication.changes, key=_sort_registrations_first):
        state = _apply(state, change)
    if publication.contract is not None:
        state = replace(state, contract=publication.contract)
    if publication.commit is not None:
        head = Head(branch, incarnation, publication.commit.commit_id, parent)
        # A branch has one head; an earlier one may be there by the name it had before.
        others = {
            name: other
            for name, other in state.heads.items()
            if incarnation is None or other.incarnation != incarnation
        }
        state = replace(state, heads={**others, branch: head})
    state.require_consistent()
    return state


def _sort_registrations_first(change: Change) -> int:
    return 0 if isinstance(change, Register | Rename) else 1


def _refuse_repeats(changes: Iterable[Change]) -> None:
    bindings: set[TableIdentity] = set()
    versions: set[tuple[TableIdentity, int]] = set()
    for change in changes:
        if isinstance(change, Register | Rename):
            if change.identity in bindings:
                raise BadRequest(f"table {change.identity} is bound twice in one publish")
            bindings.add(change.identity)
        elif isinstance(change, SetVersion):
            if (change.identity, change.version) in versions:
                raise BadRequest(f"{change.table_key} version {change.version} is set twice")
            versions.add((change.identity, change.version))


def _apply(state: ManifestState, change: Change) -> ManifestState:
    match change:
        case Register():
            return _register(state, change)
        case Rename():
            return _rename(state, change)
        case SetVersion():
            return _set_version(state, change)
        case Tombstone():
            return _apply_tombstone(state, change)


def _register(state: ManifestState, change: Register) -> ManifestState:
    if change.path != _get_path(change.identity, change.table_key):
        raise BadRequest(f"{change.path} is not the path of {change.table_key}")
    wanted = Registration(change.identity, change.table_key, change.path)
    known = state.registrations.get(change.identity)
    if known is not None and known != wanted:
        raise BadRequest(f"table {change.identity} is already registered as {known.table_key}")
    return replace(state, registrations={**state.registrations, change.identity: wanted})


def _rename(state: ManifestState, change: Rename) -> ManifestState:
    # Not by name: while several are renamed at once, two may have one name for a moment.
    known, pin = state.registrations.get(change.identity), state.versions.get(change.identity)
    hidden_from = state.tombstones.get(change.identity, -1)
    if known is None or pin is None or hidden_from >= pin.version:
        raise BadRequest(f"table {change.identity} is not live and cannot be renamed")
    if known.table_key != change.expected_key:
        member = f"dataset_binding:{change.identity}"
        raise ReadSetChanged(member, change.expected_key, known.table_key)
    path = _get_path(change.identity, change.table_key)
    if path != known.path:
        raise BadRequest(f"{change.table_key} would move {known.table_key} to {path}")
    renamed = Registration(change.identity, change.table_key, path)
    return replace(state, registrations={**state.registrations, change.identity: renamed})


def _set_version(state: ManifestState, change: SetVersion) -> ManifestState:
    _require_bound(state, change.identity, change.table_key)
    pin = TableVersion(
        change.identity, change.version, change.owner_branch, change.row_count, change.owner
    )
    known = state.versions.get(change.identity)
    # Branches of a table count their versions on their own.
    is_same = known is not None and _identify_version(known) == _identify_version(pin)
    if known is not None and is_same and known.row_count != pin.row_count:
        raise BadRequest(
            f"{change.table_key} version {pin.version} is recorded with {known.row_count} rows, "
            f"not {pin.row_count}"
        )
    return replace(state, versions={**state.versions, change.identity: pin})


def _identify_version(pin: TableVersion) -> tuple[str | None, int]:
    return (pin.owner_branch, pin.version)


def _apply_tombstone(state: ManifestState, change: Tombstone) -> ManifestState:
    _require_bound(state, change.identity, change.table_key)
    if state.tombstones.get(change.identity, -1) >= change.version:
        raise BadRequest(f"{change.table_key} already has a tombstone at {change.version}")
    return replace(state, tombstones={**state.tombstones, change.identity: change.version})


def _require_bound(state: ManifestState, identity: TableIdentity, key: TableKey) -> None:
    known = state.registrations.get(identity)
    if known is None:
        raise BadRequest(f"table {identity} ({key}) is not registered")
    if known.table_key != key:
        raise ReadSetChanged(f"dataset_binding:{identity}", key, known.table_key)


def _get_path(identity: TableIdentity, key: TableKey) -> str:
    return make_table_path(EntityKind(key.partition(":")[0]), identity)
