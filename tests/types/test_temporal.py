"""Dates and instants as text, one by one and by column."""

from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.errors import BadRequest
from omnigraph.types.arrow import parse_dates, parse_datetimes, render_dates, render_datetimes
from omnigraph.types.row_problems import ValueRefused
from omnigraph.types.temporal import (
    MAX_MILLISECONDS,
    MIN_MILLISECONDS,
    find_epoch_milliseconds,
    from_epoch_days,
    from_epoch_milliseconds,
    parse_date,
    parse_datetime,
    render_date,
    render_datetime,
    to_epoch_days,
    to_epoch_milliseconds,
)

INSTANTS = {
    "2024-06-01T12:00:00Z": "2024-06-01T12:00:00.000Z",
    "2024-06-01t12:00:00z": "2024-06-01T12:00:00.000Z",
    "2024-06-01 12:00:00": "2024-06-01T12:00:00.000Z",
    "2024-06-01": "2024-06-01T00:00:00.000Z",
    "2024-06-01T12:00:00.1": "2024-06-01T12:00:00.100Z",
    "2024-06-01T12:00:00.1239999999Z": "2024-06-01T12:00:00.123Z",
    "2024-06-01T00:30:00+02:00": "2024-05-31T22:30:00.000Z",
    "2024-06-01T23:30:00-02:00": "2024-06-02T01:30:00.000Z",
    "2024-06-01T12:00:00-00:00": "2024-06-01T12:00:00.000Z",
    "2024-06-01T12:00:00+23:59": "2024-05-31T12:01:00.000Z",
    "2024-02-29T00:00:00Z": "2024-02-29T00:00:00.000Z",
    "2000-02-29": "2000-02-29T00:00:00.000Z",
    "1969-12-31T23:59:59.9999Z": "1969-12-31T23:59:59.999Z",
    "0001-01-01T00:00:00Z": "0001-01-01T00:00:00.000Z",
    "9999-12-31T23:59:59.999Z": "9999-12-31T23:59:59.999Z",
    "0001-01-01T00:00:00-01:00": "0001-01-01T01:00:00.000Z",
    # A leap second, where there can be one, is the first second of the next month.
    "2016-12-31T23:59:60Z": "2017-01-01T00:00:00.000Z",
    "2017-01-01T01:59:60.5+02:00": "2017-01-01T00:00:00.500Z",
    "2015-06-30T23:59:60": "2015-07-01T00:00:00.000Z",
    "2024-06-01T12:00:00." + "1" * 100 + "Z": "2024-06-01T12:00:00.111Z",
}

NO_INSTANTS = [
    "",
    "tomorrow",
    "2024-06",
    "2024-6-1",
    "20240601",
    "2024-13-01",
    "2024-00-10",
    "2024-02-30",
    "2023-02-29",
    "1900-02-29",
    "2024-06-31",
    "2024-06-00",
    "0000-01-01",
    "10000-01-01",
    "+2024-06-01",
    " 2024-06-01",
    "2024-06-01 ",
    "2024-06-01T",
    "2024-06-01T12",
    "2024-06-01T12:00",
    "2024-06-01T12:00Z",
    "2024-06-01T12:00:0",
    "2024-06-01T12:00:00.",
    "2024-06-01T12:00:00.Z",
    "2024-06-01T12:00:00,5Z",
    "2024-06-01T24:00:00Z",
    "2024-06-01T12:60:00Z",
    "2024-06-01T12:00:60Z",
    "2024-06-01T12:00:61Z",
    "2024-06-15T23:59:60Z",
    "2016-12-31T23:59:60+01:00",
    "2024-06-01T12:00:00+01",
    "2024-06-01T12:00:00+0100",
    "2024-06-01T12:00:00+24:00",
    "2024-06-01T12:00:00+01:60",
    "2024-06-01T12:00:00+01:00Z",
    "2024-06-01T12:00:00ZZ",
    "2024-06-01X12:00:00Z",
    "2024-06-01T12:00:00Z\n",
    "2024/06/01",
    "9999-12-31T23:59:59-01:00",
    "9999-12-31T23:59:60Z",
    "0001-01-01T00:00:00+01:00",
    "٢٠٢٤-٠٦-٠١",
    "2024-06-01T12:00:00.٥Z",
    "2024-06-01T12:00:00." + "1" * 100 + "X",
    "2024-06-01T12:00:00é",
]


@pytest.mark.parametrize(("text", "rendered"), INSTANTS.items())
def test_a_timestamp_is_read_as_utc_and_cut_to_milliseconds(text, rendered):
    assert render_datetime(parse_datetime(text)) == rendered
    assert render_date(parse_date(text)) == rendered[:10]


@pytest.mark.parametrize("text", NO_INSTANTS)
def test_anything_else_is_an_invalid_literal(text):
    with pytest.raises(ValueRefused, match="invalid DateTime literal"):
        parse_datetime(text)
    with pytest.raises(ValueRefused, match="invalid Date literal"):
        parse_date(text)


def test_a_refused_literal_is_an_input_error_that_shows_the_text_cut_short():
    with pytest.raises(BadRequest) as caught:
        parse_date("x" * 1000)
    assert len(str(caught.value)) < 100


def test_a_column_is_read_as_its_values_are():
    texts = [*INSTANTS, None, *NO_INSTANTS]
    parsed = parse_datetimes(pa.array(texts, pa.string()))
    expected = [*INSTANTS.values(), *[None] * (1 + len(NO_INSTANTS))]
    assert render_datetimes(parsed.array).to_pylist() == expected
    wrong = [False] * (len(INSTANTS) + 1) + [True] * len(NO_INSTANTS)
    assert parsed.invalid.tolist() == wrong
    days = parse_dates(pa.array(texts, pa.string()))
    assert render_dates(days.array).to_pylist() == [t and t[:10] for t in expected]
    assert days.invalid.tolist() == wrong


def test_a_column_may_be_a_slice_or_empty_or_all_null():
    texts = pa.array(["bad", "2024-01-01", None, "2024-01-02T03:04:05Z", "bad"])
    assert parse_dates(texts.slice(1, 3)).array.to_pylist() == [
        date(2024, 1, 1),
        None,
        date(2024, 1, 2),
    ]
    assert len(parse_dates(texts.slice(5)).array) == 0
    assert parse_datetimes(pa.nulls(3, pa.string())).array.null_count == 3
    assert parse_dates(texts.cast(pa.large_string())).invalid.tolist() == [
        True,
        False,
        False,
        False,
        True,
    ]


DIGITS = "0123456789"
NEARLY = st.one_of(
    st.text(alphabet=DIGITS + "-:.TtZz+ é", max_size=30),
    st.from_regex(
        r"[0-9]{4}-[01][0-9]-[0-3][0-9]"
        r"([Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{0,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})?)?",
        fullmatch=True,
    ),
)


@given(st.lists(st.none() | NEARLY, max_size=20))
def test_the_column_reader_agrees_with_the_reader_of_one_value(texts):
    parsed = parse_datetimes(pa.array(texts, pa.string()))
    one_by_one = [None if text is None else find_epoch_milliseconds(text) for text in texts]
    assert parsed.array.cast(pa.int64()).to_pylist() == one_by_one
    assert parsed.invalid.tolist() == [
        text is not None and found is None for text, found in zip(texts, one_by_one, strict=True)
    ]


@given(
    st.datetimes(),
    st.integers(0, 9),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.sampled_from("Tt "),
)
def test_rfc_3339_text_is_read_as_the_standard_library_reads_it(naive, places, offset, separator):
    zone = timezone(timedelta(minutes=offset))
    fraction = f"{naive.microsecond:06d}000"[:places]
    sign, size = ("-" if offset < 0 else "+"), abs(offset)
    text = (
        naive.strftime(f"{naive.year:04d}-%m-%d{separator}%H:%M:%S")
        + (f".{fraction}" if fraction else "")
        + f"{sign}{size // 60:02d}:{size % 60:02d}"
    )
    kept = int(fraction.ljust(3, "0")[:3]) * 1000 if fraction else 0
    # Counted by hand: at the ends of the calendar the instant itself cannot be a datetime.
    local = (naive.replace(microsecond=kept) - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
    milliseconds = local - zone.utcoffset(None) // timedelta(milliseconds=1)
    inside = MIN_MILLISECONDS <= milliseconds <= MAX_MILLISECONDS
    assert find_epoch_milliseconds(text) == (milliseconds if inside else None)


@given(st.datetimes(timezones=st.just(UTC)))
@example(datetime(1, 1, 1, tzinfo=UTC))
@example(datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))
def test_rendered_instants_are_read_back(instant):
    text = render_datetime(instant)
    cut = instant.replace(microsecond=instant.microsecond // 1000 * 1000)
    assert parse_datetime(text) == cut
    column = parse_datetimes(pa.array([text])).array
    assert render_datetimes(column).to_pylist() == [text]
    assert from_epoch_milliseconds(to_epoch_milliseconds(instant)) == cut


@given(st.dates())
def test_rendered_days_are_read_back(day):
    text = render_date(day)
    assert parse_date(text) == day
    assert render_dates(parse_dates(pa.array([text])).array).to_pylist() == [text]
    assert from_epoch_days(to_epoch_days(day)) == day


def test_integers_beyond_the_calendar_are_refused():
    with pytest.raises(ValueRefused, match="exceeds Date range"):
        from_epoch_days(2_932_897)
    with pytest.raises(ValueRefused, match="exceeds DateTime range"):
        from_epoch_milliseconds(MIN_MILLISECONDS - 1)
    with pytest.raises(BadRequest, match="0001 to 9999"):
        render_dates(pa.array([2_932_897], pa.int32()).cast(pa.date32()))
    with pytest.raises(BadRequest, match="0001 to 9999"):
        render_datetimes(pa.array([MAX_MILLISECONDS + 1], pa.timestamp("ms", "UTC")))


def test_an_instant_without_a_zone_is_read_as_utc():
    assert render_datetime(datetime(2024, 1, 2, 3, 4, 5, 678_999)) == "2024-01-02T03:04:05.678Z"
    eastern = timezone(timedelta(hours=2))
    assert render_datetime(datetime(2024, 1, 2, 1, tzinfo=eastern)) == "2024-01-01T23:00:00.000Z"
