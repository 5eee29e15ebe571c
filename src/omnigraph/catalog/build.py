"""Compile schema text or a syntax tree to a checked draft of the catalog.

Every error of a file is reported at once. The result does not depend on the order of the
declarations, of the properties in them, or of the interfaces a node type implements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from omnigraph.catalog.build_annotations import read_type_annotations
from omnigraph.catalog.build_constraints import build_constraints, canonicalize_constraints
from omnigraph.catalog.build_properties import (
    Properties,
    check_embed_sources,
    declare_properties,
    expand_interfaces,
)
from omnigraph.catalog.catalog import (
    UNASSIGNED,
    Catalog,
    Draft,
    EdgeType,
    InterfaceType,
    Member,
    NodeType,
    Owner,
    TypeKind,
)
from omnigraph.catalog.declarations import DeclaredType, OwnerName, SchemaProblems
from omnigraph.identity import TableIncarnationId, TypeId
from omnigraph.language.schema_ast import (
    BodyItem,
    ConstraintClause,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    NameRef,
    NodeDecl,
    PropertyDecl,
    SchemaFile,
)
from omnigraph.language.schema_parser import parse_schema
from omnigraph.language.source import SourceText, Span

NO_TYPE_ID = TypeId(UNASSIGNED)
NO_INCARNATION = TableIncarnationId(UNASSIGNED)

_AnyDeclaration = TypeVar("_AnyDeclaration", InterfaceDecl, NodeDecl, EdgeDecl)


def compile_schema(source: SourceText) -> Draft:
    """Compile a schema text to a checked draft.

    Raises:
        CompileError: with every syntax error, or else with every other error of the text.
    """
    return build_draft(parse_schema(source), source)


def build_draft(file: SchemaFile, source: SourceText) -> Draft:
    """Compile a syntax tree to a checked draft; `source` is the text of its spans.

    Raises:
        CompileError: with every error of the schema.
    """
    findings = SchemaProblems(source)
    interfaces = _select_declarations(file, InterfaceDecl)
    nodes, edges = _select_declarations(file, NodeDecl), _select_declarations(file, EdgeDecl)
    _refuse_duplicates(interfaces, "S104", "duplicate interface name", findings)
    _refuse_duplicates(nodes, "S101", "duplicate node type", findings)
    _refuse_duplicates(edges, "S102", "duplicate edge type", findings)
    _refuse_folded_duplicates(edges, findings)

    declared_interfaces = [(decl, _build_interface(decl, findings)) for decl in interfaces]
    offered: dict[str, Properties] = {}
    for decl, declared in declared_interfaces:
        offered.setdefault(decl.name, declared.properties)
    declared_nodes = [(decl, _build_node(decl, offered, findings)) for decl in nodes]
    names = {decl.name for decl in nodes}
    declared_edges = [(decl, _build_edge(decl, names, set(offered), findings)) for decl in edges]
    findings.raise_if_any()

    everything = [d for _, d in (*declared_interfaces, *declared_nodes, *declared_edges)]
    catalog = Catalog(
        identity_domain="",
        next_identity_id=UNASSIGNED,
        interfaces=_index_by_name([_make_interface_type(d) for _, d in declared_interfaces]),
        nodes=_index_by_name([_make_node_type(decl, d) for decl, d in declared_nodes]),
        edges=_index_by_name([_make_edge_type(decl, d) for decl, d in declared_edges]),
    )
    return _make_draft(source, catalog, everything, findings)


def _select_declarations(file: SchemaFile, kind: type[_AnyDeclaration]) -> list[_AnyDeclaration]:
    return [decl for decl in file.declarations if isinstance(decl, kind)]


# --- names ---------------------------------------------------------------------------------------


def _refuse_duplicates(
    declarations: Sequence[Declaration], code: str, message: str, findings: SchemaProblems
) -> None:
    seen: set[str] = set()
    for decl in declarations:
        if decl.name in seen:
            findings.error(code, f"{message} '{decl.name}'", decl.name_span)
        seen.add(decl.name)


def _refuse_folded_duplicates(edges: Sequence[EdgeDecl], findings: SchemaProblems) -> None:
    first_spelling: dict[str, str] = {}
    for edge in edges:
        first = first_spelling.setdefault(edge.name.lower(), edge.name)
        if first != edge.name:
            message = f"edge name collision after case folding: '{edge.name}' and '{first}'"
            findings.error("S103", message, edge.name_span)


# --- declarations --------------------------------------------------------------------------------


def _split(body: Sequence[BodyItem]) -> tuple[list[PropertyDecl], list[ConstraintClause]]:
    properties = [item for item in body if isinstance(item, PropertyDecl)]
    return properties, [item for item in body if isinstance(item, ConstraintClause)]


def _build_interface(decl: InterfaceDecl, findings: SchemaProblems) -> DeclaredType:
    owner = OwnerName(TypeKind.INTERFACE, decl.name)
    properties = declare_properties(owner, decl.properties, findings)
    rules = canonicalize_constraints(
        rule.constraint for p in properties.values() for rule in p.rules
    )
    return DeclaredType(owner, decl.name_span, properties, rules)


def _build_node(
    decl: NodeDecl, offered: Mapping[str, Properties], findings: SchemaProblems
) -> DeclaredType:
    owner = OwnerName(TypeKind.NODE, decl.name)
    declarations, clauses = _split(decl.body)
    annotations, old_name = read_type_annotations(owner, decl.annotations, findings)
    own = declare_properties(owner, declarations, findings)
    properties = expand_interfaces(owner, own, decl.implements, offered, findings)
    check_embed_sources(owner, properties, findings)
    constraints = build_constraints(owner, properties, clauses, findings)
    return DeclaredType(owner, decl.name_span, properties, constraints, annotations, old_name)


def _build_edge(
    decl: EdgeDecl, nodes: set[str], interfaces: set[str], findings: SchemaProblems
) -> DeclaredType:
    owner = OwnerName(TypeKind.EDGE, decl.name)
    declarations, clauses = _split(decl.body)
    _check_endpoint("S106", "source", owner, decl.from_type, nodes, interfaces, findings)
    _check_endpoint("S107", "target", owner, decl.to_type, nodes, interfaces, findings)
    _check_cardinality(decl, owner, findings)
    annotations, old_name = read_type_annotations(owner, decl.annotations, findings)
    properties = declare_properties(owner, declarations, findings)
    constraints = build_constraints(owner, properties, clauses, findings)
    return DeclaredType(owner, decl.name_span, properties, constraints, annotations, old_name)


def _check_endpoint(
    code: str,
    role: str,
    owner: OwnerName,
    ref: NameRef,
    nodes: set[str],
    interfaces: set[str],
    findings: SchemaProblems,
) -> None:
    if ref.name in nodes:
        return
    hint = findings.suggest(ref.name, sorted(nodes))
    if ref.name in interfaces:
        hint = f"{ref.name} is an interface; an edge joins node types"
    message = f"{owner} references unknown {role} type '{ref.name}'"
    findings.error(code, message, ref.span, hint=hint)


def _check_cardinality(decl: EdgeDecl, owner: OwnerName, findings: SchemaProblems) -> None:
    card = decl.cardinality
    if card is not None and card.maximum is not None and card.minimum > card.maximum:
        message = f"cardinality min ({card.minimum}) exceeds max ({card.maximum}) on {owner}"
        findings.error("S109", message, card.span)


# --- the catalog ---------------------------------------------------------------------------------


def _make_interface_type(declared: DeclaredType) -> InterfaceType:
    return InterfaceType(
        NO_TYPE_ID, declared.owner.name, declared.sort_properties(), declared.constraints
    )


def _make_node_type(decl: NodeDecl, declared: DeclaredType) -> NodeType:
    return NodeType(
        NO_TYPE_ID,
        NO_INCARNATION,
        decl.name,
        declared.sort_properties(),
        declared.constraints,
        declared.annotations,
        implements=tuple(sorted({ref.name for ref in decl.implements})),
    )


def _make_edge_type(decl: EdgeDecl, declared: DeclaredType) -> EdgeType:
    card = decl.cardinality
    return EdgeType(
        NO_TYPE_ID,
        NO_INCARNATION,
        decl.name,
        declared.sort_properties(),
        declared.constraints,
        declared.annotations,
        from_type=decl.from_type.name,
        to_type=decl.to_type.name,
        minimum=card.minimum if card else 0,
        maximum=card.maximum if card else None,
    )


_AnyType = TypeVar("_AnyType", InterfaceType, NodeType, EdgeType)


def _index_by_name(types: Sequence[_AnyType]) -> dict[str, _AnyType]:
    return {type_.name: type_ for type_ in sorted(types, key=lambda type_: type_.name)}


def _make_draft(
    source: SourceText, catalog: Catalog, types: Sequence[DeclaredType], findings: SchemaProblems
) -> Draft:
    type_renames: dict[Owner, str] = {}
    property_renames: dict[Member, str] = {}
    type_spans: dict[Owner, Span] = {}
    property_spans: dict[Member, Span] = {}
    for declared in types:
        owner: Owner = (declared.owner.kind, declared.owner.name)
        type_spans[owner] = declared.span
        if declared.renamed_from is not None:
            type_renames[owner] = declared.renamed_from
        for name, declared_property in declared.properties.items():
            member: Member = (*owner, name)
            property_spans[member] = declared_property.span
            if declared_property.renamed_from is not None:
                property_renames[member] = declared_property.renamed_from
    return Draft(
        source,
        catalog,
        type_renames,
        property_renames,
        type_spans,
        property_spans,
        findings.warnings(),
    )
