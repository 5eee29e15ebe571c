"""The differences of two states of a served graph, which the server finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NoReturn

import pyarrow as pa

from omnigraph.client.http_connection import ClientRequest, ServerConnection
from omnigraph.client.served_lines import decode_lines, start_lines
from omnigraph.client.served_rows import StreamedRows, name_state
from omnigraph.client.unserved import ServedObject, refuse_verb
from omnigraph.client.wire_reading import read_change
from omnigraph.graph.results import SnapshotInfo
from omnigraph.history.diff import Diff, TypeStats
from omnigraph.history.entity_changes import ChangeFilter
from omnigraph.history.images import EntityChange
from omnigraph.identity import EntityKind
from omnigraph.wire.http_names import ARROW_STREAM, JSON, NDJSON
from omnigraph.wire.response_bodies import DiffOutput

Parameters = tuple[tuple[str, str], ...]


class ServedDiff(Diff, ServedObject):
    """What is different in one state of a served graph from another; asked for when it is read."""

    def __init__(
        self,
        connection: ServerConnection,
        sides: tuple[SnapshotInfo, SnapshotInfo],
        *,
        images: bool,
        wanted: ChangeFilter,
    ) -> None:
        self._connection, self._sides = connection, sides
        self.images, self._wanted = images, wanted
        known = {table.table_key.partition(":")[2] for info in sides for table in info.tables}
        if not wanted.types <= known:
            _ = self.stats  # the server says what is wrong with the name

    @property
    def _snapshot_ids(self) -> tuple[str, str]:
        before, after = self._sides
        return before.snapshot_id, after.snapshot_id

    def _ask(self, accept: str, kinds: frozenset[str], types: frozenset[str]) -> ClientRequest:
        before, after = (name_state(info) for info in self._sides)
        places: Parameters = (("before", before), ("after", after))
        images: Parameters = (("images", "true"),) if self.images else ()
        filters = (("kind", kinds), ("type", types), ("op", self._wanted.ops))
        chosen = tuple((name, one) for name, values in filters for one in sorted(values))
        return ClientRequest("diff", parameters=(*places, *images, *chosen), accept=accept)

    def __iter__(self) -> Iterator[EntityChange]:
        """Every change: nodes before edges, types and entities by name and id."""
        request = self._ask(NDJSON, self._wanted.kinds, self._wanted.types)
        for line in decode_lines(start_lines(self._connection, request)):
            yield read_change(line)

    def batches(self) -> NoReturn:
        refuse_verb("batches")

    @cached_property
    def stats(self) -> Mapping[str, TypeStats]:
        """How many entities of each type came, changed and went; types without any are left out."""
        request = self._ask(JSON, self._wanted.kinds, self._wanted.types)
        found = self._connection.ask_for(request, DiffOutput).stats
        return {
            one.type_name: TypeStats(
                EntityKind(one.kind), one.type_name, one.inserted, one.updated, one.deleted
            )
            for one in found
        }

    @property
    def is_empty(self) -> bool:
        return not self.stats

    def to_arrow(self) -> Mapping[str, pa.Table]:
        """The changes of each type as a table: `id`, `op` and, with images, both rows."""
        return {one.type_name: self._read_table(one) for one in self.stats.values()}

    def _read_table(self, one: TypeStats) -> pa.Table:
        request = self._ask(ARROW_STREAM, frozenset({one.kind}), frozenset({one.type_name}))
        response = self._connection.start(request)
        return StreamedRows(response, self._connection.address.base).to_arrow()
