"""The codes of mistakes that either language can have before any grammar applies."""

from __future__ import annotations

from collections.abc import Mapping

TEXT_CODES: Mapping[str, str] = {
    "P101": "The text is not UTF-8.",
    "P102": "A character that starts no token.",
    "P103": "A comment is not closed.",
    "P104": "A string is not closed.",
    "P105": "A string has an escape sequence that does not exist.",
    "P106": "The text is too long to be a schema or a query.",
    "P107": "Something else was expected here.",
    "P108": "The text is nested too deeply.",
}
