"""The rows of the manifest table, and the state of the graph one version of it records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import TypedDict

import pyarrow as pa

from omnigraph.cache import Cache
from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import (
    CommitId,
    EntityKind,
    TableIdentity,
    TableIncarnationId,
    TableKey,
    TypeId,
)
from omnigraph.storage.layout import make_table_path
from omnigraph.storage.tables.location import is_flat_name

STAMP_KEY = "omnigraph:internal_schema_version"
"""Metadata of the manifest's Arrow schema: the storage format that wrote the graph."""

PRIMARY_KEY = "object_id"

COLUMNS = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("stable_table_id", pa.uint64()),
        pa.field("table_incarnation_id", pa.uint64()),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
)


class RowKind(StrEnum):
    TABLE = "table"
    TABLE_VERSION = "table_version"
    TABLE_TOMBSTONE = "table_tombstone"
    GRAPH_HEAD = "graph_head"
    SCHEMA_CONTRACT = "schema_contract"
    GRAPH_COMMIT = "graph_commit"
    RECOVERY_AUDIT = "recovery_audit"


SCHEMA_CONTRACT_ID = "schema:current"


class Row(TypedDict):
    object_id: str
    object_type: str
    location: str | None
    metadata: str | None
    base_objects: list[str] | None
    table_key: str
    stable_table_id: int | None
    table_incarnation_id: int | None
    table_version: int | None
    table_branch: str | None
    row_count: int | None


def make_row(
    object_id: str,
    kind: RowKind,
    *,
    table_key: str = "",
    identity: TableIdentity | None = None,
    location: str | None = None,
    metadata: str | None = None,
    version: int | None = None,
    branch: str | None = None,
    row_count: int | None = None,
) -> Row:
    return Row(
        object_id=object_id,
        object_type=str(kind),
        location=location,
        metadata=metadata,
        base_objects=None,
        table_key=table_key,
        stable_table_id=identity.stable_table_id if identity else None,
        table_incarnation_id=identity.table_incarnation_id if identity else None,
        table_version=version,
        table_branch=branch,
        row_count=row_count,
    )


def make_table_row_id(identity: TableIdentity) -> str:
    return f"table:{_split_parts(identity)}"


def make_version_row_id(identity: TableIdentity, version: int) -> str:
    return f"table_version:{_split_parts(identity)}:{version:020d}"


def make_tombstone_row_id(identity: TableIdentity, version: int) -> str:
    return f"table_tombstone:{_split_parts(identity)}:{version:020d}"


def make_head_row_id(branch: str) -> str:
    return f"graph_head:{branch}"


def make_audit_row_id(operation_id: str, kind: str) -> str:
    return f"recovery_audit:{operation_id}:{kind}"


def _split_parts(identity: TableIdentity) -> str:
    return f"{identity.stable_table_id:016x}:{identity.table_incarnation_id:016x}"


_ROW_TYPE = pa.struct(list(COLUMNS))


def to_arrow(rows: list[Row]) -> pa.Table:
    """Convert the rows to a table, by one array of structs, at half the cost of a column each."""
    return pa.Table.from_struct_array(pa.array(rows, _ROW_TYPE))


_TABLE_KINDS = frozenset({RowKind.TABLE, RowKind.TABLE_VERSION, RowKind.TABLE_TOMBSTONE})


@dataclass(frozen=True, slots=True)
class Registration:
    """A table of the graph: its current key and its permanent path."""

    identity: TableIdentity
    table_key: TableKey
    path: str


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The pin: the version of a table in the graph, and its Lance branch.

    `owner` is the incarnation of the graph branch that may write it; None is `main`.
    """

    identity: TableIdentity
    version: int
    owner_branch: str | None
    row_count: int
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One live table of a snapshot, ready to be opened at exactly this version."""

    identity: TableIdentity
    table_key: TableKey
    path: str
    version: int
    owner_branch: str | None
    row_count: int
    owner: str | None = None

    @property
    def kind(self) -> EntityKind:
        return EntityKind(self.table_key.partition(":")[0])


@dataclass(frozen=True, slots=True)
class Head:
    """The newest commit authored on a branch.

    `incarnation` distinguishes a branch from an earlier one of its name whose row was inherited.
    """

    branch: str
    incarnation: str | None
    commit_id: CommitId
    parent_commit_id: CommitId | None


@dataclass(frozen=True, slots=True)
class SchemaContract:
    """The accepted schema as text, which storage stores and does not interpret."""

    source: str
    ir: str
    state: str

    @property
    def graph_identity(self) -> str:
        """The unique identity the graph got when it was created."""
        return _hash_graph_identity(self.state)


@dataclass(frozen=True)
class ManifestState:
    """The state recorded by the rows of one manifest version.

    `foreign` are rows of unknown kinds; they are carried along unchanged.
    """

    registrations: Mapping[TableIdentity, Registration] = field(default_factory=dict)
    versions: Mapping[TableIdentity, TableVersion] = field(default_factory=dict)
    tombstones: Mapping[TableIdentity, int] = field(default_factory=dict)
    heads: Mapping[str, Head] = field(default_factory=dict)
    contract: SchemaContract | None = None
    foreign: tuple[Row, ...] = ()

    @cached_property
    def entries(self) -> Mapping[TableKey, TableEntry]:
        """The live tables by name, in name order."""
        live = sorted(self._list_live(), key=lambda entry: entry.table_key)
        by_key: dict[TableKey, TableEntry] = {}
        for entry in live:
            if entry.table_key in by_key:
                raise ManifestCorrupt(f"two live tables share the name {entry.table_key}")
            by_key[entry.table_key] = entry
        return by_key

    def has_tables_of(self, other: ManifestState) -> bool:
        """Return whether it certainly has the schema and tables of another, without comparing them.

        True if one was derived from the other by changing versions only.
        """
        return (
            self.contract is other.contract
            and self.registrations is other.registrations
            and self.tombstones is other.tombstones
            and len(self.entries) == len(other.entries)
        )

    def require_consistent(self) -> None:
        """Raise unless every live table is registered and no two of them share a name."""
        _ = self.entries

    @cached_property
    def row_counts(self) -> Mapping[str, int]:
        """Row counts of the live tables, by name."""
        return {key: entry.row_count for key, entry in self.entries.items()}

    @cached_property
    def by_identity(self) -> Mapping[TableIdentity, TableEntry]:
        return {entry.identity: entry for entry in self.entries.values()}

    def _list_live(self) -> Iterator[TableEntry]:
        for identity, pin in self.versions.items():
            if self.tombstones.get(identity, -1) >= pin.version:
                continue
            known = self.registrations.get(identity)
            if known is None:
                raise ManifestCorrupt(f"table {identity} has a version but no registration")
            yield TableEntry(
                identity,
                known.table_key,
                known.path,
                pin.version,
                pin.owner_branch,
                pin.row_count,
                pin.owner,
            )

    @property
    def graph_identity(self) -> str:
        """The unique identity of the graph; empty in a manifest without a schema."""
        return self.contract.graph_identity if self.contract else ""

    @property
    def contract_hash(self) -> str:
        """A short hash of the schema."""
        return _hash_text(self.contract.state) if self.contract else ""

    def list_pins(
        self, identities: Iterable[TableIdentity]
    ) -> dict[TableIdentity, tuple[TableKey, int]]:
        """Return key and version of each given table that it shows."""
        known = self.by_identity
        entries = (known[identity] for identity in identities if identity in known)
        return {entry.identity: (entry.table_key, entry.version) for entry in entries}

    def head_of(self, branch: str, incarnation: str | None) -> Head | None:
        """Return the head authored on this branch, by any of its names; None on a fresh fork."""
        head = self.heads.get(branch)
        if head is not None and head.incarnation == incarnation:
            return head
        if incarnation is None:
            return None
        # Its newest commit was made before it got the name it has now.
        return next((h for h in self.heads.values() if h.incarnation == incarnation), None)


@lru_cache(maxsize=8)  # every commit asks three times
def _hash_text(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@lru_cache(maxsize=8)
def _hash_graph_identity(state: str) -> str:
    try:
        return str(json.loads(state)["schema_identity_domain"])
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ManifestCorrupt(f"the schema state names no identity domain: {error}") from error


def encode_lasting(state: ManifestState) -> list[Row]:
    """Encode the rows that are constant while only table rows change."""
    rows = [
        make_row(
            make_table_row_id(r.identity),
            RowKind.TABLE,
            table_key=r.table_key,
            identity=r.identity,
            location=r.path,
        )
        for _, r in sorted(state.registrations.items())
    ]
    for identity, version in sorted(state.tombstones.items()):
        key = state.registrations[identity].table_key
        rows.append(
            make_row(
                make_tombstone_row_id(identity, version),
                RowKind.TABLE_TOMBSTONE,
                table_key=key,
                identity=identity,
                version=version,
            )
        )
    if state.contract is not None:
        rows.append(_make_contract_row(state.contract))
    return [*rows, *state.foreign]


def encode_moving(state: ManifestState) -> list[Row]:
    """Encode the rows that every commit changes: versions and heads."""
    rows = [
        _make_version_row(state.registrations[identity].table_key, pin)
        for identity, pin in sorted(state.versions.items())
    ]
    return rows + [_make_head_row(head) for _, head in sorted(state.heads.items())]


def _make_version_row(table_key: TableKey, pin: TableVersion) -> Row:
    return make_row(
        make_version_row_id(pin.identity, pin.version),
        RowKind.TABLE_VERSION,
        table_key=table_key,
        identity=pin.identity,
        version=pin.version,
        branch=pin.owner_branch,
        row_count=pin.row_count,
        metadata=_pin_metadata(pin.owner),
    )


@lru_cache(maxsize=64)
def _pin_metadata(owner: str | None) -> str:
    return json.dumps({"owner": owner})


def _make_head_row(head: Head) -> Row:
    metadata = {
        "head_commit_id": head.commit_id,
        "parent_commit_id": head.parent_commit_id,
        "incarnation": head.incarnation,
    }
    return make_row(
        make_head_row_id(head.branch), RowKind.GRAPH_HEAD, metadata=json.dumps(metadata)
    )


def _make_contract_row(contract: SchemaContract) -> Row:
    return make_row(
        SCHEMA_CONTRACT_ID, RowKind.SCHEMA_CONTRACT, metadata=_encode_contract(contract)
    )


@lru_cache(maxsize=8)
def _encode_contract(contract: SchemaContract) -> str:
    return json.dumps({"source": contract.source, "ir": contract.ir, "state": contract.state})


def decode_state(rows: Iterable[Row]) -> ManifestState:
    """Decode state rows, with every check that needs no table."""
    fold = _Fold()
    for one in rows:
        fold.add(one)
    return fold.finish()


class _Fold:
    def __init__(self) -> None:
        self.registrations: dict[TableIdentity, Registration] = {}
        self.versions: dict[TableIdentity, tuple[TableVersion, str]] = {}
        self.tombstones: dict[TableIdentity, tuple[int, str]] = {}
        self.heads: dict[str, Head] = {}
        self.contract: SchemaContract | None = None
        self.foreign: list[Row] = []

    def add(self, one: Row) -> None:
        kind = one["object_type"]
        if kind in _TABLE_KINDS:
            self._add_table_row(one, _decode_identity(one))
        elif one["stable_table_id"] is not None or one["table_incarnation_id"] is not None:
            raise _make_corrupt_error(one, "carries a table identity, which its kind must not")
        elif kind == RowKind.GRAPH_HEAD:
            self._add_head(one)
        elif kind == RowKind.SCHEMA_CONTRACT:
            self.contract = _decode_contract(one["object_id"], one["metadata"])
        else:
            self.foreign.append(one)

    def _add_table_row(self, one: Row, identity: TableIdentity) -> None:
        key, version = TableKey(one["table_key"]), one["table_version"]
        if one["object_type"] == RowKind.TABLE:
            _require(one, one["object_id"] == make_table_row_id(identity), "has a foreign id")
            self._register(one, Registration(identity, key, one["location"] or ""))
            return
        if version is None:
            raise _make_corrupt_error(one, "has no version")
        if one["object_type"] == RowKind.TABLE_TOMBSTONE:
            _require(
                one,
                one["object_id"] == make_tombstone_row_id(identity, version),
                "has a foreign id",
            )
            if version > self.tombstones.get(identity, (-1, ""))[0]:
                self.tombstones[identity] = (version, key)
            return
        _require(
            one, one["object_id"] == make_version_row_id(identity, version), "has a foreign id"
        )
        if one["metadata"] is None or one["row_count"] is None:
            raise _make_corrupt_error(one, "lacks its metadata or its row count")
        branch, owner = one["table_branch"], _decode_metadata(one).get("owner")
        for name in (branch, owner):
            is_branch = name is None or (isinstance(name, str) and is_flat_name(name))
            _require(one, is_branch, f"names the branch {name!r}, which is not a ULID")
        pin = TableVersion(
            identity, version, branch, one["row_count"], None if owner is None else str(owner)
        )
        known = self.versions.get(identity)
        if known is None or version > known[0].version:
            self.versions[identity] = (pin, key)

    def _register(self, one: Row, registration: Registration) -> None:
        kind, _, name = registration.table_key.partition(":")
        if kind not in tuple(EntityKind) or not name:
            raise _make_corrupt_error(one, f"has the malformed name {registration.table_key!r}")
        expected = make_table_path(EntityKind(kind), registration.identity)
        _require(one, registration.path == expected, f"is not located at {expected}")
        known = self.registrations.setdefault(registration.identity, registration)
        _require(one, known == registration, "contradicts another registration")

    def _add_head(self, one: Row) -> None:
        branch = one["object_id"].removeprefix("graph_head:")
        _require(
            one, bool(branch) and one["object_id"] == make_head_row_id(branch), "has a foreign id"
        )
        text = _decode_metadata(one)
        parent, incarnation = text.get("parent_commit_id"), text.get("incarnation")
        self.heads[branch] = Head(
            branch,
            None if incarnation is None else str(incarnation),
            CommitId(_decode_text(one, text, "head_commit_id")),
            None if parent is None else CommitId(str(parent)),
        )

    def finish(self) -> ManifestState:
        for identity, (version, key) in self.tombstones.items():
            known = self.registrations.get(identity)
            if known is None:
                raise ManifestCorrupt(f"tombstone {version} of {key} has no registration")
            if known.table_key != key:
                raise ManifestCorrupt(f"tombstone of {key} belongs to {known.table_key}")
        state = ManifestState(
            registrations=self.registrations,
            versions={identity: pin for identity, (pin, _) in self.versions.items()},
            tombstones={identity: version for identity, (version, _) in self.tombstones.items()},
            heads=self.heads,
            contract=self.contract,
            foreign=tuple(self.foreign),
        )
        state.require_consistent()
        return state


def _decode_identity(one: Row) -> TableIdentity:
    stable, incarnation = one["stable_table_id"], one["table_incarnation_id"]
    if not stable or not incarnation:
        raise _make_corrupt_error(one, "lacks its table identity")
    return TableIdentity(TypeId(stable), TableIncarnationId(incarnation))


def _decode_metadata(one: Row) -> Mapping[str, object]:
    try:
        value = json.loads(one["metadata"] or "")
    except ValueError as error:
        raise _make_corrupt_error(one, "has metadata that is not JSON") from error
    if not isinstance(value, dict):
        raise _make_corrupt_error(one, "has metadata that is not an object")
    return value


@lru_cache(maxsize=8)  # every version of a manifest repeats it
def _decode_contract(object_id: str, metadata: str | None) -> SchemaContract:
    one = make_row(object_id, RowKind.SCHEMA_CONTRACT, metadata=metadata)
    text = _decode_metadata(one)
    return SchemaContract(
        _decode_text(one, text, "source"),
        _decode_text(one, text, "ir"),
        _decode_text(one, text, "state"),
    )


def _decode_text(one: Row, metadata: Mapping[str, object], name: str) -> str:
    value = metadata.get(name)
    if not isinstance(value, str):
        raise _make_corrupt_error(one, f"lacks {name}")
    return value


def _require(one: Row, holds: bool, problem: str) -> None:  # noqa: FBT001
    if not holds:
        raise _make_corrupt_error(one, problem)


def _make_corrupt_error(one: Row, problem: str) -> ManifestCorrupt:
    return ManifestCorrupt(f"manifest row {one['object_id']!r} ({one['object_type']}) {problem}")


def encode_rows(state: ManifestState, added: Sequence[Row]) -> tuple[Sequence[pa.Table], pa.Table]:
    """Encode a state, in pieces, with the rows added to its history."""
    moving = encode_moving(state)
    both = to_arrow([*moving, *added])
    return (_find_lasting(state), both.slice(0, len(moving))), both.slice(len(moving))


@dataclass(frozen=True, slots=True)
class _Lasting:
    """Encoded rows, and the state they were encoded from."""

    state: ManifestState
    rows: pa.Table


_kept: Cache[tuple[int, ...], _Lasting] = Cache(16)


def _find_lasting(state: ManifestState) -> pa.Table:
    """Return the constant rows of a state, encoded once and shared by the states derived from it.

    States that differ only in versions and heads share the other members, so object identity
    suffices. The members are retained with the rows, so that their ids cannot be reused.
    """
    parts = (state.registrations, state.tombstones, state.contract, state.foreign)
    key = tuple(map(id, parts))
    known = _kept.find(key)
    if known is None:
        known = _Lasting(state, to_arrow(encode_lasting(state)))
        _kept.keep(key, known)
    return known.rows
