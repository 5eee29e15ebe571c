"""Damaged schema texts: whatever is done to a file, it compiles or is refused with places in it."""

from __future__ import annotations

import os
import random
import time

import pyarrow.compute  # noqa: F401 - loaded here so that no mutation is charged for it
import pytest

from language.schema.schema_case_files import ERRORS, VALID, WARNINGS
from omnigraph.catalog.build import compile_schema
from omnigraph.errors import CompileError
from omnigraph.language.source import SourceText

MUTATIONS = 3_000
FUZZ_SECONDS = 60
TEXTS = [path.read_text("utf-8") for path in VALID] + [c.text for c in (*ERRORS, *WARNINGS)]
SNIPPETS = [
    *"{}()[]:,.@?=<>|*-;#$\"\\/'`~!%^&+\x00\n\t\r é漢🙂0a_A",
    *[
        "node",
        "edge",
        "interface",
        "implements",
        "enum(",
        "Vector(",
        "@card(0..1)",
        "@key",
        "@key(",
    ],
    *["@range(", "@check(", "@unique(src, dst)", "@default(", "@embed(", '"', "//", "/*", "*/"],
    *[
        "String",
        "[String]",
        "I32?",
        "Blob",
        "->",
        "..",
        "0..1",
        "-1",
        "1e999",
        "null",
        "true",
        "id",
    ],
    *["9" * 30, '"\\q"', '"(?=a)"', "\ud800", "\u2028", "x: I32 ", " node B {} "],
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
    source = SourceText(text, "fuzz.pg")
    started = time.process_time()
    try:
        compile_schema(source)
    except CompileError as error:
        for found in error.diagnostics:
            assert 0 <= found.start <= len(text), found
            assert found.start < found.end, found
            assert (found.line, found.column) == source.line_and_column(found.start)
            assert found.render().encode()
    assert time.process_time() - started < 1, "seconds of computing for one small text"


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


def test_a_damaged_schema_compiles_or_is_refused():
    run(chosen_seed(), lambda count: count < MUTATIONS)


@pytest.mark.fuzz
def test_a_damaged_schema_compiles_or_is_refused_for_a_minute():
    end = time.monotonic() + FUZZ_SECONDS
    run(chosen_seed(), lambda _: time.monotonic() < end)
