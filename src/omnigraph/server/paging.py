"""Page tokens: where the next page starts, in a form nobody is tempted to write by hand."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode

from omnigraph.errors import BadRequest

_LONGEST = 4_096


def encode_page(*facts: str) -> str:
    """The token of a page that starts after these."""
    return urlsafe_b64encode("\0".join(facts).encode()).decode().rstrip("=")


def decode_page(token: str | None, count: int) -> tuple[str, ...] | None:
    """What a token of so many facts says; None without one.

    Raises:
        BadRequest: it is no token of ours.
    """
    if token is None:
        return None
    try:
        if len(token) > _LONGEST:
            raise ValueError
        padded = token + "=" * (-len(token) % 4)
        facts = tuple(urlsafe_b64decode(padded.encode("ascii")).decode().split("\0"))
    except (ValueError, binascii.Error):
        facts = ()
    if len(facts) != count:
        raise BadRequest("the page token is not one that this list gave")
    return facts
