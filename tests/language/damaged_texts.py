"""Texts damaged at random: whatever is done to one, a mistake found in it has its place."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omnigraph.errors import CompileError
from omnigraph.language.source import EXCERPT_CHARS, SourceText

MUTATIONS = 3_000
FUZZ_SECONDS = 60


@dataclass(frozen=True)
class DamagedTexts:
    """Texts to start from, insertions into them, and invariants of the results.

    `OMNIGRAPH_FUZZ_SEED` chooses the seed, which is printed.
    """

    name: str
    texts: Sequence[str]
    snippets: Sequence[str]
    check: Callable[[SourceText], None]
    """May raise `CompileError`, whose places are checked then."""

    def try_some(self) -> None:
        self._run(lambda count: count < MUTATIONS)

    def try_for_a_minute(self) -> None:
        end = time.monotonic() + FUZZ_SECONDS
        self._run(lambda _: time.monotonic() < end)

    def _run(self, go_on: Callable[[int], bool]) -> None:
        seed = int(os.environ.get("OMNIGRAPH_FUZZ_SEED") or random.randrange(2**32))
        print(f"seed: {seed}")
        rng, count = random.Random(seed), 0
        while go_on(count):
            text = self._damage(rng.choice(self.texts), rng)
            source = SourceText(text, self.name)
            try:
                self.check(source)
            except CompileError as error:
                check_places(source, error)
            except Exception:
                print(f"mutation {count}: {text!r}")
                raise
            count += 1

    def _damage(self, text: str, rng: random.Random) -> str:
        for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
            start = rng.randint(0, len(text))
            end = min(len(text), start + rng.choice([0, 1, 1, 2, 5, 20]))
            other = rng.choice(self.texts)
            at = rng.randint(0, len(other))
            replacement = rng.choice(
                [
                    "",
                    rng.choice(self.snippets),
                    rng.choice(self.snippets) * rng.choice([2, 50]),
                    text[start:end] * 2,
                    other[at : at + rng.randint(0, 40)],
                    text[start:end].swapcase(),
                ]
            )
            text = text[:start] + replacement + text[end:]
        return text


def check_places(source: SourceText, error: CompileError) -> None:
    lines = source.text.split("\n")
    for found in error.diagnostics:
        assert 0 <= found.start <= len(source.text), found
        assert found.start < found.end, found
        assert (found.line, found.column) == source.line_and_column(found.start)
        line = lines[found.line - 1].removesuffix("\r").replace("\t", " ")
        line = line.encode(errors="replace").decode()
        shown = found.line_text.strip("…")
        assert shown in line if len(line) > EXCERPT_CHARS else shown == line.strip("…")
        assert found.render().encode()
