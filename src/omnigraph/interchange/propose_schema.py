"""Propose node and edge types for a set of tables."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadRequest
from omnigraph.identity import EntityKind
from omnigraph.interchange.schema_proposal import (
    ProposedEdge,
    ProposedNode,
    ProposedProperty,
    SchemaProposal,
)
from omnigraph.interchange.source_tables import SourceGraph, SourceTable
from omnigraph.interchange.type_inference import ColumnFacts, DistinctValues, FoundType, as_id_texts
from omnigraph.types.property import INTEGERS, STORAGE_FIELDS, Scalar

_PROPERTY = re.compile(r"[a-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"[A-Z][A-Za-z0-9_]*")
_RESERVED = STORAGE_FIELDS | {"id"}
_RESERVED_ON_EDGES = _RESERVED | {"src", "dst", "from", "to"}
_PLURALS = {"people": "person", "children": "child"}
_NO_PLURAL = ("ss", "us", "is", "ws")


def make_type_name(text: str, *, is_exact: bool = False) -> str:
    """Make a type name: `user_events` as `UserEvent`; a label that is a type name is unchanged."""
    if is_exact and _TYPE.fullmatch(text):
        return text
    words = re.findall(r"[A-Za-z0-9]+", text) or ["Type"]
    if not is_exact:
        words[-1] = make_singular(words[-1])
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[0].isalpha() else f"T{name}"


def make_singular(word: str) -> str:
    """Make a singular: `companies` as `company`; a word that may be one already is unchanged."""
    low = word.lower()
    if low in _PLURALS:
        return word[0] + _PLURALS[low][1:]
    if low.endswith("ies") and len(low) > 4:
        return word[:-3] + ("y" if word[-1].islower() else "Y")
    if low.endswith("s") and not low.endswith(_NO_PLURAL) and len(low) > 3:
        return word[:-1]
    return word


def make_property_name(column: str, taken: Container[str], *, on_edge: bool) -> str:
    """Make a unique name that the schema language accepts."""
    name = column
    if not _PROPERTY.fullmatch(name):
        name = re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_") or "value"
        is_one_word = name == column and not name.isupper()
        name = name[0].lower() + name[1:] if is_one_word else name.lower()
        name = name if _PROPERTY.fullmatch(name) else f"_{name}"
    if name in (_RESERVED_ON_EDGES if on_edge else _RESERVED):
        name = f"{name}_"
    return make_unique(name, taken)


def make_unique(name: str, taken: Container[str]) -> str:
    """Return the name, or the first variant of it with a number, that is not taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def normalize(text: str) -> str:
    """Normalize a name: two spellings of it become equal."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def read_reference(column: str) -> str | None:
    """`company_id` and `companyId` name `company`; None for a column that names nothing."""
    found = re.fullmatch(r"(.+?)(?:_id|_key|Id|ID|_ref)", column)
    return None if found is None else normalize(make_singular(found.group(1)))


_ENDS = (("from", "to"), ("src", "dst"), ("source", "target"), ("start", "end"), ("u", "v"))
_END_SUFFIXES = ("", "id", "key", "node", "nodeid")
_KEY_NAMES = ("id", "key", "uuid", "guid", "slug", "uri", "iri", "code")
_LIKELY_NAMES = ("name", "title", "email", "username", "login")
_KEYS = INTEGERS | {Scalar.STRING}
_FROM_ENDS = ":ends"


@dataclass
class _Profile:
    """Data of the tables that have one name."""

    tables: list[SourceTable]
    rows: int = 0
    facts: dict[str, ColumnFacts] = field(default_factory=dict)
    distinct: dict[str, DistinctValues] = field(default_factory=dict)

    @property
    def first(self) -> SourceTable:
        return self.tables[0]

    @property
    def columns(self) -> list[str]:
        return list(self.facts)

    def find_type(self, column: str) -> FoundType:
        declared = self.first.types.get(column)
        found = self.facts[column].find_type()
        if declared is None:
            return found
        return FoundType(declared.optional() if found.type.nullable else declared)

    def list_values(self, column: str) -> pa.Array:
        """The distinct values of a column that may be an id."""
        if column not in self.distinct:
            values = DistinctValues()
            for table in self.tables:
                for batch in table.read():
                    values.add(_get_column(batch, column))
            values.close()
            self.distinct[column] = values
        return self.distinct[column].close()

    def is_unique(self, column: str) -> bool:
        if self.facts[column].nulls or not self.rows:
            return False
        self.list_values(column)
        return self.distinct[column].is_unique


def propose_schema(graph: SourceGraph) -> SchemaProposal:
    """The schema that these tables suggest.

    Raises:
        BadRequest: there is nothing to propose from.
    """
    profiles = [_make_profile(tables) for tables in _group_tables(graph.tables)]
    profiles = [one for one in profiles if one.facts]
    if not profiles:
        raise BadRequest("no rows and no columns were found: there is nothing to propose from")
    edges = {id(one): _find_ends(one) for one in profiles}
    nodes = _Nodes([one for one in profiles if edges[id(one)] is None])
    for profile in list(nodes.profiles):
        pair = nodes.find_reference_pair(profile)
        if pair is not None:
            nodes.remove(profile)
            edges[id(profile)] = pair
    relations = [(one, found) for one in profiles if (found := edges[id(one)]) is not None]
    if not nodes.profiles:
        nodes.add_from_ends(relations)
    return _Proposer(nodes, graph.lost).propose(relations)


def _group_tables(tables: Iterable[SourceTable]) -> list[list[SourceTable]]:
    """Tables of one name and kind are parts of one type."""
    grouped: dict[tuple[object, ...], list[SourceTable]] = {}
    for table in tables:
        name = make_type_name(table.name, is_exact=table.is_named_exactly)
        grouped.setdefault((name, table.kind, table.group, table.end_groups), []).append(table)
    return list(grouped.values())


def _make_profile(tables: list[SourceTable]) -> _Profile:
    profile = _Profile(tables)
    for table in tables:
        for batch in table.read():
            profile.rows += batch.num_rows
            for name in batch.schema.names:
                facts = profile.facts.get(name)
                if facts is None:
                    # A column that earlier parts do not have is null in their rows.
                    seen = profile.rows - batch.num_rows
                    facts = ColumnFacts(
                        name, table.has_text_values, table.has_text_dates, rows=seen, nulls=seen
                    )
                    profile.facts[name] = facts
                facts.add(_get_column(batch, name))
            for name, facts in profile.facts.items():
                if name not in batch.schema.names:
                    facts.rows += batch.num_rows
                    facts.nulls += batch.num_rows
    return profile


def _get_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    at = batch.schema.get_field_index(name)
    return batch.column(at) if at >= 0 else pa.nulls(batch.num_rows)


def _find_ends(profile: _Profile) -> tuple[str, str] | None:
    """The columns of the ends, if this is a table of edges."""
    if profile.first.kind is not None:
        return profile.first.ends
    known = {normalize(column): column for column in profile.columns}
    for suffix in _END_SUFFIXES:
        for source, target in _ENDS:
            pair = (source + suffix, target + suffix)
            if pair[0] in known and pair[1] in known:
                return known[pair[0]], known[pair[1]]
    return None


@dataclass
class _Nodes:
    """The tables of nodes, with their names and the columns that identify their rows."""

    profiles: list[_Profile]
    names: dict[int, str] = field(default_factory=dict)
    keys: dict[int, tuple[str | None, str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for profile in self.profiles:
            self._add(profile)

    def _add(self, profile: _Profile) -> None:
        table = profile.first
        name = make_type_name(table.name, is_exact=table.is_named_exactly)
        self.names[id(profile)] = make_unique(name, set(self.names.values()))
        self.keys[id(profile)] = _find_key(profile, name)

    def remove(self, profile: _Profile) -> None:
        self.profiles.remove(profile)
        del self.names[id(profile)], self.keys[id(profile)]

    def add_from_ends(self, relations: Sequence[tuple[_Profile, tuple[str, str]]]) -> None:
        """Nodes that only the ends of edges name: one type, with an id and nothing else."""
        parts = [profile.list_values(column) for profile, ends in relations for column in ends]
        ids = pa.concat_arrays(parts).unique()
        batch = pa.record_batch({":id": ids})
        origin = relations[0][0].first.origin
        table = SourceTable(
            name="Node",
            origin=origin,
            read=lambda: [batch],
            kind=EntityKind.NODE,
            key=":id",
            group=relations[0][0].first.end_groups[0] or _FROM_ENDS,
            is_named_exactly=True,
        )
        self.profiles.append(_make_profile([table]))
        self._add(self.profiles[-1])

    def get_ids(self, profile: _Profile) -> pa.Array:
        column = self.keys[id(profile)][0]
        return pa.array([], pa.string()) if column is None else profile.list_values(column)

    def find_by_reference(self, column: str, but: _Profile | None = None) -> _Profile | None:
        """The nodes that a column such as `company_id` names."""
        wanted = read_reference(column)
        for profile in self.profiles:
            if wanted == normalize(self.names[id(profile)]) and profile is not but:
                return profile
        return None

    def find_reference_pair(self, profile: _Profile) -> tuple[str, str] | None:
        """Two columns that name nodes, of a table whose rows nothing else identifies."""
        if profile.first.kind is not None:
            return None
        key, comment = self.keys[id(profile)]
        if key is not None and comment is None:
            return None
        found = [
            column
            for column in profile.columns
            if (to := self.find_by_reference(column, profile)) is not None
            and _count_missing(profile.list_values(column), self.get_ids(to)) == 0
        ]
        return (found[0], found[1]) if len(found) >= 2 else None


def _find_key(profile: _Profile, type_name: str) -> tuple[str | None, str | None]:
    """The column that identifies rows, and a comment if it is a guess."""
    if profile.first.key is not None:
        return profile.first.key, None
    own = {normalize(type_name) + suffix for suffix in ("id", "key", "")}
    by_name = {normalize(column): column for column in profile.columns}
    named = [*_KEY_NAMES, *sorted(own)]
    candidates = [by_name[name] for name in named if name in by_name]
    references = [one for one in profile.columns if read_reference(one) and one not in candidates]
    for column in candidates:
        if profile.is_unique(column) and _can_be_key(profile, column):
            return column, None
    likely = [by_name[name] for name in _LIKELY_NAMES if name in by_name]
    for column in (*references, *profile.columns[:1], *likely):
        if profile.is_unique(column) and _can_be_key(profile, column):
            return column, "guess: identifies a row, as all values differ"
    return None, None


def _can_be_key(profile: _Profile, column: str) -> bool:
    found = profile.find_type(column).type
    return found.scalar in _KEYS and not found.is_list


def _count_missing(values: pa.Array, ids: pa.Array) -> int:
    return int(pc.sum(pc.invert(pc.is_in(values, value_set=ids))).as_py() or 0)


class _Proposer:
    """Puts types together from tables."""

    def __init__(self, nodes: _Nodes, lost: Sequence[str]) -> None:
        self._nodes, self._lost = nodes, list(lost)
        self._made: list[ProposedNode] = []
        self._edges: list[ProposedEdge] = []

    def propose(self, relations: Sequence[tuple[_Profile, tuple[str, str]]]) -> SchemaProposal:
        derived: list[tuple[_Profile, str, _Profile]] = []
        for profile in self._nodes.profiles:
            references = self._find_references(profile)
            derived += [(profile, column, to) for column, to in references.items()]
            self._made.append(self._make_node(profile, references))
        for profile, ends in relations:
            self._add_relation(profile, ends)
        for profile, column, to in derived:
            self._add_derived(profile, column, to)
        return SchemaProposal(tuple(self._made), tuple(self._edges), tuple(self._lost))

    def _find_references(self, profile: _Profile) -> dict[str, _Profile]:
        """Columns of nodes that hold the ids of others, which makes them edges."""
        key = self._nodes.keys[id(profile)][0]
        found: dict[str, _Profile] = {}
        if profile.first.kind is not None or key is None:
            return found
        for column in profile.columns:
            to = self._nodes.find_by_reference(column)
            if column == key or to is None or profile.facts[column].is_empty:
                continue
            ids = self._nodes.get_ids(to)
            if len(ids) and _count_missing(profile.list_values(column), ids) == 0:
                found[column] = to
        return found

    def _make_node(self, profile: _Profile, references: Mapping[str, object]) -> ProposedNode:
        name = self._nodes.names[id(profile)]
        key, guess = self._nodes.keys[id(profile)]
        comments: list[str] = []
        is_plain_id = key is not None and (key.startswith(":") or normalize(key) == "id")
        is_id = key is not None and (is_plain_id or not _can_be_key(profile, key))
        if key is None:
            comments.append(
                "guess: no column identifies a row, so ids are generated and a second load adds "
                "all rows again"
            )
        properties = self._make_properties(
            profile,
            name,
            left_out={*references, *([key] if is_plain_id and key else [])},
            key=None if is_id else key,
            guess=guess,
            on_edge=False,
        )
        comments += [f'column "{column}" became an edge' for column in references]
        return ProposedNode(
            name=name,
            tables=tuple(profile.tables),
            rows=profile.rows,
            properties=properties,
            id_column=key if is_id else None,
            comments=tuple(comments),
            ids=self._nodes.get_ids(profile),
            group=profile.first.group,
        )

    def _make_properties(
        self,
        profile: _Profile,
        owner: str,
        *,
        left_out: set[str],
        key: str | None,
        guess: str | None,
        on_edge: bool,
    ) -> tuple[ProposedProperty, ...]:
        made: list[ProposedProperty] = []
        taken: set[str] = set()
        for column in profile.columns:
            if column in left_out or column.startswith(":"):
                continue
            if profile.first.is_sparse and profile.facts[column].is_empty:
                continue
            found = profile.find_type(column)
            if not found.is_carried:
                self._lost.append(f"{owner}.{column} of {_name(profile)}: {found.comment}")
                continue
            name = make_property_name(column, taken, on_edge=on_edge)
            taken.add(name)
            comment = guess if column == key else found.comment
            made.append(ProposedProperty(name, found.type, column, comment, is_key=column == key))
        return tuple(made)

    def _add_relation(self, profile: _Profile, ends: tuple[str, str]) -> None:
        table = profile.first
        base = make_type_name(table.name, is_exact=table.is_named_exactly)
        candidates = (
            self._list_candidates(profile, ends[0], table.end_groups[0]),
            self._list_candidates(profile, ends[1], table.end_groups[1]),
        )
        pairs, unmatched = self._count_pairs(profile, ends, candidates)
        if unmatched:
            self._lost.append(
                f"{unmatched} of {profile.rows} rows of {_name(profile)}: an end is not the id of "
                "any node"
            )
        id_column = self._find_edge_id(profile)
        for source, target in pairs:
            name = base if len(pairs) == 1 else f"{base}_{source}_{target}"
            name = self._take_edge_name(name)
            comments = () if len(pairs) == 1 else (f"one of the types that {base} became",)
            edge = ProposedEdge(
                name=name,
                tables=tuple(profile.tables),
                rows=pairs[source, target],
                source=source,
                target=target,
                ends=ends,
                candidates=candidates,
                properties=self._make_properties(
                    profile,
                    name,
                    left_out={*ends, *([id_column] if id_column else [])},
                    key=None,
                    guess=None,
                    on_edge=True,
                ),
                id_column=id_column,
                comments=comments,
            )
            self._edges.append(edge)

    def _find_edge_id(self, profile: _Profile) -> str | None:
        for column in (":id", *profile.columns):
            is_id = column == ":id" or normalize(column) == "id"
            if is_id and column in profile.facts and profile.is_unique(column):
                return column
        return None

    def _take_edge_name(self, name: str) -> str:
        taken = {one.name.lower() for one in self._edges}
        found, number = name, 2
        while found.lower() in taken:
            found, number = f"{name}_{number}", number + 1
        return found

    def _list_candidates(
        self, profile: _Profile, column: str, group: str | None
    ) -> tuple[str, ...]:
        """The node types an end may be of: those of its group, else those whose ids it holds."""
        if group is not None:
            return tuple(one.name for one in self._made if one.group == group)
        values = profile.list_values(column)
        named = self._nodes.find_by_reference(column)
        preferred = None if named is None else self._nodes.names[id(named)]
        ordered = sorted(self._made, key=lambda one: one.name != preferred)
        whole = [one for one in ordered if len(one.ids) and not _count_missing(values, one.ids)]
        if whole:
            return (whole[0].name,)
        return tuple(one.name for one in ordered)

    def _count_pairs(
        self,
        profile: _Profile,
        ends: tuple[str, str],
        candidates: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> tuple[dict[tuple[str, str], int], int]:
        """Count the rows of each pair of types, and those that have none."""
        ids = {one.name: one.ids for one in self._made}
        counted: dict[tuple[str, str], int] = {}
        unmatched = 0
        if not profile.rows and all(candidates):
            return {(candidates[0][0], candidates[1][0]): 0}, 0
        for table in profile.tables:
            for batch in table.read():
                sources, targets = (
                    find_types_of_ids(_get_column(batch, column), names, ids)
                    for column, names in zip(ends, candidates, strict=True)
                )
                matched = (sources >= 0) & (targets >= 0)
                unmatched += int(np.count_nonzero(~matched))
                width = max(len(candidates[1]), 1)
                codes, counts = np.unique(
                    sources[matched] * width + targets[matched], return_counts=True
                )
                for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
                    pair = candidates[0][code // width], candidates[1][code % width]
                    counted[pair] = counted.get(pair, 0) + count
        return dict(sorted(counted.items())), unmatched

    def _add_derived(self, profile: _Profile, column: str, to: _Profile) -> None:
        """The edges that a column of nodes stands for."""
        source, target = self._nodes.names[id(profile)], self._nodes.names[id(to)]
        key = self._nodes.keys[id(profile)][0]
        assert key is not None, "only nodes with ids have such columns"
        edge = ProposedEdge(
            name=self._take_edge_name(f"{source}{target}"),
            tables=tuple(replace(one, kind=EntityKind.EDGE) for one in profile.tables),
            rows=profile.rows - profile.facts[column].nulls,
            source=source,
            target=target,
            ends=(key, column),
            candidates=((source,), (target,)),
            comments=(f'guess: column "{column}" holds ids of {target}',),
        )
        self._edges.append(edge)


def _name(profile: _Profile) -> str:
    return PurePath(profile.first.origin).name


def find_types_of_ids(
    column: pa.Array, names: Sequence[str], ids: Mapping[str, pa.Array]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the type of each id as its position among the names; -1 for none.

    If there is only one type, every id is assumed to be of it, and the load reports if it is not.
    """
    texts = as_id_texts(column)
    indices = np.full(len(column), -1, np.int64)
    if texts is None:
        return indices
    if len(names) == 1:
        indices[texts.is_valid().to_numpy(zero_copy_only=False)] = 0
        return indices
    for index, name in enumerate(names):
        known = pc.is_in(texts, value_set=ids[name]).to_numpy(zero_copy_only=False)
        indices[(indices < 0) & known] = index
    return indices
