"""Declarations of a schema text, the problems found in them, and the codes of those problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from omnigraph.catalog.catalog import Annotation, Constraint, Property, TypeKind
from omnigraph.errors import Diagnostic, Severity
from omnigraph.language.lexer import suggest_closest
from omnigraph.language.source import MAX_PROBLEMS, NOWHERE, Problems, SourceText, Span

CATALOG_CODES: Mapping[str, str] = {
    # declarations
    "S101": "Two node types have the same name.",
    "S102": "Two edge types have the same name.",
    "S103": "Two edge names differ only in upper and lower case.",
    "S104": "Two interfaces have the same name.",
    "S105": "A type declares the same property twice.",
    "S106": "The source of an edge is not a declared node type.",
    "S107": "The target of an edge is not a declared node type.",
    "S108": "A node type implements an interface that is not declared.",
    "S109": "The lower bound of a cardinality is above the upper bound.",
    "S110": "A node type declares a property with another type than its interface does.",
    "S111": "Two interfaces give a node type the same property with different meanings.",
    "S112": "The property name is reserved on every type.",
    "S113": "The property name is reserved on edges.",
    # annotations
    "S120": "The annotation belongs to a property or into the body, not into a node header.",
    "S121": "The annotation is not allowed in an edge header.",
    "S122": "The annotation is not allowed on a property of an edge.",
    "S123": "The annotation occurs more than once.",
    "S124": "An annotation names the same keyword twice.",
    "S125": "`@description` and `@instruction` need a text.",
    "S126": "`@instruction` describes a type, not a property.",
    "S127": "`@rename_from` takes exactly one name.",
    "S128": "`@default` belongs to a property.",
    "S129": "`@merge` belongs to a node or edge type and says `entity`.",
    "S130": "`@embed` is only allowed on a vector property.",
    "S131": "`@embed` names the property that it embeds.",
    "S132": "`@embed` names the property that it embeds with a text that is not empty.",
    "S133": "`@embed` knows the keyword `model` only.",
    "S134": "`@embed` names a property the type does not have.",
    "S135": "`@embed` takes its text from a `String` property.",
    "S136": "The model of `@embed` has a name.",
    "S140": "`@default` takes exactly one literal.",
    "S141": "Lists, vectors and blobs have no default.",
    "S142": "The default value does not fit the type of the property.",
    # constraints
    "S150": "A node type has at most one `@key`.",
    "S151": "A constraint names a property the type does not have.",
    "S152": "A key property cannot be nullable.",
    "S153": "The constraint is not allowed on an edge.",
    "S154": "The constraint does not work on this kind of property.",
    "S155": "`@range` needs a numeric property.",
    "S156": "`@check` needs a `String` property.",
    "S157": "`@range` takes a property name and bounds.",
    "S158": "`@check` takes a property name and a pattern.",
    "S159": "A constraint takes property names here, not values.",
    "S160": "The second argument of `@range` is a range.",
    "S161": "The constraint has too many arguments.",
    "S162": "The lower bound of a range is above the upper bound.",
    "S163": "A bound of a range does not fit a 64-bit float.",
    "S164": "The pattern of `@check` is not a regular expression that matches in linear time.",
    # warnings
    "S190": "An unknown annotation looks like a known one.",
    "S191": "A node type names the same interface twice.",
}


STAGE = "catalog"


class OwnerName(NamedTuple):
    """A type as messages name it: `node Album`."""

    kind: TypeKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class SchemaProblems:
    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._problems = Problems(source, STAGE)
        self._warnings: list[Diagnostic] = []

    def error(self, code: str, message: str, span: Span, *, hint: str | None = None) -> None:
        self._problems.add(code, message, span, hint=hint)

    def warn(self, code: str, message: str, span: Span, *, hint: str | None = None) -> None:
        if len(self._warnings) >= MAX_PROBLEMS:
            return
        warning = self._source.diagnostic(
            code, message, span, stage=STAGE, hint=hint, severity=Severity.WARNING
        )
        self._warnings.append(warning)

    def suggest(self, word: str, known: Iterable[str]) -> str | None:
        """Return a hint with the closest known word, while hints are still shown."""
        return None if len(self._problems.found) >= MAX_PROBLEMS else suggest_closest(word, known)

    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(sorted(self._warnings, key=lambda warning: warning.start))

    def raise_if_any(self) -> None:
        self._problems.raise_if_any()


@dataclass(frozen=True, slots=True)
class LocatedConstraint:
    """A constraint and its position, which is ignored in comparisons."""

    constraint: Constraint
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DeclaredProperty:
    """A property with the constraints written on it.

    Equal if they mean the same, regardless of position and former names.
    """

    property: Property
    rules: tuple[LocatedConstraint, ...] = ()
    renamed_from: str | None = field(default=None, compare=False)
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)
    embed_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """One interface, node type or edge type; a node type includes what it inherits."""

    owner: OwnerName
    span: Span
    properties: Mapping[str, DeclaredProperty]
    constraints: tuple[Constraint, ...]
    annotations: tuple[Annotation, ...] = ()
    renamed_from: str | None = None

    def sort_properties(self) -> tuple[Property, ...]:
        return tuple(self.properties[name].property for name in sorted(self.properties))
