from __future__ import annotations

import pytest

from omnigraph.storage.tables.location import TableLocation


@pytest.fixture
def location(tmp_path) -> TableLocation:
    return TableLocation(str(tmp_path / "table"))
