"""Which types and properties an actor may not see.

Every rule that allows a read shows everything but what it leaves out. So a name is hidden
when all rules that allow the read leave it out, itself or with its whole type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.catalog.catalog import Catalog, EntityType, InterfaceType
from omnigraph.errors import BadRequest
from omnigraph.identity import PropertyId, TypeId
from omnigraph.policy.actions import Action
from omnigraph.policy.bundle import Authority, Policy
from omnigraph.policy.decision import Decision, decide, find_rules

NOTHING: frozenset[str] = frozenset()


def find_hidden(
    authority: Authority, actor: str | None, action: Action, branch: str | None
) -> frozenset[str]:
    """The names that are hidden from an actor who does this on a branch.

    The condition of a change is a read as well: what may not be read cannot decide what is
    changed, unless the actor may read nothing at all.
    """
    if not isinstance(authority, Policy) or not authority.names_left_out:
        return NOTHING
    asked = Decision(allowed=False, actor=actor, action=action, branch=branch)
    hidden = _find_left_out([rule.leaves_out for rule in find_rules(authority, asked)])
    if action is Action.CHANGE and decide(authority, actor, Action.READ, branch=branch).allowed:
        hidden |= find_hidden(authority, actor, Action.READ, branch)
    return hidden


def _find_left_out(rules: Iterable[frozenset[str]]) -> frozenset[str]:
    given = list(rules)
    return frozenset(
        name
        for name in NOTHING.union(*given)
        if all(name in names or name.partition(".")[0] in names for names in given)
    )


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What the names of a policy mean in a schema: ids, which stay when something is renamed."""

    types: Mapping[str, frozenset[TypeId]] = field(default_factory=dict)
    properties: Mapping[str, frozenset[PropertyId]] = field(default_factory=dict)

    @classmethod
    def find(cls, authority: Authority, catalog: Catalog) -> KnownNames:
        """What the names of a policy mean.

        Raises:
            BadRequest: the schema does not have one of them, so that the rule would hide nothing.
        """
        if not isinstance(authority, Policy):
            return cls()
        names = authority.names_left_out
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
