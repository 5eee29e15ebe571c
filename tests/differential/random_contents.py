"""Random contents for a schema: few values, so that rows meet; and all the awkward ones."""

from __future__ import annotations

from random import Random

from omnigraph.catalog.catalog import Catalog, EntityType, NodeType
from omnigraph.types.property import PropertyType, Scalar

Record = dict[str, object]

WORDS = ("amber", "bolt", "cedar", "drum", "fox", "grid", "lamp", "lump", "limp")
"""Words no stemmer changes and no list of stop words has; some differ by a letter."""

VALUES: dict[Scalar, tuple[object, ...]] = {
    Scalar.STRING: (
        *("", "a", "b", "ab", "Ab", "aB", "b%_a", "é", "e\u0301", "日本", "😀", "\uffff"),
        *('say "a"', "it's", "back\\slash", "tab\there", "line\nbreak", " a "),
    ),
    Scalar.BOOL: (True, False),
    Scalar.I32: (-(2**31), -1, 0, 1, 2, 3, 2**31 - 1),
    Scalar.I64: (-(2**63), -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1),
    Scalar.U32: (0, 1, 2, 3, 2**32 - 1),
    Scalar.U64: (0, 1, 2, 3, 2**53 + 1, 2**63, 2**64 - 1),
    Scalar.F32: (0.1, 0.0, -0.0, 1.0, 1.5, 2.5, -1.5, 16777216.0, 3.0e38),
    Scalar.F64: (0.1, 0.0, -0.0, 1.0, 1.5, 2.5, -1.5, 9007199254740992.0, 1e18, -1e-7),
    Scalar.DATE: ("0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31"),
    Scalar.DATETIME: (
        *("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z", "2024-06-01T12:00:00Z"),
        *("2024-06-01T12:00:00.001Z", "9999-12-31T23:59:59.999Z"),
    ),
}
VECTORS = ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [0.5, -0.5], [1.0, 0.0])
IDS = ("n0", "n1", "n2", "n3", "N3", "it's", 'q"t', "ü", "50%", "a b", "n10", "日", "\\n", "-")
"""Equal for every type, so that only type and id together identify a node."""


def make_contents(catalog: Catalog, random: Random) -> list[Record]:
    """Records of a load file, edges between existing nodes."""
    nodes = {t.name: _nodes(t, random) for t in catalog.nodes.values()}
    records = [record for found in nodes.values() for record in found.values()]
    for edge in catalog.edges.values():
        sources, targets = list(nodes[edge.from_type]), list(nodes[edge.to_type])
        if not sources or not targets:
            continue
        for number in range(random.choice((0, 2, 5, 9, 14, 20, 26))):
            source, target = random.choice(sources), random.choice(targets)
            if edge.same_ends and random.random() < 0.2:
                target = source
            data = {"id": f"e{number}"} | _properties(edge, random)
            records.append({"edge": edge.name, "from": source, "to": target, "data": data})
    random.shuffle(records)
    return records


def _nodes(type_: NodeType, random: Random) -> dict[str, Record]:
    """Node records by the id each will have."""
    found: dict[str, Record] = {}
    for _ in range(random.choice((0, 1, 3, 5, 8, 10, 12, 12))):
        key, node_id = _key(type_, random)
        data = _properties(type_, random) | key
        found[node_id] = {"type": type_.name, "data": data}
    return found


def _key(type_: NodeType, random: Random) -> tuple[Record, str]:
    """Return the key of a node, as properties and as the id they form."""
    names = sorted(p.name for p in type_.key)
    if not names:
        chosen = random.choice(IDS)
        return {"id": chosen}, chosen
    if names == ["number", "part"]:
        number, part = random.randint(0, 3), random.choice(("x", 'y"', "日"))
        quoted = part.replace('"', '\\"')
        return {"number": number, "part": part}, f'["{number}","{quoted}"]'
    if type_.key[0].type.scalar is Scalar.STRING:
        chosen = random.choice(IDS)
        return {"key": chosen}, chosen
    if type_.key[0].type.scalar is Scalar.I64:
        number = random.choice((*range(10), -1, -(2**63), 2**53 + 1))
        return {"key": number}, str(number)
    day = random.randint(1, 15)
    return {"key": f"1970-01-{day:02}"}, str(day - 1)


def _properties(type_: EntityType, random: Random) -> Record:
    key = {p.name for p in type_.key} if isinstance(type_, NodeType) else set()
    found: Record = {}
    for property_ in type_.properties:
        if property_.name not in key:
            value = make_value(property_.name, property_.type, random)
            if value is not None or random.random() < 0.5:
                found[property_.name] = value
    return found


def make_value(name: str, type_: PropertyType, random: Random) -> object:
    """A JSON value that loads into a property."""
    if type_.nullable and random.random() < 0.25:
        return None
    if name == "note":
        return " ".join(random.choices(WORDS, k=random.randint(1, 6)))
    if type_.is_vector:
        return random.choice(VECTORS)
    if type_.is_blob:
        return "base64:aGk="
    if type_.enum_values is not None:
        return random.choice(type_.enum_values)
    if type_.is_list:
        return random.choices(VALUES[type_.scalar], k=random.choice((0, 1, 2, 3)))
    # The first few values are common, so that equal ones meet.
    values = VALUES[type_.scalar]
    return random.choice(values[:6] if random.random() < 0.6 else values)
