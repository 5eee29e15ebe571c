"""Random questions in `.gq`, each with the function that answers it from plain rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from reads.read_conditions import Row, holds, make_condition
from reads.read_model import EDGES, TEAMS, VALUES, WORDS, State

Answer = list[tuple[object, ...]]


@dataclass(frozen=True)
class Question:
    kind: str
    text: str
    answer: Callable[[State], Answer]
    is_ordered: bool = False
    searches: bool = False


def make_question(random: Random, turn: int | None = None) -> Question:
    """One of a random kind, or of the kind whose turn it is."""
    make = random.choice(KINDS) if turn is None else KINDS[turn % len(KINDS)]
    return make(random)


def _rows(state: State, table: str) -> list[Row]:
    return list(state[table].values())


def filtered(random: Random) -> Question:
    table, extra = random.choice([("Person", ["age", "team"]), ("Note", ["rank"])])
    condition = make_condition(random, VALUES[table])
    columns = ["id", *extra]
    shown = ", ".join(f"$x.{name} as {name}" for name in columns)
    return Question(
        "filter",
        f"query q() {{ match {{ $x: {table}  {condition.gq('x')} }} return {{ {shown} }} }}",
        lambda state: [
            tuple(row[name] for name in columns)
            for row in _rows(state, table)
            if holds(condition, row)
        ],
    )


def looked_up(random: Random) -> Question:
    key = f"p{random.randrange(30)}"
    return Question(
        "look-up",
        f'query q() {{ match {{ $p: Person {{ key: "{key}" }} }} return {{ $p.id, $p.age }} }}',
        lambda state: [(key, row["age"]) for row in _rows(state, "Person") if row["id"] == key],
    )


def counted(random: Random) -> Question:
    table = random.choice(["Person", "Note"])
    condition = make_condition(random, VALUES[table]) if random.random() < 0.8 else None
    clause = "" if condition is None else condition.gq("x")
    return Question(
        "count",
        f"query q() {{ match {{ $x: {table}  {clause} }} return {{ count($x) as n }} }}",
        lambda state: [(sum(holds(condition, row) for row in _rows(state, table)),)],
    )


def grouped(random: Random) -> Question:
    condition = make_condition(random, VALUES["Person"])

    def answer(state: State) -> Answer:
        people = [row for row in _rows(state, "Person") if holds(condition, row)]
        return list(Counter(row["team"] for row in people).items())

    return Question(
        "group",
        f"query q() {{ match {{ $p: Person  {condition.gq('p')} }} "
        "return { $p.team as team, count($p) as n } }",
        answer,
    )


def hopped(random: Random) -> Question:
    """Every pair once, however many edges connect it."""
    edge = random.choice(list(EDGES))
    source, target = EDGES[edge]
    first, second = make_condition(random, VALUES[source], 1), None
    if random.random() < 0.4:
        second = make_condition(random, VALUES[target], 1)
    behind = "" if second is None else second.gq("b")

    def answer(state: State) -> Answer:
        ends = {(row["src"], row["dst"]) for row in _rows(state, edge)}
        return [
            (a, b)
            for a, b in ends
            if holds(first, state[source][str(a)]) and holds(second, state[target][str(b)])
        ]

    return Question(
        "hop",
        f"query q() {{ match {{ $a: {source}  {first.gq('a')}  $a {edge.lower()} $b  {behind} }} "
        "return { $a.id, $b.id } }",
        answer,
    )


def edges(random: Random) -> Question:
    condition = make_condition(random, {"since": VALUES["Knows"]["since"]}, 1)
    return Question(
        "edges",
        f"query q() {{ match {{ $a $k:knows $b  {condition.gq('k')} }} "
        "return { $k.id, $a.id, $b.id, $k.since } }",
        lambda state: [
            (row["id"], row["src"], row["dst"], row["since"])
            for row in _rows(state, "Knows")
            if holds(condition, row)
        ],
    )


def unconnected(random: Random) -> Question:
    edge = random.choice(list(EDGES))

    def answer(state: State) -> Answer:
        sources = {row["src"] for row in _rows(state, edge)}
        return [(id,) for id in state["Person"] if id not in sources]

    return Question(
        "anti-join",
        f"query q() {{ match {{ $a: Person  not {{ $a {edge.lower()} $_ }} }} "
        "return { $a.id } }",
        answer,
    )


def reached(random: Random) -> Question:
    """Nodes by their shortest distance; an edge from a node to itself reaches it one hop later."""
    least, most = random.choice([(1, 2), (2, 2), (1, 3)])
    start = random.choice([f"p{n}" for n in range(8)])

    def answer(state: State) -> Answer:
        if start not in state["Person"]:
            return []
        after: dict[object, set[object]] = {}
        for row in _rows(state, "Knows"):
            after.setdefault(row["src"], set()).add(row["dst"])
        found: dict[object, int] = {}
        seen: set[object] = {start}
        frontier = seen.copy()
        for distance in range(1, most + 1):
            again = {a for a in frontier if a in after.get(a, ())}
            frontier = {b for a in frontier for b in after.get(a, ())} - seen
            seen |= frontier
            if distance >= least:
                found = dict.fromkeys(again | frontier, distance) | found
        return list(found.items())

    return Question(
        "reach",
        f'query q() {{ match {{ $a: Person {{ key: "{start}" }} '
        f"$a knows{{{least},{most}}} $b hops $h }} return {{ $b.id, $h }} }}",
        answer,
    )


def searched(random: Random) -> Question:
    words = random.sample(WORDS, random.randint(1, 2))
    return Question(
        "words",
        f'query q() {{ match {{ $p: Person  search($p.bio, "{" ".join(words)}") }} '
        "return { $p.id, $p.bio } }",
        lambda state: [
            (row["id"], row["bio"])
            for row in _rows(state, "Person")
            if set(words) & set(str(row["bio"] or "").split())
        ],
        searches=True,
    )


def scored(random: Random) -> Question:
    """BM25 over the statistics of the whole table."""
    word, team = random.choice(WORDS), random.choice(TEAMS)

    def answer(state: State) -> Answer:
        texts = {id: str(row["bio"]).split() for id, row in state["Person"].items() if row["bio"]}
        having = sum(word in text for text in texts.values())
        if not having:
            return []
        average = sum(map(len, texts.values())) / len(texts)
        rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        found: Answer = []
        for id, text in texts.items():
            often, length = text.count(word), len(text)
            if often and state["Person"][id]["team"] == team:
                weight = often + 1.2 * (0.25 + 0.75 * length / average)
                found.append((id, round(rarity * often * 2.2 / weight, 6)))
        return found

    return Question(
        "bm25",
        f'query q() {{ match {{ $p: Person {{ team: "{team}" }}  search($p.bio, "{word}") }} '
        f'return {{ $p.id, bm25($p.bio, "{word}") as score }} }}',
        answer,
        searches=True,
    )


def nearest(random: Random) -> Question:
    at, limit = (random.randrange(40), random.randrange(40)), random.randint(1, 5)

    def answer(state: State) -> Answer:
        ranked = [
            (math.dist(row["spot"], at), row["id"])  # type: ignore[arg-type]
            for row in _rows(state, "Person")
            if row["spot"] is not None
        ]
        return [(id,) for _, id in sorted(ranked)[:limit]]

    return Question(
        "nearest",
        f"query q() {{ match {{ $p: Person }} return {{ $p.id }} "
        f"order {{ nearest($p.spot, [{at[0]}.0, {at[1]}.0]) }} limit {limit} }}",
        answer,
        is_ordered=True,
        searches=True,
    )


KINDS = (
    *(filtered, looked_up, counted, grouped, hopped, edges),
    *(unconnected, reached, searched, scored, nearest),
)


def difference(question: Question, state: State, found: Answer) -> str | None:
    """Return how an answer differs from that of the rows; None if they are equal."""
    wanted = question.answer(state)
    found = [tuple(round(v, 6) if type(v) is float else v for v in row) for row in found]
    if question.is_ordered:
        return None if found == wanted else f"{found} instead of {wanted}"
    return multiset_difference(wanted, found)


def multiset_difference(wanted: Answer, found: Answer) -> str | None:
    missing, extra = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    if not missing and not extra:
        return None
    shown = f"missing {list(missing.elements())[:5]}, too many {list(extra.elements())[:5]}"
    return f"{len(found)} rows instead of {len(wanted)}: {shown}"
