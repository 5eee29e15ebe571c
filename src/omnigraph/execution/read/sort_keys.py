"""Values as integers: in the order they sort in, or merely equal where they are equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from omnigraph.execution.read.arrays import Codes, Flags, Longs, encode_values, to_longs

_SIGN = np.int64(-(2**63))
_ALL_BUT_SIGN = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True)
class Ordinals:
    """Integers that compare as the values do; where `known` is false the value is NULL."""

    values: Longs
    known: Flags | None

    def at(self, places: Codes) -> Ordinals:
        """The values at some places; -1 is NULL."""
        missing = places < 0
        known = None if self.known is None else self.known[places] & ~missing
        if known is None and missing.any():
            known = ~missing
        return Ordinals(self.values[places] if len(self.values) else places.astype(np.int64), known)

    def keys(self, *, descending: bool = False) -> list[Longs]:
        """What to sort by, the most significant first. NULL is smaller than every value."""
        keys = [self.values]
        if self.known is not None:
            keys = [self.known.astype(np.int64), np.where(self.known, self.values, 0)]
        return [~key for key in keys] if descending else keys


def encode_sort_key(values: pa.Array) -> Ordinals:
    """Strings by their bytes, false before true; both zeros are level, NaN comes last."""
    known = None if not values.null_count else np.asarray(pc.is_valid(values))
    kind = values.type
    if pat.is_null(kind):
        return Ordinals(np.zeros(len(values), dtype=np.int64), known)
    if pat.is_string(kind) or pat.is_large_string(kind):
        return Ordinals(_rank_texts(values), known)
    if pat.is_floating(kind):
        return Ordinals(_encode_floats(values), known)
    if pat.is_uint64(kind):
        wide = np.asarray(values.fill_null(0), dtype=np.uint64)
        return Ordinals(wide.view(np.int64) ^ _SIGN, known)
    if pat.is_boolean(kind):
        return Ordinals(np.asarray(values.fill_null(False)).astype(np.int64), known)
    return Ordinals(_encode_integers(values), known)


def _rank_texts(values: pa.Array) -> Longs:
    """The place of each text among the different ones; texts that repeat are compared once."""
    encoded = pc.dictionary_encode(values)
    ranks = np.asarray(pc.rank(encoded.dictionary, tiebreaker="dense")).astype(np.int64)
    codes = np.asarray(encoded.indices.fill_null(0))
    return ranks[codes] if len(ranks) else np.zeros(len(values), dtype=np.int64)


def encode_tie_keys(values: pa.Array) -> list[Longs]:
    """Keys for values of any kind; lists and objects have some order, always the same."""
    if not pat.is_struct(values.type):
        return encode_sort_key(make_comparable(values)).keys()
    known = np.asarray(pc.is_valid(values)).astype(np.int64)
    return [known, *(key for member in values.flatten() for key in encode_tie_keys(member))]


def _encode_integers(values: pa.Array) -> Longs:
    """Integers, days and milliseconds as they are stored."""
    if pat.is_date32(values.type):
        values = values.cast(pa.int32())
    return to_longs(values.cast(pa.int64()).fill_null(0))


def _encode_floats(values: pa.Array) -> Longs:
    numbers = np.asarray(values.cast(pa.float64()).fill_null(0.0)) + 0.0
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    # Below zero, larger bits mean a smaller number.
    return np.asarray(np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits), dtype=np.int64)


def normalize_zeros(values: pa.Array) -> pa.Array:
    """The values with 0.0 for -0.0, also inside lists and objects.

    Where one value stands for several that are equal, it must not matter which of them it was.
    """
    kind = values.type
    if pat.is_floating(kind):
        return pc.add(values, pa.scalar(0, kind))
    if pat.is_fixed_size_list(kind) and pat.is_floating(kind.value_type):
        members = normalize_zeros(values.values.slice(values.offset * kind.list_size))
        members = members.slice(0, len(values) * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(members, type=kind, mask=values.is_null())
    if pat.is_list(kind) and pat.is_floating(kind.value_type):
        members = normalize_zeros(values.values)
        return pa.ListArray.from_arrays(values.offsets, members, type=kind, mask=values.is_null())
    if pat.is_struct(kind):
        members = [normalize_zeros(member) for member in values.flatten()]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=values.is_null())
    return values


@dataclass(frozen=True, slots=True)
class ValueCodes:
    """The same code for equal values, -1 for NULL; `size` codes at most."""

    codes: Codes
    size: int


def encode_value_codes(values: pa.Array) -> ValueCodes:
    """Numbers that are equal where the values are; lists and vectors element by element."""
    encoded = pc.dictionary_encode(make_comparable(values))
    indices = encode_values(np.asarray(encoded.indices.fill_null(-1)))
    return ValueCodes(indices, len(encoded.dictionary))


def make_comparable(values: pa.Array) -> pa.Array:
    """The values in a form that can be encoded and sorted, with one zero and one NaN."""
    kind = values.type
    if pat.is_floating(kind):
        return _normalize_floats(values)
    if pat.is_fixed_size_list(kind):
        return _render_lists(values.cast(pa.list_(kind.value_field)))
    if pat.is_list(kind):
        return _render_lists(values)
    return values


def _normalize_floats(values: pa.Array) -> pa.Array:
    plain = pc.if_else(
        pc.equal(values, pa.scalar(0, values.type)), pa.scalar(0, values.type), values
    )
    nan = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(plain), nan, plain)


def _render_lists(lists: pa.Array) -> pa.Array:
    """One text for each list; the length before each element keeps different lists apart."""
    elements = make_comparable(lists.flatten()).cast(pa.string())
    lengths = pc.binary_length(elements).cast(pa.string())
    texts = pc.binary_join_element_wise(lengths, elements, ":").fill_null("-")
    counts = pc.list_value_length(lists).fill_null(0)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(counts))]).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")
    known = pc.binary_join_element_wise(counts.cast(pa.string()), joined, " ")
    return pc.if_else(pc.is_valid(lists), known, pa.scalar(None, pa.string()))
