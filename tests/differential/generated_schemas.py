"""Random schemas: node types with every kind of property, interfaces, and edges between them."""

from __future__ import annotations

from random import Random

NODE_NAMES = ("Alpha", "Beta", "Gamma", "Delta")
EDGE_NAMES = ("Knows", "LinksTo", "PartOf", "Likes", "FollowsUp")

PROPERTIES = {
    "note": "String",
    "kind": "enum(blue, green, red)",
    "flag": "Bool",
    "small": "I32",
    "bigNumber": "I64",
    "count": "U32",
    "huge": "U64",
    "ratio": "F32",
    "score": "F64",
    "born": "Date",
    "seenAt": "DateTime",
    "order": "String",
    "tags": "[String]",
    "numbers": "[I64]",
    "weights": "[F32]",
    "days": "[Date]",
    "spot": "Vector(2)",
    "picture": "Blob",
}
"""Names are not chosen for beauty: some are words of the language, some have capitals."""

EDGE_PROPERTIES = {
    "weight": "F64",
    "since": "Date",
    "label": "String",
    "huge": "U64",
    "ratio": "F32",
    "kind": "enum(blue, green, red)",
    "tags": "[String]",
}
KEYS = (
    "key: String @key",
    "key: String @key",
    "key: I64 @key",
    "key: Date @key",
    "part: String  number: U32  @key(part, number)",
    "",
)
_NOT_INDEXED = ("tags", "numbers", "weights", "days", "picture")


def make_schema(random: Random) -> str:
    """The text of a schema; its first edge always stays within one type."""
    names = NODE_NAMES[: random.randint(2, 4)]
    lines = ["interface Thing { name: String  small: I32? }", "interface Noted { note: String? }"]
    lines += [_node(name, random, must_be_a_thing=name == names[0]) for name in names]
    ends: list[tuple[str, str]] = []
    for name in EDGE_NAMES[: random.randint(2, 5)]:
        ends.append(_ends(ends, names, random))
        lines.append(_edge(name, ends[-1], random))
    return "\n".join(lines) + "\n"


def _node(name: str, random: Random, *, must_be_a_thing: bool) -> str:
    thing = must_be_a_thing or random.random() < 0.5
    noted = random.random() < 0.5
    interfaces = ["Thing"] * thing + ["Noted"] * noted
    chosen = {p: t for p, t in PROPERTIES.items() if random.random() < 0.55}
    for inherited in ["small"] * thing + ["note"] * noted:
        chosen.pop(inherited, None)
    body = [random.choice(KEYS)]
    body += [] if thing else ["name: String"]
    body += [_property(p, t, random, optional=0.75) for p, t in chosen.items()]
    implements = f" implements {', '.join(interfaces)}" if interfaces else ""
    return f"node {name}{implements} {{\n  " + "\n  ".join(filter(None, body)) + "\n}"


def _property(name: str, type_: str, random: Random, *, optional: float) -> str:
    mark = "?" if random.random() < optional else ""
    index = " @index" if name not in _NOT_INDEXED and random.random() < 0.2 else ""
    return f"{name}: {type_}{mark}{index}"


def _ends(before: list[tuple[str, str]], names: tuple[str, ...], random: Random) -> tuple[str, str]:
    """Choose the types an edge connects: often those of an earlier one, perhaps reversed."""
    if not before:
        return (names[0], names[0])
    chance = random.random()
    if chance < 0.35:
        return random.choice(before)
    if chance < 0.45:
        source, target = random.choice(before)
        return target, source
    return random.choice(names), random.choice(names)


def _edge(name: str, ends: tuple[str, str], random: Random) -> str:
    chosen = {p: t for p, t in EDGE_PROPERTIES.items() if random.random() < 0.5}
    body = [_property(p, t, random, optional=0.8) for p, t in chosen.items()]
    head = f"edge {name}: {ends[0]} -> {ends[1]}"
    return f"{head} {{\n  " + "\n  ".join(body) + "\n}" if body else head
