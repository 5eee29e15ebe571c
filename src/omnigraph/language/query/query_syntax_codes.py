"""The code of every mistake in the syntax of a query."""

from __future__ import annotations

from collections.abc import Mapping

QUERY_SYNTAX_CODES: Mapping[str, str] = {
    "P109": "A number is out of range.",
    "P110": "Two queries of a file have the same name.",
    "P111": "A query declares the same parameter twice.",
    "P112": "A query has the same annotation twice.",
    "P113": "A query has an annotation that does not exist.",
    "P114": "The parameter name is reserved.",
    "P115": "The parameter type does not exist.",
    "P116": "An ordering by `nearest` takes no direction.",
    "P117": "A query is empty, or both reads and mutates.",
    "P120": "There is no such function.",
    "P121": "A function has too few or too many arguments.",
    "P122": "A function takes another form of argument.",
    "P123": "The dimension of a vector is out of range.",
    "P124": "A list inside a list.",
    "P125": "`distinct` belongs only into `count` and `collect`.",
    "P126": "A block, or a list of columns, keys, properties, assignments or edges, is too long.",
}
