"""Dates, instants and durations as text: one value at a time.

A timestamp follows RFC 3339: `T`, `t` or a space between date and time, seconds required, any
number of fraction digits, an offset of `Z`, `z` or `±HH:MM`. Three extensions: a missing offset is
UTC, a bare date is midnight UTC, and digits below the millisecond are truncated. Years run from
0001 to 9999 in UTC. A leap second is accepted only at the last second of a month in UTC, and stored
as the first second of the next one.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from omnigraph.errors import BadOptions
from omnigraph.types.row_problems import ValueRefused, quote_for_message

MILLISECONDS_PER_DAY = 86_400_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_ORDINAL = EPOCH.toordinal()

MIN_DAYS = date.min.toordinal() - EPOCH_ORDINAL
MAX_DAYS = date.max.toordinal() - EPOCH_ORDINAL
MIN_MILLISECONDS = MIN_DAYS * MILLISECONDS_PER_DAY
MAX_MILLISECONDS = (MAX_DAYS + 1) * MILLISECONDS_PER_DAY - 1

DATE_RANGE_EXCEEDED = "exceeds Date range (years 0001 to 9999)"
DATETIME_RANGE_EXCEEDED = "exceeds DateTime range (years 0001 to 9999)"

_TIMESTAMP = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]+))?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<offset_hour>[0-9]{2}):(?P<offset_minute>[0-9]{2}))?)?"
)


def parse_date(text: str) -> date:
    """Parse a date; a longer timestamp is converted to its day in UTC."""
    milliseconds = find_epoch_milliseconds(text)
    if milliseconds is None:
        raise ValueRefused(f"invalid Date literal {quote_for_message(text)}")
    return from_epoch_days(milliseconds // MILLISECONDS_PER_DAY)


def parse_datetime(text: str) -> datetime:
    """The instant a text names, in UTC and cut to milliseconds."""
    milliseconds = find_epoch_milliseconds(text)
    if milliseconds is None:
        raise ValueRefused(f"invalid DateTime literal {quote_for_message(text)}")
    return from_epoch_milliseconds(milliseconds)


def from_epoch_days(days: int) -> date:
    """The day that many days after 1970-01-01."""
    if not MIN_DAYS <= days <= MAX_DAYS:
        raise ValueRefused(DATE_RANGE_EXCEEDED)
    return date.fromordinal(days + EPOCH_ORDINAL)


def from_epoch_milliseconds(milliseconds: int) -> datetime:
    """The instant that many milliseconds after 1970-01-01T00:00:00Z."""
    if not MIN_MILLISECONDS <= milliseconds <= MAX_MILLISECONDS:
        raise ValueRefused(DATETIME_RANGE_EXCEEDED)
    return EPOCH + timedelta(milliseconds=milliseconds)


def to_epoch_days(day: date) -> int:
    return day.toordinal() - EPOCH_ORDINAL


def to_epoch_milliseconds(instant: datetime) -> int:
    """Convert to milliseconds since the epoch, truncated; a time without a zone is UTC."""
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(milliseconds=1)


def render_date(day: date) -> str:
    return day.isoformat()


def render_datetime(instant: datetime) -> str:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ`, always in UTC and always with three fraction digits."""
    milliseconds = to_epoch_milliseconds(instant)
    stored = from_epoch_milliseconds(milliseconds).replace(tzinfo=None)
    return f"{stored.isoformat(timespec='milliseconds')}Z"


def find_epoch_milliseconds(text: str) -> int | None:
    """Milliseconds since the epoch of a date or timestamp; `None` if the text is neither."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    try:
        day = date(int(found["year"]), int(found["month"]), int(found["day"]))
    except ValueError:
        return None
    in_day = 0 if found["hour"] is None else _parse_time_of_day(found)
    if in_day is None:
        return None
    milliseconds = to_epoch_days(day) * MILLISECONDS_PER_DAY + in_day
    if found["second"] == "60" and not _is_end_of_month(milliseconds):
        return None
    return milliseconds if MIN_MILLISECONDS <= milliseconds <= MAX_MILLISECONDS else None


def _parse_time_of_day(found: re.Match[str]) -> int | None:
    """Compute the time of day less the offset; in another UTC day it is negative or beyond 24 h."""
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"])
    if hour > 23 or minute > 59 or second > 60:
        return None
    fraction = (found["fraction"] or "").ljust(3, "0")[:3]
    milliseconds = ((hour * 60 + minute) * 60 + second) * 1000 + int(fraction)
    if found["sign"] is None:
        return milliseconds
    offset_hour, offset_minute = int(found["offset_hour"]), int(found["offset_minute"])
    if offset_hour > 23 or offset_minute > 59:
        return None
    offset = (offset_hour * 60 + offset_minute) * 60_000
    return milliseconds - offset if found["sign"] == "+" else milliseconds + offset


def _is_end_of_month(milliseconds: int) -> bool:
    """Return whether a leap second, counted as the next second, falls on the first of a month."""
    days, in_day = divmod(milliseconds, MILLISECONDS_PER_DAY)
    if in_day >= 1000 or not MIN_DAYS <= days <= MAX_DAYS:
        return False
    return date.fromordinal(days + EPOCH_ORDINAL).day == 1


_DURATION = re.compile(r"(\d{1,12})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `90s`, `15m`, `12h`, `7d` or `2w`."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise BadOptions(
            f"'{text}' is not a duration; write a number and s, m, h, d or w, such as 7d"
        )
    return float(int(found[1]) * _SECONDS[found[2]])
