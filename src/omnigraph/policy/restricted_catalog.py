"""Restrict a schema to the types and properties that an actor may see.

Every reader uses a catalog: queries are bound to one, and exports and changes have its columns.
What the restricted catalog does not have cannot be read by any verb.

Hidden as well, since they would reveal what is hidden: a type whose id derives from a hidden key,
an edge type with a hidden type at an end, and a vector that embeds a hidden text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from omnigraph.cache import Cache
from omnigraph.catalog.catalog import (
    Catalog,
    Constraint,
    ConstraintKind,
    EdgeType,
    EntityType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.errors import BadRequest
from omnigraph.identity import PropertyId, TypeId
from omnigraph.policy.decision import AccessRequest, Action, Authority, Policy, decide, find_rules

NO_NAMES: frozenset[str] = frozenset()


def find_hidden(
    authority: Authority, actor: str | None, action: Action, branch: str | None
) -> frozenset[str]:
    """Return the names that are hidden from an actor who does an action on a branch.

    The condition of a change is a read as well: what may not be read cannot decide what is
    changed, unless the actor may read nothing at all.
    """
    if not isinstance(authority, Policy) or not authority.excluded_names:
        return NO_NAMES
    request = AccessRequest(actor, action, branch)
    hidden = _intersect_exclusions([rule.excludes for rule in find_rules(authority, request)])
    if action is Action.CHANGE and decide(authority, actor, Action.READ, branch=branch).allowed:
        hidden |= find_hidden(authority, actor, Action.READ, branch)
    return hidden


def _intersect_exclusions(rules: Iterable[frozenset[str]]) -> frozenset[str]:
    given = list(rules)
    return frozenset(
        name
        for name in NO_NAMES.union(*given)
        if all(name in names or name.partition(".")[0] in names for names in given)
    )


@dataclass(frozen=True, slots=True)
class ResolvedNames:
    """The names of a policy resolved to ids of a schema, which survive renames."""

    types: Mapping[str, frozenset[TypeId]] = field(default_factory=dict)
    properties: Mapping[str, frozenset[PropertyId]] = field(default_factory=dict)

    @classmethod
    def find(cls, authority: Authority, catalog: Catalog) -> ResolvedNames:
        """Resolve the names of a policy.

        Raises:
            BadRequest: the schema does not have one of them, so that the rule would hide nothing.
        """
        if not isinstance(authority, Policy):
            return cls()
        names = authority.excluded_names
        for name in sorted(names):
            type_name, _, property_name = name.partition(".")
            owners = _find_types(type_name, catalog)
            has_it = [one for one in owners if not property_name or one.property(property_name)]
            if not has_it:
                raise BadRequest(
                    f"policy '{authority.name}' leaves out {name}, which the schema does not have; "
                    "correct the name in its rules"
                )
        return cls(
            {name: frozenset(one.id for one in _find_types(name, catalog)) for name in names},
            {name: _find_property_ids(name, catalog) for name in names if "." in name},
        )


def _find_types(name: str, catalog: Catalog) -> list[EntityType | InterfaceType]:
    known = (catalog.nodes, catalog.edges, catalog.interfaces)
    found = [types.get(name) for types in known]
    return [one for one in found if one is not None]


def _find_property_ids(name: str, catalog: Catalog) -> frozenset[PropertyId]:
    type_name, _, property_name = name.partition(".")
    found = [one.property(property_name) for one in _find_types(type_name, catalog)]
    return frozenset(one.id for one in found if one is not None)


_ENDS = ("src", "dst")
Entity = TypeVar("Entity", NodeType, EdgeType)


def restrict_catalog(catalog: Catalog, names: frozenset[str], known: ResolvedNames) -> Catalog:
    """Return the catalog without the types and properties of these names.

    A name hides the object it resolves to now, whatever its name in the catalog, and any object of
    that name.
    """
    if not names:
        return catalog
    restriction = _Restriction(catalog, names, known)
    key = (id(catalog), id(known), names)
    _, restricted = _restricted.value(key, lambda: (restriction, restriction.build()))
    return restricted


_restricted: Cache[tuple[int, int, frozenset[str]], tuple[_Restriction, Catalog]] = Cache(64)
"""Plans are cached by catalog identity, so equal restrictions must return one object.

The arguments are cached with it, so that their ids cannot be reused by other objects.
"""


def list_hidden(whole: Catalog, restricted: Catalog) -> frozenset[str]:
    """Return the names of the types and properties that a restricted catalog lacks."""
    found = set()
    for of_whole, of_rest in (
        (whole.nodes, restricted.nodes),
        (whole.edges, restricted.edges),
        (whole.interfaces, restricted.interfaces),
    ):
        for name, type_ in of_whole.items():
            rest = of_rest.get(name)
            if rest is None:
                found.add(name)
            else:
                seen = {one.name for one in rest.properties}
                found |= {f"{name}.{p.name}" for p in type_.properties if p.name not in seen}
    return frozenset(found)


@dataclass(frozen=True)
class _Restriction:
    """A catalog and the names to hide in it."""

    catalog: Catalog
    names: frozenset[str]
    known: ResolvedNames

    def build(self) -> Catalog:
        interfaces = {
            name: one
            for name, one in self.catalog.interfaces.items()
            if not self._is_type_hidden(one)
        }
        nodes = {
            name: self._drop_properties(one)
            for name, one in self.catalog.nodes.items()
            if not self._is_node_hidden(one)
        }
        edges = {
            name: self._drop_properties(one)
            for name, one in self.catalog.edges.items()
            if not self._is_type_hidden(one) and {one.from_type, one.to_type} <= nodes.keys()
        }
        trimmed = {
            name: self._trim(one, nodes)
            for name, one in interfaces.items()
            if any(name in node.implements for node in nodes.values())
            or not self.catalog.implementers(name)
        }
        linked = {name: _link(one, trimmed) for name, one in nodes.items()}
        return replace(self.catalog, interfaces=trimmed, nodes=linked, edges=edges)

    def _is_type_hidden(self, type_: EntityType | InterfaceType) -> bool:
        return any(
            name == type_.name or ("." not in name and type_.id in self.known.types.get(name, ()))
            for name in self.names
        )

    def _is_node_hidden(self, node: NodeType) -> bool:
        interfaces = [self.catalog.interfaces[name] for name in node.implements]
        if self._is_type_hidden(node) or any(self._is_type_hidden(one) for one in interfaces):
            return True
        return any(self._is_hidden(node, one) for one in node.key)

    def _is_hidden(self, type_: EntityType | InterfaceType, property_: Property) -> bool:
        """Return whether a property is hidden, by its name or id or by those of its interfaces."""
        owners = [type_.name, *(type_.implements if isinstance(type_, NodeType) else ())]
        ids = {property_.id, *property_.satisfies}
        for name in self.names:
            owner, _, word = name.partition(".")
            if word == property_.name and owner in owners:
                return True
            if ids & self.known.properties.get(name, frozenset()):
                return True
        source = None if property_.embed is None else type_.property(property_.embed.source)
        return source is not None and self._is_hidden(type_, source)

    def _drop_properties(self, type_: Entity) -> Entity:
        properties = tuple(p for p in type_.properties if not self._is_hidden(type_, p))
        if len(properties) == len(type_.properties):
            return type_
        return replace(
            type_,
            properties=properties,
            constraints=_drop_impossible(type_.constraints, properties),
        )

    def _trim(self, interface: InterfaceType, nodes: dict[str, NodeType]) -> InterfaceType:
        """Return the interface with the properties that all its implementers keep."""
        implementers = [one for one in nodes.values() if interface.name in one.implements]
        properties = tuple(
            p
            for p in interface.properties
            if not self._is_hidden(interface, p)
            and all(node.property(p.name) is not None for node in implementers)
        )
        constraints = _drop_impossible(interface.constraints, properties)
        return replace(interface, properties=properties, constraints=constraints)


def _drop_impossible(
    constraints: tuple[Constraint, ...], properties: tuple[Property, ...]
) -> tuple[Constraint, ...]:
    """Return the constraints whose columns all remain."""
    columns = {*_ENDS, *(p.name for p in properties)}
    return tuple(
        one
        for one in constraints
        if one.kind is ConstraintKind.KEY or columns.issuperset(one.columns)
    )


def _link(node: NodeType, interfaces: dict[str, InterfaceType]) -> NodeType:
    """Return the node type, implementing only the interfaces that remain."""
    implements = tuple(name for name in node.implements if name in interfaces)
    own = [interfaces[name] for name in implements]
    properties = tuple(
        replace(
            p,
            satisfies=tuple(
                sorted(found.id for one in own if (found := one.property(p.name)) is not None)
            ),
        )
        for p in node.properties
    )
    return replace(node, implements=implements, properties=properties)
