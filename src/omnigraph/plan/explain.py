"""Explain a plan as text for people and as JSON for tools; both come from one description."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from omnigraph.plan.expressions import (
    AggregateValue,
    AllOf,
    AnyOf,
    Compare,
    Constant,
    ConstantValue,
    EntityId,
    FusedScore,
    HopCount,
    InList,
    IsNull,
    NotP,
    NowValue,
    ObjectValue,
    Output,
    OutputValue,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
    TypeNameValue,
    VectorDistance,
)
from omnigraph.plan.plan_nodes import (
    Aggregate,
    AntiJoin,
    CrossJoin,
    DeleteEntities,
    Direction,
    Expand,
    FilterRows,
    InsertEntity,
    Match,
    MutationPlan,
    MutationStatement,
    Node,
    NodeScan,
    OptionalJoin,
    OuterRows,
    OutputColumn,
    Plan,
    Project,
    Rank,
    ReadPlan,
    Slice,
    Sort,
    SortKey,
    UpdateEntities,
)
from omnigraph.plan.walk import list_children


def render_constant(value: ConstantValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case datetime.datetime():
            return f'datetime("{value.isoformat()}")'
        case datetime.date():
            return f'date("{value.isoformat()}")'
        case tuple():
            return "[" + ", ".join(render_constant(item) for item in value) + "]"
        case int() | float():
            return repr(value)
        case _:
            assert_never(value)


def render_value(value: Output) -> str:
    match value:
        case Constant():
            return render_constant(value.value)
        case ParameterValue():
            return f"${value.name}"
        case NowValue():
            return "now()"
        case PropertyValue():
            return f"${value.variable}.{value.property}"
        case EntityId():
            return f"${value.variable}.id"
        case TypeNameValue():
            return f"type(${value.variable})"
        case HopCount():
            return f"${value.variable}"
        case VectorDistance():
            return f"nearest(${value.variable}.{value.property}, {render_value(value.query)})"
        case TextScore():
            return f"bm25(${value.variable}.{value.property}, {render_value(value.query)})"
        case FusedScore():
            parts = (value.first, value.second, value.constant)
            return f"rrf({', '.join(render_value(part) for part in parts)})"
        case TextMatch():
            return _render_text_match(value)
        case AggregateValue():
            inside = render_value(value.argument)
            return f"{value.function}({'distinct ' if value.distinct else ''}{inside})"
        case ObjectValue():
            return f"${value.variable} {{ {', '.join(name for name, _ in value.fields)} }}"
        case OutputValue():
            return value.column
        case _:
            assert_never(value)


def _render_text_match(value: TextMatch) -> str:
    inside = f"${value.variable}.{value.property}, {render_value(value.query)}"
    if value.distance is not None:
        inside += f", {render_value(value.distance)}"
    return f"{value.mode}({inside})"


def render_predicate(predicate: Predicate) -> str:
    match predicate:
        case Compare(left, op, right):
            return f"{render_value(left)} {op} {render_value(right)}"
        case InList(value, items):
            return f"{render_value(value)} in {render_value(items)}"
        case IsNull(operand):
            return f"{render_value(operand)} is null"
        case TextMatch():
            return render_value(predicate)
        case AllOf(items):
            return " and ".join(_render_grouped(item, AnyOf) for item in items)
        case AnyOf(items):
            return " or ".join(_render_grouped(item, AllOf) for item in items)
        case NotP(item):
            return f"not {_render_grouped(item, AllOf, AnyOf)}"
        case _:
            assert_never(predicate)


def _render_grouped(predicate: Predicate, *loose: type) -> str:
    text = render_predicate(predicate)
    return f"({text})" if isinstance(predicate, loose) else text


def render_all(predicates: Iterable[Predicate]) -> str:
    """Predicates that must all hold, as one line."""
    return " and ".join(_render_grouped(predicate, AnyOf) for predicate in predicates)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One operator with its facts and its children."""

    operator: str
    facts: Mapping[str, object]
    children: tuple[PlanStep, ...] = ()

    def wire(self) -> dict[str, object]:
        body: dict[str, object] = {"operator": self.operator, **self.facts}
        if self.children:
            body["children"] = [child.wire() for child in self.children]
        return body

    def lines(self) -> list[str]:
        facts = "  ".join(_render_fact(name, value) for name, value in self.facts.items())
        drawn = [f"{self.operator}  {facts}".rstrip()]
        for child in self.children:
            last = child is self.children[-1]
            head, *rest = child.lines()
            drawn.append(f"{'└─' if last else '├─'} {head}")
            drawn += [f"{'   ' if last else '│  '}{line}" for line in rest]
        return drawn


Notes = Mapping[int, Mapping[str, object]]
"""Further facts about nodes of a plan, by identity."""

_UNNAMED = frozenset({"binds", "path", "predicate", "statement"})


def _render_fact(name: str, value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if name in _UNNAMED else f"{name}: {text}"


def explain_text(plan: Plan, notes: Notes | None = None) -> str:
    """The plan as a tree, the last operation on top.

    query who($s: String)
    Project  columns: b.title
    └─ Sort  by: ids of a, b
       └─ Expand  $a -Made-> $b: Album  read: title
          └─ Scan  $a: Artist  where: $a.slug = $s
    """
    lines = [_render_heading(plan)]
    for step in describe(plan, notes):
        lines += step.lines()
    return "\n".join(lines)


def explain_json(plan: Plan, notes: Notes | None = None) -> dict[str, object]:
    steps = [step.wire() for step in describe(plan, notes)]
    body: dict[str, object] = {
        "name": plan.name,
        "kind": "read" if isinstance(plan, ReadPlan) else "mutation",
        "parameters": [{"name": p.name, "type": str(p.type)} for p in plan.parameters],
    }
    if isinstance(plan, ReadPlan):
        columns = [{"name": c.name, "type": str(c.type)} for c in plan.columns]
        return body | {"columns": columns, "plan": steps[0]}
    return body | {"statements": steps, "touched": list(plan.touched)}


def _render_heading(plan: Plan) -> str:
    word = "query" if isinstance(plan, ReadPlan) else "mutation"
    parameters = ", ".join(f"${p.name}: {p.type}" for p in plan.parameters)
    return f"{word} {plan.name}({parameters})"


def describe(plan: Plan, notes: Notes | None = None) -> tuple[PlanStep, ...]:
    match plan:
        case ReadPlan():
            return (describe_node(plan.root, notes),)
        case MutationPlan():
            return tuple(_describe_statement(s) for s in plan.statements)
        case _:
            assert_never(plan)


def describe_node(node: Node, notes: Notes | None = None) -> PlanStep:
    children = tuple(describe_node(child, notes) for child in list_children(node))
    operator, facts = _describe_own(node)
    facts |= (notes or {}).get(id(node), {})
    return PlanStep(operator, {name: value for name, value in facts.items() if value}, children)


def _describe_own(node: Node) -> tuple[str, dict[str, object]]:
    match node:
        case Match(pattern):
            return "Match", {"variables": [f"${n.variable}" for n in pattern.nodes]}
        case OuterRows():
            return "OuterRows", {"variables": [f"${name}" for name in node.variables]}
        case NodeScan():
            return "Scan", _scan_facts(node)
        case CrossJoin():
            return "CrossJoin", {}
        case Expand():
            return "Expand", _expand_facts(node)
        case FilterRows():
            return "Filter", {"predicate": render_predicate(node.predicate)}
        case AntiJoin():
            return "AntiJoin", {}
        case OptionalJoin():
            return "OptionalJoin", {"introduces": [f"${name}" for name in node.introduces]}
        case Rank() | Project() | Aggregate() | Sort() | Slice():
            return _describe_tail(node)
        case _:
            assert_never(node)


def _describe_tail(
    node: Rank | Project | Aggregate | Sort | Slice,
) -> tuple[str, dict[str, object]]:
    match node:
        case Rank():
            keep = " + ".join(render_value(v) for v in node.keep) if node.keep else None
            order = [render_value(node.ranking), *map(_sort_key, node.keys)]
            return "Rank", {"by": [*order, *_render_ties(node.tie_break)], "keep": keep}
        case Project():
            name = "Distinct" if node.distinct else "Project"
            return name, {"columns": [_render_column(c) for c in node.columns]}
        case Aggregate():
            groups = [c.name for c in node.keys]
            return "Aggregate", {
                "group": groups,
                "columns": [_render_column(c) for c in node.columns],
            }
        case Sort():
            ties = [*_render_ties(node.tie_break), *node.tie_columns]
            return "Sort", {"by": [*map(_sort_key, node.keys), *ties]}
        case Slice():
            limit = render_value(node.limit) if node.limit is not None else None
            offset = render_value(node.offset) if node.offset is not None else None
            return "Slice", {"limit": limit, "offset": offset}
        case _:
            assert_never(node)


def _render_ties(variables: tuple[str, ...]) -> list[str]:
    return [f"ids of {', '.join(variables)}"] if variables else []


def _sort_key(key: SortKey) -> str:
    return f"{render_value(key.value)} {'desc' if key.descending else 'asc'}"


def _render_column(column: OutputColumn) -> str:
    text = render_value(column.value)
    return text if text in (column.name, f"${column.name}") else f"{text} as {column.name}"


def _scan_facts(node: NodeScan) -> dict[str, object]:
    return {
        "binds": f"${node.variable}: {' | '.join(node.types)}",
        "where": render_all(node.filters),
        "read": list(node.columns),
    }


def _expand_facts(node: Expand) -> dict[str, object]:
    target = f"${node.target}" if node.closes else f"${node.target}: {'|'.join(node.target_types)}"
    return {
        "path": f"${node.source} {_render_arrow(node)} {target}",
        "closes": "yes" if node.closes else None,
        "asked from": f"${node.target}" if node.asked_from_target else None,
        "where": render_all((*node.edge_filters, *node.target_filters)),
        "hops": f"${node.hop_variable}" if node.hop_variable else None,
        "read": [*node.target_columns, *(f"${node.edge_variable}.{c}" for c in node.edge_columns)],
    }


def _render_arrow(node: Expand) -> str:
    """`-Made->`, `<-Made-`, `-Knows-`, `-$w:Made->`, `-Knows{1,3}->`."""
    directions = {step.direction for step in node.steps}
    only = next(iter(directions)) if len(directions) == 1 else None
    names = "|".join(
        step.edge_type if only else f"{step.edge_type}({step.direction})" for step in node.steps
    )
    label = f"${node.edge_variable}:{names}" if node.edge_variable else names
    if (node.minimum, node.maximum) != (1, 1):
        label += f"{{{node.minimum},{node.maximum}}}"
    left = "<-" if only is Direction.IN else "-"
    right = "->" if only is Direction.OUT else "-"
    return f"{left}{label}{right}"


def _describe_statement(statement: MutationStatement) -> PlanStep:
    match statement:
        case InsertEntity():
            values = [f"{a.column}: {render_value(a.value)}" for a in statement.assignments]
            facts = {"statement": statement.table_key, "mode": str(statement.mode)}
            return PlanStep("Insert", {**facts, "set": values})
        case UpdateEntities():
            values = [f"{a.column}: {render_value(a.value)}" for a in statement.assignments]
            where = render_predicate(statement.where)
            return PlanStep(
                "Update", {"statement": statement.table_key, "set": values, "where": where}
            )
        case DeleteEntities():
            facts = {"statement": statement.table_key, "where": render_predicate(statement.where)}
            cascades = [f"{table}.{column}" for table, column in statement.cascades]
            return PlanStep("Delete", facts | ({"cascades": cascades} if cascades else {}))
        case _:
            assert_never(statement)
