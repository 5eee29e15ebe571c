"""The stores every contract test runs over."""

from __future__ import annotations

import pytest

from omnigraph.storage.objects.local_store import LocalObjectStore
from omnigraph.storage.objects.open_store import open_store
from storage.memory_store import MemoryObjectStore


@pytest.fixture(
    params=["local", "memory", pytest.param("s3", marks=pytest.mark.object_store)],
)
def store(request, tmp_path):
    match request.param:
        case "local":
            return LocalObjectStore(tmp_path / "graph")
        case "memory":
            return MemoryObjectStore()
        case _:
            server = request.getfixturevalue("s3_server")
            return open_store(server.new_root(), server.settings)
