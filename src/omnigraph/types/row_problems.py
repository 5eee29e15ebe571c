"""Reasons to reject a value or a line of input, before its position is known."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache

from omnigraph.errors import BadRequest

SHOWN_CHARACTERS = 60


class ProblemCode(StrEnum):
    """The kinds of errors in input rows; reports count them, so there are few."""

    MALFORMED = "malformed"
    """The line is not one JSON object in UTF-8."""
    DUPLICATE_MEMBER = "duplicate_member"
    LIMIT = "limit"
    ENVELOPE = "envelope"
    """Valid JSON, but neither a node record nor an edge record."""
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_FIELD = "unknown_field"
    RESERVED_FIELD = "reserved_field"
    BAD_VALUE = "bad_value"
    REQUIRED = "required"
    """A required property is null or omitted."""
    ID_MISMATCH = "id_mismatch"


PROBLEM_MEANINGS: Mapping[str, str] = {
    ProblemCode.MALFORMED: "The line is not one JSON object in UTF-8.",
    ProblemCode.DUPLICATE_MEMBER: "A JSON object has the same member twice.",
    ProblemCode.LIMIT: "The line is larger than a line may be.",
    ProblemCode.ENVELOPE: "The object is neither a node record nor an edge record.",
    ProblemCode.UNKNOWN_TYPE: "The schema has no type of that name.",
    ProblemCode.UNKNOWN_FIELD: "The type has no such property.",
    ProblemCode.RESERVED_FIELD: "The name belongs to the system.",
    ProblemCode.BAD_VALUE: "The value does not fit its property.",
    ProblemCode.REQUIRED: "A property that may not be null is null or left out.",
    ProblemCode.ID_MISMATCH: "The given id is not the one the key makes.",
}


class ValueRefused(BadRequest):
    """A text or value that does not fit its type; the caller adds the position."""

    def __init__(self, reason: str, problem: ProblemCode = ProblemCode.BAD_VALUE) -> None:
        super().__init__(reason)
        self.reason, self.problem = reason, problem

    def __reduce__(self) -> tuple[type[ValueRefused], tuple[str, ProblemCode]]:
        return type(self), (self.reason, self.problem)


def explain_required(property_name: str) -> str:
    """Return why a row without a value for a required property is refused."""
    return f"non-nullable property '{property_name}' has null or invalid values"


def quote_for_message(text: str) -> str:
    """Quote a text for messages, truncated."""
    shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    return f"'{shown}'"


@lru_cache(maxsize=256)  # the same mistake may stand in every line
def describe_closest(word: str, known: frozenset[str]) -> str:
    """Return a suffix for messages with the known word closest to this one, if one is close."""
    if len(word) > SHOWN_CHARACTERS:
        return ""
    by_lower = {name.lower(): name for name in sorted(known)}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return f"; did you mean '{by_lower[found[0]]}'?" if found else ""


def name_json_kind(value: object) -> str:
    """Name the kind of a JSON value for a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return f"the number {value!r}"
        case str():
            return "a string"
        case list() | tuple():
            return "an array"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"
