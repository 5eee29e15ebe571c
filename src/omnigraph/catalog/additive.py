"""Steps after which everything that was there means what it meant before."""

from __future__ import annotations

from omnigraph.catalog.catalog import ConstraintKind
from omnigraph.catalog.migration_steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ExtendEnum,
    Step,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)

ADDITIVE = (
    AddType,
    AddProperty,
    ExtendEnum,
    UpdateTypeMetadata,
    UpdatePropertyMetadata,
)
"""What is there keeps its meaning: a branch without them can be merged all the same."""


def is_additive(step: Step) -> bool:
    if isinstance(step, AddConstraint):
        return step.constraint.kind is ConstraintKind.INDEX
    return isinstance(step, ADDITIVE)
