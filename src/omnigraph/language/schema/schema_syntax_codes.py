"""The codes of syntax mistakes that only schema files can have; P101 to P108 are shared."""

from __future__ import annotations

from collections.abc import Mapping

SCHEMA_SYNTAX_CODES: Mapping[str, str] = {
    "P130": "A declaration starts with `interface`, `node` or `edge`.",
    "P131": "The word is not the name of a property type.",
    "P132": "An enum names the same value twice.",
    "P133": "A vector has at least one dimension.",
    "P134": "A vector has at most 2147483647 dimensions.",
    "P135": "A list holds plain scalars: no blobs, enums, vectors, lists or optional members.",
    "P136": "Properties and declarations follow one another without a separator.",
    "P137": "A cardinality is written `@card(m..n)` or `@card(m..)`.",
    "P138": "A cardinality bound is at most 4294967295.",
    "P139": "`@card` belongs in an edge header, directly after the target type.",
    "P140": "A constraint belongs inside the braces of its type.",
    "P141": "An interface has no constraints in its body.",
    "P142": "An annotation follows a property or belongs to a header.",
    "P143": "A body is closed with `}` before the file or the next declaration.",
    "P144": "An annotation takes one value first and then values with names.",
    "P145": "A bound of `@range` is a plain decimal number.",
    "P146": "This kind of declaration does not have that part, or not in that place.",
    "P147": "Type names start in upper case, names of properties and annotations in lower case.",
}
