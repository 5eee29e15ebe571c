"""Preparing a write again when the branch moved meanwhile, with an end in sight."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.storage.fence.hold import Hold
from omnigraph.storage.recovery.settle import settle_all
from omnigraph.storage.root import GraphRoot

MAX_PREPARATIONS = 33
"""The first preparation and thirty-two more; then the caller learns that the branch is busy."""
UNFENCED_PREPARATIONS = 4
"""So many races may be lost before a write is prepared with the fence held."""


@contextmanager
def preparation(root: GraphRoot, attempt: int) -> Iterator[Hold | None]:
    """The hold to prepare and commit under; None while the write may still lose a race.

    Of many busy writers only one wins each round, so a write could lose for ever. After some
    rounds it takes the fence first: nobody can come between its preparation and its commit.
    """
    if attempt < UNFENCED_PREPARATIONS:
        yield None
        return
    with root.hold() as hold:
        settle_all(root, hold)
        yield hold
