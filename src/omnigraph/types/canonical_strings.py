"""Canonical strings of stored values, from which ids and unique keys are built.

Equal values of one type have equal strings, on every platform.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.types.row_problems import ValueRefused
from omnigraph.types.temporal import to_epoch_days, to_epoch_milliseconds

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_ESCAPE = re.compile(_NEEDS_ESCAPE)


def encode_canonical(value: object, type: PropertyType) -> str:
    """Encode one stored value, given as the Python value of its column."""
    _require_scalar(type)
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case datetime():
            return str(to_epoch_milliseconds(value))
        case date():
            return str(to_epoch_days(value))
        case int() if type.scalar in INTEGERS:
            return str(value)
        case int() | float() if type.scalar in FLOATS:
            return _encode_float(float(value), type)
        case _:
            raise AssertionError(f"{value!r} is not a stored value of {type}")


def encode_canonical_column(array: pa.Array, type: PropertyType) -> pa.StringArray:
    """Encode a stored column; null stays null."""
    _require_scalar(type)
    assert array.type == to_arrow_type(type), f"{array.type} does not hold {type}"
    if type.scalar is Scalar.DATE:
        array = array.cast(pa.int32())
    elif type.scalar is Scalar.DATETIME:
        array = array.cast(pa.int64())
    elif type.scalar in FLOATS:
        return _encode_floats(array)
    return array if array.type == pa.string() else array.cast(pa.string())


def encode_composite_ids(parts: Sequence[pa.StringArray]) -> pa.StringArray:
    """Build the ids of a composite key from the canonical strings of its members, in id order.

    Null if any member is null.
    """
    assert parts, "a composite key has members"
    pieces: list[pa.Array | str] = ['["']
    for part in parts:
        pieces += [_escape_texts(part), '","']
    pieces[-1] = '"]'
    return pc.binary_join_element_wise(*pieces, "")


def _require_scalar(type: PropertyType) -> None:
    if not type.is_plain_scalar:
        raise ValueRefused(f"unsupported column type {type.display(nullable=False)}")


def _encode_float(value: float, type: PropertyType) -> str:
    if not math.isfinite(value):
        raise ValueRefused("non-finite number has no canonical string")
    if value == 0:
        return "0"
    # The shortest digits differ by width: 0.1 in 32 bits is not 0.1 in 64 bits.
    digits = str(np.float32(value)) if type.scalar is Scalar.F32 else repr(value)
    return _encode_positional(digits)


def _encode_floats(array: pa.Array) -> pa.StringArray:
    """Encode floats with the shortest digits, by Arrow; only exponents are rewritten here."""
    if pc.any(pc.invert(pc.is_finite(array))).as_py():
        raise ValueRefused("non-finite number has no canonical string")
    zero = pc.equal(array, pa.scalar(0, array.type))
    texts = pc.if_else(zero, "0", array.cast(pa.string()))
    return _rewrite(texts, pc.match_substring(texts, "e"), _encode_positional)


def _encode_positional(digits: str) -> str:
    """Digits without an exponent and without a fraction of zeros."""
    text = format(Decimal(digits), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _escape_texts(texts: pa.StringArray) -> pa.StringArray:
    """The inside of each text as a JSON string; most texts are it already."""
    return _rewrite(texts, pc.match_substring_regex(texts, _NEEDS_ESCAPE), escape_json)


def escape_json(text: str) -> str:
    """Escape a text as the inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1] if _ESCAPE.search(text) else text


def _rewrite(
    texts: pa.StringArray, chosen: pa.Array, rewrite: Callable[[str], str]
) -> pa.StringArray:
    """Rewrite the chosen rows of a column one by one."""
    if not pc.any(chosen).as_py():
        return texts
    chosen = chosen.fill_null(False)
    rewritten = [rewrite(text) for text in texts.filter(chosen).to_pylist()]
    return pc.replace_with_mask(texts, chosen, pa.array(rewritten, pa.string()))
