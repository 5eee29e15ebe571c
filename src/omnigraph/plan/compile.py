"""Text to plan in one call: what the command line, the SDK and the benchmarks start from."""

from __future__ import annotations

import threading
from collections import OrderedDict

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.identify import identify_first
from omnigraph.catalog.model import Catalog
from omnigraph.errors import BadRequest, QueryNotFound
from omnigraph.language.query.ast import QueryDecl, QueryFile
from omnigraph.language.query.parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.nodes import Plan
from omnigraph.plan.rewrite.rules import optimize
from omnigraph.plan.statistics import Statistics

OFFLINE_DOMAIN = "offline"
"""The identity domain of a schema compiled without a graph."""


def compile_catalog(source: SourceText) -> Catalog:
    """The catalog of a schema text, with the identities a new graph would get."""
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

    Text that was bound before against the same catalog is not read again: programs run the same
    few queries over and over, and reading one costs as much as a small commit does.
    """
    bound = _bound_before.find(source, catalog, name)
    if bound is None:
        declaration = select_query(parse_query_file(source), name)
        bound = _bound_before.keep(source, catalog, name, bind_query(declaration, catalog, source))
    return optimize(bound, catalog, statistics)


class _BoundQueries:
    """The plans bound last, before any optimization; safe to share between threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._plans: OrderedDict[tuple[SourceText, int, str | None], tuple[Catalog, Plan]]
        self._plans = OrderedDict()

    def find(self, source: SourceText, catalog: Catalog, name: str | None) -> Plan | None:
        with self._lock:
            found = self._plans.get((source, id(catalog), name))
            return None if found is None else found[1]

    def keep(self, source: SourceText, catalog: Catalog, name: str | None, plan: Plan) -> Plan:
        with self._lock:
            # The catalog is kept with the plan, so that its number cannot become another's.
            self._plans[source, id(catalog), name] = (catalog, plan)
            if len(self._plans) > self._capacity:
                self._plans.popitem(last=False)
        return plan


_bound_before = _BoundQueries(capacity=256)
