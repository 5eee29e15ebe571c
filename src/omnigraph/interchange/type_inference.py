"""Infer the type of a column: the narrowest property type that holds all of its values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from omnigraph.types.arrow import parse_dates, parse_datetimes
from omnigraph.types.property import PropertyType, Scalar

_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}"
_ARRAY = r"^\s*\[[\s\S]*\]\s*$"
_VECTOR_NAME = re.compile(r"(^|_)(embeddings?|vectors?|emb|vec|features)(_|$)", re.IGNORECASE)
_SURE_DIMENSION = 32
"""Lists of numbers of one length are vectors from here on, whatever they are called."""
_DAY_MILLISECONDS = 86_400_000

_ARROW_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Scalar], ...] = (
    (pat.is_boolean, Scalar.BOOL),
    (lambda kind: kind in (pa.int8(), pa.int16(), pa.int32()), Scalar.I32),
    (pat.is_signed_integer, Scalar.I64),
    (lambda kind: kind in (pa.uint8(), pa.uint16(), pa.uint32()), Scalar.U32),
    (pat.is_unsigned_integer, Scalar.U64),
    (lambda kind: kind in (pa.float16(), pa.float32()), Scalar.F32),
    (pat.is_floating, Scalar.F64),
    (pat.is_date, Scalar.DATE),
    (pat.is_timestamp, Scalar.DATETIME),
    (lambda kind: is_text_type(kind), Scalar.STRING),
)


@dataclass(frozen=True, slots=True)
class FoundType:
    """The type of a column, and what is worth saying about it."""

    type: PropertyType
    comment: str | None = None
    is_carried: bool = True
    """True if a property can hold the values."""


def is_text_type(kind: pa.DataType) -> bool:
    return bool(pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind))


def is_list_type(kind: pa.DataType) -> bool:
    return bool(pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind))


@dataclass
class ColumnFacts:
    """Statistics of the values of a column so far."""

    name: str
    has_text_values: bool
    has_text_dates: bool
    rows: int = 0
    nulls: int = 0
    kind: pa.DataType | None = None
    fits: set[Scalar] = field(default_factory=set)
    """The types that a column of text may have, as long as no value speaks against one."""
    is_array_text: bool = True
    arrays: _ListFacts = field(default_factory=lambda: _ListFacts())
    is_midnight: bool = True
    is_started: bool = False

    def add(self, column: pa.Array) -> None:
        """Look at some more values."""
        if pat.is_dictionary(column.type):
            column = column.dictionary_decode()
        self.rows += len(column)
        self.nulls += column.null_count
        values = column.drop_null()
        if pat.is_null(column.type) or not len(values):
            self.kind = self.kind or column.type
            return
        if self.kind is None or pat.is_null(self.kind):
            self.kind = column.type
        if is_text_type(column.type):
            self._add_texts(values.cast(pa.string()))
        elif is_list_type(column.type):
            self.arrays.add(values)
        elif pat.is_timestamp(column.type) and self.is_midnight:
            counts = values.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
            self.is_midnight = not np.any(counts.to_numpy() % _DAY_MILLISECONDS)

    def _add_texts(self, texts: pa.StringArray) -> None:
        if not self.is_started:
            self.is_started = True
            if self.has_text_values:
                self.fits = {Scalar.BOOL, Scalar.I64, Scalar.F64, Scalar.DATE, Scalar.DATETIME}
            elif self.has_text_dates:
                self.fits = {Scalar.DATE, Scalar.DATETIME}
            self.is_array_text = self.has_text_values
        self.fits = {one for one in self.fits if _TEXT_TESTS[one](texts)}
        if Scalar.F64 in self.fits and Scalar.I64 not in self.fits:
            # An integer too large for one is not a number to be rounded.
            whole = texts.filter(pc.match_substring_regex(texts, _INTEGER))
            if not _are_integers(whole):
                self.fits.discard(Scalar.F64)
        if self.is_array_text:
            self.is_array_text = _are_all(texts, _ARRAY) and self._add_array_texts(texts)

    def _add_array_texts(self, texts: pa.StringArray) -> bool:
        try:
            self.arrays.add(pa.array([msgspec.json.decode(text) for text in texts.to_pylist()]))
        except (msgspec.DecodeError, pa.ArrowException, TypeError):
            return False
        return True

    @property
    def is_empty(self) -> bool:
        return self.rows == self.nulls

    def find_type(self) -> FoundType:
        """The type that holds all values seen."""
        found = self._find_required()
        nullable = bool(self.nulls) or not self.rows
        return FoundType(
            found.type.optional() if nullable else found.type, found.comment, found.is_carried
        )

    def _find_required(self) -> FoundType:
        if self.is_empty:
            return FoundType(PropertyType(Scalar.STRING), "guess: no row has a value")
        assert self.kind is not None, "rows were seen"
        if is_text_type(self.kind):
            if self.is_started and self.is_array_text:
                return self.arrays.find_type(self.name)
            order = (Scalar.BOOL, Scalar.I64, Scalar.F64, Scalar.DATE, Scalar.DATETIME)
            chosen = next((one for one in order if one in self.fits), Scalar.STRING)
            return FoundType(PropertyType(chosen))
        if is_list_type(self.kind):
            return self.arrays.find_type(self.name)
        return self._find_plain(self.kind)

    def _find_plain(self, kind: pa.DataType) -> FoundType:
        if pat.is_binary(kind) or pat.is_large_binary(kind) or pat.is_fixed_size_binary(kind):
            return FoundType(PropertyType(Scalar.BLOB))
        if pat.is_timestamp(kind):
            if self.has_text_dates and kind.unit == "s" and self.is_midnight:
                return FoundType(PropertyType(Scalar.DATE))
            lossy = kind.unit in ("us", "ns")
            comment = f"timestamps in {kind.unit} are cut to milliseconds" if lossy else None
            return FoundType(PropertyType(Scalar.DATETIME), comment)
        for is_kind, scalar in _ARROW_SCALARS:
            if is_kind(kind):
                return FoundType(PropertyType(scalar))
        return FoundType(PropertyType(Scalar.STRING), f"{kind} has no type here", is_carried=False)


@dataclass
class _ListFacts:
    """Statistics of the lists in a column."""

    least: int | None = None
    most: int = 0
    items: ColumnFacts | None = None
    is_fixed: bool = False
    holds_null: bool = False
    kinds: set[Scalar] = field(default_factory=set)
    is_odd: bool = False
    """True if a list holds a value that lists cannot."""

    def add(self, lists: pa.Array) -> None:
        if pat.is_null(lists.type):
            return
        if not is_list_type(lists.type):
            raise TypeError("not lists")
        lengths = pc.list_value_length(lists)
        low, high = pc.min(lengths).as_py(), pc.max(lengths).as_py()
        self.least = low if self.least is None else min(self.least, low)
        self.most = max(self.most, high)
        self.is_fixed = bool(pat.is_fixed_size_list(lists.type))
        flat = lists.flatten()
        self.holds_null = self.holds_null or bool(flat.null_count)
        if pat.is_null(flat.type):
            return
        facts = ColumnFacts("item", has_text_values=False, has_text_dates=False)
        facts.add(flat)
        found = facts.find_type()
        self.is_odd = self.is_odd or not found.is_carried or found.type.is_list
        self.is_odd = self.is_odd or found.type.is_vector or found.type.is_blob
        if len(flat):
            self.kinds.add(found.type.scalar)

    def find_type(self, name: str) -> FoundType:
        if self.is_odd or self.holds_null:
            reason = "lists of lists or objects" if self.is_odd else "lists with nulls inside"
            return FoundType(
                PropertyType(Scalar.STRING), f"{reason} have no type here", is_carried=False
            )
        kinds = self.kinds or {Scalar.STRING}
        are_numbers = kinds <= {Scalar.I32, Scalar.I64, Scalar.F32, Scalar.F64}
        if are_numbers and self.least == self.most and self._looks_like_vector(name):
            vector = PropertyType(Scalar.VECTOR, dimension=self.most)
            return FoundType(vector, None if self.is_fixed else "guess: lists of one length")
        if len(kinds) == 1:
            return FoundType(PropertyType(next(iter(kinds)), is_list=True))
        scalar = Scalar.F64 if are_numbers else Scalar.STRING
        return FoundType(PropertyType(scalar, is_list=True), is_carried=are_numbers)

    def _looks_like_vector(self, name: str) -> bool:
        if self.most < 2:
            return False
        is_named = _VECTOR_NAME.search(name) is not None
        return self.is_fixed or is_named or self.most >= _SURE_DIMENSION


def _are_all(texts: pa.StringArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _are_integers(texts: pa.StringArray) -> bool:
    if not _are_all(texts, _INTEGER):
        return False
    try:
        texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _are_numbers(texts: pa.StringArray) -> bool:
    if not _are_all(texts, _NUMBER):
        return False
    try:
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return bool(pc.all(pc.is_finite(numbers), min_count=0).as_py())


def _are_booleans(texts: pa.StringArray) -> bool:
    return _are_all(texts, r"^(?i:true|false)$")


def _are_days(texts: pa.StringArray) -> bool:
    return _are_all(texts, _DAY) and not parse_dates(texts).invalid.any()


def _are_instants(texts: pa.StringArray) -> bool:
    return _are_all(texts, _INSTANT) and not parse_datetimes(texts).invalid.any()


_TEXT_TESTS: dict[Scalar, Callable[[pa.StringArray], bool]] = {
    Scalar.BOOL: _are_booleans,
    Scalar.I64: _are_integers,
    Scalar.F64: _are_numbers,
    Scalar.DATE: _are_days,
    Scalar.DATETIME: _are_instants,
}


@dataclass
class DistinctValues:
    """The values of a column that may identify rows or refer to them, as text."""

    parts: list[pa.Array] = field(default_factory=list)
    is_unique: bool = True

    def add(self, column: pa.Array) -> None:
        texts = as_id_texts(column)
        if texts is None or texts.null_count:
            self.is_unique = False
        if texts is not None:
            part = texts.drop_null().unique()
            self.is_unique = self.is_unique and len(part) == len(texts)
            self.parts.append(part)

    def close(self) -> pa.Array:
        """All distinct values."""
        total = sum(map(len, self.parts))
        if not self.parts:
            return pa.array([], pa.string())
        whole = pa.concat_arrays(self.parts).unique()
        self.is_unique = self.is_unique and len(whole) == total
        self.parts = [whole]
        return whole


def as_id_texts(column: pa.Array) -> pa.Array | None:
    """A column as the ids of nodes; None if values of its type have no text."""
    if pat.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pat.is_floating(column.type):
        try:  # as pandas keeps integers beside nulls
            column = column.cast(pa.int64())
        except pa.ArrowInvalid:
            return None
    try:
        return column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return None
