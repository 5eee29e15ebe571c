"""Assign identities to a draft: those of the accepted schema where it continues it, else new ones.

A declaration continues an accepted one by name, or else by its rename hint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.catalog.catalog import (
    UNASSIGNED,
    Catalog,
    Draft,
    EdgeType,
    Embed,
    EntityType,
    InterfaceType,
    Member,
    NodeType,
    Owner,
    Property,
    TypeKind,
)
from omnigraph.errors import Diagnostic, ResourceLimitExceeded, Severity
from omnigraph.identity import OperationId, PropertyId, TableIncarnationId, TypeId
from omnigraph.language.source import Problems, Span

SchemaType = InterfaceType | NodeType | EdgeType

UNKNOWN_NAME = "S180"
OTHER_KIND = "S181"
OTHER_OWNER = "S182"
OWNER_IS_NEW = "S183"
ALREADY_CONTINUED = "S184"
NAME_IS_ACCEPTED = "S185"
NOTHING_ACCEPTED = "S186"

IDENTITY_CODES: Mapping[str, str] = {
    UNKNOWN_NAME: "A rename hint names nothing the accepted schema has.",
    OTHER_KIND: "A rename hint names a declaration of another kind.",
    OTHER_OWNER: "A rename hint names a property of another type.",
    OWNER_IS_NEW: "A property of a new type has a rename hint.",
    ALREADY_CONTINUED: "Two declarations continue the same accepted one.",
    NAME_IS_ACCEPTED: "A rename hint is ignored, because the new name is already accepted.",
    NOTHING_ACCEPTED: "A rename hint has no effect in a schema that creates a graph.",
}
"""The codes of problems with rename hints; the last two only warn."""


def list_types_by_owner(catalog: Catalog) -> dict[Owner, SchemaType]:
    """Map owners to types in the order of ids: interfaces, nodes, edges, each by name."""
    types: dict[Owner, SchemaType] = {}
    types |= {(TypeKind.INTERFACE, name): t for name, t in sorted(catalog.interfaces.items())}
    types |= {(TypeKind.NODE, name): t for name, t in sorted(catalog.nodes.items())}
    types |= {(TypeKind.EDGE, name): t for name, t in sorted(catalog.edges.items())}
    return types


@dataclass(frozen=True, slots=True)
class Continuity:
    """The accepted declaration that each desired one continues; all others are new."""

    types: Mapping[Owner, SchemaType]
    properties: Mapping[Member, Property]
    notes: tuple[Diagnostic, ...] = ()


def match_declarations(draft: Draft, accepted: Catalog) -> Continuity:
    """Match the draft to the accepted schema; report invalid hints in one CompileError."""
    matcher = _Matcher(draft, accepted)
    matcher.match_types()
    matcher.match_properties()
    matcher.problems.raise_if_any()
    return Continuity(matcher.types, matcher.properties, tuple(matcher.notes))


def list_inert_hints(draft: Draft) -> tuple[Diagnostic, ...]:
    """Warn of each hint in a schema that creates a graph, where there is nothing to rename."""
    spans = [(draft.span_of(owner), old) for owner, old in draft.type_renames.items()]
    spans += [(draft.span_of(m[:2], m[2]), old) for m, old in draft.property_renames.items()]
    return tuple(
        draft.source.diagnostic(
            NOTHING_ACCEPTED,
            f'@rename_from("{old}") has no effect: a graph that is being created has no names yet',
            span,
            stage="catalog",
            severity=Severity.WARNING,
        )
        for span, old in sorted(set(spans))
    )


class _Matcher:
    """Matches types, then properties, whose owners are resolved by then."""

    def __init__(self, draft: Draft, accepted: Catalog) -> None:
        self.draft = draft
        self.desired, self.accepted = (
            list_types_by_owner(draft.catalog),
            list_types_by_owner(accepted),
        )
        self.types: dict[Owner, SchemaType] = {}
        self.properties: dict[Member, Property] = {}
        self.problems = Problems(draft.source, "catalog")
        self.notes: list[Diagnostic] = []
        self._unresolved: set[Owner] = set()

    def match_types(self) -> None:
        self.types = {o: self.accepted[o] for o in self.desired if o in self.accepted}
        taken = {owner: owner[1] for owner in self.types}
        for owner, old in self._list_type_hints():
            kind, name = owner
            if owner in self.accepted:
                self._note_ignored(name, old, self.draft.span_of(owner))
            elif (kind, old) not in self.accepted:
                self._refuse_type(owner, old)
            elif (kind, old) in taken:
                self._unresolved.add(owner)
                self._refuse_taken(name, old, taken[kind, old], self.draft.span_of(owner))
            else:
                self.types[owner] = self.accepted[kind, old]
                taken[kind, old] = name

    def match_properties(self) -> None:
        for owner, type_ in self.desired.items():
            if owner in self.types:
                self._match_members(owner, type_, self.types[owner])
            elif owner not in self._unresolved:
                self._refuse_hints_of_new(owner, type_)

    def _match_members(self, owner: Owner, after: SchemaType, before: SchemaType) -> None:
        accepted = {p.name: p for p in before.properties}
        exact = [p.name for p in after.properties if p.name in accepted]
        taken = {name: name for name in exact}
        self.properties |= {(*owner, name): accepted[name] for name in exact}
        for name, old in self._list_member_hints(owner, after):
            span = self.draft.span_of(owner, name)
            if name in accepted:
                self._note_ignored(name, old, span)
            elif old not in accepted:
                self._refuse_property(owner, name, old)
            elif old in taken:
                self._refuse_taken(name, old, taken[old], span)
            else:
                self.properties[*owner, name] = accepted[old]
                taken[old] = name
        for name, old in self._list_inherited_hints(after):
            if name not in accepted and old in accepted and old not in taken:
                self.properties[*owner, name] = accepted[old]
                taken[old] = name

    def _list_type_hints(self) -> Iterable[tuple[Owner, str]]:
        hints = self.draft.type_renames.items()
        return sorted(hints, key=lambda h: (self.draft.span_of(h[0]), h[0]))

    def _list_member_hints(self, owner: Owner, type_: SchemaType) -> Iterable[tuple[str, str]]:
        """Yield the hints written in this declaration itself, in text order."""
        names = [p.name for p in type_.properties if p.declared_directly]
        names.sort(key=lambda name: (self.draft.span_of(owner, name), name))
        renames = self.draft.property_renames
        return [(name, renames[*owner, name]) for name in names if (*owner, name) in renames]

    def _list_inherited_hints(self, type_: SchemaType) -> Iterator[tuple[str, str]]:
        """Yield the hints of interfaces for injected properties: renamed there, renamed here.

        They were not written here, so one that does not fit is no error of this declaration.
        """
        if not isinstance(type_, NodeType):
            return
        injected = sorted(p.name for p in type_.properties if not p.declared_directly)
        for name in injected:
            for interface in sorted(type_.implements):
                old = self.draft.property_renames.get((TypeKind.INTERFACE, interface, name))
                if old is not None:
                    yield name, old

    def _note_ignored(self, name: str, old: str, span: Span) -> None:
        self.notes.append(
            self.draft.source.diagnostic(
                NAME_IS_ACCEPTED,
                f"@rename_from(\"{old}\") is ignored: '{name}' is already an accepted name",
                span,
                stage="catalog",
                hint="remove the hint",
                severity=Severity.WARNING,
            )
        )

    def _refuse_type(self, owner: Owner, old: str) -> None:
        kind, name = owner
        others = [k for k in TypeKind if k is not kind and (k, old) in self.accepted]
        said = f"cannot rename {kind} '{old}' to '{name}'"
        if others:
            code = OTHER_KIND
            message = f"{said} across declaration kinds: '{old}' is an accepted {others[0]}"
        else:
            code, message = UNKNOWN_NAME, f"{said}: no accepted declaration has that name"
        self._unresolved.add(owner)
        self.problems.add(code, message, self.draft.span_of(owner))

    def _refuse_property(self, owner: Owner, name: str, old: str) -> None:
        elsewhere = [
            f"{kind} '{type_.name}'"
            for (kind, _), type_ in self.accepted.items()
            if any(p.name == old for p in type_.properties)
        ]
        said = f"cannot rename property '{old}' to '{owner[1]}.{name}'"
        if elsewhere:
            code = OTHER_OWNER
            message = f"{said}: it moves across stable owners, '{old}' belongs to {elsewhere[0]}"
        else:
            code, message = UNKNOWN_NAME, f"{said}: no accepted declaration has that name"
        self.problems.add(code, message, self.draft.span_of(owner, name))

    def _refuse_taken(self, name: str, old: str, taker: str, span: Span) -> None:
        stays = taker == old
        reason = "which is still declared" if stays else f"which '{taker}' already continues"
        self.problems.add(
            ALREADY_CONTINUED,
            f"'{name}' cannot continue '{old}', {reason}",
            span,
            hint=f"remove the declaration of '{old}' or this hint" if stays else None,
        )

    def _refuse_hints_of_new(self, owner: Owner, type_: SchemaType) -> None:
        for name, old in self._list_member_hints(owner, type_):
            self.problems.add(
                OWNER_IS_NEW,
                f"property '{name}' cannot be renamed from '{old}': {owner[0]} '{owner[1]}' is new",
                self.draft.span_of(owner, name),
                hint=f"if '{owner[1]}' continues another type, give it @rename_from(\"Old\")",
            )


FIRST_IDENTITY = 1
MAX_IDENTITY = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Identified:
    """A catalog with identities, and notes about its rename hints."""

    catalog: Catalog
    notes: tuple[Diagnostic, ...] = ()


def identify_first(
    draft: Draft, identity_domain: str, first_identity: int = FIRST_IDENTITY
) -> Catalog:
    """Return the catalog of a graph that is being created; rename hints have no effect.

    `list_inert_hints` warns of leftover hints in the text.
    """
    nothing = Catalog(identity_domain, first_identity)
    return _identify(draft, nothing, Continuity({}, {}))


def derive_first_identity(identity_domain: str) -> int:
    """Return the first identity of a graph, so that no two graphs share a table address.

    A graph that is removed and created again must not reuse the table addresses of the other. Ids
    are below 2^53, which every JSON reader represents exactly.
    """
    digest = hashlib.sha256(identity_domain.encode()).digest()
    return FIRST_IDENTITY + int.from_bytes(digest[:6], "big")


def offset_for_branch(accepted: Catalog, incarnation: str | None) -> Catalog:
    """Return the accepted schema with a counter that no other branch uses.

    Branches assign ids independently, and these must stay distinct when one branch is merged into
    another. `main` continues its counter; any other branch starts at an offset.
    """
    return accepted if incarnation is None else _skip(accepted, incarnation)


def offset_for_operation(accepted: Catalog, operation: OperationId) -> Catalog:
    """Return the accepted schema with a counter that no other schema change uses.

    The path of a new table is derived from its ids. The table of a failed attempt may be removed
    late, and must not share its path with that of another attempt.
    """
    return _skip(accepted, operation)


def _skip(accepted: Catalog, drawn: str) -> Catalog:
    """Move the counter by a pseudo-random distance derived from a ULID."""
    digest = hashlib.sha256(drawn.encode()).digest()
    distance = 1 + int.from_bytes(digest[:4], "big")
    return replace(accepted, next_identity_id=accepted.next_identity_id + distance)


def identify_next(draft: Draft, accepted: Catalog, other: Catalog | None = None) -> Identified:
    """Return the catalog that follows the accepted one.

    New declarations get the ids of `other`, the catalog of another branch, if given.

    Raises:
        CompileError: rename hints without, of another, or with an ambiguous target.
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
    """Extend a continuity by the declarations of another catalog."""
    types = list_types_by_owner(other)
    properties = {(*owner, p.name): p for owner, type_ in types.items() for p in type_.properties}
    return Continuity(
        {**types, **continuity.types},
        {**properties, **continuity.properties},
        continuity.notes,
    )


@dataclass
class _Ids:
    """The ids of one draft, continued or new."""

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
    """Returns the types of the draft with their ids."""

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
        """Resolve the source of `@embed`; an interface may leave it to implementing types."""
        if embed is None:
            return None
        unresolved = PropertyId(UNASSIGNED)
        return replace(embed, source_id=self.ids.properties.get((*owner, embed.source), unresolved))

    def _write_satisfies(self, name: str, implements: tuple[str, ...]) -> tuple[PropertyId, ...]:
        members = [(TypeKind.INTERFACE, interface, name) for interface in implements]
        return tuple(sorted(self.ids.properties[m] for m in members if m in self.ids.properties))
