"""Hashes by which systems prove that they computed the same thing.

Engines differ in how they spell a value, not in what it is, so a value is first made canonical:
`3.0` is `3`, floats keep twelve significant digits, dates are ISO text. Rows given as mappings
are compared by column name; rows given as sequences by position, for engines that name columns
their own way.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, object] | Sequence[object]

_DIGEST_BYTES = 16
_MODULUS = 1 << (8 * _DIGEST_BYTES)


def hash_rows(rows: Iterable[Row], *, ordered: bool = False) -> str:
    """Return the hash of a result, independent of the order of its rows unless `ordered`.

    Row hashes are added up, so duplicates count and memory stays flat; exclusive-or would let
    a duplicated pair vanish.
    """
    total, count = 0, 0
    for row in rows:
        number = f"{count}:" if ordered else ""
        text = number + json.dumps(canonical(row), ensure_ascii=False, separators=(",", ":"))
        digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()
        total = (total + int.from_bytes(digest)) % _MODULUS
        count += 1
    return f"{count}:{total:0{2 * _DIGEST_BYTES}x}"


def hash_arrow(table: pa.Table, *, ordered: bool = False) -> str:
    """Return the hash of an Arrow table, equal to `hash_rows` of its rows as mappings."""
    rows = (row for batch in table.to_batches(max_chunksize=65_536) for row in batch.to_pylist())
    return hash_rows(rows, ordered=ordered)


def canonical(value: object) -> object:
    """`value` as plain JSON, spelled the same whichever engine it came from."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):  # NumPy's integers are no `int`
        return int(value)
    if isinstance(value, Real | Decimal):
        return _number(float(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _number(value.total_seconds())
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): canonical(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, Iterable):
        return [canonical(item) for item in value]
    raise TypeError(f"no canonical form for {type(value).__name__}")


def _number(value: float) -> int | float | str:
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded
