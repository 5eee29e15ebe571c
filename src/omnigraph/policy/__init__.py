"""Access policies: bundles of rules, and the one decision that every surface asks for.

Pure: nothing here opens a graph, and no surface is known. A bundle is read with `load_bundle`,
asked with `decide`, and enforced with `authorize`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.policy.decision import (
    Action,
    Authority,
    BundleKind,
    Decision,
    NoPolicy,
    Policy,
    authorize,
    decide,
)

if TYPE_CHECKING:
    from omnigraph.policy.policy_parser import load_bundle, parse_bundle

__all__ = [
    "Action",
    "Authority",
    "BundleKind",
    "Decision",
    "NoPolicy",
    "Policy",
    "authorize",
    "decide",
    "load_bundle",
    "parse_bundle",
]

_LAZY = frozenset({"load_bundle", "parse_bundle"})
"""Loaded when first used: they load YAML, which a graph without a policy never needs."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module("omnigraph.policy.policy_parser"), name)
    raise AttributeError(f"module 'omnigraph.policy' has no attribute '{name}'")
