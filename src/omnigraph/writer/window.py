"""The fence of a graph, for as long as one write needs it."""

from __future__ import annotations

from typing import Self

from omnigraph.storage.fence.hold import Hold, is_held
from omnigraph.storage.root import GraphRoot

COSTLY_RACES = 4
"""So many races a write that takes long to prepare loses before it keeps others waiting."""


class CommitWindow:
    """The fence of a graph, taken when a write is ready and given back when it is over.

    A write that finds the branch moved keeps the fence while it is prepared again: of many busy
    writers only one wins each round, so one that had to queue again could lose forever. Only a
    write that takes long to prepare lets the others pass, a few times.
    """

    def __init__(self, root: GraphRoot, *, is_costly: bool = False) -> None:
        self._root = root
        self._hold: Hold | None = None
        self._races = COSTLY_RACES if is_costly else 0

    def hold(self) -> Hold:
        """The right to write, taken now unless it was kept."""
        if self._hold is None:
            self._hold = self._root.hold()
        return self._hold

    def note_loss(self) -> None:
        """Note that the write must be prepared again."""
        if self._races:
            self._races -= 1
            self._release()
        elif self._hold is not None and not is_held(self._hold):
            self._release()

    def _release(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()
