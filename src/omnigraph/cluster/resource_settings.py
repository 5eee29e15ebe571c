"""What is declared of resources beside files: embedding providers, and places of external blobs."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class EmbeddingProfile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An embedding provider; its key is the name of a variable, `${NAME}`, read by the server."""

    kind: str
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None


class BlobScope(StrEnum):
    """Who may follow an address of an external blob."""

    SERVER_SAFE = "server_safe"
    EMBEDDED_ONLY = "embedded_only"


class BlobBase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Blobs below this address may be referred to."""

    uri: str
    scope: BlobScope


class BlobAllowList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where external blobs may be; without a base, nowhere."""

    bases: tuple[BlobBase, ...] = ()

    @property
    def mode(self) -> str:
        return "allow" if self.bases else "deny"
