"""Texts no person would write: each is refused with a place, quickly and without surprise."""

from __future__ import annotations

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.errors import CompileError
from omnigraph.language.source import MAX_PROBLEMS, SourceText

DEEP = 100_000


def codes(source):
    with pytest.raises(CompileError) as raised:
        compile_schema(source)
    for found in raised.value.diagnostics:
        assert 0 <= found.start <= len(source.text)
        assert found.render()
    return {found.code for found in raised.value.diagnostics}


def test_an_empty_file_is_an_empty_schema():
    catalog = compile_schema(SourceText("")).catalog
    assert (catalog.interfaces, catalog.nodes, catalog.edges) == ({}, {}, {})


def test_a_binary_file_is_refused_when_it_is_read():
    with pytest.raises(CompileError) as raised:
        SourceText.from_bytes(bytes(range(256)), "binary.pg")
    assert raised.value.diagnostics[0].code == "P101"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_the_first_bad_byte_is_named_where_it_stands(mark):
    with pytest.raises(CompileError) as raised:
        SourceText.from_bytes(mark + "node Ä {}\n  \xff".encode() + b"\xff", "bad.pg")
    (found,) = raised.value.diagnostics
    assert (found.line, found.column, found.line_text) == (2, 4, "  \xff")
    assert "byte 0xff" in found.message


def test_a_byte_order_mark_is_no_part_of_the_text():
    assert SourceText.from_bytes(b"\xef\xbb\xbfnode A {}", "a.pg").text == "node A {}"


def test_binary_text_is_refused():
    assert codes(SourceText("".join(map(chr, range(256))) * 10)) <= {"P102", "P105", "P130"}


def test_half_a_surrogate_pair_is_refused_and_can_still_be_shown():
    source = SourceText('node A @description("\ud800") {}')
    with pytest.raises(CompileError) as raised:
        compile_schema(source)
    (found,) = raised.value.diagnostics
    assert (found.code, found.line, found.column) == ("P101", 1, 22)
    assert found.render().encode()


@pytest.mark.parametrize("start", ["", "node A {", 'node A @d("'], ids=["none", "body", "string"])
def test_a_line_of_ten_megabytes_is_refused(start):
    assert codes(SourceText(start + "x" * 10_000_000)) == {"P106"}


@pytest.mark.parametrize(
    "text",
    [
        "{" * DEEP,
        "node A " + "{" * DEEP,
        "node A { x: " + "[" * DEEP + "String" + "]" * DEEP + " }",
        "node A { x: enum" + "(" * DEEP + " }",
        "node A " + "@x(" * DEEP,
        "node A { " + "@key(" * DEEP,
        "node A " + "}" * DEEP,
        "node A { " + "}" * DEEP,
        "node A { x: String " + "@" * DEEP,
        "node A { " + ", " * DEEP,
        "edge " * DEEP,
        "node A { x: String " * (DEEP // 10),
    ],
    ids=lambda text: text[:24],
)
def test_deep_nesting_and_long_repetition_are_refused(text):
    assert codes(SourceText(text)) <= {"P107", "P130", "P135", "P136", "P139", "P143"}


def test_a_name_of_a_million_letters_is_refused_where_it_is_unknown():
    name = "x" * 1_000_000
    assert codes(SourceText(f"node A {{ x: {name} }}")) == {"P131"}
    assert codes(SourceText(f"{name} A {{ }}")) == {"P130"}
    assert codes(SourceText(f"node A {{ y: I32 @key({name}) }}")) == {"S151"}


def test_numbers_of_ten_thousand_digits_are_refused():
    digits = "9" * 10_000
    assert codes(SourceText(f"node A {{ x: Vector({digits}) }}")) == {"P134"}
    assert codes(SourceText(f"edge E: A -> A @card(0..{digits})")) == {"P138"}
    assert codes(SourceText(f"node A {{ x: I64 @default({digits}) }}")) == {"S142"}
    assert codes(SourceText(f"node A {{ x: F64 @default({digits}) }}")) == {"S142"}
    assert codes(SourceText(f"node A {{ x: F64 @range(x, {digits}..0) }}")) == {"S163"}


def test_a_pattern_too_large_to_compile_is_refused():
    pattern = "(a{100}){100}" * 50
    assert codes(SourceText(f'node A {{ x: String @check(x, "{pattern}") }}')) == {"S164"}


def test_the_number_of_reported_mistakes_is_bounded():
    with pytest.raises(CompileError) as raised:
        compile_schema(SourceText("node A { x: Strng }\n" * 10_000))
    assert len(raised.value.diagnostics) == MAX_PROBLEMS


def test_a_thousand_types_with_one_name_are_refused():
    assert codes(SourceText("node A { x: String }\n" * 1000)) == {"S101"}
