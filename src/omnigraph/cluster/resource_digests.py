"""Digests: what changes when a resource does. SHA-256, in hexadecimal.

Files are told apart by their bytes, declarations by their meaning: comments and the order of keys
in `cluster.yaml` do not matter.
"""

from __future__ import annotations

import hashlib
from codecs import BOM_UTF8
from collections.abc import Mapping

import msgspec

from omnigraph.cluster.resource_settings import BlobAllowList, EmbeddingProfile


def digest_file(data: bytes) -> str:
    """The digest of a file; a byte order mark is no part of its text."""
    return hashlib.sha256(data.removeprefix(BOM_UTF8)).hexdigest()


def digest_profile(profile: EmbeddingProfile) -> str:
    return _digest("embedding profile", profile)


def digest_graph(
    graph_id: str,
    schema: str | None,
    queries: Mapping[str, str],
    provider: tuple[str, str] | None,
    external_blobs: BlobAllowList,
) -> str:
    """The digest of a graph as a whole, made of those of its parts.

    Args:
        graph_id: The graph.
        schema: The digest of its schema.
        queries: The digests of its queries by name.
        provider: The address and digest of its embedding provider.
        external_blobs: Where its external blobs may be.
    """
    parts: dict[str, object] = {
        "graph": graph_id,
        "schema": schema,
        "queries": sorted(queries.items()),
        "provider": provider,
    }
    if external_blobs.bases:
        parts["external_blobs"] = external_blobs
    return _digest("graph", parts)


def digest_config(config: object, resources: Mapping[str, str]) -> str:
    """The digest of everything that is declared, files included."""
    return _digest("config", [config, sorted(resources.items())])


def _digest(tag: str, value: object) -> str:
    text = msgspec.json.encode(value, order="sorted")
    return hashlib.sha256(f"omnigraph {tag}\0".encode() + text).hexdigest()
