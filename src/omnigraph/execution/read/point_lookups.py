"""Conditions that name the nodes they hold for: by id, by key, by a unique property."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.catalog.catalog import ConstraintKind, NodeType
from omnigraph.execution.read.fixed_operands import Given, is_fixed
from omnigraph.plan.expressions import (
    Comparator,
    Compare,
    Constant,
    EntityId,
    InList,
    Operand,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
)
from omnigraph.plan.walk import list_conjuncts
from omnigraph.types.canonical import encode_canonical
from omnigraph.types.property import INTEGERS, PropertyType, Scalar

_ID_TYPE = PropertyType(Scalar.STRING)


def is_point_lookup(predicates: Sequence[Predicate], type_: NodeType) -> bool:
    """Whether a condition fixes an id or a unique property, or looks for words: few rows pass."""
    for part in (part for predicate in predicates for part in list_conjuncts(predicate)):
        match part:
            case Compare(left, Comparator.EQ, right):
                sides = ((left, right), (right, left))
                if any(_is_identifying(one, type_) and is_fixed(other) for one, other in sides):
                    return True
            case InList(value, _) if _is_identifying(value, type_):
                return True
            case TextMatch():
                return True
            case _:
                pass
    return False


def _is_identifying(operand: Operand, type_: NodeType) -> bool:
    if not isinstance(operand, PropertyValue):
        return isinstance(operand, EntityId)
    unique = (*type_.of_kind(ConstraintKind.KEY), *type_.of_kind(ConstraintKind.UNIQUE))
    return any(constraint.columns == (operand.property,) for constraint in unique)


def find_named_ids(predicate: Predicate, type_: NodeType, given: Given) -> list[str] | None:
    """The ids of exactly those nodes a condition is true for; None if it names none.

    There may be no node of such an id. Ids are names, and so are keys of one member: an id is made
    of its key.
    """
    match predicate:
        case Compare(left, Comparator.EQ, right):
            for named, other in ((left, right), (right, left)):
                wanted = _find_naming_type(named, type_)
                if wanted is not None and isinstance(other, Constant | ParameterValue):
                    return _list_ids([given.value(other)], wanted)
        case InList(value, items):
            wanted = _find_naming_type(value, type_)
            if wanted is not None:
                members = given.value(items)
                return _list_ids(members if isinstance(members, list | tuple) else [], wanted)
        case _:
            pass
    return None


def _find_naming_type(operand: Operand, type_: NodeType) -> PropertyType | None:
    """The type of what names a node: texts and whole numbers, which have one form each."""
    if isinstance(operand, EntityId):
        return _ID_TYPE
    if not isinstance(operand, PropertyValue) or len(type_.key) != 1:
        return None
    (member,) = type_.key
    is_plain = member.type.scalar is Scalar.STRING or member.type.scalar in INTEGERS
    return member.type if member.name == operand.property and is_plain else None


def _list_ids(values: Sequence[object], wanted: PropertyType) -> list[str] | None:
    """None if a value has another type than its column, which a search has to compare."""
    kind = str if wanted.scalar is Scalar.STRING else int
    there = [value for value in values if value is not None]
    if any(type(value) is not kind for value in there):
        return None
    return [encode_canonical(value, wanted) for value in there]
