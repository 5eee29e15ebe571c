"""`omnigraph policy …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.bundle_options import ChosenBundle, add_bundle_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_source
from omnigraph.cli.output import print_json

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.policy import Action
    from omnigraph.policy.decision_cases import CaseResult


@click.group()
def policy() -> None:
    """Check and try the rules that say who may do what."""


@policy.command("validate", epilog=render_examples("policy validate"))
@add_bundle_options
@click.option(
    "--schema", "schema_path", type=FILE, metavar="FILE", help="A schema (.pg) its names must fit."
)
def validate(bundle: ChosenBundle, schema_path: str | None, as_json: bool) -> None:
    """Check a bundle, and the types and properties that it names.

    Names are checked against --schema; those of an applied bundle, without it, against the schema
    of its graph. Exits with 1 when it has mistakes.
    """
    from omnigraph.policy.hidden_names import KnownNames

    found = bundle.parse()
    catalog = _find_catalog(bundle, schema_path)
    if catalog is not None:
        KnownNames.find(found, catalog)
    body = {
        "ok": True,
        "bundle": found.name,
        "scope": str(found.kind),
        "actors": len(found.actors),
        "rules": len(found.rules),
    }
    if as_json:
        print_json(body)
    else:
        click.echo(
            f"{found.name}: {_count_things(len(found.rules), 'rule')} for "
            f"{_count_things(len(found.actors), 'actor')}"
        )


@policy.command("test", epilog=render_examples("policy test"))
@add_bundle_options
@click.option(
    "--tests", "tests_path", type=FILE, required=True, metavar="FILE", help="The cases (.yaml)."
)
def test(bundle: ChosenBundle, tests_path: str, as_json: bool) -> int:
    """Ask a bundle for the decisions that a file of cases expects.

    Exits with 1 when one of them is another.
    """
    from omnigraph.policy.decision_cases import parse_cases, run_cases

    results = run_cases(bundle.parse(), parse_cases(read_source(tests_path)))
    failed = [one for one in results if not one.passed]
    if as_json:
        print_json(
            {
                "ok": not failed,
                "passed": len(results) - len(failed),
                "failed": len(failed),
                "cases": [one.wire() for one in results],
            }
        )
    else:
        for line in _draw_results(results):
            click.echo(line)
    return 1 if failed else 0


@policy.command("explain", epilog=render_examples("policy explain"))
@add_bundle_options
@click.option("--actor", required=True, metavar="ACTOR", help="Who asks.")
@click.option("--action", "word", required=True, metavar="ACTION", help="What they ask for.")
@click.option("--branch", metavar="BRANCH", help="The branch that is read, changed or taken from.")
@click.option("--target-branch", metavar="BRANCH", help="The branch that is made or merged into.")
@click.option("--query", metavar="NAME", help="The stored query that is run.")
def explain(
    bundle: ChosenBundle,
    actor: str,
    word: str,
    branch: str | None,
    target_branch: str | None,
    query: str | None,
    as_json: bool,
) -> None:
    """Show what a bundle decides, by which rule, and what stays hidden.

    Exits with 0 whether it allows or denies.
    """
    from omnigraph.policy import decide
    from omnigraph.policy.actions import READING_ACTIONS
    from omnigraph.policy.hidden_names import find_hidden

    action, found = _find_action(word), bundle.parse()
    decision = decide(found, actor, action, branch=branch, target_branch=target_branch, query=query)
    body = decision.wire()
    if decision.allowed and action in READING_ACTIONS:
        hidden = sorted(find_hidden(found, actor, action, branch))
        body = {**body, **({"hidden": hidden} if hidden else {})}
    if as_json:
        print_json(body)
        return
    for name, value in body.items():
        click.echo(f"{name}: {', '.join(value) if isinstance(value, list) else value}")


def _find_catalog(bundle: ChosenBundle, schema_path: str | None) -> Catalog | None:
    from omnigraph.plan.compile import compile_catalog

    return bundle.catalog if schema_path is None else compile_catalog(read_source(schema_path))


def _find_action(word: str) -> Action:
    from omnigraph.policy.actions import Action, find_action

    found = find_action(word)
    if found is None:
        raise click.UsageError(f"no such action '{word}'; use one of {', '.join(Action)}")
    return found


def _draw_results(results: tuple[CaseResult, ...]) -> list[str]:
    failed = [one for one in results if not one.passed]
    lines = [f"case '{one.case.id}' failed: {one.decision.message}" for one in failed]
    return [*lines, f"{len(results) - len(failed)} of {_count_things(len(results), 'case')} passed"]


def _count_things(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
