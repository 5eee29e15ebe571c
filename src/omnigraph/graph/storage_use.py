"""How much this process has read from storage, for surfaces that report it."""

from omnigraph.storage.tables import IoCounters as IoCounters
from omnigraph.storage.tables import read_io_counters as read_io_counters
