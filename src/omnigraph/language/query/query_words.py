"""The words of the query language, as its parsers know them."""

from __future__ import annotations

from omnigraph.language.query.condition_parser import OPERATOR_WORDS
from omnigraph.language.query.expression_parser import CALLABLE, CONSTANTS
from omnigraph.language.query.query_parser import ANNOTATIONS, BODY_WORDS, TAIL_WORDS

QUERY_WORDS = frozenset(
    {
        "query",
        *(f"@{name}" for name in ANNOTATIONS),
        *BODY_WORDS,
        *TAIL_WORDS,
        *("distinct", "as", "asc", "desc", "not", "optional", "hops", "set", "where"),
        *OPERATOR_WORDS,
        *CALLABLE,
        *CONSTANTS,
    }
)
"""Every word that means something by itself somewhere in a query."""
