"""How a commit or another place is named: by a text, or by an object that stands for one."""

from __future__ import annotations

import datetime
import re
from typing import Protocol, TypeAlias

from omnigraph.errors import BadRequest

_WHOLE_ID = re.compile(r"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}")


class NamesPlace(Protocol):
    """An object with a place of its own: a commit, a tag, a branch or a view."""

    @property
    def place(self) -> str: ...


PlaceLike: TypeAlias = str | NamesPlace | datetime.datetime
"""What is taken wherever a commit or a place is."""


def name_place(place: PlaceLike) -> str:
    """The text that names a place.

    >>> name_place("main~1")
    'main~1'

    Raises:
        BadRequest: it is nothing that names one.
    """
    if isinstance(place, str):
        return place
    if isinstance(place, datetime.datetime):
        if place.tzinfo is None:
            raise BadRequest(f"the time {place} has no time zone; give one, such as UTC")
        return f"time:{place.astimezone(datetime.UTC).isoformat()}"
    named = getattr(place, "place", None)
    if isinstance(named, str):
        return named
    raise BadRequest(
        f"a commit is named by a text, a time, or a Commit, Tag, Branch or view, "
        f"not by a {type(place).__name__}"
    )


def is_whole_id(text: str) -> bool:
    """Whether a text has the form of the whole id of a commit."""
    return _WHOLE_ID.fullmatch(text) is not None


def name_optional_place(place: PlaceLike | None) -> str | None:
    """The same for a place that need not be given."""
    return None if place is None else name_place(place)
