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
