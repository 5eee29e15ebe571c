"""JSON read exactly."""

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.types.json_value import parse_json
from omnigraph.types.row_problems import ProblemCode, ValueRefused

REFUSED = {
    "nothing": (b"", ProblemCode.MALFORMED),
    "two values": (b"{} {}", ProblemCode.MALFORMED),
    "trailing comma": (b'{"a":1,}', ProblemCode.MALFORMED),
    "NaN": (b'{"a":NaN}', ProblemCode.MALFORMED),
    "Infinity": (b"[Infinity]", ProblemCode.MALFORMED),
    "negative Infinity": (b"[-Infinity]", ProblemCode.MALFORMED),
    "leading zero": (b"[01]", ProblemCode.MALFORMED),
    "single quotes": (b"{'a':1}", ProblemCode.MALFORMED),
    "control character": (b'["a\x01"]', ProblemCode.MALFORMED),
    "invalid UTF-8": (b'["\xff"]', ProblemCode.MALFORMED),
    "encoded surrogate": (b'["\xed\xa0\x80"]', ProblemCode.MALFORMED),
    "half a surrogate pair": (b'["\\ud800"]', ProblemCode.MALFORMED),
    "the other half": (b'{"\\uDC00x":1}', ProblemCode.MALFORMED),
    "byte order mark": (b"\xef\xbb\xbf{}", ProblemCode.MALFORMED),
    "deep nesting": (b"[" * 100_000 + b"]" * 100_000, ProblemCode.MALFORMED),
    "repeated member": (b'{"a":1,"a":1}', ProblemCode.DUPLICATE_MEMBER),
    "repeated below": (b'{"a":[{"b":1,"c":2,"b":3}]}', ProblemCode.DUPLICATE_MEMBER),
    "repeated by escape": (b'{"a":1,"\\u0061":2}', ProblemCode.DUPLICATE_MEMBER),
}


@pytest.mark.parametrize(("text", "code"), REFUSED.values(), ids=REFUSED)
def test_text_that_is_not_exactly_json_is_refused(text, code):
    with pytest.raises(ValueRefused) as caught:
        parse_json(text)
    assert caught.value.problem is code


def test_a_repeated_member_is_named():
    with pytest.raises(ValueRefused, match="duplicate JSON member 'x'"):
        parse_json('{"x":1,"y":2,"x":3}')


def test_integers_stay_exact_and_apart_from_floats():
    big = 123456789012345678901234567890
    values = parse_json(f"[{big}, 3, 3.0, 1e2, -0, true]")
    assert values == [big, 3, 3.0, 100.0, 0, True]
    assert [type(v) for v in values] == [int, int, float, float, int, bool]


def test_an_integer_of_a_million_digits_is_read_at_once_as_out_of_every_range():
    up, down = cast("list[int]", parse_json(f"[{'9' * 1_000_000}, -{'9' * 1_000_000}]"))
    assert up > 2**1024
    assert down < -(2**1024)


def test_a_surrogate_pair_is_one_character():
    assert parse_json(b'"\\ud83d\\ude00"') == "😀"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=10,
)


@given(JSON, st.booleans())
def test_output_of_the_standard_library_is_read_back(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse_json(text) == value
    assert parse_json(text.encode()) == value
