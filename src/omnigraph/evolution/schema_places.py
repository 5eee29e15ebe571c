"""Where in the text of a schema something is declared, for errors about the way to it."""

from __future__ import annotations

from omnigraph.catalog.catalog import TypeKind
from omnigraph.catalog.draft import Draft
from omnigraph.language.source import NOWHERE


def find_place(schema: Draft, entity: str) -> str:
    """File, line and column of `kind:Type` or `kind:Type.property`.

    Of what is declared no more, only the file is known.
    """
    source = schema.source
    kind, _, rest = entity.partition(":")
    name, _, member = rest.partition(".")
    span = NOWHERE
    if kind in tuple(TypeKind):
        owner = (TypeKind(kind), name)
        span = schema.span_of(owner, member or None)
        if span is NOWHERE:  # a property that comes from an interface stands there
            span = schema.span_of(owner)
    if span is NOWHERE:
        return source.name
    line, column = source.line_and_column(span.start)
    return f"{source.name}:{line}:{column}"
