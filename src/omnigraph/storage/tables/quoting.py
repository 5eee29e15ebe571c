"""Names and values as the filter language of a scan writes them.

Text is used rather than expression objects: the substrate cannot take an expression on a table
that merely has a column of certain types, such as a list of unsigned integers.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import TypeAlias

import pyarrow as pa

Literal: TypeAlias = str | bool | int | float | date | datetime | None


def quote_identifier(name: str) -> str:
    """A column name that is read as such, whatever it looks like."""
    assert "`" not in name, f"a column name cannot hold a backtick: {name!r}"
    return f"`{name}`"


def quote_literal(value: Literal) -> str:
    """A value as text of a filter. Only the single quote means anything inside a string."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE)"
        case _:
            return repr(value)


def build_in_list(column: str, keys: pa.Array | pa.ChunkedArray) -> str:
    """The condition that a column holds one of these strings or integers."""
    if not len(keys):
        return "FALSE"
    return f"{quote_identifier(column)} IN ({', '.join(map(quote_literal, keys.to_pylist()))})"


def can_be_listed(kind: pa.DataType) -> bool:
    """Whether `build_in_list` can write values of this type."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))
