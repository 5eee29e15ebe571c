"""Properties as declared: their names, and what the annotations on them mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    Constraint,
    ConstraintKind,
    DefaultValue,
    Embed,
    Property,
    TypeKind,
)
from omnigraph.catalog.declarations import DeclaredProperty, PlacedConstraint
from omnigraph.catalog.defaults import read_default
from omnigraph.catalog.draft import UNASSIGNED
from omnigraph.catalog.schema_mistakes import OwnerName, SchemaMistakes
from omnigraph.identity import PropertyId
from omnigraph.language.schema.schema_ast import AnnotationDecl, PropertyDecl, SchemaLiteral
from omnigraph.language.source import NOWHERE
from omnigraph.types.problems import ValueRefused

UNASSIGNED_PROPERTY = PropertyId(UNASSIGNED)
_RULES = (ConstraintKind.KEY, ConstraintKind.UNIQUE, ConstraintKind.INDEX)


def declare_properties(
    owner: OwnerName, declarations: Iterable[PropertyDecl], findings: SchemaMistakes
) -> dict[str, DeclaredProperty]:
    """The properties a type declares itself, by name; of two with one name the first."""
    declared: dict[str, DeclaredProperty] = {}
    for declaration in declarations:
        reader = _PropertyReader(owner, declaration, findings)
        reader.check_name(is_taken=declaration.name in declared)
        declared.setdefault(declaration.name, reader.read())
    return declared


def check_embed_sources(
    owner: OwnerName, properties: Mapping[str, DeclaredProperty], findings: SchemaMistakes
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
        self, owner: OwnerName, declaration: PropertyDecl, findings: SchemaMistakes
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

    def _read_rules(self, by_name: Mapping[str, AnnotationDecl]) -> Iterable[PlacedConstraint]:
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
            yield PlacedConstraint(Constraint(kind, (name,), on_property=True), annotation.span)

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
