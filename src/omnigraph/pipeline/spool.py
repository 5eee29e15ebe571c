"""Input that is in memory, or comes in a stream, written down where tasks can read it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from omnigraph.storage.layout import make_staging_path
from omnigraph.storage.objects import StoreKind
from omnigraph.storage.root import GraphRoot


@contextmanager
def spool_input(root: GraphRoot, data: Iterable[bytes] | None) -> Iterator[str | None]:
    """A file with these bytes, which come in pieces.

    It is next to the graph where that is shared, and a temporary one elsewhere.
    """
    if data is None:
        yield None
        return
    if root.store.kind is StoreKind.S3:
        path = f"{make_staging_path(uuid4().hex)}/input.jsonl"
        root.store.put_chunks(path, data)
        try:
            yield root.store.uri_of(path)
        finally:
            root.store.delete(path)
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
        place = Path(folder) / "input.jsonl"
        with place.open("wb") as file:
            file.writelines(data)
        yield str(place)
