"""Every query gives the same answer before and after maintenance."""

from __future__ import annotations

import json
import random

import pytest

import omnigraph

SCHEMA = """
node Thing {
  slug: String @key
  title: String @index
  flag: Bool? @index
  small: I32? @index
  large: I64? @index
  count: U32? @index
  huge: U64? @index
  ratio: F64? @index
  single: F32? @index
  day: Date? @index
  moment: DateTime? @index
  size: enum(s, m, l)? @index
  spot: Vector(2)? @index
}
edge Near: Thing -> Thing { weight: F64? @index }
"""

WORDS = ("river", "stone", "light", "north", "paper")
COLUMNS = {
    "flag": ["true", "false"],
    "small": ["-5", "0", "7"],
    "large": ["-9007199254740993", "3"],
    "count": ["0", "4000000000"],
    "huge": ["9223372036854775807", "1"],
    "ratio": ["0.5", "-1.25"],
    "single": ["0.25", "2.0"],
    "day": ['"1999-12-31"', '"2020-02-29"'],
    "moment": ['"2020-01-01T00:00:00.001Z"', '"1970-01-01T00:00:00Z"'],
    "size": ['"s"', '"l"'],
}
WRITTEN = {"day": "date({})", "moment": "datetime({})"}


def value(text: str) -> object:
    return json.loads(text)


def thing(slug: str, chance: random.Random) -> dict[str, object]:
    data: dict[str, object] = {"slug": slug, "title": " ".join(chance.choices(WORDS, k=4))}
    for column, values in COLUMNS.items():
        if chance.random() < 0.7:
            data[column] = value(chance.choice(values))
    if chance.random() < 0.6:
        data["spot"] = [float(chance.randrange(9)), float(chance.randrange(9))]
    return {"type": "Thing", "data": data}


def queries() -> list[str]:
    asked = ["match { $t: Thing } return { $t.slug, $t.title }"]
    for column, values in COLUMNS.items():
        written = [WRITTEN.get(column, "{}").format(text) for text in values]
        for text in written:
            asked.append(f"match {{ $t: Thing  $t.{column} = {text} }} return {{ $t.slug }}")
        if column not in ("flag", "size"):
            asked.append(f"match {{ $t: Thing  $t.{column} > {written[0]} }} return {{ $t.slug }}")
    asked += [f'match {{ $t: Thing {{ slug: "t{n}" }} }} return {{ $t.title }}' for n in range(9)]
    asked += [
        "match { $t: Thing  $t near $u } return { $t.slug, $u.slug }",
        'match { $t: Thing { slug: "t1" }  $t near{1,3} $u } return { $u.slug }',
        'match { $t: Thing  search($t.title, "river") } return { $t.slug }',
        'match { $t: Thing } return { $t.slug } order { bm25($t.title, "stone") desc } limit 5',
        "match { $t: Thing } return { $t.slug } order { nearest($t.spot, [4.0, 4.0]) } limit 5",
    ]
    return asked


def answers(graph: omnigraph.Graph, branch: str) -> dict[str, list[str]]:
    found = {}
    for text in queries():
        rows = [str(row) for row in graph.query(f"query q() {{ {text} }}", branch=branch).rows]
        found[text] = rows if "order {" in text else sorted(rows)
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_every_query_gives_the_same_answer_before_and_after(tmp_path, seed):
    chance = random.Random(seed)
    graph = omnigraph.init(tmp_path / "things.omni", SCHEMA)
    graph.load([thing(f"t{n}", chance) for n in range(20)], "append")
    for branch in ("main", "dev"):
        if branch == "dev":
            graph.create_branch("dev")
        for number in range(6):
            fresh = thing(f"{branch}{number}", chance)
            edge = {"edge": "Near", "from": "t1", "to": f"{branch}{number}", "data": {"weight": 1}}
            graph.load(
                [fresh, edge, thing(f"t{chance.randrange(20)}", chance)], "merge", branch=branch
            )
            graph.mutate(
                f'query q() {{ delete Thing where slug = "t{10 + number}" }}', branch=branch
            )
        before = answers(graph, branch)
        assert sum(len(rows) for rows in before.values()) > 100
        graph.ensure_indices(branch=branch)
        assert answers(graph, branch) == before
        graph.optimize(branch=branch)
        assert answers(graph, branch) == before
        graph.cleanup(keep=1, confirm=True)
        fresh_handle = omnigraph.open(graph.uri, read_only=True)
        assert answers(fresh_handle, branch) == before
    assert graph.verify(deep=True).findings == ()
