"""A draft gets its identities: those of the accepted schema where it continues, else fresh ones.

Names are not identity. One counter per graph numbers types, properties and table incarnations; it
only ever grows, so an id that was dropped never comes back as something else. What is planned and
never published moves no counter: where that matters, a distance of its own is skipped.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from omnigraph.catalog.catalog import (
    Catalog,
    EdgeType,
    Embed,
    EntityType,
    InterfaceType,
    NodeType,
    Property,
    TypeKind,
)
from omnigraph.catalog.draft import UNASSIGNED, Draft, Member, Owner
from omnigraph.catalog.renames import (
    Continuity,
    SchemaType,
    list_inert_hints,
    list_types_by_owner,
    match_declarations,
)
from omnigraph.errors import Diagnostic, ResourceLimitExceeded
from omnigraph.identity import OperationId, PropertyId, TableIncarnationId, TypeId

FIRST_IDENTITY = 1
MAX_IDENTITY = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Identified:
    """A catalog with identities, and what is worth saying about the hints that led to them."""

    catalog: Catalog
    notes: tuple[Diagnostic, ...] = ()


def identify_first(
    draft: Draft, identity_domain: str, first_identity: int = FIRST_IDENTITY
) -> Catalog:
    """The catalog of a graph that is being created; rename hints have nothing to say here.

    `list_creation_notes` tells about hints that were left in the text.
    """
    nothing = Catalog(identity_domain, first_identity)
    return _identify(draft, nothing, Continuity({}, {}))


def derive_first_identity(identity_domain: str) -> int:
    """Where the counter of a graph starts: so that two graphs have no table address in common.

    A graph that is removed and created again must not find its tables where those of the other
    were. Ids stay below 2^53, which any reader of JSON takes for what it is.
    """
    digest = hashlib.sha256(identity_domain.encode()).digest()
    return FIRST_IDENTITY + int.from_bytes(digest[:6], "big")


def apart_from_other_branches(accepted: Catalog, incarnation: str | None) -> Catalog:
    """The accepted schema with its counter where no other branch will count.

    Branches give out ids on their own, and what they give out must still be told apart when one
    is merged into another. `main` goes on counting; any other branch starts somewhere else.
    """
    return accepted if incarnation is None else _skip(accepted, incarnation)


def apart_from_other_attempts(accepted: Catalog, operation: OperationId) -> Catalog:
    """The accepted schema with its counter where no other attempt to change it will count.

    The place of a new table follows from its ids. Whoever removes the table of an attempt that
    failed may come late, and must not meet that of another attempt in its place.
    """
    return _skip(accepted, operation)


def _skip(accepted: Catalog, drawn: str) -> Catalog:
    """Move the counter by a distance that follows from a ULID, and so from chance."""
    digest = hashlib.sha256(drawn.encode()).digest()
    distance = 1 + int.from_bytes(digest[:4], "big")
    return replace(accepted, next_identity_id=accepted.next_identity_id + distance)


def list_creation_notes(draft: Draft) -> tuple[Diagnostic, ...]:
    """A warning for every rename hint of a schema that creates a graph."""
    return list_inert_hints(draft)


def identify_next(draft: Draft, accepted: Catalog, other: Catalog | None = None) -> Identified:
    """The catalog that follows the accepted one.

    What is new gets the ids that the catalog of another branch gives it, if there is one.

    Raises:
        CompileError: rename hints that name nothing, something else, or the same thing twice.
    """
    continuity = match_declarations(draft, accepted)
    if other is None:
        return Identified(_identify(draft, accepted, continuity), continuity.notes)
    counter = max(accepted.next_identity_id, other.next_identity_id)
    known = replace(accepted, next_identity_id=counter)
    return Identified(
        _identify(draft, known, _join_continuity(continuity, other)), continuity.notes
    )


def _join_continuity(continuity: Continuity, other: Catalog) -> Continuity:
    """What continues the accepted schema and, of the rest, what is in another one."""
    types = list_types_by_owner(other)
    properties = {(*owner, p.name): p for owner, type_ in types.items() for p in type_.properties}
    return Continuity(
        {**types, **continuity.types},
        {**properties, **continuity.properties},
        continuity.notes,
    )


@dataclass
class _Ids:
    """The ids of one draft, continued or fresh."""

    next: int
    types: dict[Owner, TypeId] = field(default_factory=dict)
    properties: dict[Member, PropertyId] = field(default_factory=dict)
    table_incarnations: dict[Owner, TableIncarnationId] = field(default_factory=dict)

    def take(self) -> int:
        if self.next >= MAX_IDENTITY:
            raise ResourceLimitExceeded("identities of this graph", MAX_IDENTITY, self.next)
        self.next += 1
        return self.next - 1


def _identify(draft: Draft, accepted: Catalog, continuity: Continuity) -> Catalog:
    desired = list_types_by_owner(draft.catalog)
    ids = _Ids(accepted.next_identity_id)
    _number_types(ids, desired, continuity)
    _number_properties(ids, desired, continuity)
    _number_incarnations(ids, desired, continuity)
    return _IdWriter(draft.catalog, ids).catalog(accepted.identity_domain)


def _number_types(ids: _Ids, desired: dict[Owner, SchemaType], continuity: Continuity) -> None:
    for owner in desired:
        before = continuity.types.get(owner)
        ids.types[owner] = before.id if before else TypeId(ids.take())


def _number_properties(ids: _Ids, desired: dict[Owner, SchemaType], continuity: Continuity) -> None:
    members = [
        (ids.types[owner], (*owner, property_.name))
        for owner, type_ in desired.items()
        for property_ in type_.properties
    ]
    for _, member in sorted(members, key=lambda m: (m[0], m[1][2])):
        before = continuity.properties.get(member)
        ids.properties[member] = before.id if before else PropertyId(ids.take())


def _number_incarnations(
    ids: _Ids, desired: dict[Owner, SchemaType], continuity: Continuity
) -> None:
    # Fresh type ids follow the order of `desired`, so this is the order of type ids as well.
    for owner in [o for o, type_ in desired.items() if isinstance(type_, EntityType)]:
        before = continuity.types.get(owner)
        continued = before.table_incarnation if isinstance(before, EntityType) else None
        ids.table_incarnations[owner] = continued or TableIncarnationId(ids.take())


@dataclass(frozen=True, slots=True)
class _IdWriter:
    """Writes the ids into the draft's types; everything else about them stays."""

    draft: Catalog
    ids: _Ids

    def catalog(self, identity_domain: str) -> Catalog:
        return Catalog(
            identity_domain=identity_domain,
            next_identity_id=self.ids.next,
            interfaces={n: self._write_interface(i) for n, i in self.draft.interfaces.items()},
            nodes={n: self._write_node(t) for n, t in self.draft.nodes.items()},
            edges={n: self._write_edge(t) for n, t in self.draft.edges.items()},
        )

    def _write_interface(self, interface: InterfaceType) -> InterfaceType:
        owner = (TypeKind.INTERFACE, interface.name)
        return replace(
            interface,
            id=self.ids.types[owner],
            properties=self._write_properties(owner, interface.properties, ()),
        )

    def _write_node(self, node: NodeType) -> NodeType:
        owner = (TypeKind.NODE, node.name)
        return replace(
            node,
            id=self.ids.types[owner],
            table_incarnation=self.ids.table_incarnations[owner],
            properties=self._write_properties(owner, node.properties, node.implements),
        )

    def _write_edge(self, edge: EdgeType) -> EdgeType:
        owner = (TypeKind.EDGE, edge.name)
        return replace(
            edge,
            id=self.ids.types[owner],
            table_incarnation=self.ids.table_incarnations[owner],
            properties=self._write_properties(owner, edge.properties, ()),
        )

    def _write_properties(
        self, owner: Owner, properties: tuple[Property, ...], implements: tuple[str, ...]
    ) -> tuple[Property, ...]:
        return tuple(self._write_property(owner, p, implements) for p in properties)

    def _write_property(
        self, owner: Owner, property_: Property, implements: tuple[str, ...]
    ) -> Property:
        return replace(
            property_,
            id=self.ids.properties[*owner, property_.name],
            embed=self._embed(owner, property_.embed),
            satisfies=self._write_satisfies(property_.name, implements),
        )

    def _embed(self, owner: Owner, embed: Embed | None) -> Embed | None:
        """An interface may leave the source to its implementers; then it has no id there."""
        if embed is None:
            return None
        unresolved = PropertyId(UNASSIGNED)
        return replace(embed, source_id=self.ids.properties.get((*owner, embed.source), unresolved))

    def _write_satisfies(self, name: str, implements: tuple[str, ...]) -> tuple[PropertyId, ...]:
        members = [(TypeKind.INTERFACE, interface, name) for interface in implements]
        return tuple(sorted(self.ids.properties[m] for m in members if m in self.ids.properties))
