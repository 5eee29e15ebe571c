"""Run one random case again: `python -m differential.replay SEED NUMBER [--shrink] [--tiny]`.

With `src` and `tests` on PYTHONPATH. Prints schema, contents, query and expected rows, and how the
engine differs; `--shrink` first drops all that does not matter.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from differential.difference_report import describe
from differential.engine import Engine, open_copy, problems_of
from differential.generate import GraphCase, ask, make_graph, make_query
from differential.matching import TooManyRows
from differential.shrink import shrink
from differential.small_thresholds import make_tiny
from omnigraph.errors import OmniError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("number", type=int)
    parser.add_argument("--shrink", action="store_true", help="drop all that does not matter")
    parser.add_argument("--tiny", action="store_true", help="let small tables count as large")
    chosen = parser.parse_args(arguments)
    if chosen.tiny:
        make_tiny(pytest.MonkeyPatch())
    graph = make_graph(chosen.seed)
    case = make_query(graph, chosen.number)
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), case.parameters)
        if chosen.shrink and trial.problem(graph, case.text) is not None:
            graph, text = shrink(graph, case.text, trial.fails)
            case = ask(graph, text, trial.parameters_of(text))
        problem = trial.problem(graph, case.text) or trial.problem_after(graph, chosen.number)
    print(describe(graph, case, chosen.number, problem or "no difference"))
    return 0 if problem is None else 1


@dataclass
class Trial:
    """Runs variations of a case, each graph in a folder of its own."""

    folder: Path
    parameters: dict[str, object]
    _opened: dict[int, tuple[GraphCase, Engine | None]] = field(default_factory=dict)

    def fails(self, graph: GraphCase, text: str) -> bool:
        return self.problem(graph, text) is not None

    def problem(self, graph: GraphCase, text: str) -> str | None:
        """Return how the engine differs; None when it does not, or when the query means nothing."""
        engine = self._engine(graph)
        try:
            case = ask(graph, text, self.parameters_of(text))
        except (OmniError, TooManyRows):
            return None
        if engine is None:
            return None
        engine = engine.cold()
        # Asked again, it may take another way, with what it remembers from the first time.
        return problems_of(engine, graph, case) or problems_of(engine, graph, case)

    def problem_after(self, graph: GraphCase, number: int) -> str | None:
        """Return how the engine differs once it has answered the queries before this one."""
        engine = self._engine(graph)
        if engine is None:
            return None
        for earlier in range(number):
            problems_of(engine, graph, make_query(graph, earlier))
        return problems_of(engine, graph, make_query(graph, number))

    def parameters_of(self, text: str) -> dict[str, object]:
        return {n: value for n, value in self.parameters.items() if re.search(rf"\${n}\b", text)}

    def _engine(self, graph: GraphCase) -> Engine | None:
        if id(graph) not in self._opened:
            place = self.folder / str(len(self._opened))
            place.mkdir()
            try:
                opened = open_copy(graph, place)
            except OmniError:
                opened = None
            # The graph is kept beside its engine, so that its id stays its own.
            self._opened[id(graph)] = graph, opened
        return self._opened[id(graph)][1]


if __name__ == "__main__":
    sys.exit(main())
