"""What the searches of one graph handle keep in memory between them, each kind within its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.cache import Cache

if TYPE_CHECKING:
    from omnigraph.execution.search.hits import Integers
    from omnigraph.execution.search.matrix import Matrix
    from omnigraph.execution.search.segment import Segment

DEFAULT_TEXT_BYTES = 1 << 30
"""Room for some millions of short texts; what does not fit is read again for each query."""
DEFAULT_VECTOR_BYTES = 512 << 20
"""Room for a million vectors of a hundred dimensions."""
_ROW_ID_BYTES = 256 << 20


class SearchMemory:
    """Pieces of columns as searches need them; safe to share between threads.

    A piece is a function of files that never change, so that branches and versions of a table
    share what they have in common.
    """

    def __init__(
        self,
        text_bytes: int = DEFAULT_TEXT_BYTES,
        vector_bytes: int = DEFAULT_VECTOR_BYTES,
    ) -> None:
        self.segments: Cache[tuple[object, ...], Segment] = Cache(
            text_bytes, lambda segment: segment.size_bytes
        )
        self.matrices: Cache[tuple[object, ...], Matrix] = Cache(
            vector_bytes, lambda matrix: matrix.size_bytes
        )
        self.row_ids: Cache[tuple[object, ...], Integers] = Cache(
            _ROW_ID_BYTES, lambda row_ids: row_ids.nbytes
        )

    def clear(self) -> None:
        """Give the memory back."""
        for cache in (self.segments, self.matrices, self.row_ids):
            cache.clear()
