"""What a compiled query takes, gives, reads and writes, as JSON for clients and tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.language.query.query_ast import MutationBody, QueryDecl
from omnigraph.plan.expressions import AggregateValue, ObjectType, ValueType
from omnigraph.plan.nodes import Fact, MutationPlan, OutputColumn, Plan, ReadPlan
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
    """The operation descriptor: `{result, reads, writes}`, with the columns that execution gives.

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
    """The entry of a stored query in a catalog listing; `returns` is its operation descriptor.

    Without a plan, which a query that does not fit the schema has not, there is none.
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
