"""Random clauses of a match: bindings, traversals, filters and nested blocks."""

from __future__ import annotations

from differential.conditions import make_condition
from differential.scopes import Draft, Scope, Variable
from omnigraph.catalog.catalog import EdgeType
from omnigraph.language import query_ast
from omnigraph.types.property import PropertyType, Scalar

MAX_NODES = 5


def make_clauses(draft: Draft, scope: Scope) -> list[query_ast.Clause]:
    """The clauses of a whole match, at least one node among them."""
    clauses = [_beginning(draft, scope)]
    if draft.chance(0.08):
        clauses = _to_a_known_node(draft, scope) or clauses
    for _ in range(draft.random.choice((0, 1, 1, 2, 2, 3, 4))):
        clauses += _further(draft, scope, depth=0)
    return clauses


def _to_a_known_node(draft: Draft, scope: Scope) -> list[query_ast.Clause]:
    """A walk whose far end is the best place to start from, perhaps with a second way there."""
    within = [e for e in draft.catalog.edges.values() if e.same_ends and draft.data.edges[e.name]]
    keyed = [e for e in within if draft.catalog.nodes[e.from_type].key]
    if not keyed:
        return []
    edge = draft.random.choice(keyed)
    scope.variables.clear()
    scope.own.clear()
    types = (edge.from_type,)
    near, far = (scope.add(Variable(draft.fresh("n"), "node", types)) for _ in range(2))
    clauses: list[query_ast.Clause] = [query_ast.Binding(near.name, edge.from_type)]
    beside = [e for e in within if e.from_type == edge.from_type]
    for _ in range(draft.random.choice((1, 1, 2))):
        ends = draft.random.sample([near.name, far.name], 2)
        word = _word(draft, draft.random.choice(beside).name)
        minimum = draft.random.choice((1, 2, 2, 3))
        hops = query_ast.HopBounds(minimum, minimum + draft.random.randint(0, 2))
        clauses.append(query_ast.Traversal(ends[0], (word,), ends[1], draft.chance(0.3), hops))
    key = draft.catalog.nodes[edge.from_type].key
    values = draft.random.choice(list(draft.data.nodes[edge.from_type].values()))
    matches = tuple(
        query_ast.PropertyMatch(p.name, draft.operand(values[p.name], p.type)) for p in key
    )
    return [*clauses, query_ast.Binding(far.name, edge.from_type, matches)]


def _beginning(draft: Draft, scope: Scope) -> query_ast.Clause:
    if draft.chance(0.12):
        edge = draft.random.choice(list(draft.catalog.edges.values()))
        return _traversal(draft, scope, [edge], None)
    return _binding(draft, scope)


def _further(draft: Draft, scope: Scope, depth: int) -> list[query_ast.Clause]:
    """One more clause, now and then two."""
    chance = draft.random.random()
    nodes = scope.of("node")
    if chance < 0.38 and len(nodes) < MAX_NODES:
        return _from_some_node(draft, scope)
    if chance < 0.48 and depth < 2:
        return [_nested(draft, scope, query_ast.Negation, depth)]
    if chance < 0.58 and depth < 2:
        return [_nested(draft, scope, query_ast.Optional, depth)]
    if chance < 0.64 and len(nodes) < 3:
        return [_binding(draft, scope)]
    if chance < 0.70:
        return _bound_again(draft, scope)
    return [query_ast.Filter(make_condition(draft, scope))]


def _nested(draft: Draft, scope: Scope, block: type, depth: int) -> query_ast.Clause:
    """A `not` or `optional` block; what an optional one binds may be missing afterwards."""
    inner = scope.inner()
    clauses: list[query_ast.Clause] = [] if draft.chance(0.1) else _from_some_node(draft, inner)
    if not clauses:
        clauses.append(query_ast.Filter(make_condition(draft, inner)))
    for _ in range(draft.random.choice((0, 0, 1, 1, 2))):
        clauses += _further(draft, inner, depth + 1)
    if block is query_ast.Optional:
        for variable in inner.own:
            variable.nullable = True
            scope.add(variable)
    found: query_ast.Clause = block(tuple(clauses))
    return found


# --- bindings -------------------------------------------------------------------------------------


def _binding(draft: Draft, scope: Scope) -> query_ast.Clause:
    catalog = draft.catalog
    interfaces = [name for name in catalog.interfaces if catalog.implementers(name)]
    if interfaces and draft.chance(0.2):
        interface = draft.random.choice(interfaces)
        types = tuple(node.name for node in catalog.implementers(interface))
        variable = Variable(draft.fresh("n"), "node", types, interface)
    else:
        filled = [name for name, nodes in draft.data.nodes.items() if nodes]
        empty = not filled or draft.chance(0.05)
        name = draft.random.choice(sorted(catalog.nodes) if empty else filled)
        variable = Variable(draft.fresh("n"), "node", (name,))
    matches = _matches(draft, variable, 0.15)
    scope.add(variable)
    return query_ast.Binding(variable.name, variable.interface or variable.types[0], matches)


def _matches(draft: Draft, variable: Variable, share: float) -> tuple[query_ast.PropertyMatch, ...]:
    """Inline property matches."""
    if not draft.chance(share):
        return ()
    found = draft.property_of([variable], lambda t: not (t.is_vector or t.is_blob))
    if found is None:
        return ()
    _, property_ = found
    if variable.interface is None and draft.chance(0.3):
        property_ = next(iter(draft.catalog.nodes[variable.types[0]].key), property_)
    if property_.type.scalar is Scalar.DATETIME and draft.chance(0.3):
        return (query_ast.PropertyMatch(property_.name, query_ast.NowCall()),)
    ids = [node_id for name in variable.types for node_id in draft.data.nodes[name]]
    if ids and draft.chance(0.15):
        chosen = draft.operand(draft.random.choice(ids), PropertyType(Scalar.STRING))
        return (query_ast.PropertyMatch("id", chosen),)
    value = draft.operand(draft.value_for(variable, property_), property_.type)
    return (query_ast.PropertyMatch(property_.name, value),)


def _bound_again(draft: Draft, scope: Scope) -> list[query_ast.Clause]:
    """A second binding of a variable: more matches, or a type within its interface."""
    own = {id(v) for v in scope.own}
    nodes = [v for v in scope.of("node") if not (v.nullable and id(v) in own)]
    if not nodes:
        return []
    variable = draft.random.choice(nodes)
    name = variable.interface or variable.types[0]
    if variable.interface is not None and draft.chance(0.7):
        name = draft.random.choice(variable.types)
        if id(variable) in own:
            variable.types, variable.interface = (name,), None
    return [query_ast.Binding(variable.name, name, _matches(draft, variable, 0.3))]


# --- traversals -----------------------------------------------------------------------------------


def _from_some_node(draft: Draft, scope: Scope) -> list[query_ast.Clause]:
    """A traversal at one of the nodes in scope, perhaps to another one of them."""
    own = {id(v) for v in scope.own}
    ends = [v for v in scope.of("node") if not (v.nullable and id(v) in own)]
    draft.random.shuffle(ends)
    for node in ends:
        touching = {e.name: e for t in node.types for e in draft.catalog.edges_touching(t)}
        if touching:
            filled = [e for e in touching.values() if draft.data.edges[e.name]]
            edge = draft.random.choice(filled or list(touching.values()))
            before = len(scope.variables)
            clauses = [_traversal(draft, scope, _alternatives(draft, edge), node)]
            return clauses + _about_one(draft, scope.variables[before:])
    return []


def _about_one(draft: Draft, fresh: list[Variable]) -> list[query_ast.Clause]:
    """Now and then a condition on one new variable alone, which may become a better start."""
    if not fresh or not draft.chance(0.25):
        return []
    variable = draft.random.choice(fresh)
    if variable.kind == "node" and draft.chance(0.5):
        return [query_ast.Binding(variable.name, variable.types[0], _matches(draft, variable, 1.0))]
    return [query_ast.Filter(make_condition(draft, Scope([variable]), depth=2))]


def _alternatives(draft: Draft, edge: EdgeType) -> list[EdgeType]:
    ends = {edge.from_type, edge.to_type}
    parallel = [
        e
        for e in draft.catalog.edges.values()
        if e is not edge and {e.from_type, e.to_type} == ends
    ]
    if parallel and draft.chance(0.3):
        return [edge, draft.random.choice(parallel)]
    return [edge]


def _traversal(
    draft: Draft, scope: Scope, edges: list[EdgeType], node: Variable | None
) -> query_ast.Clause:
    """A traversal over these edges; `node` stands at one of its ends."""
    first = edges[0]
    at_source = node is None or first.from_type in node.types
    if node is not None and first.same_ends:
        at_source = draft.chance(0.6)
    near_type = first.from_type if at_source else first.to_type
    far_type = first.to_type if at_source else first.from_type
    if node is None:
        node = scope.add(Variable(draft.fresh("n"), "node", (near_type,)))
    elif any(v is node for v in scope.own):
        node.types = (near_type,)
    far = _far_end(draft, scope, far_type)
    source, target = (node.name, far) if at_source or draft.chance(0.2) else (far, node.name)
    undirected = all(e.same_ends for e in edges) and draft.chance(0.25)
    edge_variable = draft.fresh("e") if draft.chance(0.3) else None
    hops = _bounds(draft, first) if edge_variable is None else None
    counted = edge_variable is None and draft.chance(0.6 if hops else 0.05)
    hop_variable = draft.fresh("h") if counted else None
    if edge_variable is not None:
        scope.add(Variable(edge_variable, "edge", tuple(e.name for e in edges)))
    if hop_variable is not None:
        scope.add(Variable(hop_variable, "hops"))
    words = tuple(_word(draft, edge.name) for edge in edges)
    return query_ast.Traversal(source, words, target, undirected, hops, edge_variable, hop_variable)


def _far_end(draft: Draft, scope: Scope, type_name: str) -> str:
    """A new variable, a bound one, or one that is not used again."""
    if draft.chance(0.1):
        return query_ast.ANONYMOUS
    own = {id(v) for v in scope.own}
    bound = [
        v for v in scope.of("node") if type_name in v.types and not (v.nullable and id(v) in own)
    ]
    if bound and draft.chance(0.25):
        variable = draft.random.choice(bound)
        if id(variable) in own:
            variable.types = (type_name,)
        return variable.name
    return scope.add(Variable(draft.fresh("n"), "node", (type_name,))).name


def _bounds(draft: Draft, edge: EdgeType) -> query_ast.HopBounds | None:
    if not draft.chance(0.45 if edge.same_ends else 0.08):
        return None
    minimum = draft.random.choice((1, 1, 1, 1, 2, 2, 3))
    return query_ast.HopBounds(minimum, minimum + draft.random.choice((0, 1, 2, 5)))


def _word(draft: Draft, name: str) -> str:
    word = name[0].lower() + name[1:]
    return word.lower() if draft.chance(0.1) else word
