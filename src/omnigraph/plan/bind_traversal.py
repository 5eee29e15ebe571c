"""Bind traversals: edge types of a word, directions of each, and the types of both ends."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog.catalog import EdgeType
from omnigraph.language.lexer import suggest_closest
from omnigraph.language.query_ast import ANONYMOUS, CompareOp, Traversal
from omnigraph.language.source import Span
from omnigraph.plan.bind_conditions import restrict_to_types
from omnigraph.plan.plan_nodes import Direction, EdgeStep, PatternEdge
from omnigraph.plan.scope import (
    Block,
    BrokenVariable,
    EdgeVariable,
    HopVariable,
    NodeVariable,
)

_FILTER_WORDS = frozenset(op.value for op in CompareOp if op.value.isidentifier())


@dataclass(frozen=True, slots=True)
class End:
    """One end of a traversal: its variable, if it is bound already."""

    name: str
    span: Span
    node: NodeVariable | None

    def allows(self, type_name: str) -> bool:
        return self.node is None or type_name in self.node.types


@dataclass(frozen=True, slots=True)
class Oriented:
    """Directions in which each edge is followed, and the resulting types of the two ends."""

    source_type: str
    target_type: str
    steps: tuple[EdgeStep, ...]


def bind_traversal(clause: Traversal, block: Block) -> None:
    """Add a traversal to the block; its new variables are marked broken when it has a mistake."""
    edges = _find_edges(clause, block)
    bounds = _check_bounds(clause, block)
    source = _end(clause.source, clause.source_span, clause, block)
    target = _end(clause.target, clause.target_span, clause, block)
    oriented = None
    if edges is not None and source is not None and target is not None:
        oriented = _orient_step(clause, edges, source, target, block)
    if oriented is None or bounds is None or source is None or target is None or edges is None:
        block.mark_broken(clause.source)
        block.mark_broken(clause.target)
        _bind_extras(clause, (), block)
        return
    source_name = _infer_end_type(source, oriented.source_type, block)
    if target.name == source.name != ANONYMOUS:
        target_name = source_name
    else:
        target_name = _infer_end_type(target, oriented.target_type, block)
    edge_variable, hop_variable = _bind_extras(clause, edges, block)
    minimum, maximum = bounds
    block.edges.append(
        PatternEdge(
            source=source_name,
            target=target_name,
            steps=oriented.steps,
            minimum=minimum,
            maximum=maximum,
            edge_variable=edge_variable,
            hop_variable=hop_variable,
        )
    )


# --- edges and hops ---------------------------------------------------------------------------


def _find_edges(clause: Traversal, block: Block) -> tuple[EdgeType, ...] | None:
    """The edge types that the words name, each once."""
    context, missing = block.context, False
    found: dict[str, EdgeType] = {}
    for word in clause.edges:
        edge = context.catalog.find_edge(word)
        if edge is not None:
            found[edge.name] = edge
            continue
        missing = True
        span = context.locate(word, clause.edge_span)
        hint = _hint_edge(word, clause, block)
        context.report("T4", f"no edge type matches '{word}'", span, hint=hint)
    if missing or (clause.undirected and not _are_all_symmetric(clause, found, block)):
        return None
    return tuple(found.values())


def _hint_edge(word: str, clause: Traversal, block: Block) -> str | None:
    if word in _FILTER_WORDS:
        return f"to compare, write a property: `${clause.source}.name {word} …`"
    words = [name[0].lower() + name[1:] for name in block.context.catalog.edges]
    return suggest_closest(word, words)


def _are_all_symmetric(clause: Traversal, edges: dict[str, EdgeType], block: Block) -> bool:
    uneven = [edge for edge in edges.values() if not edge.same_ends]
    for edge in uneven:
        message = (
            f"'{edge.name}' connects {edge.from_type} to {edge.to_type}; "
            "only an edge within one type can be followed both ways"
        )
        block.context.report("T22", message, clause.edge_span)
    return not uneven


def _check_bounds(clause: Traversal, block: Block) -> tuple[int, int] | None:
    hops = clause.hops
    if hops is None:
        return 1, 1
    if hops.maximum is None:
        problem = "the largest number of hops is missing"
    elif hops.minimum < 1:
        problem = "at least one hop is needed"
    elif hops.maximum < hops.minimum:
        problem = f"at most {hops.maximum} hops is less than at least {hops.minimum}"
    else:
        return hops.minimum, hops.maximum
    message = f"hop bounds are not valid: {problem}"
    block.context.report("T15", message, hops.span, hint="one to three hops are written `{1,3}`")
    return None


# --- ends -------------------------------------------------------------------------------------


def _end(name: str, span: Span, clause: Traversal, block: Block) -> End | None:
    """Return the end of a traversal, or None if there is none (reported here or before)."""
    context = block.context
    if name == ANONYMOUS:
        return End(name, span, None)
    if name in context.parameters:
        # `$x contains $p` parses as a traversal; its hint is more specific than a name clash.
        if not _FILTER_WORDS.intersection(clause.edges):
            report_taken(name, span, block)
        return None
    match block.find(name):
        case None:
            return End(name, span, None)
        case NodeVariable() as node:
            if not (node.nullable and block.owns(name)):
                return End(name, span, node)
            message = f"${name} may be missing, so no plain traversal can start or end there"
            hint = "move the traversal into an `optional { … }` of its own"
            context.report("T25", message, span, hint=hint)
        case EdgeVariable():
            context.report("T23", f"${name} is an edge variable, not the end of one", span)
        case HopVariable():
            context.report("T27", f"${name} counts hops; it is not a node", span)
        case BrokenVariable():
            pass
    return None


def report_taken(name: str, span: Span, block: Block) -> None:
    message = f"${name} is a parameter; a variable needs another name"
    block.context.report("T32", message, span)


def _infer_end_type(end: End, type_name: str, block: Block) -> str:
    """The plan's name for an end, after narrowing its variable to the edge's type."""
    if end.name == ANONYMOUS:
        return block.introduce_anonymous(type_name).name
    node = end.node or block.variables.get(end.name)
    if not isinstance(node, NodeVariable):
        node = block.introduce_node(end.name, (type_name,), interface=None, declared=False)
    elif node.types != (type_name,):
        narrow_types(end.name, node, (type_name,), block)
    return node.name


def narrow_types(name: str, node: NodeVariable, types: tuple[str, ...], block: Block) -> None:
    """Restrict a variable to some of its types: for good, or only for this block."""
    if block.owns(name):
        node.types = types
    else:
        block.filters.append(restrict_to_types(node, types))


# --- which way --------------------------------------------------------------------------------


def _orient_step(
    clause: Traversal, edges: tuple[EdgeType, ...], source: End, target: End, block: Block
) -> Oriented | None:
    """Return the direction of the edges that fits both endpoints, preferably forward.

    Every alternative must have the same types at the endpoints, or the type of a row would be
    ambiguous.
    """
    if source.name == target.name != ANONYMOUS and not _can_loop(edges, target, block):
        return None
    first = edges[0]
    ways = [(first.from_type, first.to_type)]
    if not first.same_ends:
        ways.append((first.to_type, first.from_type))
    fitting = [way for way in ways if source.allows(way[0]) and target.allows(way[1])]
    if not fitting:
        _report_ends(first, source, target, block)
        return None
    for source_type, target_type in fitting:
        steps = [_make_step(edge, source_type, target_type, clause) for edge in edges]
        found = tuple(step for step in steps if step is not None)
        if len(found) == len(edges):
            return Oriented(source_type, target_type, found)
    _report_alternative(clause, edges, fitting[0], block)
    return None


def _can_loop(edges: tuple[EdgeType, ...], end: End, block: Block) -> bool:
    """Return whether one variable can be at both ends."""
    uneven = next((edge for edge in edges if not edge.same_ends), None)
    if uneven is not None:
        message = (
            f"${end.name} cannot be at both ends: "
            f"'{uneven.name}' connects {uneven.from_type} to {uneven.to_type}"
        )
        block.context.report("T5", message, end.span)
    return uneven is None


def _make_step(
    edge: EdgeType, source_type: str, target_type: str, clause: Traversal
) -> EdgeStep | None:
    if (edge.from_type, edge.to_type) == (source_type, target_type):
        return EdgeStep(edge.name, Direction.BOTH if clause.undirected else Direction.OUT)
    if (edge.to_type, edge.from_type) == (source_type, target_type):
        return EdgeStep(edge.name, Direction.IN)
    return None


def _report_ends(edge: EdgeType, source: End, target: End, block: Block) -> None:
    """Report the end that fits the edge in no direction, else the target."""
    ends = {edge.from_type, edge.to_type}
    connects = f"'{edge.name}' connects {edge.from_type} to {edge.to_type}"
    for end in (source, target):
        if end.node is not None and not ends & set(end.node.types):
            message = f"${end.name} is {end.node.describe()}, but {connects}"
            block.context.report("T5", message, end.span)
            return
    assert target.node is not None, "a free target fits any edge"
    message = f"${target.name} is {target.node.describe()}, but {connects}"
    block.context.report("T5", message, target.span)


def _report_alternative(
    clause: Traversal, edges: tuple[EdgeType, ...], ends: tuple[str, str], block: Block
) -> None:
    odd = next(edge for edge in edges if _make_step(edge, *ends, clause) is None)
    word = next(w for w in clause.edges if block.context.catalog.find_edge(w) is odd)
    message = (
        f"'{odd.name}' connects {odd.from_type} to {odd.to_type}; "
        f"the alternatives must all connect {ends[0]} and {ends[1]}"
    )
    block.context.report("T5", message, block.context.locate(word, clause.edge_span))


# --- edge and hop variables -------------------------------------------------------------------


def _bind_extras(
    clause: Traversal, edges: tuple[EdgeType, ...], block: Block
) -> tuple[str | None, str | None]:
    """The plan's names for `$w:` and `hops $h`; without edges they are only marked broken."""
    edge_name, hop_name = clause.edge_variable, clause.hop_variable
    edge_variable = hop_variable = None
    if edge_name is not None and edge_name != ANONYMOUS:
        if _check_edge_variable(edge_name, clause, block) and edges:
            edge_variable = block.plan_name(edge_name)
            block.variables[edge_name] = EdgeVariable(edge_variable, edges)
        else:
            block.mark_broken(edge_name)
    if hop_name is not None and hop_name != ANONYMOUS:
        if _check_hop_variable(hop_name, clause, block):
            hop_variable = block.plan_name(hop_name)
            block.variables[hop_name] = HopVariable(hop_variable)
        else:
            block.mark_broken(hop_name)
    return edge_variable, hop_variable


def _check_edge_variable(name: str, clause: Traversal, block: Block) -> bool:
    context = block.context
    span = context.locate(f"${name}", Span(clause.source_span.end, clause.edge_span.start))
    if name in context.parameters:
        report_taken(name, span, block)
        return False
    if clause.hops is not None and (clause.hops.minimum, clause.hops.maximum) != (1, 1):
        message = f"${name} stands for one edge, so the traversal takes exactly one hop"
        context.report("T23", message, clause.hops.span)
        return False
    if name in (clause.source, clause.target) or block.find(name) is not None:
        context.report("T23", f"${name} is bound already; an edge needs its own name", span)
        return False
    return True


def _check_hop_variable(name: str, clause: Traversal, block: Block) -> bool:
    context = block.context
    span = context.locate(f"${name}", Span(clause.target_span.end, clause.span.end))
    if name in context.parameters:
        report_taken(name, span, block)
        return False
    if clause.edge_variable not in (None, ANONYMOUS):
        message = f"${name} has nothing to count: an edge variable takes exactly one hop"
        context.report("T27", message, span)
        return False
    if name in (clause.source, clause.target) or block.find(name) is not None:
        context.report("T27", f"${name} is bound already; a hop count needs its own name", span)
        return False
    return True
