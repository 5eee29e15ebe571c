"""`omnigraph policy …`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_source
from omnigraph.cli.scope_resolution import read_settings, resolve_cluster, select_applied_graph
from omnigraph.cli.shared_options import add_cluster_option
from omnigraph.cli.shell_completion import FILE, complete_profile
from omnigraph.cli.terminal import json_option, print_result
from omnigraph.client.operator_config import find_active_profile

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.cluster.applied_cluster import AddressedGraph
    from omnigraph.language.source import SourceText
    from omnigraph.policy import Action, Policy
    from omnigraph.policy.policy_parser import CaseResult


_OF_CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class ChosenBundle:
    """A policy bundle: of a file, or one applied to a cluster."""

    source: SourceText
    kind: str
    applied: AddressedGraph | None = None
    """The graph of a cluster that it is applied to."""

    def parse(self) -> Policy:
        """The policy.

        Raises:
            CompileError: it is not a bundle of its kind; with every mistake.
        """
        from omnigraph.policy import BundleKind, parse_bundle

        return parse_bundle(self.source, BundleKind(self.kind))

    @property
    def catalog(self) -> Catalog | None:
        """The schema of the graph that it is applied to."""
        if self.applied is None:
            return None
        from omnigraph.graph.graph import open as open_graph

        return open_graph(self.applied.uri, read_only=True, settings=read_settings()).catalog


def add_bundle_options(command: Callable[..., object]) -> Callable[..., object]:
    """`--file`, or `--cluster` with `--graph` or `--scope cluster`; gives a `ChosenBundle`."""

    @wraps(command)
    def run(
        *,
        path: str | None,
        kind: str,
        cluster: str | None,
        graph_id: str | None,
        profile: str | None,
        **given: object,
    ) -> object:
        if path is None:
            return command(bundle=_read_applied(kind, cluster, graph_id, profile), **given)
        if cluster or graph_id or profile:
            raise click.UsageError("give --file or a bundle of a cluster, not both")
        return command(bundle=ChosenBundle(read_source(path), kind), **given)

    decorated: Callable[..., object] = run
    for option in (
        json_option,
        click.option(
            "--profile",
            metavar="NAME",
            shell_complete=complete_profile,
            help="A profile of the operator's config that names a cluster.",
        ),
        click.option(
            "--scope",
            "kind",
            type=click.Choice(["graph", _OF_CLUSTER]),
            default="graph",
            show_default=True,
            help="The scope of the bundle.",
        ),
        click.option(
            "--graph", "graph_id", metavar="ID", help="The graph of the cluster it is applied to."
        ),
        add_cluster_option(),
        click.option("--file", "path", type=FILE, metavar="FILE", help="The bundle (.yaml)."),
    ):
        decorated = option(decorated)
    return decorated


def _read_applied(
    kind: str, cluster: str | None, graph_id: str | None, profile: str | None
) -> ChosenBundle:
    if not (cluster or profile or find_active_profile()):
        raise click.UsageError("give a bundle: --file FILE, or what is applied with --cluster")
    from omnigraph.cluster.applied_cluster import read_applied_policy

    root, chosen = resolve_cluster(cluster, profile)
    settings = read_settings(quietly=True)
    if kind == _OF_CLUSTER:
        if graph_id:
            raise click.UsageError("--scope cluster takes no graph; leave out --graph")
        return ChosenBundle(read_applied_policy(root, graph_id=None, settings=settings), kind)
    applied = select_applied_graph(root, graph_id or chosen)
    source = read_applied_policy(root, graph_id=applied.id, settings=settings)
    return ChosenBundle(source, kind, applied)


@click.group()
def policy() -> None:
    """Validate and test authorization policies."""


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
    from omnigraph.policy.restricted_catalog import ResolvedNames

    found = bundle.parse()
    catalog = _find_catalog(bundle, schema_path)
    if catalog is not None:
        ResolvedNames.find(found, catalog)
    body = {
        "ok": True,
        "bundle": found.name,
        "scope": str(found.kind),
        "actors": len(found.actors),
        "rules": len(found.rules),
    }
    counts = (_count_things(len(found.rules), "rule"), _count_things(len(found.actors), "actor"))
    print_result(body, f"{found.name}: {' for '.join(counts)}", as_json=as_json)


@policy.command("test", epilog=render_examples("policy test"))
@add_bundle_options
@click.option(
    "--tests", "tests_path", type=FILE, required=True, metavar="FILE", help="The cases (.yaml)."
)
def test(bundle: ChosenBundle, tests_path: str, as_json: bool) -> int:
    """Compare the decisions of a bundle with those that a file of cases expects.

    Exits with 1 when one of them differs.
    """
    from omnigraph.policy.policy_parser import parse_cases, run_cases

    results = run_cases(bundle.parse(), parse_cases(read_source(tests_path)))
    failed = [one for one in results if not one.passed]
    document = {
        "ok": not failed,
        "passed": len(results) - len(failed),
        "failed": len(failed),
        "cases": [one.wire() for one in results],
    }
    print_result(document, _draw_results(results), as_json=as_json)
    return 1 if failed else 0


@policy.command("explain", epilog=render_examples("policy explain"))
@add_bundle_options
@click.option("--actor", required=True, metavar="ACTOR", help="The actor to decide about.")
@click.option(
    "--action", "word", required=True, metavar="ACTION", help="The action to decide about."
)
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
    """Show the decision of a bundle, its rule, and what it hides.

    Exits with 0 whether it allows or denies.
    """
    from omnigraph.policy import decide
    from omnigraph.policy.decision import READING_ACTIONS
    from omnigraph.policy.restricted_catalog import find_hidden

    action, found = _find_action(word), bundle.parse()
    decision = decide(found, actor, action, branch=branch, target_branch=target_branch, query=query)
    body = decision.wire()
    if decision.allowed and action in READING_ACTIONS:
        hidden = sorted(find_hidden(found, actor, action, branch))
        body = {**body, **({"hidden": hidden} if hidden else {})}
    lines = (
        f"{name}: {', '.join(value) if isinstance(value, list) else value}"
        for name, value in body.items()
    )
    print_result(body, lines, as_json=as_json)


def _find_catalog(bundle: ChosenBundle, schema_path: str | None) -> Catalog | None:
    from omnigraph.plan.compile import compile_catalog

    return bundle.catalog if schema_path is None else compile_catalog(read_source(schema_path))


def _find_action(word: str) -> Action:
    from omnigraph.policy.decision import Action, find_action

    found = find_action(word)
    if found is None:
        raise click.UsageError(f"no such action '{word}'; use one of {', '.join(Action)}")
    return found


def _draw_results(results: tuple[CaseResult, ...]) -> list[str]:
    failed = [one for one in results if not one.passed]
    lines = [f"case '{one.id}' failed: {one.message}" for one in failed]
    return [*lines, f"{len(results) - len(failed)} of {_count_things(len(results), 'case')} passed"]


def _count_things(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
