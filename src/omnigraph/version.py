"""The release and the storage format it reads and writes, as plain constants.

Nothing is imported here: `omnigraph version` must answer without loading the engine.
"""

__version__ = "0.1.0"

INTERNAL_SCHEMA_VERSION = 7
"""Stamp of the storage format; older and newer graphs are refused, never misread."""
