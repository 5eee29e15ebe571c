"""The codes of what the binder refuses and lint finds; tools match on codes, never on wording."""

from __future__ import annotations

from collections.abc import Mapping

TYPE_CODES: Mapping[str, str] = {
    "T1": "A binding names something that is neither a node type nor an implemented interface.",
    "T2": "An inline property match names a property the type does not have.",
    "T3": "A literal does not fit the property it is matched with, compared with or assigned to.",
    "T4": "A traversal names an edge type the schema does not have.",
    "T5": "A variable's type does not fit the end of the edge it is used at.",
    "T6": "A variable is not bound, or its type has no such property.",
    "T7": "Two operands cannot be compared, or a value has the wrong type for a property.",
    "T8": "An aggregate is used on a value it cannot take, or where no aggregate can stand.",
    "T9": "A negation uses no variable from outside, or a grouped query returns a value "
    "that cannot be a group key.",
    "T10": "A mutation names an unknown type or assigns nothing.",
    "T11": "An assignment or a where clause names a property the type does not have or cannot use.",
    "T12": "An insert leaves out a required property or an endpoint.",
    "T13": "A property is assigned twice.",
    "T14": "A value must be a literal, a declared query parameter or now().",
    "T15": "Hop bounds are not valid, or nearest() is used on a value that does not fit.",
    "T16": "An update assigns an endpoint of an edge.",
    "T17": "nearest() is the first ordering key and there is no limit.",
    "T18": "nearest() and a column alias are ordering keys of one query.",
    "T19": "search() or fuzzy() has an argument of the wrong kind.",
    "T20": "match_text() or bm25() has an argument of the wrong kind or the wrong direction.",
    "T21": "rrf() has a wrong argument or direction, no limit, or is used in a condition.",
    "T22": "An undirected traversal follows an edge whose two ends have different types.",
    "T23": "An edge variable is used as something else.",
    "T24": "A Blob is read as a value.",
    "T25": "An optional block uses no variable from outside, or a variable that may be missing "
    "is used where it must be present.",
    "T26": "type() is used on something that is not a node variable.",
    "T27": "A hop count is used as something else.",
    "T28": "A limit or an offset is not a whole number of rows.",
    "T29": "A merge targets a type without a key.",
    "T30": "An update assigns a key property.",
    "T31": "Two columns of a result, or two fields of an object, have one name.",
    "T32": "A variable has the name of a parameter.",
    "T33": "A variable is bound to two types that have no node in common, or cannot be bound.",
    "T34": "Rows cannot be ordered by this key.",
    "T35": "A match takes more steps than a plan may have.",
    "D2": "A mutation mixes inserts or updates with deletes.",
}
"""Each code with the one sentence that explains it."""

LINT_CODES: Mapping[str, str] = {
    "Q000": "The query file does not parse.",
    "L201": "A nullable property of a type with update queries is set by none of them.",
    "L202": "A parameter is never used.",
    "L203": "A variable is named once and never used.",
    "L204": "Nothing connects two parts of a pattern, so every combination is a row.",
    "L205": "A limit without an order keeps the first rows by identity.",
    "L206": "A ranking looks into a property that declares no index.",
}
"""What lint finds in queries that may well compile."""
