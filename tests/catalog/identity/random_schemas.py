"""Random schemas as plain dictionaries, the texts they stand for, and random edits of them.

The dictionary is the oracle: it keeps a token for every declaration that lives on through edits, so
a test can say which identity must stay and which must be fresh.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from random import Random

TYPES = {
    "String": ["@index", "@unique", '@description("what it says")', '@default("none")'],
    "String?": ["@index", "@unique", '@note("x", by="y")'],
    "I32": ["@index", "@unique", "@default(3)"],
    "I64?": ["@index", "@default(12345678901)"],
    "U64?": ["@unique"],
    "F64?": ["@index", "@default(0.5)"],
    "Bool": ["@default(true)"],
    "Date?": ["@index"],
    "DateTime?": ['@description("when")'],
    "[String]?": [],
    "Blob?": ['@description("größer")'],
    "enum(x, y)?": ["@index", '@default("y")'],
    "enum(z, y, x)": ["@index"],
    "Vector(3)?": ["@index"],
}


@dataclass
class Thing:
    """A declaration that keeps its token under every name."""

    token: int
    text: str = ""
    old_name: str | None = None


@dataclass
class TypeThing(Thing):
    """A type: `text` holds the annotations of its header."""

    properties: dict[str, Thing] = field(default_factory=dict)
    ends: tuple[int, int] | None = None
    implements: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)


class Model:
    def __init__(self, random: Random) -> None:
        self.random, self._tokens, self._names = random, count(1), count(1)
        self.interfaces: dict[str, TypeThing] = {}
        self.nodes: dict[str, TypeThing] = {}
        self.edges: dict[str, TypeThing] = {}
        self._free = {"Node": [], "Edge": []}
        for _ in range(random.randint(0, 2)):
            name = f"Iface{next(self._names)}"
            self.interfaces[name] = self._type()
        for _ in range(random.randint(1, 4)):
            self.add_node()
        for _ in range(random.randint(0, 3)):
            self.add_edge()

    # --- making ---------------------------------------------------------------------------------

    def _type(self) -> TypeThing:
        type_ = TypeThing(next(self._tokens))
        for _ in range(self.random.randint(0, 4)):
            self.add_property(type_)
        return type_

    def add_property(self, type_: TypeThing) -> None:
        kind = self.random.choice(sorted(TYPES))
        chosen = [a for a in TYPES[kind] if self.random.random() < 0.4]
        name = f"p{next(self._names)}"
        type_.properties[name] = Thing(next(self._tokens), " ".join([kind, *chosen]))

    def _name(self, kind: str) -> str:
        """A name for a new type: often one that another type had before."""
        if self._free[kind] and self.random.random() < 0.6:
            return self._free[kind].pop()
        return f"{kind}{next(self._names)}"

    def add_node(self) -> None:
        node = self._type()
        node.properties["k"] = Thing(next(self._tokens), "String @key")
        node.implements = [i for i in sorted(self.interfaces) if self.random.random() < 0.5]
        if self.random.random() < 0.5:
            node.text = '@description("a type")'
        node.rules = [r for r in ('@check(k, "^.")', "@index(k)") if self.random.random() < 0.3]
        self.nodes[self._name("Node")] = node

    def add_edge(self) -> None:
        edge = self._type()
        ends = [self.nodes[self.random.choice(sorted(self.nodes))].token for _ in range(2)]
        edge.ends = (ends[0], ends[1])
        edge.text = self.random.choice(["", "@card(0..2)", "@card(1..)", '@instruction("go")'])
        edge.rules = [r for r in ("@unique(src, dst)",) if self.random.random() < 0.5]
        self.edges[self._name("Edge")] = edge

    # --- the text -------------------------------------------------------------------------------

    def text(self, shuffle: Random | None = None) -> str:
        """The schema as text; in another order, and with comments, when given a shuffler."""
        kinds = (("interface", self.interfaces), ("node", self.nodes), ("edge", self.edges))
        parts = [
            self._declaration(kind, name, type_, shuffle)
            for kind, types in kinds
            for name, type_ in types.items()
        ]
        if shuffle:
            shuffle.shuffle(parts)
            parts.insert(shuffle.randint(0, len(parts)), "// a remark")
        return "\n".join(parts)

    def _declaration(self, kind: str, name: str, type_: TypeThing, shuffle: Random | None) -> str:
        items = [f"{n}: {p.text}{_hint(p)}" for n, p in type_.properties.items()] + type_.rules
        implements = list(type_.implements)
        if shuffle:
            shuffle.shuffle(items)
            shuffle.shuffle(implements)
        ends = ""
        if type_.ends:
            by_token = {t.token: n for n, t in self.nodes.items()}
            ends = f": {by_token[type_.ends[0]]} -> {by_token[type_.ends[1]]}"
        header = f"{kind} {name}{ends} {type_.text}{_hint(type_)}"
        if implements:
            header += f" implements {', '.join(implements)}"
        return f"{header} {{ {'  '.join(items)} }}"

    # --- edits ----------------------------------------------------------------------------------

    def edit(self) -> str:
        """Make one random edit and return its description; earlier hints are removed first."""
        for type_ in (*self.interfaces.values(), *self.nodes.values(), *self.edges.values()):
            type_.old_name = None
            for property_ in type_.properties.values():
                property_.old_name = None
        edits = [
            self._add_a_property,
            self._drop_a_property,
            self._rename_a_property,
            self._drop_a_type,
            self._rename_a_type,
            self.add_node,
            self.add_edge,
        ]
        chosen = self.random.choice(edits)
        chosen()
        return chosen.__name__

    def _a_table(self) -> tuple[dict[str, TypeThing], str]:
        kind = self.edges if self.edges and self.random.random() < 0.5 else self.nodes
        return kind, self.random.choice(sorted(kind))

    def _an_owner(self) -> TypeThing:
        kinds = [k for k in (self.interfaces, self.nodes, self.edges) if k]
        kind = self.random.choice(kinds)
        return kind[self.random.choice(sorted(kind))]

    def _a_property(self) -> tuple[TypeThing, str] | None:
        owner = self._an_owner()
        names = sorted(set(owner.properties) - {"k"})
        return (owner, self.random.choice(names)) if names else None

    def _add_a_property(self) -> None:
        self.add_property(self._an_owner())

    def _drop_a_property(self) -> None:
        if chosen := self._a_property():
            del chosen[0].properties[chosen[1]]

    def _rename_a_property(self) -> None:
        if chosen := self._a_property():
            type_, old = chosen
            renamed = type_.properties.pop(old)
            renamed.old_name = old
            type_.properties[f"p{next(self._names)}"] = renamed

    def _drop_a_type(self) -> None:
        kind, name = self._a_table()
        if kind is self.nodes and len(kind) == 1:
            return
        token = kind.pop(name).token
        self._free["Node" if kind is self.nodes else "Edge"].append(name)
        orphans = [n for n, e in self.edges.items() if token in (e.ends or ())]
        for orphan in orphans:
            del self.edges[orphan]
        self._free["Edge"] += orphans

    def _rename_a_type(self) -> None:
        kind, old = self._a_table()
        renamed = kind.pop(old)
        renamed.old_name = old
        word = "Node" if kind is self.nodes else "Edge"
        kind[self._name(word)] = renamed
        self._free[word].append(old)


def _hint(thing: Thing) -> str:
    return f' @rename_from("{thing.old_name}")' if thing.old_name else ""
