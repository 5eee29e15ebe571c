"""Compile properties: names, defaults, annotations, and those inherited from interfaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from omnigraph.catalog.build_annotations import (
    get_argument_text,
    index_annotations,
    rename_hint,
    sort_metadata_annotations,
)
from omnigraph.catalog.build_constraints import check_column
from omnigraph.catalog.catalog import (
    RESERVED_EVERYWHERE,
    RESERVED_ON_EDGES,
    UNASSIGNED,
    Constraint,
    ConstraintKind,
    DefaultValue,
    Embed,
    Property,
    TypeKind,
)
from omnigraph.catalog.declarations import (
    DeclaredProperty,
    LocatedConstraint,
    OwnerName,
    SchemaProblems,
)
from omnigraph.identity import PropertyId
from omnigraph.language.schema_ast import AnnotationDecl, NameRef, PropertyDecl, SchemaLiteral
from omnigraph.language.source import NOWHERE
from omnigraph.types.json_value import RANGE_NAMES, convert_finite_float
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, INTEGERS, PropertyType, Scalar
from omnigraph.types.row_problems import ValueRefused
from omnigraph.types.temporal import parse_date, parse_datetime, render_date, render_datetime

_MAX_INTEGER_DIGITS = 20


def read_default(literal: SchemaLiteral, type_: PropertyType) -> DefaultValue:
    """Convert a literal to the JSON value of a property of this type.

    Dates and instants are normalized, so that two spellings of one instant are equal.

    Raises:
        ValueRefused: the literal is no value of the type.
    """
    scalar = type_.scalar
    if scalar in INTEGERS:
        return DefaultValue(_parse_integer(literal, scalar))
    if scalar in FLOATS:
        return DefaultValue(_parse_float(literal, scalar))
    if scalar is Scalar.BOOL:
        _expect_kind(literal, "bool", "`true` or `false`")
        return DefaultValue(literal.text == "true")
    if scalar is Scalar.DATE:
        _expect_kind(literal, "string", 'a date such as "2024-06-01"')
        return DefaultValue(render_date(parse_date(literal.text)))
    if scalar is Scalar.DATETIME:
        _expect_kind(literal, "string", 'a date and time such as "2024-06-01T12:00:00Z"')
        return DefaultValue(render_datetime(parse_datetime(literal.text)))
    return DefaultValue(_parse_string(literal, type_))


def _expect_kind(literal: SchemaLiteral, kind: str, expected: str) -> None:
    if literal.kind != kind:
        raise ValueRefused(f"expected {expected}")


def _parse_integer(literal: SchemaLiteral, scalar: Scalar) -> int:
    _expect_kind(literal, "integer", "an integer")
    low, high = INTEGER_BOUNDS[scalar]
    digits = literal.text.removeprefix("-").lstrip("0")
    # Python refuses to read a number of thousands of digits.
    value = int(literal.text) if len(digits) <= _MAX_INTEGER_DIGITS else None
    if value is None or not low <= value <= high:
        raise ValueRefused(f"exceeds {RANGE_NAMES[scalar]} range ({low} to {high})")
    return value


def _parse_float(literal: SchemaLiteral, scalar: Scalar) -> float:
    if literal.kind not in ("integer", "float"):
        raise ValueRefused("expected a number")
    value = float(literal.text)
    convert_finite_float(value, scalar)
    # Kept at full precision: it is rounded when it is stored, and a plan shows it as written.
    return value


def _parse_string(literal: SchemaLiteral, type_: PropertyType) -> str:
    _expect_kind(literal, "string", "a string in quotes")
    if type_.enum_values is not None and literal.text not in type_.enum_values:
        raise ValueRefused(f"expected one of {', '.join(type_.enum_values)}")
    return literal.text


Properties = Mapping[str, DeclaredProperty]


def expand_interfaces(
    owner: OwnerName,
    own: Properties,
    implements: Sequence[NameRef],
    interfaces: Mapping[str, Properties],
    findings: SchemaProblems,
) -> Properties:
    """Merge the properties of a node type with those of its interfaces.

    A property that the node declares keeps the annotations of the node and must have the type of
    the interface. Any other comes with the annotations and constraints of the interface; several
    interfaces that declare it must agree, so their order is irrelevant.
    """
    injected: dict[str, tuple[str, DeclaredProperty]] = {}
    for ref in _find_known(owner, implements, interfaces, findings):
        for name, offered in interfaces[ref.name].items():
            if name in own:
                _check_type(owner, own[name], ref, offered, findings)
            elif name in injected:
                first_interface, accepted = injected[name]
                merged = _check_agreement(owner, first_interface, accepted, ref, offered, findings)
                injected[name] = (first_interface, merged)
            else:
                injected[name] = (ref.name, _inject_property(offered, ref))
    return {**own, **{name: declared for name, (_, declared) in injected.items()}}


def _find_known(
    owner: OwnerName,
    implements: Sequence[NameRef],
    interfaces: Mapping[str, Properties],
    findings: SchemaProblems,
) -> list[NameRef]:
    known: dict[str, NameRef] = {}
    for ref in implements:
        if ref.name not in interfaces:
            message = f"{owner} implements unknown interface '{ref.name}'"
            hint = findings.suggest(ref.name, interfaces)
            findings.error("S108", message, ref.span, hint=hint)
        elif ref.name in known:
            findings.warn("S191", f"{owner} names interface {ref.name} twice", ref.span)
        else:
            known[ref.name] = ref
    return list(known.values())


def _check_type(
    owner: OwnerName,
    own: DeclaredProperty,
    ref: NameRef,
    offered: DeclaredProperty,
    findings: SchemaProblems,
) -> None:
    ours, theirs = own.property.type, offered.property.type
    if ours != theirs:
        where = f"{owner} property '{own.property.name}'"
        message = f"{where} has type {ours} but interface {ref.name} declares it as {theirs}"
        findings.error("S110", message, own.type_span)


def _inject_property(offered: DeclaredProperty, ref: NameRef) -> DeclaredProperty:
    # Conflicting constraints are an error of the node, reported at its reference to the interface.
    return replace(
        offered,
        property=replace(offered.property, declared_directly=False),
        rules=tuple(replace(rule, span=ref.span) for rule in offered.rules),
    )


def _check_agreement(
    owner: OwnerName,
    first_interface: str,
    accepted: DeclaredProperty,
    ref: NameRef,
    offered: DeclaredProperty,
    findings: SchemaProblems,
) -> DeclaredProperty:
    again = _inject_property(offered, ref)
    old_names = {accepted.renamed_from, again.renamed_from} - {None}
    if accepted != again or len(old_names) > 1:
        name = accepted.property.name
        message = (
            f"{owner} gets property '{name}' from interfaces {first_interface} and {ref.name} "
            "with incompatible property semantics"
        )
        hint = (
            f"declare '{name}' in {owner} to resolve it" if _is_same_type(accepted, again) else None
        )
        findings.error("S111", message, ref.span, hint=hint)
    return replace(accepted, renamed_from=accepted.renamed_from or again.renamed_from)


def _is_same_type(left: DeclaredProperty, right: DeclaredProperty) -> bool:
    return left.property.type == right.property.type


UNASSIGNED_PROPERTY = PropertyId(UNASSIGNED)
_RULES = (ConstraintKind.KEY, ConstraintKind.UNIQUE, ConstraintKind.INDEX)


def declare_properties(
    owner: OwnerName, declarations: Iterable[PropertyDecl], findings: SchemaProblems
) -> dict[str, DeclaredProperty]:
    """The properties a type declares itself, by name; of two with one name the first."""
    declared: dict[str, DeclaredProperty] = {}
    for declaration in declarations:
        reader = _PropertyReader(owner, declaration, findings)
        reader.check_name(is_taken=declaration.name in declared)
        declared.setdefault(declaration.name, reader.read())
    return declared


def check_embed_sources(
    owner: OwnerName, properties: Mapping[str, DeclaredProperty], findings: SchemaProblems
) -> None:
    """Report every `@embed` whose source is not a text property of the same type."""
    for name, declared in properties.items():
        embed = declared.property.embed
        if embed is None:
            continue
        source = properties.get(embed.source)
        where = f"`@embed` on property '{name}' of {owner}"
        if source is None:
            message = f"{where} references unknown source property '{embed.source}'"
            hint = findings.suggest(embed.source, properties)
            findings.error("S134", message, declared.embed_span, hint=hint)
        elif not source.property.type.is_string:
            found = source.property.type
            message = f"{where}: source property '{embed.source}' must be String, not {found}"
            findings.error("S135", message, declared.embed_span)


class _PropertyReader:
    def __init__(
        self, owner: OwnerName, declaration: PropertyDecl, findings: SchemaProblems
    ) -> None:
        self._owner, self._declaration, self._findings = owner, declaration, findings
        self._where = f"property '{declaration.name}' of {owner}"
        self._type = declaration.type

    def check_name(self, *, is_taken: bool) -> None:
        name, span = self._declaration.name, self._declaration.span
        if is_taken:
            self._findings.error("S105", f"duplicate {self._where}", span)
        if name in RESERVED_EVERYWHERE:
            message = f"property name '{name}' of {self._owner} is reserved"
            self._findings.error("S112", message, span)
        if self._owner.kind is TypeKind.EDGE and name in RESERVED_ON_EDGES:
            message = f"property name '{name}' of {self._owner} is reserved on edges"
            self._findings.error("S113", message, span)

    def read(self) -> DeclaredProperty:
        declaration = self._declaration
        by_name = index_annotations(declaration.annotations, self._where, self._findings)
        if "instruction" in by_name:
            message = f"`@instruction` is not supported on properties: {self._where}"
            hint = "`@description` describes a property"
            self._findings.error("S126", message, by_name["instruction"].span, hint=hint)
        if "merge" in by_name:
            message = f"`@merge` is not supported on properties: {self._where}"
            hint = "`@merge(entity)` after the name of a type merges its rows as a whole"
            self._findings.error("S129", message, by_name["merge"].span, hint=hint)
        embed = by_name.get("embed")
        embed_value = embed.argument if embed is not None else None
        return DeclaredProperty(
            property=Property(
                UNASSIGNED_PROPERTY,
                declaration.name,
                self._type,
                annotations=sort_metadata_annotations(declaration.annotations),
                embed=self._embed(embed) if embed is not None else None,
                default=self._read_default(by_name.get("default")),
            ),
            rules=tuple(self._read_rules(by_name)),
            renamed_from=rename_hint(by_name, self._where, self._findings),
            span=declaration.span,
            type_span=declaration.type_span,
            embed_span=embed_value.span if embed_value is not None else NOWHERE,
        )

    def _read_rules(self, by_name: Mapping[str, AnnotationDecl]) -> Iterable[LocatedConstraint]:
        name = self._declaration.name
        for kind in _RULES:
            annotation = by_name.get(kind)
            if annotation is None:
                continue
            if kind is ConstraintKind.KEY and self._owner.kind is TypeKind.EDGE:
                self._refuse_on_edge(annotation)
                continue
            if annotation.argument is not None:
                message = f"`@{kind}` on {self._where} does not accept a value"
                self._findings.error("S159", message, annotation.argument.span)
            check_column(kind, self._owner, name, self._type, annotation.span, self._findings)
            yield LocatedConstraint(Constraint(kind, (name,), on_property=True), annotation.span)

    def _refuse_on_edge(self, annotation: AnnotationDecl) -> None:
        message = f"`@{annotation.name}` is not supported on edge properties: {self._where}"
        self._findings.error("S122", message, annotation.span)

    def _embed(self, annotation: AnnotationDecl) -> Embed | None:
        where = f"`@embed` on {self._where}"
        if self._owner.kind is TypeKind.EDGE:
            self._refuse_on_edge(annotation)
            return None
        if not self._type.is_vector:
            message = f"{where} is only supported on vector properties, not {self._type}"
            self._findings.error("S130", message, annotation.span)
        model = self._embed_model(annotation, where)
        if annotation.argument is None:
            message = f"{where} requires a source property name"
            self._findings.error("S131", message, annotation.span)
            return None
        source = get_argument_text(annotation)
        if not source.strip():
            message = f"{where} requires a non-empty source property name"
            self._findings.error("S132", message, annotation.argument.span)
            return None
        return Embed(source, UNASSIGNED_PROPERTY, model)

    def _embed_model(self, annotation: AnnotationDecl, where: str) -> str | None:
        model = None
        for keyword, literal in annotation.keywords:
            if keyword != "model":
                message = f"{where} has the keyword '{keyword}'; only 'model' is supported"
                self._findings.error("S133", message, literal.span)
            elif not literal.text.strip():
                message = f"{where} names an empty model"
                self._findings.error("S136", message, literal.span)
            else:
                model = literal.text
        return model

    def _read_default(self, annotation: AnnotationDecl | None) -> DefaultValue | None:
        if annotation is None:
            return None
        literal = annotation.argument
        if not isinstance(literal, SchemaLiteral) or annotation.keywords:
            self._refuse_default(annotation)
            return None
        if not self._type.is_plain_scalar:
            message = f"`@default` is not supported on {self._type}: {self._where}"
            self._findings.error("S141", message, annotation.span)
            return None
        try:
            return read_default(literal, self._type)
        except ValueRefused as refused:
            message = f"`@default` on {self._where} does not fit {self._type}: {refused.reason}"
            self._findings.error("S142", message, literal.span)
            return None

    def _refuse_default(self, annotation: AnnotationDecl) -> None:
        hint = None
        text = get_argument_text(annotation)
        if text == "null":
            hint = "a nullable property left out is null without a default"
        elif text and not isinstance(annotation.argument, SchemaLiteral):
            hint = f'in quotes: `@default("{text[:40]}")`'
        message = f"`@default` on {self._where} takes exactly one literal"
        self._findings.error("S140", message, annotation.span, hint=hint)
