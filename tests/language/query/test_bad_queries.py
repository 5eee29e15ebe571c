"""Texts no person wrote: each is refused with a place, whatever its size and nesting."""

from __future__ import annotations

import random

import pytest

from omnigraph.errors import CompileError
from omnigraph.language.error_recovery import MAX_ITEMS
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import MAX_PROBLEMS, MAX_SOURCE_CHARS, SourceText

DEPTH = 100_000


def mistakes(text):
    with pytest.raises(CompileError) as raised:
        parse_query_file(SourceText(text, "q.gq"))
    return raised.value.diagnostics


def in_match(text):
    return f"query q() {{ match {{ {text} }} return {{ 1 }} }}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (in_match("not { " * DEPTH + "$a: T" + " }" * DEPTH), "P108"),
        (in_match("not {\n" * DEPTH), "P108"),
        (in_match("optional { " * DEPTH + "$a: T" + " }" * DEPTH), "P108"),
        (in_match("(" * DEPTH + "$a.x" + ")" * DEPTH), "P108"),
        (in_match("(" * DEPTH), "P108"),
        (in_match("not " * DEPTH + "$a.x"), "P108"),
        (in_match("search(" * DEPTH + ")" * DEPTH), "P108"),
        (in_match("$a.x in " + "[" * DEPTH + "]" * DEPTH), "P124"),
        (in_match("$a: T " + "{" * DEPTH), "P107"),
        (f"query q() {{ match {{ $a: T }} return {{ {'count(' * DEPTH} }} }}", "P108"),
        (f"query q() {{ delete T where {'(' * DEPTH}x{')' * DEPTH} }}", "P108"),
        (f"query q() {{ insert T {{ x: {'[' * DEPTH} }} }}", "P124"),
        (f"query q({'[' * DEPTH}) {{ insert T {{ x: 1 }} }}", "P107"),
        ("{" * DEPTH, "P107"),
        ("}" * DEPTH, "P107"),
        ("query " * DEPTH, "P107"),
    ],
    ids=lambda value: value[:40].strip() if len(value) > 4 else value,
)
def test_deep_nesting_is_one_mistake(text, code):
    (found,) = mistakes(text)
    assert found.code == code
    assert 0 < found.column < 2_000


def test_sixty_levels_are_read():
    text = in_match("not { " * 30 + "(" * 30 + "$a.x" + ")" * 30 + " }" * 30)
    assert len(parse_query_file(SourceText(text)).queries) == 1


def test_a_line_of_ten_megabytes_is_refused_by_its_size():
    (found,) = mistakes("x" * 10_000_000)
    assert (found.code, found.line, found.column) == ("P106", 1, MAX_SOURCE_CHARS + 1)
    assert len(found.render()) < 500


@pytest.mark.parametrize(
    "text",
    [
        in_match("$a.x = " + "9" * 1_000_000),
        in_match("$a.x = " + "9" * 1_000_000 + ".5"),
        in_match("$a.x = 1e" + "9" * 1_000_000),
        in_match("$a x" + "x" * 1_000_000),
        in_match('$a "' + "x" * 1_000_000 + '"'),
        in_match("$a " + "x|" * 100_000),
        in_match("$a " + "x|" * 100_000 + "x $b"),
    ],
    ids=["integer", "float", "exponent", "name", "string", "no end", "alternatives"],
)
def test_one_huge_token_is_one_mistake(text):
    (found,) = mistakes(text)
    assert len(found.render()) < 1_000


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (in_match("$a: T " * 100_000), "clauses"),
        (in_match("$a: T { " + "x: 1, " * 100_000 + "}"), "properties"),
        (in_match("$a " + "|".join("x" * 100_000) + " $b"), "edges"),
        (f"query q() {{ match {{ $a: T }} return {{ {'$a, ' * 100_000} }} }}", "columns"),
        (
            f"query q() {{ match {{ $a: T }} return {{ $a {{ {'x, ' * 100_000} }} }} }}",
            "properties",
        ),
        (
            f"query q() {{ match {{ $a: T }} return {{ $a }} order {{ {'x, ' * 100_000} x }} }}",
            "keys",
        ),
        (f"query q() {{ insert T {{ {'x: 1 ' * 100_000} }} }}", "assignments"),
    ],
    ids=lambda value: value if len(value) < 20 else "",
)
def test_a_list_without_end_is_refused_at_its_thousand_and_first_item(text, what):
    found = mistakes(text)[0]
    assert (found.code, found.message) == ("P126", f"more than {MAX_ITEMS} {what}")


def test_a_thousand_items_are_read():
    columns = ", ".join(f"$a.x as c{number}" for number in range(MAX_ITEMS))
    text = f"query q() {{ match {{ $a: T }} return {{ {columns} }} }}"
    assert len(parse_query_file(SourceText(text)).queries[0].body.projections) == MAX_ITEMS


@pytest.mark.parametrize("seed", range(3))
def test_binary_is_refused_at_its_first_byte(seed):
    data = bytes([0xFF, *random.Random(seed).randbytes(10_000)])
    with pytest.raises(CompileError) as raised:
        parse_query_file(SourceText.from_bytes(data, "q.gq"))
    assert raised.value.diagnostics[0].start == 0


@pytest.mark.parametrize("alphabet", ["\0", "\0\1", "".join(map(chr, range(0x250, 0xD000)))])
def test_characters_that_mean_nothing_are_refused(alphabet):
    rng = random.Random(1)
    found = mistakes("".join(rng.choices(alphabet, k=1_000_000)))
    assert found[0].start == 0
    assert {problem.code for problem in found} == {"P102"}


def test_half_a_surrogate_pair_is_refused():
    (found,) = mistakes(in_match('$a.x = "\ud800"'))
    assert (found.code, found.column) == ("P101", 29)
    assert found.render().encode()


def test_no_more_mistakes_are_listed_than_a_reader_can_use():
    assert len(mistakes("query q() {\n" * 100_000)) == MAX_PROBLEMS
    assert len(mistakes(in_match("$a.\n" * 100_000))) == MAX_PROBLEMS
