"""Page tokens: opaque texts that say where the next page starts."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TypeVar

from omnigraph.errors import BadRequest

T = TypeVar("T")

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


def cut_page(
    entries: Iterable[T], name_of: Callable[[T], str], token: str | None, limit: int
) -> tuple[list[T], dict[str, str]]:
    """Entries in the order of their names, after those of the page before.

    Gives the page, and the member that says where the next one starts if there is one.
    """
    ordered, after = sorted(entries, key=name_of), decode_page(token, 1)
    start = bisect_right(ordered, after[0], key=name_of) if after else 0
    page = ordered[start : start + limit]
    has_more = start + limit < len(ordered)
    return page, {"next_page_token": encode_page(name_of(page[-1]))} if has_more else {}
