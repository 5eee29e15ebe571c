"""Damaged query texts: whatever is done to a file, it parses or is refused with places in it."""

from __future__ import annotations

import os
import random
import time

import pytest

from language.query.query_case_files import ERRORS, VALID
from omnigraph.errors import CompileError
from omnigraph.language.query.query_parser import parse_query_file
from omnigraph.language.query.query_printer import print_query_file
from omnigraph.language.source import EXCERPT_CHARS, SourceText

MUTATIONS = 3_000
FUZZ_SECONDS = 60
TEXTS = [path.read_text("utf-8") for path in VALID] + [case.text for case in ERRORS]
SNIPPETS = [
    *"{}()[]:,.@?=<>|*-;#$\"\\/'`~!%^&+\x00\n\t\r é漢🙂0a_A",
    *["query", "match", "return", "order", "limit", "offset", "distinct", "optional", "hops", "as"],
    *["not", "and", "or", "in", "is", "null", "contains", "insert", "merge", "update", "delete"],
    *["set", "where", "asc", "desc", "now()", "date(", "search(", "nearest(", "count(", "type("],
    *["$a", "$a.x", "$_", "$a: T", "$a knows $b", "<knows>", "{1,3}", "[1, 2]", '"x"', "//", "/*"],
    *[
        "-1",
        "1e999",
        "9" * 30,
        "3d",
        "->",
        "..",
        "==",
        "<>",
        '"\\q"',
        "\ud800",
        "\u2028",
        "SignedTo",
    ],
    *[" query x() { match { $a: T } return { $a } } ", " not { $a knows $_ } ", " return { $a } "],
]


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.choice([0, 1, 1, 2, 5, 20]))
        other = rng.choice(TEXTS)
        at = rng.randint(0, len(other))
        replacement = rng.choice(
            [
                "",
                rng.choice(SNIPPETS),
                rng.choice(SNIPPETS) * rng.choice([2, 50]),
                text[start:end] * 2,
                other[at : at + rng.randint(0, 40)],
                text[start:end].swapcase(),
            ]
        )
        text = text[:start] + replacement + text[end:]
    return text


def check(text: str) -> None:
    source = SourceText(text, "fuzz.gq")
    started = time.process_time()
    try:
        tree = parse_query_file(source)
    except CompileError as error:
        check_places(source, error)
    else:
        assert parse_query_file(SourceText(print_query_file(tree))) == tree
    assert time.process_time() - started < 1, "a second of computing for one small text"


def check_places(source: SourceText, error: CompileError) -> None:
    lines = source.text.split("\n")
    for found in error.diagnostics:
        assert 0 <= found.start <= len(source.text), found
        assert found.start < found.end, found
        assert found.stage == "parse"
        assert (found.line, found.column) == source.line_and_column(found.start)
        line = lines[found.line - 1].removesuffix("\r").replace("\t", " ")
        line = line.encode(errors="replace").decode()
        shown = found.line_text.strip("…")
        assert shown in line if len(line) > EXCERPT_CHARS else shown == line.strip("…")
        assert found.render().encode()


def run(seed: int, go_on) -> None:
    print(f"seed: {seed}")
    rng, count = random.Random(seed), 0
    while go_on(count):
        text = mutate(rng.choice(TEXTS), rng)
        try:
            check(text)
        except Exception:
            print(f"mutation {count}: {text!r}")
            raise
        count += 1


def chosen_seed() -> int:
    return int(os.environ.get("OMNIGRAPH_FUZZ_SEED") or random.randrange(2**32))


def test_a_damaged_query_parses_or_is_refused():
    run(chosen_seed(), lambda count: count < MUTATIONS)


@pytest.mark.fuzz
def test_a_damaged_query_parses_or_is_refused_for_a_minute():
    end = time.monotonic() + FUZZ_SECONDS
    run(chosen_seed(), lambda _: time.monotonic() < end)
