"""Waiting for a condition, for as long as a busy machine may take."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 600.0


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds; fails if it never does."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.02)
