"""All rules over one write, in one fixed order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from omnigraph.catalog.catalog import Catalog
from omnigraph.constraints.cardinality import find_cardinality_violations
from omnigraph.constraints.endpoints import find_endpoint_violations
from omnigraph.constraints.table_changes import Changes, Committed
from omnigraph.constraints.unique_keys import find_unique_violations
from omnigraph.constraints.value_rules import find_value_violations
from omnigraph.errors import ConstraintViolated, Violation

REPORTED = 100


def find_violations(
    changes: Changes, catalog: Catalog, committed: Committed
) -> Iterator[Violation]:
    """Values, then keys, then endpoints, then cardinality; within each by table and constraint."""
    ordered = [changes[key] for key in sorted(changes)]
    for change in ordered:
        yield from find_value_violations(change)
    for change in ordered:
        yield from find_unique_violations(change, committed)
    yield from find_endpoint_violations(changes, catalog, committed)
    yield from find_cardinality_violations(changes, catalog, committed)


def require_valid(
    changes: Changes, catalog: Catalog, committed: Committed, *, limit: int = REPORTED
) -> None:
    """Raise with the first violations and the number of all, or pass."""
    found = find_violations(changes, catalog, committed)
    shown = list(islice(found, limit))
    if shown:
        raise ConstraintViolated(shown, len(shown) + sum(1 for _ in found))
