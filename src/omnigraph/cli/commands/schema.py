"""`omnigraph schema …`."""

from __future__ import annotations

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.output import note, print_json
from omnigraph.cli.scope import Scope, graph_options


@click.group()
def schema() -> None:
    """Look at schemas and plan changes."""


@schema.command()
@graph_options(positional=True, writes=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(scope: Scope, as_json: bool) -> None:
    """Print the schema of a graph."""
    source = scope.open(read_only=True).schema
    if as_json:
        print_json({"schema_source": source})
    else:
        click.echo(source, nl=not source.endswith("\n"))


@schema.command()
@click.option("--from", "from_path", required=True, metavar="FILE", help="The schema as it is.")
@click.option("--schema", "schema_path", required=True, metavar="FILE", help="As it should be.")
@click.option("--allow-data-loss", is_flag=True, help="Plan drops as hard drops.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def plan(from_path: str, schema_path: str, allow_data_loss: bool, as_json: bool) -> None:
    """Show the steps from one schema file to another; changes nothing."""
    from omnigraph.catalog.build import compile_schema
    from omnigraph.catalog.evolve import plan_migration
    from omnigraph.plan.compile import compile_catalog

    accepted = compile_catalog(read_source(from_path))
    desired = compile_schema(read_source(schema_path))
    migration = plan_migration(accepted, desired, allow_data_loss=allow_data_loss)
    if as_json:
        steps = [step.json() for step in migration.steps]
        print_json(
            {
                "from": from_path,
                "supported": migration.supported,
                "step_count": len(steps),
                "steps": steps,
            }
        )
        return
    for step in migration.steps:
        click.echo(f"- {step.describe()}")
    if not migration.steps:
        click.echo("no schema changes")
    if not migration.supported:
        note("not supported: the changes marked above cannot be applied")
