from __future__ import annotations

import pytest

from omnigraph.execution.search.segments import forget_segments
from omnigraph.execution.search.vectors import forget_vectors
from omnigraph.storage.tables.location import TableLocation


@pytest.fixture
def location(tmp_path) -> TableLocation:
    return TableLocation(str(tmp_path / "table"))


@pytest.fixture(autouse=True)
def _fresh_memory():
    """Each test reads its tables itself."""
    forget_segments()
    forget_vectors()
