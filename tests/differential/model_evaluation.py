"""Values of expressions and the truth of conditions on one row, in three-valued logic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, assert_never

from differential import texts
from differential.data import Edge, EdgeRef, GraphData, NodeRef, Value
from omnigraph.plan.expressions import (
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Constant,
    EntityId,
    FusedScore,
    HopCount,
    InList,
    IsNull,
    NotP,
    NowValue,
    Operand,
    OutputValue,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextMode,
    TextScore,
    TypeNameValue,
    VectorDistance,
)

Row = Mapping[str, Value]
Truth = bool | None
Embedder = Callable[[str, int, str | None], Sequence[float]]

SCORE_SLACK = 1e-9

_ORDERED = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}


class Rough(NamedTuple):
    """A float that may come out a little different: sums and scores."""

    value: float
    slack: float


def exact(value: Value) -> Value:
    return value.value if isinstance(value, Rough) else value


@dataclass
class Evaluator:
    """Evaluate expressions over given contents.

    Rankings are fused over the rows in `matched`; `kept` says of how many rows an order by such a
    ranking shows the first.
    """

    data: GraphData
    parameters: Mapping[str, Value]
    now: datetime
    embed: Embedder | None = None
    matched: Sequence[Row] = ()
    kept: dict[FusedScore, int] = field(default_factory=dict)
    _edges: dict[EdgeRef, Edge] = field(default_factory=dict)
    _ranks: dict[VectorDistance | TextScore, dict[NodeRef, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for type_name, edges in self.data.edges.items():
            self._edges |= {EdgeRef(type_name, edge.id): edge for edge in edges}

    # --- values -----------------------------------------------------------------------------------

    def value(self, operand: Operand, row: Row) -> Value:
        """The value of an operand, None when it is missing."""
        match operand:
            case Constant():
                return operand.value
            case ParameterValue():
                given = self.parameters[operand.name]
                return tuple(given) if isinstance(given, list) else given
            case NowValue():
                return self.now
            case PropertyValue():
                return self.property(row[operand.variable], operand.property)
            case EntityId():
                ref = row[operand.variable]
                return ref.id if isinstance(ref, NodeRef | EdgeRef) else None
            case TypeNameValue():
                ref = row[operand.variable]
                return ref.type if isinstance(ref, NodeRef) else None
            case HopCount():
                return row[operand.variable]
            case TextMatch():
                return self._text_match(operand, row)
            case VectorDistance() | TextScore() | FusedScore():
                score = self._score(operand, row[operand.variable])
                return None if score is None else Rough(score, SCORE_SLACK * max(1, abs(score)))
            case OutputValue():
                return row[operand.column]
            case _:
                assert_never(operand)

    def property(self, ref: Value, name: str) -> Value:
        match ref:
            case None:
                return None
            case NodeRef():
                return self.data.nodes[ref.type][ref.id][name]
            case EdgeRef():
                return self._edges[ref].properties[name]
            case _:
                raise AssertionError(f"{ref!r} has no properties")

    # --- conditions -------------------------------------------------------------------------------

    def holds(self, predicate: Predicate, row: Row) -> bool:
        return self.truth(predicate, row) is True

    def truth(self, predicate: Predicate, row: Row) -> Truth:
        """True, False, or None for unknown."""
        match predicate:
            case Compare(left, op, right):
                return _compare(op, exact(self.value(left, row)), exact(self.value(right, row)))
            case InList(value, items):
                return _compare(Comparator.HAS, self.value(items, row), self.value(value, row))
            case IsNull(operand):
                return self.value(operand, row) is None
            case TextMatch():
                return self._text_match(predicate, row)
            case AllOf(items):
                return _all([self.truth(item, row) for item in items])
            case AnyOf(items):
                return _not(_all([_not(self.truth(item, row)) for item in items]))
            case NotP(item):
                return _not(self.truth(item, row))
            case _:
                assert_never(predicate)

    # --- search -----------------------------------------------------------------------------------

    def _text_match(self, match: TextMatch, row: Row) -> Truth:
        query = self.value(match.query, row)
        if query is None:
            return None
        text = self.property(row[match.variable], match.property)
        if text is None:
            return False
        match match.mode:
            case TextMode.ANY_TERM:
                return texts.shares_a_word(str(text), str(query))
            case TextMode.PHRASE:
                return texts.has_phrase(str(text), str(query))
            case TextMode.FUZZY:
                assert match.distance is not None
                distance = self.value(match.distance, row)
                assert isinstance(distance, int)
                return texts.has_similar_word(str(text), str(query), distance)

    def _score(self, ranking: VectorDistance | TextScore | FusedScore, ref: Value) -> float | None:
        if ref is None:
            return None
        assert isinstance(ref, NodeRef)
        match ranking:
            case VectorDistance():
                query = self._query_vector(ranking)
                vector = self.property(ref, ranking.property)
                return None if query is None or vector is None else math.dist(vector, query)  # type: ignore[arg-type]
            case TextScore():
                query = self.value(ranking.query, {})
                text = self.property(ref, ranking.property)
                if query is None or text is None:
                    return None
                corpus = [n[ranking.property] for n in self.data.nodes[ref.type].values()]
                return texts.bm25(str(text), str(query), [str(t) for t in corpus if t is not None])
            case FusedScore(first, second, constant):
                base = self.value(constant, {})
                assert isinstance(base, int)
                places = [self.places(ranking, arm).get(ref) for arm in (first, second)]
                parts = [1 / (base + place) for place in places if place is not None]
                return sum(parts) if parts else None

    def _query_vector(self, ranking: VectorDistance) -> Value:
        query = self.value(ranking.query, {})
        if not isinstance(query, str):
            return query
        assert self.embed is not None, "a text is looked for without an embedder"
        return self.embed(query, ranking.dimension, ranking.model)

    def places(self, ranking: FusedScore, arm: VectorDistance | TextScore) -> dict[NodeRef, int]:
        """Return the ranks of one arm in a fused ranking.

        Where it orders rows under a limit, an arm of distances has no more
        than that many of its nearest.
        """
        keep = self.kept.get(ranking)
        if keep is None or isinstance(arm, TextScore):
            return self.ranks(arm)
        return {ref: place for ref, place in self.ranks(arm).items() if place <= keep}

    def ranks(self, arm: VectorDistance | TextScore) -> dict[NodeRef, int]:
        """The place of every matched node the arm has a score for, from 1; ties go by id."""
        if arm not in self._ranks:
            refs = {row[arm.variable] for row in self.matched} - {None}
            scores = {ref: self._score(arm, ref) for ref in refs}
            found = [(score, ref) for ref, score in scores.items() if score is not None]
            sign = 1 if isinstance(arm, VectorDistance) else -1
            found.sort(key=lambda pair: (sign * pair[0], pair[1].id, pair[1].type))  # type: ignore[union-attr, attr-defined]
            self._ranks[arm] = {ref: at for at, (_, ref) in enumerate(found, 1)}  # type: ignore[misc]
        return self._ranks[arm]


# --- three-valued logic -----------------------------------------------------------------------


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _all(truths: list[Truth]) -> Truth:
    if False in truths:
        return False
    return None if None in truths else True


def _compare(op: Comparator, left: Value, right: Value) -> Truth:
    """Python compares numbers exactly and texts by code point, as the language does."""
    if left is None or right is None:
        return None
    match op:
        case Comparator.HAS:
            assert isinstance(left, tuple)
            return any(item == right for item in left if item is not None)
        case Comparator.CONTAINS:
            return str(right) in str(left)
        case Comparator.STARTS_WITH:
            return str(left).startswith(str(right))
        case Comparator.ENDS_WITH:
            return str(left).endswith(str(right))
        case _:
            answer: bool = _ORDERED[op](left, right)
            return answer
