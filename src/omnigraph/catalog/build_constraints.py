"""Compile the constraints of a type: those written on its properties and those in its body."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache

from omnigraph.catalog.catalog import Constraint, ConstraintKind, TypeKind
from omnigraph.catalog.declarations import (
    DeclaredProperty,
    LocatedConstraint,
    OwnerName,
    SchemaProblems,
)
from omnigraph.language.schema_ast import (
    ConstraintArgument,
    ConstraintClause,
    NameRef,
    RangeBounds,
    SchemaLiteral,
)
from omnigraph.language.source import Span
from omnigraph.types.property import STRUCTURAL_FIELDS, PropertyType


@lru_cache(maxsize=1024)
def check_pattern(pattern: str) -> str | None:
    """Return the reason `pattern` cannot be used, or None if it can."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and most schemas have no @check
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        # One row instead of none: for an empty column, Arrow does not compile the pattern.
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as error:
        return _explain_error(str(error))
    return None


def _explain_error(message: str) -> str:
    reason = message.removeprefix("Invalid regular expression: ")
    return reason if len(reason) <= 200 else f"{reason[:200]}…"


_SHOWN_DIGITS = 40


def build_constraints(
    owner: OwnerName,
    properties: Mapping[str, DeclaredProperty],
    clauses: Sequence[ConstraintClause],
    findings: SchemaProblems,
) -> tuple[Constraint, ...]:
    """Every constraint of a type in canonical order, whether on a property or in the body."""
    located = [rule for declared in properties.values() for rule in declared.rules]
    for clause in clauses:
        constraint = _read(owner, properties, clause, findings)
        located.append(LocatedConstraint(constraint, clause.span))
    _refuse_second_key(owner, located, findings)
    return canonicalize_constraints(rule.constraint for rule in located)


def canonicalize_constraints(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """Sort constraints by kind and columns, without duplicates of property and body."""
    rules: dict[tuple[str, tuple[str, ...], str, str, str], Constraint] = {}
    for rule in constraints:
        key = (rule.kind, rule.columns, rule.low or "", rule.high or "", rule.pattern or "")
        if key not in rules or rule.on_property:
            rules[key] = rule
    return tuple(rules[key] for key in sorted(rules))


def check_column(
    kind: ConstraintKind,
    owner: OwnerName,
    name: str,
    type_: PropertyType,
    span: Span,
    findings: SchemaProblems,
) -> None:
    """Report why `@key`, `@unique` or `@index` is not allowed on a property of this type."""
    if kind is ConstraintKind.KEY and type_.nullable:
        message = f"key property '{name}' of {owner} cannot be nullable"
        findings.error("S152", message, span)
    shape = "list" if type_.is_list else "vector" if type_.is_vector else "blob"
    vector_index = type_.is_vector and kind is ConstraintKind.INDEX
    if not type_.is_plain_scalar and not vector_index:
        message = f"`@{kind}` is not supported on {shape} property '{name}' of {owner}"
        findings.error("S154", message, span)


def _refuse_second_key(
    owner: OwnerName, located: Iterable[LocatedConstraint], findings: SchemaProblems
) -> None:
    keys = [rule.span for rule in located if rule.constraint.kind is ConstraintKind.KEY]
    if owner.kind is TypeKind.NODE:
        for span in sorted(keys)[1:]:
            findings.error("S150", f"multiple @key constraints on {owner}", span)


# --- reading a clause ----------------------------------------------------------------------------
# An invalid clause still yields a constraint, so that its dependents are checked as well; the error
# is reported and the build fails after that.


def _read(
    owner: OwnerName,
    properties: Mapping[str, DeclaredProperty],
    clause: ConstraintClause,
    findings: SchemaProblems,
) -> Constraint:
    reader = _ClauseReader(owner, properties, clause, findings)
    kind = ConstraintKind(clause.kind)
    match kind:
        case ConstraintKind.RANGE:
            return reader.range()
        case ConstraintKind.CHECK:
            return reader.check()
        case ConstraintKind.KEY | ConstraintKind.UNIQUE | ConstraintKind.INDEX:
            return reader.over_columns(kind)


class _ClauseReader:
    def __init__(
        self,
        owner: OwnerName,
        properties: Mapping[str, DeclaredProperty],
        clause: ConstraintClause,
        findings: SchemaProblems,
    ) -> None:
        self._owner, self._properties = owner, properties
        self._clause, self._findings = clause, findings

    def over_columns(self, kind: ConstraintKind) -> Constraint:
        if kind is ConstraintKind.KEY and self._owner.kind is TypeKind.EDGE:
            message = f"@key constraint is not supported on edges: {self._owner}"
            self._findings.error("S153", message, self._clause.span)
        columns = {self._read_column(kind, argument) for argument in self._clause.arguments}
        return Constraint(kind, tuple(sorted(columns)))

    def _read_column(self, kind: ConstraintKind, argument: ConstraintArgument) -> str:
        if not isinstance(argument, NameRef):
            self._describe_expected_name(argument)
            return ""
        is_endpoint = self._owner.kind is TypeKind.EDGE and argument.name in STRUCTURAL_FIELDS
        if not is_endpoint or kind is ConstraintKind.KEY:
            type_ = self._find_type(argument)
            if type_ is not None:
                check_column(kind, self._owner, argument.name, type_, argument.span, self._findings)
        return argument.name

    def _describe_expected_name(self, argument: ConstraintArgument) -> None:
        kind = self._clause.kind
        message = f"expected property name in constraint `@{kind}` on {self._owner}"
        if kind in ("key", "unique", "index"):
            message += f"; `@{kind}` does not accept a value"
        self._findings.error("S159", message, argument.span)

    def _find_type(self, ref: NameRef) -> PropertyType | None:
        declared = self._properties.get(ref.name)
        if declared is not None:
            return declared.property.type
        hint = self._findings.suggest(ref.name, self._properties)
        if self._owner.kind is TypeKind.EDGE and ref.name in ("from", "to"):
            hint = "the ends of an edge are `src` and `dst`"
        message = (
            f"`@{self._clause.kind}` on {self._owner} references unknown property '{ref.name}'"
        )
        self._findings.error("S151", message, ref.span, hint=hint)
        return None

    def range(self) -> Constraint:
        arguments = self._clause.arguments
        if len(arguments) < 2:
            self._report_missing("S157", "bounds")
            return Constraint(ConstraintKind.RANGE, ())
        self._refuse_extra("a property name and bounds")
        name, bounds = arguments[0], arguments[1]
        type_ = self._name_subject(name)
        if type_ is not None and not type_.is_numeric:
            self._findings.error("S155", self._needs(name, "a numeric type", type_), name.span)
        if not isinstance(bounds, RangeBounds):
            message = f"expected range bounds in `@range` on {self._owner}"
            self._findings.error("S160", message, bounds.span, hint="such as `0..10` or `0..`")
            return Constraint(ConstraintKind.RANGE, ())
        self._check_bounds(bounds)
        return Constraint(ConstraintKind.RANGE, (_name_of(name),), low=bounds.low, high=bounds.high)

    def check(self) -> Constraint:
        arguments = self._clause.arguments
        if len(arguments) < 2:
            self._report_missing("S158", "pattern")
            return Constraint(ConstraintKind.CHECK, ())
        self._refuse_extra("a property name and a pattern")
        name, pattern = arguments[0], arguments[1]
        type_ = self._name_subject(name)
        if type_ is not None and not type_.is_string:
            self._findings.error("S156", self._needs(name, "String type", type_), name.span)
        if not isinstance(pattern, SchemaLiteral) or pattern.kind != "string":
            message = f"`@check` on {self._owner} requires property name and pattern"
            self._findings.error("S158", message, pattern.span, hint="write the pattern in quotes")
            return Constraint(ConstraintKind.CHECK, ())
        self._check_pattern(pattern)
        return Constraint(ConstraintKind.CHECK, (_name_of(name),), pattern=pattern.text)

    def _report_missing(self, code: str, needed: str) -> None:
        kind = self._clause.kind
        message = f"`@{kind}` on {self._owner} requires property name and {needed}"
        self._findings.error(code, message, self._clause.span)

    def _refuse_extra(self, allowed: str) -> None:
        for argument in self._clause.arguments[2:]:
            message = f"`@{self._clause.kind}` on {self._owner} takes {allowed}, nothing more"
            self._findings.error("S161", message, argument.span)

    def _name_subject(self, argument: ConstraintArgument) -> PropertyType | None:
        if isinstance(argument, NameRef):
            return self._find_type(argument)
        self._describe_expected_name(argument)
        return None

    def _needs(self, argument: ConstraintArgument, needed: str, type_: PropertyType) -> str:
        subject = f"property '{_name_of(argument)}' of {self._owner}"
        return f"`@{self._clause.kind}` on {subject} requires {needed}, not {type_}"

    def _check_bounds(self, bounds: RangeBounds) -> None:
        texts = [text for text in (bounds.low, bounds.high) if text is not None]
        if any(math.isinf(float(text)) for text in texts):
            message = f"a bound of `@range` on {self._owner} is too large"
            self._findings.error("S163", message, bounds.span)
        elif len(texts) == 2 and Decimal(texts[0]) > Decimal(texts[1]):
            shown = f"{texts[0][:_SHOWN_DIGITS]} is above {texts[1][:_SHOWN_DIGITS]}"
            message = f"the bounds of `@range` on {self._owner} leave no value: {shown}"
            self._findings.error("S162", message, bounds.span)

    def _check_pattern(self, pattern: SchemaLiteral) -> None:
        problem = check_pattern(pattern.text)
        if problem is None:
            return
        hint = None
        if "perl operator" in problem or "escape sequence" in problem:
            hint = "there is no look-around and no back-reference; the end of the text is `$`"
        message = f"`@check` on {self._owner} has an invalid pattern: {problem}"
        self._findings.error("S164", message, pattern.span, hint=hint)


def _name_of(argument: ConstraintArgument) -> str:
    return argument.name if isinstance(argument, NameRef) else ""
