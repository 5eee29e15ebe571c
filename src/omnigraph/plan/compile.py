"""Compile query text to an optimized plan, and describe its parameters, columns and effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.cache import Cache
from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import BadRequest, QueryNotFound
from omnigraph.language.query_ast import MutationBody, QueryDecl, QueryFile
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.expressions import AggregateValue, ObjectType, ValueType
from omnigraph.plan.plan_nodes import Fact, MutationPlan, OutputColumn, Plan, ReadPlan
from omnigraph.plan.rewrite_rules import optimize
from omnigraph.plan.statistics import Statistics
from omnigraph.types.property import Scalar

JsonObject = dict[str, object]

_KINDS: Mapping[Scalar, str] = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.VECTOR: "vector",
}


def describe_operation(plan: Plan) -> JsonObject:
    """Build the operation descriptor: `{result, reads, writes}`, with the result columns.

    A mutation has no result columns.
    """
    columns = plan.columns if isinstance(plan, ReadPlan) else ()
    writes = plan.writes if isinstance(plan, MutationPlan) else ()
    return {
        "result": [_describe_column(column) for column in columns],
        "reads": _list_facts(plan.reads),
        "writes": _list_facts(writes),
    }


def describe_query(decl: QueryDecl, plan: Plan | None) -> JsonObject:
    """Build the catalog entry of a stored query; `returns` is its operation descriptor.

    A query that does not compile with the schema has no plan and no descriptor.
    """
    entry: JsonObject = {"name": decl.name, "tool_name": decl.name}
    if decl.description is not None:
        entry["description"] = decl.description
    if decl.instruction is not None:
        entry["instruction"] = decl.instruction
    entry["mutation"] = isinstance(decl.body, MutationBody)
    entry["params"] = [
        describe_field(p.name, p.type, nullable=p.type.nullable) for p in decl.parameters
    ]
    if plan is not None:
        entry["returns"] = describe_operation(plan)
    return entry


def describe_field(name: str, type_: ValueType, *, nullable: bool) -> JsonObject:
    """`{name, kind, item_kind?, vector_dim?, nullable}`."""
    body: JsonObject = {"name": name}
    if isinstance(type_, ObjectType):
        body["kind"] = "object"
    elif type_.is_list:
        body |= {"kind": "list", "item_kind": _KINDS[type_.scalar]}
    else:
        body["kind"] = _KINDS[type_.scalar]
        if type_.is_vector:
            body["vector_dim"] = type_.dimension
    body["nullable"] = nullable
    return body


def _describe_column(column: OutputColumn) -> JsonObject:
    # An aggregate is described as nullable whatever it is, so that a client never depends on
    # which of them happen to give a value for no rows.
    nullable = isinstance(column.value, AggregateValue) or column.type.nullable
    return describe_field(column.name, column.type, nullable=nullable)


def _list_facts(facts: Iterable[Fact]) -> list[JsonObject]:
    return [{"kind": fact.kind, "type_name": fact.type_name} for fact in facts]


OFFLINE_DOMAIN = "offline"
"""The identity domain of a schema compiled without a graph."""


def compile_catalog(source: SourceText) -> Catalog:
    """The catalog of a schema text, with the identities a new graph would get."""
    # The parser of schemas is imported here, since a graph keeps its schema compiled.
    from omnigraph.catalog.assign_identities import identify_first  # noqa: PLC0415
    from omnigraph.catalog.build import compile_schema  # noqa: PLC0415

    return identify_first(compile_schema(source), OFFLINE_DOMAIN)


def select_query(file: QueryFile, name: str | None) -> QueryDecl:
    """Select the query of that name; without a name, the only one of the file."""
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

    Bound plans are cached by text and catalog, and optimized ones by row counts: programs repeat a
    few queries, and binding one costs as much as a small commit.
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
    plan = optimize(bound, catalog, statistics) if isinstance(bound, ReadPlan) else bound
    _compiled.keep((source, name, id(catalog)), _Compiled(catalog, bound, rows, plan))
    return plan


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A bound query, and its last optimized plan."""

    catalog: Catalog
    """Retained with the plan, so that no other object can get its id."""
    bound: Plan
    rows: Mapping[str, int] | None
    """The row counts it was optimized by."""
    plan: Plan


_compiled: Cache[tuple[SourceText, str | None, int], _Compiled] = Cache(256)
