"""Schema lint, and the registry of all lint codes.

A code is a stable identifier: match on it, never on the text. Lint never changes or rejects a
schema.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.catalog.assign_identities import SchemaType, list_types_by_owner
from omnigraph.catalog.catalog import (
    Catalog,
    ConstraintKind,
    Draft,
    EdgeType,
    EntityType,
    Owner,
    TypeKind,
    render_constraint,
)
from omnigraph.errors import Diagnostic, Severity


class LintFamily(StrEnum):
    """The subject of a code: its two letters in the middle."""

    DESTRUCTIVE = "DS"
    MAYBE_FAIL = "MF"
    CONSTRAINT_DELETION = "CD"
    BACKWARD_INCOMPATIBLE = "BC"
    NAMING = "NM"
    OWNERSHIP = "OW"
    NON_LINEAR = "NL"
    VECTOR = "VE"
    EDGE_TOPOLOGY = "ED"
    COST = "LK"


class LintTier(StrEnum):
    """The effect a change with this code has on stored data."""

    SAFE = "safe"
    VALIDATED = "validated"
    DESTRUCTIVE = "destructive"


@dataclass(frozen=True, slots=True)
class LintCode:
    """One code; a `reserved` one keeps its meaning and is not reported."""

    code: str
    family: LintFamily
    tier: LintTier
    severity: Severity
    meaning: str
    reserved: bool = False


DROP_GRAPH_TYPE = "OG-DS-101"
DROP_NODE_TYPE = "OG-DS-102"
DROP_EDGE_TYPE = "OG-DS-103"
DROP_PROPERTY = "OG-DS-104"
DROP_VECTOR = "OG-DS-105"
REQUIRED_WITHOUT_DEFAULT = "OG-MF-103"
NULLABLE_TO_REQUIRED = "OG-MF-104"
TYPE_CHANGE = "OG-MF-106"
SAME_PROPERTY_BUT_CASE = "OG-NM-101"
SAME_TYPE_BUT_CASE = "OG-NM-102"
VECTOR_WITHOUT_INDEX = "OG-VE-101"
EMBED_WITHOUT_MODEL = "OG-VE-102"
ENDPOINT_WITHOUT_KEY = "OG-ED-101"
INDEX_NEVER_BUILT = "OG-LK-101"


def _register(*codes: LintCode) -> Mapping[str, LintCode]:
    return {c.code: c for c in codes}


_DS, _MF, _NM, _VE = (
    LintFamily.DESTRUCTIVE,
    LintFamily.MAYBE_FAIL,
    LintFamily.NAMING,
    LintFamily.VECTOR,
)
_SAFE, _VALIDATED, _DESTRUCTIVE = LintTier.SAFE, LintTier.VALIDATED, LintTier.DESTRUCTIVE
_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

SCHEMA_LINT_CODES: Mapping[str, LintCode] = _register(
    LintCode(
        DROP_GRAPH_TYPE, _DS, _DESTRUCTIVE, _ERROR, "drop a populated graph type", reserved=True
    ),
    LintCode(DROP_NODE_TYPE, _DS, _DESTRUCTIVE, _ERROR, "drop a populated node type"),
    LintCode(DROP_EDGE_TYPE, _DS, _DESTRUCTIVE, _ERROR, "drop a populated edge type"),
    LintCode(DROP_PROPERTY, _DS, _DESTRUCTIVE, _ERROR, "drop a property of a populated type"),
    LintCode(DROP_VECTOR, _DS, _DESTRUCTIVE, _ERROR, "drop a populated vector property"),
    LintCode(
        REQUIRED_WITHOUT_DEFAULT,
        _MF,
        _VALIDATED,
        _ERROR,
        "add a required property without a default",
    ),
    LintCode(
        NULLABLE_TO_REQUIRED,
        _MF,
        _VALIDATED,
        _ERROR,
        "make a nullable property required; reported as OG-MF-106",
        reserved=True,
    ),
    LintCode(TYPE_CHANGE, _MF, _DESTRUCTIVE, _ERROR, "change the type of a property"),
    LintCode(
        SAME_PROPERTY_BUT_CASE,
        _NM,
        _SAFE,
        _WARNING,
        "two properties of one type differ only by case",
    ),
    LintCode(
        SAME_TYPE_BUT_CASE,
        _NM,
        _SAFE,
        _WARNING,
        "two node types or two interfaces differ only by case",
    ),
    LintCode(
        VECTOR_WITHOUT_INDEX,
        _VE,
        _SAFE,
        _INFO,
        "a vector property without @index: every search reads every row",
    ),
    LintCode(
        EMBED_WITHOUT_MODEL,
        _VE,
        _SAFE,
        _INFO,
        "@embed without a model: whatever model is configured fills the vectors",
    ),
    LintCode(
        ENDPOINT_WITHOUT_KEY,
        LintFamily.EDGE_TOPOLOGY,
        _SAFE,
        _INFO,
        "an edge end without @key: edges must name ids that were made up on insert",
    ),
    LintCode(
        INDEX_NEVER_BUILT,
        LintFamily.COST,
        _SAFE,
        _WARNING,
        "an @index over several columns: declared and never built",
    ),
)


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One finding about a type, or about one property of it."""

    code: str
    message: str
    owner: Owner
    member: str | None = None

    @property
    def severity(self) -> Severity:
        return SCHEMA_LINT_CODES[self.code].severity

    @property
    def entity(self) -> str:
        """`node:Artist` or `node:Artist.name`."""
        kind, name = self.owner
        return f"{kind}:{name}" + (f".{self.member}" if self.member else "")


def lint_catalog(catalog: Catalog) -> list[LintFinding]:
    """List all findings of a schema, type by type."""
    findings = list(_find_types_differing_by_case(catalog))
    for owner, type_ in list_types_by_owner(catalog).items():
        findings += _find_properties_differing_by_case(owner, type_)
        if isinstance(type_, EntityType):
            findings += _lint_vectors(owner, type_)
            findings += _find_indexes_never_built(owner, type_)
        if isinstance(type_, EdgeType):
            findings += _find_ends_without_key(owner, type_, catalog)
    return findings


def lint_schema(draft: Draft) -> list[Diagnostic]:
    """List all findings of a schema text, with the position of each declaration."""
    return [
        draft.source.diagnostic(
            finding.code,
            finding.message,
            draft.span_of(finding.owner, finding.member),
            stage="lint",
            severity=finding.severity,
        )
        for finding in lint_catalog(draft.catalog)
    ]


def _find_types_differing_by_case(catalog: Catalog) -> Iterator[LintFinding]:
    """Yield types that differ by case; among edge types that is a compile error."""
    for kind, names in (
        (TypeKind.INTERFACE, catalog.interfaces),
        (TypeKind.NODE, catalog.nodes),
    ):
        for first, other in _group_by_case(names):
            message = f"{kind} types '{first}' and '{other}' differ only by case"
            yield LintFinding(SAME_TYPE_BUT_CASE, message, (kind, other))


def _find_properties_differing_by_case(owner: Owner, type_: SchemaType) -> Iterator[LintFinding]:
    for first, other in _group_by_case(p.name for p in type_.properties):
        message = f"properties '{first}' and '{other}' of {type_.name} differ only by case"
        yield LintFinding(SAME_PROPERTY_BUT_CASE, message, owner, other)


def _group_by_case(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that folds to an earlier one, with that earlier one first."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        groups[name.lower()].append(name)
    for first, *others in groups.values():
        yield from ((first, other) for other in others)


def _lint_vectors(owner: Owner, type_: EntityType) -> Iterator[LintFinding]:
    indexed = {c.columns for c in type_.of_kind(ConstraintKind.INDEX)}
    for property_ in type_.properties:
        name = f"{type_.name}.{property_.name}"
        if property_.type.is_vector and (property_.name,) not in indexed:
            message = f"vector '{name}' has no @index: every search reads every row"
            yield LintFinding(VECTOR_WITHOUT_INDEX, message, owner, property_.name)
        if property_.embed is not None and property_.embed.model is None:
            message = (
                f"@embed of '{name}' names no model: vectors of different models cannot be compared"
            )
            yield LintFinding(EMBED_WITHOUT_MODEL, message, owner, property_.name)


def _find_indexes_never_built(owner: Owner, type_: EntityType) -> Iterator[LintFinding]:
    for constraint in type_.of_kind(ConstraintKind.INDEX):
        if len(constraint.columns) > 1:
            rule = f"{render_constraint(constraint)} of {type_.name}"
            message = f"{rule} is never built: only single columns are indexed"
            yield LintFinding(INDEX_NEVER_BUILT, message, owner)


def _find_ends_without_key(owner: Owner, edge: EdgeType, catalog: Catalog) -> Iterator[LintFinding]:
    for name in sorted({edge.from_type, edge.to_type}):
        if not catalog.nodes[name].of_kind(ConstraintKind.KEY):
            message = f"edge '{edge.name}' ends at '{name}', which has no @key to name its nodes by"
            yield LintFinding(ENDPOINT_WITHOUT_KEY, message, owner)
