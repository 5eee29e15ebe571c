"""Random schemas with rows, random edits of them, and what the rows must be afterwards.

The expected rows are computed from plain Python values and know nothing of tables or steps.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace

WIDER = {
    "I32": ("I64", "F64"),
    "U32": ("U64", "I64", "F64"),
    "F32": ("F64",),
    "I64": (),
    "U64": (),
    "F64": (),
    "Bool": (),
    "String": (),
    "Date": (),
}


@dataclass(frozen=True)
class Prop:
    name: str
    scalar: str
    nullable: bool
    is_list: bool = False
    unique: bool = False
    default: object = None
    was: str | None = None

    def text(self) -> str:
        kind = f"[{self.scalar}]" if self.is_list else self.scalar
        words = [f"{self.name}: {kind}{'?' if self.nullable else ''}"]
        if self.unique:
            words.append("@unique")
        if self.default is not None:
            words.append(f"@default({spelled(self.default)})")
        if self.was is not None:
            words.append(f'@rename_from("{self.was}")')
        return " ".join(words)


@dataclass(frozen=True)
class Node:
    name: str
    props: tuple[Prop, ...]
    was: str | None = None

    def text(self) -> str:
        hint = f'@rename_from("{self.was}") ' if self.was else ""
        body = "  ".join(["slug: String @key", *(p.text() for p in self.props)])
        return f"node {self.name} {hint}{{ {body} }}"


@dataclass
class World:
    """A schema, and the rows that follow it, by type and slug."""

    nodes: dict[str, Node]
    rows: dict[str, dict[str, dict[str, object]]]
    links: list[tuple[str, str]] = field(default_factory=list)
    ends: tuple[str, str] = ("", "")
    """The types that the edge type leads from and to."""

    def schema(self, *, hints: bool = True) -> str:
        nodes = self.nodes.values() if hints else [without_hints(n) for n in self.nodes.values()]
        lines = [node.text() for node in nodes]
        return "\n".join([*lines, f"edge Link: {self.ends[0]} -> {self.ends[1]}"]) + "\n"

    def records(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = [
            {"type": name, "data": {"slug": slug, **values}}
            for name, rows in self.rows.items()
            for slug, values in rows.items()
        ]
        return found + [
            {"edge": "Link", "from": source, "to": target, "data": {}}
            for source, target in self.links
        ]


def without_hints(node: Node) -> Node:
    return Node(node.name, tuple(replace(p, was=None) for p in node.props))


def spelled(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def some_value(dice: random.Random, scalar: str) -> object:
    match scalar:
        case "I32" | "I64":
            return dice.randint(-5, 2**31 - 1)
        case "U32" | "U64":
            return dice.randint(0, 2**32 - 1)
        case "F32" | "F64":
            return dice.randint(-40, 40) / 4
        case "Bool":
            return dice.random() < 0.5
        case "Date":
            return f"20{dice.randint(10, 30)}-0{dice.randint(1, 9)}-1{dice.randint(0, 9)}"
        case _:
            return dice.choice(["", "a", "b'c", "ünï", 'q"', "x" * 40])


def make_world(dice: random.Random) -> World:
    nodes, rows = {}, {}
    for number in range(dice.randint(1, 3)):
        props = tuple(
            Prop(f"p{n}", dice.choice(list(WIDER)), nullable=dice.random() < 0.6)
            for n in range(dice.randint(1, 4))
        )
        name = f"N{number}"
        nodes[name] = Node(name, props)
        rows[name] = {
            f"{name.lower()}-{n}": {p.name: _cell(dice, p) for p in props}
            for n in range(dice.choice([0, 1, 3, 20]))
        }
    ends = (dice.choice(list(nodes)), dice.choice(list(nodes)))
    sources, targets = (list(rows[end]) for end in ends)
    links = [(s, t) for s in sources for t in targets if dice.random() < 0.2]
    return World(nodes, rows, links, ends)


def _cell(dice: random.Random, prop: Prop) -> object:
    if prop.nullable and dice.random() < 0.3:
        return None
    return some_value(dice, prop.scalar)


class Edit:
    """One random change of a world; `breaks` is true if rows forbid it."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self.dice, self.breaks = dice, False
        self.nodes = {name: without_hints(node) for name, node in world.nodes.items()}
        self.rows = {n: {s: dict(v) for s, v in r.items()} for n, r in world.rows.items()}
        self.links, self.ends = list(world.links), world.ends
        for name in list(self.nodes):
            self._edit_node(name)
        if dice.random() < 0.3:
            name = f"Fresh{dice.randrange(10**6)}"
            self.nodes[name] = Node(name, (Prop("note", "String", nullable=True),))
            self.rows[name] = {}

    def world(self) -> World:
        return World(self.nodes, self.rows, self.links, self.ends)

    def _edit_node(self, name: str) -> None:
        node, dice = self.nodes[name], self.dice
        props: list[Prop] = []
        for prop in node.props:
            props += self._edited(name, prop)
        for number in range(dice.randint(0, 2)):
            props.append(self._added(name, f"new{number}_{dice.randrange(10**6)}"))
        renamed = f"{name}x" if dice.random() < 0.3 else name
        was = name if renamed != name else None
        del self.nodes[name]
        self.nodes[renamed] = Node(renamed, tuple(props), was)
        self.rows[renamed] = self.rows.pop(name)
        self.ends = tuple(renamed if end == name else end for end in self.ends)  # type: ignore[assignment]

    def _added(self, name: str, new: str) -> Prop:
        dice = self.dice
        scalar = dice.choice(list(WIDER))
        default = some_value(dice, scalar) if dice.random() < 0.5 else None
        prop = Prop(new, scalar, nullable=default is None, default=default)
        for values in self.rows[name].values():
            values[new] = default
        return prop

    def _edited(self, name: str, prop: Prop) -> list[Prop]:
        rows, dice = self.rows[name], self.dice
        match dice.randrange(9):
            case 0:
                for values in rows.values():
                    del values[prop.name]
                return []
            case 1:
                new = f"{prop.name[:4]}_{dice.randrange(10**6)}"
                for values in rows.values():
                    values[new] = values.pop(prop.name)
                return [replace(prop, name=new, was=prop.name)]
            case 2 if WIDER[prop.scalar] and prop.default is None:
                return [replace(prop, scalar=dice.choice(WIDER[prop.scalar]))]
            case 3 if not (prop.is_list or prop.unique or prop.default is not None):
                for values in rows.values():
                    value = values[prop.name]
                    values[prop.name] = None if value is None else [value]
                return [replace(prop, is_list=True)]
            case 4:
                return [replace(prop, nullable=True)]
            case 5 if prop.nullable:
                self.breaks |= any(values[prop.name] is None for values in rows.values())
                return [replace(prop, nullable=False)]
            case 6 if not prop.is_list:
                given = [v[prop.name] for v in rows.values() if v[prop.name] is not None]
                self.breaks |= len({repr(v) for v in given}) < len(given)
                return [replace(prop, unique=True)]
            case 7:
                return [replace(prop, unique=False)]
            case _:
                return [prop]
