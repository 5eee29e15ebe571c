from __future__ import annotations

import pytest

from execution.embed.provider import running_provider


@pytest.fixture
def provider():
    with running_provider() as running:
        yield running
