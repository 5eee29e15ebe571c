"""Text to plan in one call: what the command line, the SDK and the benchmarks start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.cache import Cache
from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import BadRequest, QueryNotFound
from omnigraph.language.query.query_ast import QueryDecl, QueryFile
from omnigraph.language.query.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.nodes import Plan
from omnigraph.plan.rewrite.rewrite_rules import optimize
from omnigraph.plan.statistics import Statistics

OFFLINE_DOMAIN = "offline"
"""The identity domain of a schema compiled without a graph."""


def compile_catalog(source: SourceText) -> Catalog:
    """The catalog of a schema text, with the identities a new graph would get."""
    # A graph keeps its schema compiled: queries do not need what reads schema texts.
    from omnigraph.catalog.build import compile_schema  # noqa: PLC0415
    from omnigraph.catalog.identify import identify_first  # noqa: PLC0415

    return identify_first(compile_schema(source), OFFLINE_DOMAIN)


def select_query(file: QueryFile, name: str | None) -> QueryDecl:
    """The query of that name; without a name the file must hold exactly one."""
    known = [query.name for query in file.queries]
    if name is None:
        if len(file.queries) == 1:
            return file.queries[0]
        choice = f"name one of: {', '.join(known)}" if known else "it holds no query"
        raise BadRequest(f"the file has {len(known)} queries; {choice}")
    for query in file.queries:
        if query.name == name:
            return query
    raise QueryNotFound(name, known)


def compile_plan(
    source: SourceText,
    catalog: Catalog,
    name: str | None = None,
    statistics: Statistics | None = None,
) -> Plan:
    """Parse, bind and optimize one query of a text.

    Text that was bound before against the same catalog is not read again, and what was optimized by
    the same row counts is not optimized again: programs run the same few queries over and over, and
    reading one costs as much as a small commit does.
    """
    rows = None if statistics is None else statistics.rows
    known = _compiled.find((source, name, id(catalog)))
    if known is not None and known.rows is rows:
        return known.plan
    if known is None:
        declaration = select_query(parse_query_file(source), name)
        bound = bind_query(declaration, catalog, source)
    else:
        bound = known.bound
    plan = optimize(bound, catalog, statistics)
    _compiled.keep((source, name, id(catalog)), _Compiled(catalog, bound, rows, plan))
    return plan


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A query as it was bound, and as it was optimized last."""

    catalog: Catalog
    """Kept with the plan, so that its number cannot become that of another one."""
    bound: Plan
    rows: Mapping[str, int] | None
    """The row counts it was optimized by."""
    plan: Plan


_compiled: Cache[tuple[SourceText, str | None, int], _Compiled] = Cache(256)
