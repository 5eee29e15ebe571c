"""Refusing a schema that rows break, with the rows and with the place of the rule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from omnigraph.catalog.draft import Draft
from omnigraph.constraints.evaluate import REPORTED
from omnigraph.errors import ConstraintViolated, Violation
from omnigraph.evolution.apply_outline import Outline, TableWork
from omnigraph.evolution.rule_scan import NewRules, find_violations, list_new_rules
from omnigraph.evolution.schema_places import placing_expressions
from omnigraph.storage.snapshot import Snapshot


def require_rules(rows: Snapshot, outline: Outline, schema: Draft) -> None:
    """Raise if rows break what the schema demands from now on.

    Raises:
        BadExpression: a row has no value of an expression.
        ConstraintViolated: with the first of them, the number of all, and where the schema
            demands what the first one breaks.
    """
    found = _find_broken(rows, outline, schema)
    shown = list(islice(found, REPORTED))
    if not shown:
        return
    (first, work), total = shown[0], len(shown) + sum(1 for _ in found)
    place = schema.find_place(_find_entity(rows, outline, work, first))
    raise ConstraintViolated([violation for violation, _ in shown], total, place)


def _find_broken(
    rows: Snapshot, outline: Outline, schema: Draft
) -> Iterator[tuple[Violation, TableWork]]:
    for work in outline.kept:
        rules = list_new_rules(work.after, outline.plan.steps)
        with placing_expressions(schema, work.after):
            for violation in _find_violations(rows, work, rules):
                yield violation, work


def _find_violations(rows: Snapshot, work: TableWork, rules: NewRules) -> Iterator[Violation]:
    if not rules.is_empty and work.source.row_count:
        yield from find_violations(rows.open_entry(work.source), work.columns, rules)


def _find_entity(rows: Snapshot, outline: Outline, work: TableWork, wanted: Violation) -> str:
    """What declares the rule that a violation is about: each is asked by itself."""
    key = work.after.table_key
    for member, rule in list_new_rules(work.after, outline.plan.steps).split():
        if any(found == wanted for found in _find_violations(rows, work, rule)):
            return key if member is None else f"{key}.{member}"
    return key
