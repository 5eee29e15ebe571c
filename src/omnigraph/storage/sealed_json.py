"""Small JSON objects that carry a checksum of themselves.

A flipped bit in one may leave it well-formed, with another number or name in it. Objects of earlier
builds have no checksum and are taken as they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from omnigraph.errors import ManifestCorrupt

SEAL = "crc32"


def seal(body: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its checksum as the last member."""
    return {**body, SEAL: _crc(body)}


def is_sealed(body: Mapping[str, Any]) -> bool:
    """Whether the object has the checksum it was written with, or is of an earlier build."""
    return SEAL not in body or body[SEAL] == _crc({k: v for k, v in body.items() if k != SEAL})


def require_seal(
    body: Mapping[str, Any],
    path: str,
    members: Collection[str],
    advice: str = "restore it from a backup",
) -> None:
    """Raise unless the object has these members only, and the checksum it was written with."""
    unknown = sorted(body.keys() - {SEAL, *members})
    if unknown:
        raise ManifestCorrupt(f"{path} has unknown members: {', '.join(unknown)}")
    if not is_sealed(body):
        raise ManifestCorrupt(f"{path} is not what was written: its checksum differs; {advice}")


def _crc(body: Mapping[str, Any]) -> int:
    return zlib.crc32(msgspec.json.encode(body, order="sorted"))
