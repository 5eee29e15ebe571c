"""Run one random case again: `python -m differential.replay SEED NUMBER [--shrink]`.

With `src` and `tests` on PYTHONPATH. Prints schema, contents, query and expected rows, then what
the engine gives in every mode; `--shrink` first drops all that does not matter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from differential.engine import open_copy, problems_of
from differential.generate import GraphCase, ask, make_graph, make_query
from differential.matching import TooManyRows
from differential.report import describe
from differential.shrink import shrink
from omnigraph.errors import OmniError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("number", type=int)
    parser.add_argument("--shrink", action="store_true", help="drop all that does not matter")
    chosen = parser.parse_args(arguments)
    graph = make_graph(chosen.seed)
    case = make_query(graph, chosen.number)
    if chosen.shrink and _problem(graph, case.text, case.parameters) is not None:
        graph, text = shrink(
            graph, case.text, lambda g, t: _problem(g, t, case.parameters) is not None
        )
        case = replace(ask(graph, text, _declared(text, case.parameters)))
    problem = _problem(graph, case.text, case.parameters)
    print(describe(graph, case, chosen.number, problem or "no difference"))
    return 0 if problem is None else 1


def _declared(text: str, parameters: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in parameters.items() if f"${name}" in text}


def _problem(graph: GraphCase, text: str, parameters: dict[str, object]) -> str | None:
    """How the engine differs on a query, None when it does not or the query means nothing."""
    try:
        case = ask(graph, text, _declared(text, parameters))
    except (OmniError, TooManyRows):
        return None
    with tempfile.TemporaryDirectory() as place:
        try:
            engine = open_copy(graph, Path(place))
        except OmniError:
            return None
        return problems_of(engine, graph, case)


if __name__ == "__main__":
    sys.exit(main())
