"""Random graphs and random input for them: mostly right, and wrong in every way now and then."""

from __future__ import annotations

import json
from random import Random

SCHEMA = """
node Person {
  name: String @key  age: I64?  mood: enum(calm, wild)?  code: String?  level: I32 = 3
  first: String?  last: String?  rank: F64? @unique  born: Date?  photo: Blob?  tags: [String]?
  place: Vector(2)?
  @range(age, 0..120.5)  @check(code, "^[ab]+$")  @unique(first, last)
}
node City { label: String? @unique  size: U32? }
node Slot { row: I32  seat: I32  note: String?  @key(row, seat) }
edge Lives: Person -> City @card(1..2) {
  since: I32?  kind: enum(home, work)?  @unique(src, dst)  @range(since, ..2000)
}
edge Knows: Person -> Person @card(0..2) { note: String? @unique }
edge Holds: Person -> Slot { price: F32? }
"""

SCHEMA = SCHEMA.replace("level: I32 = 3", "level: I32 @default(3)")
PAIRED_SCHEMA = SCHEMA + "edge Pairs: Person -> Person @card(2..3) { note: String? @unique }\n"
"""With edges of which a node has several or none."""
PEOPLE = [f"p{i}" for i in range(6)]
CITIES = [f"c{i}" for i in range(4)]
SLOTS = [(row, seat) for row in (0, 1) for seat in (0, 1, 2)]
EDGE_IDS = [f"e{i}" for i in range(5)]
MODES = ("append", "merge", "overwrite")

BAD_LINES = (
    "{",
    "[]",
    '{"type":"Nobody","data":{}}',
    '{"type":"Person","edge":"Knows"}',
    '{"type":"Person","data":{"name":"px","age":"old"}}',
    '{"type":"Person","data":{"name":"px","name":"py"}}',
    '{"type":"Person","data":{"name":"px","size":1}}',
    '{"type":"Person","data":{"age":3}}',
    '{"edge":"Knows","from":"p0","data":{}}',
    '{"edge":"Knows","from":"p0","to":"p1","data":{"src":"p0"}}',
    '{"type":"City","data":{"id":"cx","size":-1}}',
    '{"type":"Person","data":{"name":"px","born":"1990-02-30"}}',
    '{"type":"Person","data":{"name":"px","place":[1]}}',
    '{"type":"Person","data":{"name":"px","photo":"base64:%"}}',
)


class Inputs:
    """Draw records; `error_rate` is the probability of a mistake in each of them.

    With `paired` they are for the larger schema, and wrong more often.
    """

    def __init__(self, seed: int, *, paired: bool = False) -> None:
        self.random = Random(seed)
        self.paired = paired
        rates = (0, 0.1, 0.2, 0.4) if paired else (0, 0, 0, 0.05, 0.2)
        self.error_rate = self.random.choice(rates)
        self.edge_number = 0

    def maybe(self, *values: object) -> object:
        return self.random.choice((None, None, *values))

    def is_wrong(self) -> bool:
        return self.random.random() < self.error_rate

    def person(self, name: str) -> dict:
        data = {"name": name}
        data |= self.optional(
            age=self.maybe(1, 50, 120),
            mood=self.maybe("calm", "wild"),
            code=self.maybe("a", "ab"),
            level=self.random.choice((1, 2)),
            first=self.maybe("x", "y", "z", f"f{self.random.randrange(50)}"),
            last=self.maybe("v", "w"),
            rank=self.maybe(*(round(self.random.random(), 6) for _ in range(2))),
            born=self.maybe("1990-01-02", 7000),
            photo=self.maybe("base64:", "base64:AAEC"),
            tags=self.maybe([], ["a", "b"]),
            place=self.maybe([1, 0], [0.5, 2]),
        )
        if self.is_wrong():
            data |= self.random.choice(
                ({"age": 121}, {"mood": "odd"}, {"code": "c"}, {"rank": 0.5}, {"id": "other"})
            )
        return {"type": "Person", "data": data}

    def optional(self, **members: object) -> dict:
        return {name: value for name, value in members.items() if self.random.random() < 0.6}

    def city(self) -> dict:
        data = self.optional(
            label=self.maybe(f"l{self.random.randrange(30)}"), size=self.maybe(1, 2**32 - 1)
        )
        # Rows that get an id of their own cannot be compared, so they stay rare.
        return {"type": "City", "data": data | {"id": self.random.choice(CITIES)}}

    def slot(self, row: int, seat: int) -> dict:
        return {"type": "Slot", "data": {"row": row, "seat": seat} | self.optional(note="n")}

    def edge(self, name: str, sources: list, targets: list, **members: object) -> dict:
        data = self.optional(**members)
        if self.random.random() < 0.5:
            data["id"] = self.random.choice(EDGE_IDS)
        else:
            self.edge_number += 1
            data["id"] = f"new-{self.edge_number}-{self.random.randrange(10**6)}"
        source, target = self.random.choice(sources), self.random.choice(targets)
        if self.is_wrong():
            target = "nowhere"
        return {"edge": name, "from": source, "to": target, "data": data}

    def edges(self, count: int) -> list[dict]:
        found = []
        for _ in range(count):
            kinds = ("Lives", "Knows", "Holds", *(("Pairs", "Pairs") if self.paired else ()))
            kind = self.random.choice(kinds)
            if kind == "Lives":
                extra = {"since": self.maybe(1999), "kind": self.maybe("home", "work")}
                if self.is_wrong():
                    extra["since"] = 2001
                found.append(self.edge(kind, PEOPLE, CITIES, **extra))
            elif kind in ("Knows", "Pairs"):
                note = self.maybe(f"n{self.random.randrange(40)}")
                found.append(self.edge(kind, PEOPLE, PEOPLE, note=note))
            else:
                slots = [f'["{row}","{seat}"]' for row, seat in SLOTS]
                found.append(self.edge(kind, PEOPLE, slots, price=self.maybe(1.5)))
        return found

    def whole_graph(self) -> list[dict]:
        """Records that surely fit an empty graph."""
        self.error_rate, rate = 0, self.error_rate
        records = [{"type": "Person", "data": {"name": name}} for name in PEOPLE]
        records += [{"type": "City", "data": {"id": id, "label": f"L{id}"}} for id in CITIES]
        records += [self.slot(*slot) for slot in SLOTS]
        pairs = [(person, self.random.choice(CITIES)) for person in PEOPLE[:4]]
        records += [
            {"edge": "Lives", "from": a, "to": b, "data": {"id": EDGE_IDS[i]}}
            for i, (a, b) in enumerate(pairs)
        ]
        records += [
            {"edge": "Knows", "from": PEOPLE[0], "to": PEOPLE[i], "data": {"id": f"e{i}"}}
            for i in (1, 2)
        ]
        if self.paired:
            ends = [(0, 1), (0, 2), (3, 1), (3, 2), (3, 4)]
            records += [
                {"edge": "Pairs", "from": PEOPLE[a], "to": PEOPLE[b], "data": {"id": EDGE_IDS[i]}}
                for i, (a, b) in enumerate(ends)
            ]
        self.error_rate = rate
        return records

    def lines(self) -> str:
        """Lines of input, in any order."""
        random = self.random
        records: list[dict] = []
        if random.random() < 0.7:
            pool = [*PEOPLE, "p6", "p7", "p8", "p9"]
            names = random.sample(pool, random.randrange(len(pool) + 1))
            if self.is_wrong() and names:
                names.append(random.choice(names))
            records += [self.person(name) for name in names]
        if random.random() < 0.5:
            records += [self.city() for _ in range(random.randrange(4))]
        if random.random() < 0.3:
            records += [self.slot(*slot) for slot in random.sample(SLOTS, random.randrange(7))]
        if random.random() < 0.7:
            records += self.edges(random.randrange(12 if self.paired else 6))
        random.shuffle(records)
        lines = [json.dumps(record) for record in records]
        if self.is_wrong():
            lines.insert(random.randrange(len(lines) + 1), random.choice(BAD_LINES))
        if random.random() < 0.2:
            lines.insert(random.randrange(len(lines) + 1), "")
        return "".join(line + "\n" for line in lines)


def normal(records) -> list[str]:
    """The records of a graph in an order of their own."""
    return sorted(json.dumps(record, sort_keys=True) for record in records)
