"""A schema that is compiled and checked but has no identities yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.catalog.catalog import Catalog, TypeKind
from omnigraph.errors import Diagnostic
from omnigraph.language.source import NOWHERE, SourceText, Span

UNASSIGNED = 0
"""The id of everything in a draft; real ids start at 1."""

Owner = tuple[TypeKind, str]
Member = tuple[TypeKind, str, str]


@dataclass(frozen=True)
class Draft:
    """The catalog with every id `UNASSIGNED`, `satisfies` empty and the rename hints with it.

    Hints map the new name to the old one; spans say where each declaration is, so that an
    identity mistake can still point into the text.
    """

    source: SourceText
    catalog: Catalog
    type_renames: Mapping[Owner, str] = field(default_factory=dict)
    property_renames: Mapping[Member, str] = field(default_factory=dict)
    type_spans: Mapping[Owner, Span] = field(default_factory=dict)
    property_spans: Mapping[Member, Span] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()

    def span_of(self, owner: Owner, member: str | None = None) -> Span:
        if member is None:
            return self.type_spans.get(owner, NOWHERE)
        return self.property_spans.get((*owner, member), NOWHERE)

    def find_place(self, entity: str) -> str:
        """File, line and column of `kind:Type` or `kind:Type.property`.

        A property that is not declared stands with its type, as one of an interface does. Of a type
        that is not declared, only the file is known.
        """
        kind, _, rest = entity.partition(":")
        name, _, member = rest.partition(".")
        span = NOWHERE
        if kind in tuple(TypeKind):
            owner = (TypeKind(kind), name)
            span = self.span_of(owner, member or None)
            if span is NOWHERE:
                span = self.span_of(owner)
        if span is NOWHERE:
            return self.source.name
        line, column = self.source.line_and_column(span.start)
        return f"{self.source.name}:{line}:{column}"
