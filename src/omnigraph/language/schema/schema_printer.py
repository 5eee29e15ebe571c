"""Syntax tree to schema text, in one layout: `parse_schema(print_schema(x)) == x`."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.language.lexer import quote
from omnigraph.language.schema.schema_ast import (
    AnnotationDecl,
    BodyItem,
    Cardinality,
    ConstraintArgument,
    ConstraintClause,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    NameRef,
    NodeDecl,
    PropertyDecl,
    RangeBounds,
    SchemaFile,
    SchemaLiteral,
)


def print_schema(file: SchemaFile) -> str:
    """The text of a file: declarations a blank line apart, one property or constraint a line."""
    return "\n".join(_print_declaration(declaration) for declaration in file.declarations)


def _print_declaration(declaration: Declaration) -> str:
    match declaration:
        case InterfaceDecl(name=name, properties=properties):
            return f"interface {name} {_print_body(properties)}\n"
        case NodeDecl():
            header = _space_items(
                f"node {declaration.name}",
                *map(_print_annotation, declaration.annotations),
                _print_implements(declaration.implements),
            )
            return f"{header} {_print_body(declaration.body)}\n"
        case EdgeDecl():
            ends = f"{declaration.from_type.name} -> {declaration.to_type.name}"
            header = _space_items(
                f"edge {declaration.name}: {ends}",
                _print_cardinality(declaration.cardinality),
                *map(_print_annotation, declaration.annotations),
            )
            return (
                f"{header} {_print_body(declaration.body)}\n" if declaration.body else f"{header}\n"
            )


def _space_items(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _print_implements(names: tuple[NameRef, ...]) -> str:
    return f"implements {', '.join(ref.name for ref in names)}" if names else ""


def _print_cardinality(cardinality: Cardinality | None) -> str:
    if cardinality is None:
        return ""
    upper = "" if cardinality.maximum is None else str(cardinality.maximum)
    return f"@card({cardinality.minimum}..{upper})"


def _print_body(items: Iterable[BodyItem]) -> str:
    lines = "".join(f"  {_print_item(item)}\n" for item in items)
    return f"{{\n{lines}}}" if lines else "{}"


def _print_item(item: BodyItem) -> str:
    match item:
        case PropertyDecl():
            return _space_items(
                f"{item.name}: {item.type}", *map(_print_annotation, item.annotations)
            )
        case ConstraintClause(kind=kind, arguments=arguments):
            return f"@{kind}({', '.join(map(_print_argument, arguments))})"


def _print_annotation(annotation: AnnotationDecl) -> str:
    if annotation.argument is None:
        return f"@{annotation.name}"
    keywords = [f"{name}={_print_argument(value)}" for name, value in annotation.keywords]
    return f"@{annotation.name}({', '.join([_print_argument(annotation.argument), *keywords])})"


def _print_argument(argument: ConstraintArgument) -> str:
    match argument:
        case SchemaLiteral(kind="string", text=text):
            return quote(text)
        case SchemaLiteral(text=text):
            return text
        case NameRef(name=name):
            return name
        case RangeBounds(low=low, high=high):
            return f"{low or ''}..{high or ''}"
