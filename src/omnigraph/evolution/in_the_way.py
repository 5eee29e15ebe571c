"""Which steps other branches can live with, and which branches stand in the way of the rest."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.catalog.additive import is_additive
from omnigraph.catalog.draft import Draft
from omnigraph.catalog.migration_steps import DropMode, DropProperty, DropType, Step
from omnigraph.errors import SchemaChangeBlocked
from omnigraph.evolution.schema_places import find_step_place
from omnigraph.storage.refs import list_names
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tags import list_tags


def require_sole_branch(snapshot: Snapshot, steps: Sequence[Step], schema: Draft) -> bool:
    """Whether the branch must be the only one; raises if it is not.

    Raises:
        SchemaChangeBlocked: naming the branches, and for drops that reach back the tags, that
            stand in the way, and the steps they stand in the way of.
    """
    others = [step for step in steps if not is_additive(step)]
    if not others:
        return False
    store = snapshot.root.store
    names = sorted(set(list_names(store)) - {snapshot.branch})
    if names:
        place = find_step_place(schema, others[0])
        raise SchemaChangeBlocked([step.describe() for step in others], names, place=place)
    hard = [step for step in steps if is_hard_drop(step)]
    tags = sorted(tag.name for tag in list_tags(store)) if hard else []
    if tags:
        place = find_step_place(schema, hard[0])
        raise SchemaChangeBlocked([step.describe() for step in hard], tags=tags, place=place)
    return True


def is_hard_drop(step: Step) -> bool:
    """Whether a step removes what was stored from older states as well."""
    return isinstance(step, DropType | DropProperty) and step.mode is DropMode.HARD
