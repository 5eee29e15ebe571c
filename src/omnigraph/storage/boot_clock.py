"""A clock by which one process can tell that it slept."""

from __future__ import annotations

import time


def read_boot_clock() -> float:
    """Seconds since some moment, counting the time the machine slept where the system can."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)
