"""All rules together: their order, and the report of a refused write."""

import pyarrow as pa
import pytest

from constraints.small_graph import SmallGraph
from omnigraph.constraints.constraint_checks import require_valid
from omnigraph.errors import ConstraintViolated, ViolationKind

SCHEMA = """
node B { k: I32 @key  u: I32? @unique  r: I32? @range(r, 0..1) }
node A { k: I32 @key  u: I32? @unique  r: I32? @range(r, 0..1) }
edge Z: A -> B @card(0..1) { r: I32? @range(r, 0..1)  @unique(src, dst) }
edge Y: A -> B @card(0..1) { r: I32? @range(r, 0..1)  @unique(src, dst) }
"""
WRONG_NODES = [{"k": 2, "u": 5, "r": 9}, {"k": 1, "u": 5, "r": 0}]
WRONG_EDGES = [
    {"id": "e2", "src": "1", "dst": "ghost", "r": 9},
    {"id": "e1", "src": "1", "dst": "ghost", "r": 0},
]


def check(graph, *changes, **options):
    by_key = {change.table_key: change for change in changes}
    require_valid(by_key, graph.catalog, graph, **options)


def test_rules_come_in_their_order_and_types_by_key():
    graph = SmallGraph.of(SCHEMA)
    changes = [graph.change(key, *WRONG_NODES) for key in ["node:B", "node:A"]]
    changes += [graph.change(key, *WRONG_EDGES) for key in ["edge:Z", "edge:Y"]]
    order = [(v.kind, v.type_key, v.id) for v in graph.violations(*changes)]
    assert order == [
        (ViolationKind.VALUE, "edge:Y", "e2"),
        (ViolationKind.VALUE, "edge:Z", "e2"),
        (ViolationKind.VALUE, "node:A", "2"),
        (ViolationKind.VALUE, "node:B", "2"),
        (ViolationKind.UNIQUE, "edge:Y", "e1"),
        (ViolationKind.UNIQUE, "edge:Z", "e1"),
        (ViolationKind.UNIQUE, "node:A", "1"),
        (ViolationKind.UNIQUE, "node:B", "1"),
        (ViolationKind.ORPHAN_EDGE, "edge:Y", "e2"),
        (ViolationKind.ORPHAN_EDGE, "edge:Y", "e1"),
        (ViolationKind.ORPHAN_EDGE, "edge:Z", "e2"),
        (ViolationKind.ORPHAN_EDGE, "edge:Z", "e1"),
        (ViolationKind.CARDINALITY, "edge:Y", "e2"),
        (ViolationKind.CARDINALITY, "edge:Z", "e2"),
    ]
    assert graph.violations(*changes) == graph.violations(*reversed(changes))


def test_a_write_without_mistakes_passes():
    graph = SmallGraph.of(SCHEMA)
    nodes = [graph.change(key, {"k": 1, "u": 1, "r": 1}) for key in ["node:A", "node:B"]]
    edges = graph.change("edge:Y", {"id": "e", "src": "1", "dst": "1", "r": 0})
    check(graph, *nodes, edges)


def test_a_write_of_nothing_passes():
    check(SmallGraph.of(SCHEMA))


def test_a_refused_write_reports_the_first_mistake_and_how_many_there_are():
    graph = SmallGraph.of(SCHEMA)
    with pytest.raises(ConstraintViolated) as caught:
        check(graph, graph.change("node:A", *WRONG_NODES))
    assert caught.value.message == "@range violation on A.r: value 9 > max 1 (and 1 more)"
    assert caught.value.total == 2
    assert [v.kind for v in caught.value.violations] == [ViolationKind.VALUE, ViolationKind.UNIQUE]
    assert caught.value.http_status == 400


def test_only_the_first_mistakes_are_listed_but_all_are_counted():
    graph = SmallGraph.of(SCHEMA)
    rows = [{"k": k, "r": 9} for k in range(250)]
    with pytest.raises(ConstraintViolated) as caught:
        check(graph, graph.change("node:A", *rows))
    assert (len(caught.value.violations), caught.value.total) == (100, 250)
    with pytest.raises(ConstraintViolated) as caught:
        check(graph, graph.change("node:A", *rows), limit=3)
    assert ([v.id for v in caught.value.violations], caught.value.total) == (["0", "1", "2"], 250)


def test_a_mistake_of_a_file_is_reported_with_its_line():
    graph = SmallGraph.of(SCHEMA)
    change = graph.change("node:A", {"k": 1, "r": 9}, lines=pa.array([12]), file="rows.jsonl")
    with pytest.raises(ConstraintViolated, match=r"^rows\.jsonl:line 12: @range violation on A\.r"):
        check(graph, change)
