"""Property types of schemas and parameter lists, and reserved names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Scalar(StrEnum):
    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATETIME = "DateTime"
    DATE = "Date"
    VECTOR = "Vector"


SIGNED = frozenset({Scalar.I32, Scalar.I64})
UNSIGNED = frozenset({Scalar.U32, Scalar.U64})
INTEGERS = SIGNED | UNSIGNED
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMBERS = INTEGERS | FLOATS

MAX_VECTOR_DIMENSION = 2**31 - 1

INTEGER_BOUNDS: Mapping[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class PropertyType:
    """The type of one property or parameter.

    An enum is a `String` with `enum_values` (sorted, no duplicates); a vector is `Scalar.VECTOR`
    with `dimension`; a list is its element's scalar with `is_list`.
    """

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None
    dimension: int | None = None

    @property
    def is_vector(self) -> bool:
        return self.scalar is Scalar.VECTOR

    @property
    def is_blob(self) -> bool:
        return self.scalar is Scalar.BLOB

    @property
    def is_enum(self) -> bool:
        return self.enum_values is not None

    @property
    def is_plain_scalar(self) -> bool:
        """One comparable value: neither a list nor a vector nor a blob."""
        return not (self.is_list or self.is_vector or self.is_blob)

    @property
    def is_numeric(self) -> bool:
        return self.scalar in NUMBERS and not self.is_list

    @property
    def is_string(self) -> bool:
        return self.scalar is Scalar.STRING and not self.is_list

    def required(self) -> PropertyType:
        return replace(self, nullable=False)

    def optional(self) -> PropertyType:
        return replace(self, nullable=True)

    def element(self) -> PropertyType:
        """The type of one member of this list."""
        assert self.is_list, f"{self} is not a list"
        return PropertyType(self.scalar, nullable=True)

    def __str__(self) -> str:
        return self.display(nullable=self.nullable)

    def display(self, *, nullable: bool) -> str:
        if self.enum_values is not None:
            core = f"enum({', '.join(self.enum_values)})"
        elif self.is_vector:
            core = f"Vector({self.dimension})"
        else:
            core = f"[{self.scalar}]" if self.is_list else str(self.scalar)
        return f"{core}?" if nullable else core


def are_comparable(left: PropertyType, right: PropertyType) -> bool:
    """Return whether two values are comparable: equal scalars, or two numbers; lists with lists.

    Nullability and enum members are irrelevant. `Date` and `DateTime` do not mix.
    """
    if left.is_list != right.is_list:
        return False
    if left.scalar is right.scalar:
        return left.dimension == right.dimension
    return left.scalar in NUMBERS and right.scalar in NUMBERS


STORAGE_FIELDS = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_tombstone",
    }
)
"""Columns of the table format, never properties."""

STRUCTURAL_FIELDS = frozenset({"src", "dst"})
"""The columns of the endpoints of an edge."""
