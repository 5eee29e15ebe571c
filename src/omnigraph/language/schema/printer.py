"""Syntax tree to schema text, in one layout: `parse_schema(print_schema(x)) == x`."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.language.lexer import quote
from omnigraph.language.schema.ast import (
    Annotation,
    BodyItem,
    Cardinality,
    ConstraintArgument,
    ConstraintClause,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    Literal,
    NameRef,
    NodeDecl,
    PropertyDecl,
    RangeBounds,
    SchemaFile,
)


def print_schema(file: SchemaFile) -> str:
    """The text of a file: declarations a blank line apart, one property or constraint a line."""
    return "\n".join(_declaration(declaration) for declaration in file.declarations)


def _declaration(declaration: Declaration) -> str:
    match declaration:
        case InterfaceDecl(name=name, properties=properties):
            return f"interface {name} {_body(properties)}\n"
        case NodeDecl():
            header = _spaced(
                f"node {declaration.name}",
                *map(_annotation, declaration.annotations),
                _implements(declaration.implements),
            )
            return f"{header} {_body(declaration.body)}\n"
        case EdgeDecl():
            ends = f"{declaration.from_type.name} -> {declaration.to_type.name}"
            header = _spaced(
                f"edge {declaration.name}: {ends}",
                _cardinality(declaration.cardinality),
                *map(_annotation, declaration.annotations),
            )
            return f"{header} {_body(declaration.body)}\n" if declaration.body else f"{header}\n"


def _spaced(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _implements(names: tuple[NameRef, ...]) -> str:
    return f"implements {', '.join(ref.name for ref in names)}" if names else ""


def _cardinality(cardinality: Cardinality | None) -> str:
    if cardinality is None:
        return ""
    upper = "" if cardinality.maximum is None else str(cardinality.maximum)
    return f"@card({cardinality.minimum}..{upper})"


def _body(items: Iterable[BodyItem]) -> str:
    lines = "".join(f"  {_item(item)}\n" for item in items)
    return f"{{\n{lines}}}" if lines else "{}"


def _item(item: BodyItem) -> str:
    match item:
        case PropertyDecl():
            return _spaced(f"{item.name}: {item.type}", *map(_annotation, item.annotations))
        case ConstraintClause(kind=kind, arguments=arguments):
            return f"@{kind}({', '.join(map(_argument, arguments))})"


def _annotation(annotation: Annotation) -> str:
    if annotation.argument is None:
        return f"@{annotation.name}"
    keywords = [f"{name}={_argument(value)}" for name, value in annotation.keywords]
    return f"@{annotation.name}({', '.join([_argument(annotation.argument), *keywords])})"


def _argument(argument: ConstraintArgument) -> str:
    match argument:
        case Literal(kind="string", text=text):
            return quote(text)
        case Literal(text=text):
            return text
        case NameRef(name=name):
            return name
        case RangeBounds(low=low, high=high):
            return f"{low or ''}..{high or ''}"
