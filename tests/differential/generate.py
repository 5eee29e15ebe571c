"""Random graphs with random queries that mean something, the same ones for the same seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from random import Random

from differential.clauses import make_clauses
from differential.data import GraphData, read_records
from differential.generated_schemas import make_schema
from differential.interpreter import Answer, interpret
from differential.matching import TooManyRows
from differential.model_aggregates import SumTooLarge
from differential.random_contents import Record, make_contents
from differential.random_tails import make_tail
from differential.scopes import Draft, Scope
from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import CompileError
from omnigraph.language import query_ast
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.language.syntax_printer import print_query
from omnigraph.plan.bind import bind_query
from omnigraph.plan.compile import compile_catalog
from omnigraph.plan.plan_nodes import ReadPlan
from omnigraph.types.parameters import coerce_parameters

MAX_DIRECTORY_ROWS = 3000
KEEP_EMPTY = 0.6


@dataclass(frozen=True)
class QueryCase:
    """One query with its parameters, as a client would send them, and what must come back.

    Without an answer the query must be refused: it asks for a sum that its type cannot hold.
    """

    text: str
    parameters: dict[str, object]
    plan: ReadPlan
    values: dict[str, object]
    answer: Answer | None
    constructs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class GraphCase:
    """A schema and contents, from one seed."""

    seed: int
    schema: str
    records: tuple[Record, ...]
    catalog: Catalog
    data: GraphData

    @property
    def jsonl(self) -> str:
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in self.records)


def make_graph(seed: int) -> GraphCase:
    random = Random(f"graph {seed}")
    schema = make_schema(random)
    catalog = compile_catalog(SourceText(schema, "schema.pg"))
    records = tuple(make_contents(catalog, random))
    return GraphCase(seed, schema, records, catalog, read_records(catalog, records))


def make_query(graph: GraphCase, number: int) -> QueryCase:
    """The query of that number.

    Drafts that do not bind or have too many rows are thrown away, and some of those without any.
    """
    random = Random(f"query {graph.seed} {number}")
    while True:
        draft = Draft(random, graph.catalog, graph.data)
        decl = _draft_query(draft)
        try:
            case = ask(graph, print_query(decl), draft.given)
        except (CompileError, TooManyRows):
            continue
        is_empty = case.answer is not None and case.answer.count == 0
        if not is_empty or random.random() < KEEP_EMPTY:
            return replace(case, constructs=frozenset(constructs_of(decl)))


def ask(graph: GraphCase, text: str, parameters: dict[str, object]) -> QueryCase:
    """The case of a query text: its plan as written, and the answer of the interpreter."""
    plan = bind_text(text, graph.catalog)
    values = coerce_parameters([(p.name, p.type) for p in plan.parameters], parameters)
    try:
        answer = interpret(plan, graph.data, graph.catalog, values, most_rows=MAX_DIRECTORY_ROWS)
    except SumTooLarge:
        answer = None
    return QueryCase(text, parameters, plan, values, answer)


def _draft_query(draft: Draft) -> query_ast.QueryDecl:
    scope = Scope()
    clauses = make_clauses(draft, scope)
    tail = make_tail(draft, scope)
    body = query_ast.ReadBody(
        clauses=tuple(clauses),
        projections=tuple(tail.projections),
        distinct=tail.distinct,
        order=tuple(tail.order),
        limit=tail.limit,
        offset=tail.offset,
    )
    return query_ast.QueryDecl("q", tuple(draft.parameters), body)


def bind_text(text: str, catalog: Catalog) -> ReadPlan:
    """The plan of a query text as written."""
    source = SourceText(text, "query.gq")
    (decl,) = parse_query_file(source).queries
    plan = bind_query(decl, catalog, source)
    assert isinstance(plan, ReadPlan)
    return plan


# --- which constructs a query uses ----------------------------------------------------------------


def constructs_of(decl: query_ast.QueryDecl) -> Iterator[str]:
    body = decl.body
    assert isinstance(body, query_ast.ReadBody)
    yield from ("parameters",) * bool(decl.parameters)
    yield from ("distinct",) * body.distinct
    yield from ("order",) * bool(body.order)
    yield from ("limit",) * (body.limit is not None)
    yield from ("offset",) * (body.offset is not None)
    for tree in _trees(body):
        yield from _constructs(tree)


def _trees(tree: object) -> Iterator[object]:
    yield tree
    if isinstance(tree, tuple):
        for item in tree:
            yield from _trees(item)
    elif is_dataclass(tree):
        for member in fields(tree):
            if not member.name.endswith("span"):
                yield from _trees(getattr(tree, member.name))


def _constructs(tree: object) -> Iterator[str]:
    match tree:
        case query_ast.Binding(_, type_name, matches):
            yield "interface binding" if type_name in ("Thing", "Noted") else "binding"
            yield from ("inline match",) * bool(matches)
        case query_ast.Traversal():
            yield "traversal"
            yield from ("hops",) * (tree.hops is not None)
            yield from ("undirected",) * tree.undirected
            yield from ("edge variable",) * (tree.edge_variable is not None)
            yield from ("hop variable",) * (tree.hop_variable is not None)
            yield from ("alternatives",) * (len(tree.edges) > 1)
            yield from ("anonymous end",) * (query_ast.ANONYMOUS in (tree.source, tree.target))
        case query_ast.Negation(clauses):
            yield "negation"
            inner = [
                c for c in _trees(clauses) if isinstance(c, query_ast.Negation | query_ast.Optional)
            ]
            yield from ("block in a negation",) * bool(inner)
        case query_ast.Optional(clauses):
            yield "optional"
        case query_ast.Filter():
            yield "filter"
        case (
            query_ast.And()
            | query_ast.Or()
            | query_ast.Not()
            | query_ast.Membership()
            | query_ast.NullTest()
        ):
            yield type(tree).__name__.lower()
        case query_ast.FunctionCall(function):
            yield str(function)
        case query_ast.AggregateCall(function, _, distinct):
            yield f"{function} distinct" if distinct else str(function)
        case query_ast.ObjectProjection():
            yield "object"
        case query_ast.NowCall():
            yield "now"
        case _:
            pass
