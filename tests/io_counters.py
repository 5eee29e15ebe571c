"""Count the reads of tables by this process."""

from __future__ import annotations

from dataclasses import dataclass

import lance


@dataclass(frozen=True, slots=True)
class IoCounters:
    """Reads so far. Listings of local folders and writes are not counted."""

    reads: int
    bytes_read: int

    def __sub__(self, earlier: IoCounters) -> IoCounters:
        return IoCounters(self.reads - earlier.reads, self.bytes_read - earlier.bytes_read)


def read_io_counters() -> IoCounters:
    return IoCounters(int(lance.iops_counter()), int(lance.bytes_read_counter()))
