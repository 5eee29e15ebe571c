"""Which types hold every value of another, and which do after a look at the rows."""

from __future__ import annotations

from omnigraph.types.property import INTEGERS, PropertyType, Scalar

_WIDER = frozenset(
    {
        (Scalar.I32, Scalar.I64),
        (Scalar.I32, Scalar.F64),
        (Scalar.U32, Scalar.U64),
        (Scalar.U32, Scalar.I64),
        (Scalar.U32, Scalar.F64),
        (Scalar.F32, Scalar.F64),
    }
)
"""Pairs of which the second holds every value of the first exactly."""


def keeps_values(before: PropertyType, after: PropertyType) -> bool:
    """Whether every value that the new type allows at all becomes a value of it, exactly."""
    if before.is_list and not after.is_list:
        return False
    if before.is_vector or after.is_vector or before.is_blob or after.is_blob:
        kinds = [(t.scalar, t.dimension, t.is_list) for t in (before, after)]
        return kinds[0] == kinds[1]
    return before.scalar is after.scalar or (before.scalar, after.scalar) in _WIDER


def keeps_ids(before: PropertyType, after: PropertyType) -> bool:
    """Whether ids that are made of the values stay what they are."""
    both = {before.scalar, after.scalar}
    is_same = len(both) == 1 or both <= INTEGERS
    return is_same and before.is_list == after.is_list


def allows_less(before: PropertyType, after: PropertyType) -> bool:
    """Whether some row that was allowed may no longer be."""
    if before.nullable and not after.nullable:
        return True
    if after.enum_values is None:
        return False
    return before.enum_values is None or not set(before.enum_values) <= set(after.enum_values)


def is_computable(after: PropertyType) -> bool:
    """Whether an expression can give values of the type: single ones, no vectors, no blobs."""
    return not (after.is_list or after.is_vector or after.is_blob)
