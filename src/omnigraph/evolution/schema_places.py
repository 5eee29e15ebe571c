"""Where in the text of a schema something is declared, for errors about the way to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.catalog.catalog import TypeKind
from omnigraph.catalog.draft import Draft
from omnigraph.catalog.migration_steps import (
    AddConstraint,
    AddType,
    ChangeCardinality,
    DropType,
    RemoveConstraint,
    RenameProperty,
    RenameType,
    Step,
    UnsupportedChange,
    UpdateTypeMetadata,
)
from omnigraph.errors import BadExpression
from omnigraph.evolution.column_plan import Entity


def find_step_place(schema: Draft, step: Step) -> str:
    """File, line and column of what a step is about."""
    return schema.find_place(_name_entity(step))


def _name_entity(step: Step) -> str:
    """What a step is about, by the name it has afterwards."""
    match step:
        case UnsupportedChange():
            return step.entity
        case ChangeCardinality():
            return f"{TypeKind.EDGE}:{step.type_name}"
        case RenameType():
            return f"{step.type_kind}:{step.new}"
        case AddType() | DropType() | UpdateTypeMetadata():
            return f"{step.type_kind}:{step.name}"
        case RenameProperty():
            return f"{step.type_kind}:{step.type_name}.{step.new}"
        case AddConstraint() | RemoveConstraint():
            first = step.constraint.columns[0] if step.constraint.columns else ""
            return f"{step.type_kind}:{step.type_name}.{first}"
        case _:
            return f"{step.type_kind}:{step.type_name}.{step.property_name}"


@contextmanager
def placing_expressions(schema: Draft, type_: Entity) -> Iterator[None]:
    """Give an expression that fails inside the place of its property, one of this type."""
    try:
        yield
    except BadExpression as error:
        if error.place is not None:
            raise
        entity = f"{type_.table_key}.{error.property}"
        raise BadExpression(
            f"{type_.name}.{error.property}",
            error.expression,
            error.reason,
            schema.find_place(entity),
        ) from error
