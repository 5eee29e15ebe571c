"""A query and a catalog to a typed plan; every mistake is found and reported at once."""

from __future__ import annotations

from omnigraph.catalog.catalog import Catalog
from omnigraph.language.query.query_ast import MutationBody, QueryDecl, ReadBody
from omnigraph.language.source import Problems, SourceText
from omnigraph.plan.bind_mutation import bind_mutation
from omnigraph.plan.bind_read import bind_read
from omnigraph.plan.nodes import MutationPlan, Plan, ReadPlan
from omnigraph.plan.scope import BindContext, list_bound_names

STAGE = "type"


def bind_query(decl: QueryDecl, catalog: Catalog, source: SourceText) -> ReadPlan | MutationPlan:
    """The plan of one query; a `CompileError` holds all its mistakes, in the order of the text.

    The plan is as written: filters stand with the whole pattern and no order is chosen.
    """
    problems = Problems(source, STAGE)
    plan = _bind(decl, catalog, problems)
    problems.raise_if_any()
    return plan


def _bind(decl: QueryDecl, catalog: Catalog, problems: Problems) -> Plan:
    parameters = {p.name: p.type for p in decl.parameters}
    match decl.body:
        case ReadBody() as body:
            names = list_bound_names(body.clauses, deep=True) | parameters.keys()
            return bind_read(decl, body, BindContext(catalog, problems, parameters, names))
        case MutationBody() as body:
            return bind_mutation(decl, body, BindContext(catalog, problems, parameters))
