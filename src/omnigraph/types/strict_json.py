"""JSON read exactly: integers of any size, no repeated members, no words that are not JSON."""

from __future__ import annotations

import json
import re
from typing import NoReturn

from omnigraph.types.problems import ProblemCode, ValueRefused, quote_for_message

_LONGEST_INTEGER = 400
_BEYOND_ALL_TYPES: int = 10**_LONGEST_INTEGER
"""Stands for integers of more digits: no type holds either, and reading them costs too much."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str | bytes) -> object:
    """The value of one JSON text: `3` is an int, `3.0` a float; raises `ValueRefused`."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        value = _DECODER.decode(decoded)
        # Half a surrogate pair can only come in as an escape, or within a Python string.
        if _SURROGATE_ESCAPE.search(decoded) or _SURROGATE.search(decoded):
            _require_text(value)
    except UnicodeDecodeError as error:
        raise _make_malformed_error(f"invalid UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise _make_malformed_error(
            f"invalid JSON at character {error.pos + 1}: {error.msg}"
        ) from None
    except RecursionError:
        raise _make_malformed_error("JSON is nested too deeply") from None
    return value


def _make_malformed_error(reason: str) -> ValueRefused:
    return ValueRefused(reason, ProblemCode.MALFORMED)


def _check_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ValueRefused(
                f"duplicate JSON member {quote_for_message(name)}", ProblemCode.DUPLICATE_MEMBER
            )
        seen.add(name)
    raise AssertionError("fewer names than members, yet none repeated")


def _parse_integer(digits: str) -> int:
    if len(digits) <= _LONGEST_INTEGER:
        return int(digits)
    return -_BEYOND_ALL_TYPES if digits.startswith("-") else _BEYOND_ALL_TYPES


def _parse_constant(word: str) -> NoReturn:
    raise _make_malformed_error(f"invalid JSON: {word} is not a JSON value")


def _require_text(value: object) -> None:
    """Refuse strings that are no Unicode text."""
    match value:
        case str() if _SURROGATE.search(value):
            raise _make_malformed_error("invalid JSON: half a surrogate pair in a string")
        case list():
            for item in value:
                _require_text(item)
        case dict():
            for name, member in value.items():
                _require_text(name)
                _require_text(member)
        case _:
            pass


_DECODER = json.JSONDecoder(
    object_pairs_hook=_check_members, parse_int=_parse_integer, parse_constant=_parse_constant
)
