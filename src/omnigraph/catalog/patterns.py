"""The regular expressions of `@check`: the dialect that always matches in linear time."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)
def check_pattern(pattern: str) -> str | None:
    """What keeps `pattern` from being used, or None if it can be."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and most schemas have no @check
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        # One row, not none: an empty column is never looked at, and neither is the pattern.
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as error:
        return _explain_error(str(error))
    return None


def _explain_error(message: str) -> str:
    reason = message.removeprefix("Invalid regular expression: ")
    return reason if len(reason) <= 200 else f"{reason[:200]}…"
