"""Queries and the plans the rules make of them, as text; one file of cases for each rule.

A case is a line `# title`, an optional line `rows: table=count …` with row counts, the body of a
query, a line `=>` and the expected plan. Run with `--rewrite-golden` to write the plans as they
are now, then read the difference.
"""

import re
from pathlib import Path

import pytest

from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_catalog, compile_plan
from omnigraph.plan.explain import explain_json, explain_text
from omnigraph.plan.plan_nodes import Match
from omnigraph.plan.statistics import Statistics
from omnigraph.plan.walk import list_children

CASES = Path(__file__).parents[2] / "cases"
FILES = sorted((CASES / "plan").glob("*.txt"))
MUSIC = compile_catalog(SourceText((CASES / "schema" / "valid" / "music.pg").read_text()))


def split_cases(text: str) -> list[tuple[str, str, str]]:
    """(title, query with its rows line, expected plan) for each case of a file."""
    cases = []
    for block in re.split(r"^(?=# )", text, flags=re.MULTILINE):
        if not block.strip():
            continue
        title, _, rest = block.partition("\n")
        query, _, expected = rest.partition("\n=>\n")
        cases.append((title.removeprefix("# "), query.strip(), expected.strip()))
    return cases


def plan_of(query: str):
    statistics = None
    if query.startswith("rows:"):
        counts, _, query = query.partition("\n")
        pairs = (pair.split("=") for pair in counts.removeprefix("rows:").split())
        statistics = Statistics({key: int(count) for key, count in pairs})
    return compile_plan(SourceText(query, "case.gq"), MUSIC, statistics=statistics)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_rules_give_the_expected_plans(file: Path, request: pytest.FixtureRequest) -> None:
    cases = split_cases(file.read_text())
    actual = [(title, query, explain_text(plan_of(query))) for title, query, _ in cases]
    if request.config.getoption("--rewrite-golden"):
        file.write_text("\n".join(f"# {t}\n{q}\n=>\n{p}\n" for t, q, p in actual))
    assert actual == cases or request.config.getoption("--rewrite-golden")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_pattern_is_left_for_an_executor(file: Path) -> None:
    def nodes(node):
        yield node
        for child in list_children(node):
            yield from nodes(child)

    for _, query, _ in split_cases(file.read_text()):
        plan = plan_of(query)
        if hasattr(plan, "root"):
            assert not any(isinstance(node, Match) for node in nodes(plan.root))


def test_every_rule_has_a_file_of_cases() -> None:
    rules = {p.stem for p in (CASES.parents[1] / "src/omnigraph/plan/rewrite").glob("*.py")}
    assert rules - {"__init__", "rewrite_rules"} <= {file.stem for file in FILES}


def test_the_json_form_says_what_the_text_says() -> None:
    query = "query q($s: String) { match { $a: Artist { slug: $s } } return { $a.name } }"
    body = explain_json(plan_of(query))
    assert body["kind"] == "read"
    assert body["parameters"] == [{"name": "s", "type": "String"}]
    assert body["columns"] == [{"name": "a.name", "type": "String"}]
    plan = body["plan"]
    assert plan["operator"] == "Project"
    scan = plan["children"][0]["children"][0]
    assert scan == {
        "operator": "Scan",
        "binds": "$a: Artist",
        "where": "$a.slug = $s",
        "read": ["name"],
    }
