"""Which steps other branches can live with, and which branches stand in the way of the rest."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ExtendEnum,
    Step,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph.errors import BranchesInTheWay
from omnigraph.storage.refs import list_names
from omnigraph.storage.snapshot import Snapshot

ADDITIVE = (
    AddType,
    AddProperty,
    AddConstraint,
    ExtendEnum,
    UpdateTypeMetadata,
    UpdatePropertyMetadata,
)
"""What is there keeps its meaning: a branch without them can be merged all the same."""


def is_additive(step: Step) -> bool:
    return isinstance(step, ADDITIVE)


def require_sole_branch(snapshot: Snapshot, steps: Iterable[Step]) -> bool:
    """Whether the branch must be the only one; raises if it is not.

    Raises:
        BranchesInTheWay: naming the other branches, and the steps they stand in the way of.
    """
    others = [step for step in steps if not is_additive(step)]
    names = sorted(set(list_names(snapshot.root.store)) - {snapshot.branch})
    if others and names:
        raise BranchesInTheWay(names, [step.describe() for step in others])
    return bool(others)
