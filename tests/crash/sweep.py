"""One operation cut at many places, each time on a graph of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crash.crash_checks import Content, check, content_of
from crash.harness import Workers, side_by_side
from crash.kill_sequences import fresh, writes_of
from store_places import Place, open_graph


class Sweep:
    """An operation, what the graph may be when it is interrupted, and where that can happen.

    Places are durable writes as the code reports them, or with `by_file` changes of single files.
    """

    def __init__(
        self,
        workers: Workers,
        template: Place,
        folder: Place,
        operation: str,
        *,
        by_file: bool = False,
    ) -> None:
        self._workers, self._template, self._folder = workers, template, folder
        self._operation, self._by_file = operation, by_file
        finished = fresh(template, folder / "finished", operation)
        old = content_of(open_graph(finished))
        if by_file:
            self.writes = list(workers.run(finished, operation, by_file=True).writes)
        else:
            self.writes = writes_of(finished, operation)
        self.allowed: dict[str, Content] = {
            "old": old,
            "new": content_of(open_graph(finished)),
        }

    def outcome(self, after: int) -> str:
        """Return which of the allowed graphs a cut leaves."""
        place = fresh(self._template, self._folder / f"cut-{after}", self._operation)
        ended = self._workers.run(place, self._operation, after, by_file=self._by_file)
        found = check(place, self.allowed)
        if ended.is_acknowledged:
            assert found == "new", f"{self._operation} was acknowledged and then lost"
        return found

    def outcomes(self, cuts: Iterable[int]) -> Sequence[str]:
        """Return the outcomes of many cuts in rising order: a later one never leaves less."""
        found = side_by_side(self.outcome, cuts)
        order = list(self.allowed)
        assert found == sorted(found, key=order.index), "a later cut gave an earlier graph"
        return found
