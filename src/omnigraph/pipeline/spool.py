"""Input that is in memory, written down where tasks can read it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from omnigraph.storage.layout import make_staging_path
from omnigraph.storage.objects.store import StoreKind
from omnigraph.storage.root import GraphRoot


@contextmanager
def spool_input(root: GraphRoot, data: bytes | None) -> Iterator[str | None]:
    """A file with these bytes: beside the graph where that is shared, else a temporary one."""
    if data is None:
        yield None
        return
    if root.store.kind is StoreKind.S3:
        path = f"{make_staging_path(uuid4().hex)}/input.jsonl"
        root.store.put(path, data)
        try:
            yield root.store.uri_of(path)
        finally:
            root.store.delete(path)
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
        place = Path(folder) / "input.jsonl"
        place.write_bytes(data)
        yield str(place)
