"""The report of a failing case: everything needed to run it again by hand."""

from __future__ import annotations

import json

from differential.generate import GraphCase, QueryCase

SHOWN_GROUPS = 30


def describe(graph: GraphCase, case: QueryCase, number: int | None, problem: str) -> str:
    """The seed, the schema, the contents, the query, and what was wrong."""
    again = "" if number is None else f"python -m differential.replay {graph.seed} {number}"
    return "\n".join(
        [
            f"seed {graph.seed}, query {number}: {problem}",
            f"to run it again, with src and tests on PYTHONPATH: {again}" * bool(again),
            "--- schema.pg",
            graph.schema.rstrip(),
            "--- contents.jsonl",
            graph.jsonl.rstrip(),
            "--- query.gq",
            case.text.rstrip(),
            "--- parameters",
            json.dumps(case.parameters, ensure_ascii=False),
            "--- expected",
            *expected_lines(case),
        ]
    )


def expected_lines(case: QueryCase) -> list[str]:
    """The rows of the interpreter; a blank line between rows whose order is fixed."""
    answer = case.answer
    if answer is None:
        return ["a refusal: the sum does not fit its type"]
    lines = [f"{answer.count} rows; offset {answer.offset}, limit {answer.limit}"]
    for group in answer.groups[:SHOWN_GROUPS]:
        lines += [json.dumps(row, ensure_ascii=False) for row in group[:SHOWN_GROUPS]] + [""]
    return lines
