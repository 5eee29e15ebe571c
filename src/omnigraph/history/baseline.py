"""A copy of a branch to start following its feed from."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from omnigraph.errors import BadRequest
from omnigraph.execution.export_rows import export_jsonl
from omnigraph.history.entity_changes import ChangeFilter, State
from omnigraph.history.feed import Source, make_cursor_after
from omnigraph.identity import CommitId


class Baseline:
    """Every record of a branch at one commit, and the cursor from which its feed continues.

    The cursor is there once all records have been taken, so that no half copy is followed.

    >>> baseline = graph.baseline()
    >>> len(list(baseline.records()))
    3
    >>> graph.changes(baseline.resume_cursor).caught_up
    True
    """

    def __init__(self, source: Source, state: State, wanted: ChangeFilter) -> None:
        wanted.check_types(state.catalog)
        self._source, self._state, self._wanted = source, state, wanted
        self._is_taken = False

    def __repr__(self) -> str:
        return f"Baseline({self.snapshot_commit_id!r})"

    @property
    def snapshot_commit_id(self) -> CommitId:
        return self._source.head

    @property
    def resume_cursor(self) -> str:
        """Where the feed continues after this copy."""
        if not self._is_taken:
            raise BadRequest(
                "the cursor is available once every record of the baseline has been read"
            )
        return make_cursor_after(self._source, self.snapshot_commit_id)

    def jsonl(self) -> Iterator[bytes]:
        """The records as blocks of JSON lines, as an export writes them."""
        types = [
            type_
            for _, type_ in sorted(self._state.catalog.by_table_key.items())
            if self._wanted.admits(type_)
        ]
        yield from export_jsonl(self._state.snapshot, types)
        self._is_taken = True

    def records(self) -> Iterator[dict[str, object]]:
        """The same as Python objects."""
        for block in self.jsonl():
            for line in block.splitlines():
                yield msgspec.json.decode(line)

    def wire(self) -> dict[str, object]:
        return {
            "snapshot_commit_id": self.snapshot_commit_id,
            "resume_cursor": self.resume_cursor,
        }
