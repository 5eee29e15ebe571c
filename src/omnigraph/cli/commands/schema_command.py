"""`omnigraph schema …`."""

from __future__ import annotations

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_source
from omnigraph.cli.output import note, print_json


@click.group()
def schema() -> None:
    """Show schemas and plan changes."""


@schema.command(epilog=render_examples("schema show"))
@add_graph_options(positional=True, writes=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(scope: CommandTarget, as_json: bool) -> None:
    """Print the schema of a graph."""
    source = scope.open(read_only=True).schema
    if as_json:
        print_json({"schema_source": source})
    else:
        click.echo(source, nl=not source.endswith("\n"))


@schema.command(epilog=render_examples("schema plan"))
@add_graph_options(positional=True, writes=False, offline=("from_path",))
@click.option(
    "--from", "from_path", type=FILE, metavar="FILE", help="A schema file instead of a graph."
)
@click.option(
    "--schema",
    "schema_path",
    type=FILE,
    required=True,
    metavar="FILE",
    help="The desired schema (.pg).",
)
@click.option("--allow-data-loss", is_flag=True, help="Plan drops as hard drops.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def plan(
    scope: CommandTarget | None,
    from_path: str | None,
    schema_path: str,
    allow_data_loss: bool,
    as_json: bool,
) -> None:
    """Show the steps from the schema of a graph, or a schema file, to another; changes nothing.

    Notes about the steps are printed on stderr, or in `notes` with --json. FILE may
    be - for standard input.
    """
    from omnigraph.catalog.build import compile_schema
    from omnigraph.catalog.evolve import plan_migration
    from omnigraph.plan.compile import compile_catalog

    if scope is not None:
        graph = scope.open(read_only=True)
        origin = {"uri": graph.uri}
        migration = graph.plan_schema(read_source(schema_path), allow_data_loss=allow_data_loss)
    else:
        assert from_path is not None, "without a scope there is a file"
        origin = {"from": from_path}
        accepted = compile_catalog(read_source(from_path))
        desired = compile_schema(read_source(schema_path))
        migration = plan_migration(accepted, desired, allow_data_loss=allow_data_loss)
    if as_json:
        print_json({**origin, **migration.wire()})
        return
    for step in migration.steps:
        click.echo(f"- {step.describe()}")
    if not migration.steps:
        click.echo("no schema changes")
    for found in migration.notes:
        note(f"{found.severity} {found.code}: {found.message}")
    if not migration.supported:
        note("not supported: the changes marked above cannot be applied")


schema.add_command(
    click.Command(
        "get", params=show.params, callback=show.callback, help="The same as show.", hidden=True
    )
)


@schema.command(epilog=render_examples("schema lint"))
@click.option(
    "--schema", "schema_path", type=FILE, required=True, metavar="FILE", help="The schema (.pg)."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def lint(schema_path: str, as_json: bool) -> None:
    """Lint a schema file; warnings do not fail.

    FILE may be - for standard input.
    """
    from omnigraph.catalog.build import compile_schema
    from omnigraph.catalog.schema_lint import lint_schema

    draft = compile_schema(read_source(schema_path))
    findings = [*draft.warnings, *lint_schema(draft)]
    warnings = sum(found.severity == "warning" for found in findings)
    infos = len(findings) - warnings
    if as_json:
        counts = {"warnings": warnings, "infos": infos}
        found = [finding.wire() for finding in findings]
        print_json({"status": "ok", "schema_path": schema_path, **counts, "findings": found})
        return
    for finding in findings:
        click.echo(f"{finding.code} {finding.render()}\n")
    click.echo(f"{schema_path}: {warnings} warnings, {infos} infos")
