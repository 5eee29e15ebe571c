"""Whatever tree comes in, binding answers with a sound plan or with a list of mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import HealthCheck, event, given, settings

from omnigraph.errors import CompileError, Diagnostic
from omnigraph.language.query_ast import QueryDecl
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.expressions import OutputValue
from omnigraph.plan.plan_nodes import Match, Node, Pattern, Plan, Rank, ReadPlan, Sort
from omnigraph.plan.query_lint import TYPE_CODES
from omnigraph.plan.walk import list_children, list_operands_of, list_variables
from plan.bind.bind_cases import catalog_of
from plan.bind.query_trees import QUERIES, likely_texts

NOWHERE = SourceText("", "random.gq")
MANY = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@MANY
@given(QUERIES)
def test_binding_gives_a_plan_or_a_list_of_mistakes(decl):
    plan, mistakes = attempt(decl)
    assert {mistake.code for mistake in mistakes} <= TYPE_CODES.keys()
    assert all(mistake.render() for mistake in mistakes)
    if isinstance(plan, ReadPlan):
        check_variables(plan)


@MANY
@given(likely_texts())
def test_plausible_queries_bind_to_sound_plans(text):
    source = SourceText(text, "random.gq")
    (decl,) = parse_query_file(source).queries
    plan, mistakes = attempt(decl, source)
    event("a plan" if plan is not None else "mistakes")
    assert {mistake.code for mistake in mistakes} <= TYPE_CODES.keys()
    if isinstance(plan, ReadPlan):
        check_variables(plan)


def attempt(
    decl: QueryDecl, source: SourceText = NOWHERE
) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    try:
        return bind_query(decl, catalog_of("music.pg"), source), ()
    except CompileError as error:
        return None, error.diagnostics


def check_variables(plan: ReadPlan) -> None:
    """A plan speaks only of variables it introduces, and no name is introduced twice."""
    pattern = next(n.pattern for n in below(plan.root) if isinstance(n, Match))
    visible = check_pattern(pattern, frozenset())
    for column in plan.columns:
        assert list_variables(column.value) <= visible
    for node in below(plan.root):
        if isinstance(node, Sort | Rank):
            keys = [k.value for k in node.keys if not isinstance(k.value, OutputValue)]
            assert all(list_variables(key) <= visible for key in keys)
            assert set(node.tie_break) <= visible


def check_pattern(pattern: Pattern, around: frozenset[str]) -> frozenset[str]:
    assert set(pattern.outer) <= around
    own = [node.variable for node in pattern.nodes]
    for edge in pattern.edges:
        own += [name for name in (edge.edge_variable, edge.hop_variable) if name is not None]
    assert len(own) == len(set(own))
    assert not set(own) & around
    visible = frozenset(pattern.outer) | set(own)
    for optional in pattern.optionals:
        visible |= check_pattern(optional, visible | around)
    for edge in pattern.edges:
        assert {edge.source, edge.target} <= visible
    for predicate in pattern.filters:
        for operand in list_operands_of(predicate):
            assert list_variables(operand) <= visible
    for negation in pattern.negations:
        check_pattern(negation, visible | around)
    return visible


def below(node: Node) -> Iterator[Node]:
    yield node
    for child in list_children(node):
        yield from below(child)
