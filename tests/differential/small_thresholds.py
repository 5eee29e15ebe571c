"""Makes small tables count as large, so that the ways for large ones are taken too.

The engine chooses by size between a list and a scan, between tables of all keys and sorting, and
cuts what it makes into blocks. With tiny limits, a dozen rows go every way.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import omnigraph.execution.read
import omnigraph.execution.search
import omnigraph.storage.tables

TINY = {
    "BLOCK_ROWS": 3,
    "_BATCH_BYTES": 16,
    "_BISECTION": 0,
    "_BLOCK_GROWTH": 2,
    "_CODED_ROWS": 2,
    "_DEEPEST_GUESS": 1,
    "_DENSE_ALWAYS": 0,
    "_DENSE_FACTOR": 0,
    "_FEW": 1,
    "_FEW_BISECTED": 1,
    "_FEW_KEYS": 1,
    "_FEW_RANKS": 1,
    "_FEW_ROWS": 1,
    "_FEW_SHARE": 0.0,
    "_FEW_TARGETS": 1,
    "_FEW_WORDS": 2,
    "_FIRST_BLOCK": 1,
    "_ITEMS_PER_PRODUCT": 4,
    "_KEYS_PER_LIST": 2,
    "_LARGEST_BLOCK": 4,
    "_LARGEST_KEY": 8,
    "_LIST_SHARE": 0.0,
    "_MAX_LIST": 1,
    "_MAX_CANDIDATES": 2,
    "_MAX_LISTED": 1,
    "_MIN_PROJECTION": 2,
    "_PAIRS_AT_ONCE": 3,
    "_PAIRS_PER_MARK": 1,
    "_PAIRS_PER_TABLE": 0,
    "_PROJECTION_SHARE": 1,
    "_ROWS_PER_BLOCK": 2,
    "_ROWS_PER_SLAB": 4,
    "_ROWS_PER_TAKE": 2,
    "_SAMPLED_ROWS": 2,
    "_SCANNED_ROWS": 3,
    "_SHARE_FOR_WHOLE": 1,
    "_TABLE_CELLS": 32,
    "_TABLE_FACTOR": 0,
    "_VALUES_PER_GROUP": 2,
    "_WORDS_AT_A_TIME": 2,
}
"""Limits by name, in every module that has one."""


def make_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every limit its tiny value until the test ends.

    A limit that no module has fails: it was renamed, and large tables would go untested.
    """
    missing = set(TINY)
    for module in _modules():
        for name, value in TINY.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
                missing.discard(name)
    assert not missing, f"no module has these limits: {sorted(missing)}"


def _modules() -> list[ModuleType]:
    packages = (omnigraph.execution.read, omnigraph.execution.search, omnigraph.storage.tables)
    return [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for package in packages
        for module in pkgutil.iter_modules(package.__path__)
    ]
