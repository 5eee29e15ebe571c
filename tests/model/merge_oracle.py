"""Three-way merges of plain dictionaries: the outcome that a merge of branches has to have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
State = dict[str, Row]


@dataclass(frozen=True)
class Clash:
    """A conflict about one entity, and the properties that it is about."""

    kind: str
    properties: frozenset[str] = frozenset()


def are_alike(one: Any, other: Any) -> bool:
    """Compare values as they are stored: NaN equals NaN, and 0.0 is not -0.0."""
    return repr(one) == repr(other)


def merge_rows(
    base: Row | None,
    source: Row | None,
    target: Row | None,
    granularity: str = "property",
    rules: Mapping[str, str] | None = None,
    whole: str = "",
) -> Row | Clash | None:
    """Merge an entity; `rules` are by property, `whole` is the rule for rows, or empty."""
    if are_alike(source, base) or are_alike(source, target):
        return target
    if are_alike(target, base):
        return source
    if source is None or target is None:
        if not whole:
            return Clash("delete_vs_update")
        return source if whole == "theirs" else target
    merged, contested = dict(target), set[str]()
    for unit in list_units(source, granularity, rules or {}):
        was, theirs, ours = (
            row and {name: row[name] for name in unit} for row in (base, source, target)
        )
        if are_alike(theirs, ours) or are_alike(theirs, was):
            continue
        if are_alike(ours, was):
            merged |= theirs
            continue
        rule = (rules or {}).get(unit[0], whole)
        if not rule:
            contested |= {name for name in unit if not are_alike(theirs[name], ours[name])}
        elif rule == "theirs":
            merged |= theirs
        elif rule != "ours":
            (name,) = unit
            merged[name] = decide(rule, was and was[name], theirs[name], ours[name])
    if contested:
        kind = "divergent_insert" if base is None else "divergent_update"
        return Clash(kind, frozenset(contested))
    return merged


def list_units(row: Row, granularity: str, rules: Mapping[str, str]) -> Iterable[tuple[str, ...]]:
    """List the properties merged together: one property, or all without a rule."""
    if granularity == "property":
        return [(name,) for name in row]
    rest = tuple(name for name in row if name not in rules)
    return [*((name,) for name in row if name in rules), *([rest] if rest else [])]


def decide(rule: str, base: Any, source: Any, target: Any) -> Any:
    """Apply the rule of one property to values that conflict."""
    match rule:
        case "max" | "min":
            known = [value for value in (source, target) if value is not None]
            return (max if rule == "max" else min)(known)
        case "sum":
            return (target or 0) + (source or 0) - (base or 0)
        case "union":
            return list(dict.fromkeys([*(target or []), *(source or [])]))
        case "append":
            old, new, kept = base or [], source or [], 0
            while kept < min(len(old), len(new)) and old[kept] == new[kept]:
                kept += 1
            return [*(target or []), *new[kept:]]
    raise AssertionError(f"no such rule: {rule}")


def merge_states(
    base: State,
    source: State,
    target: State,
    granularity: str = "property",
    rules: Mapping[str, str] | None = None,
    whole: str = "",
) -> tuple[State, dict[str, Clash]]:
    """Merge all entities: the result, with the target's rows at conflicts, and the conflicts."""
    result, clashes = dict(target), dict[str, Clash]()
    for id in base.keys() | source.keys() | target.keys():
        rows = (base.get(id), source.get(id), target.get(id))
        merged = merge_rows(*rows, granularity, rules, whole)
        if isinstance(merged, Clash):
            clashes[id] = merged
            continue
        result.pop(id, None)
        if merged is not None:
            result[id] = merged
    return result, clashes
