"""`omnigraph schema …`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from omnigraph.cli.error_output import EXIT_FAILURE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_source
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_graph_options,
    delimiter_option,
    message_option,
    open_view,
    parse_spark_options,
    require_confirmation,
    revision_options,
    stage_log,
)
from omnigraph.cli.shell_completion import FILE
from omnigraph.cli.terminal import json_option, note, print_result
from omnigraph.settings import ENGINES

if TYPE_CHECKING:
    from omnigraph.evolution.apply_result import SchemaApplyResult
    from omnigraph.graph.engines import EngineName


_SET = click.option(
    "--set",
    "given",
    multiple=True,
    metavar="TYPE.PROPERTY=SQL",
    help="The value that existing rows get. Repeatable.",
)


@click.group()
def schema() -> None:
    """Show schemas, plan changes and apply them."""


@schema.command(epilog=render_examples("schema show"))
@add_graph_options(positional=True, writes=False, served=True)
@revision_options
@json_option
def show(
    scope: CommandTarget, branch: str | None, at: str | None, snapshot: str | None, as_json: bool
) -> None:
    """Print the schema of a branch, now or at a revision."""
    source = open_view(scope, branch, at, snapshot).schema
    print_result({"schema_source": source}, source.removesuffix("\n"), as_json=as_json)


@schema.command(epilog=render_examples("schema infer"))
@click.argument("sources", nargs=-1, required=True, type=FILE, metavar="PATH...")
@delimiter_option
@json_option
def infer(sources: tuple[str, ...], delimiter: str | None, as_json: bool) -> None:
    """Propose a schema from data, with comments where it is a guess.

    PATH is a file or folder of CSV, TSV, Parquet, Arrow, JSON lines or GraphML, an export of Kuzu,
    or an export of Neo4j as CSV or JSON.
    """
    from omnigraph.cli.scope_resolution import read_settings
    from omnigraph.interchange.import_files import infer_schema

    proposal = infer_schema(list(sources), delimiter=delimiter, settings=read_settings())
    print_result(proposal, proposal.source.removesuffix("\n"), as_json=as_json)


@schema.command(epilog=render_examples("schema plan"))
@add_graph_options(positional=True, writes=False, served=True, offline=("from_path",))
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
@click.option("--branch", metavar="NAME", help="The branch of the graph; main by default.")
@click.option("--allow-data-loss", is_flag=True, help="Plan drops as hard drops.")
@_SET
@json_option
def plan(
    scope: CommandTarget | None,
    from_path: str | None,
    schema_path: str,
    branch: str | None,
    allow_data_loss: bool,
    given: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the steps from the schema of a graph, or a schema file, to another; changes nothing.

    Notes about the steps are printed on stderr, or in `notes` with --json. Steps that are not
    supported make it fail with code 1. FILE may be - for standard input.
    """
    from omnigraph.catalog.build import compile_schema
    from omnigraph.evolution.migration_plan import plan_migration
    from omnigraph.plan.compile import compile_catalog

    expressions = _read_expressions(given)
    if scope is not None:
        graph = scope.reach(read_only=True)
        origin = {"uri": graph.uri}
        migration = graph.plan_schema(
            read_source(schema_path),
            branch=branch,
            allow_data_loss=allow_data_loss,
            expressions=expressions,
        )
    else:
        if branch is not None:
            raise click.UsageError("a schema file has no branches; give a graph instead")
        assert from_path is not None, "without a scope there is a file"
        origin = {"from": from_path}
        accepted = compile_catalog(read_source(from_path))
        desired = compile_schema(read_source(schema_path))
        migration = plan_migration(
            accepted, desired, allow_data_loss=allow_data_loss, expressions=expressions
        ).plan
    lines = [f"- {step.describe()}" for step in migration.steps] or "no schema changes"
    print_result({**origin, **migration.wire()}, lines, as_json=as_json)
    if not as_json:
        for found in migration.notes:
            note(f"{found.severity} {found.code}: {found.message}")
        if not migration.supported:
            note("not supported: the changes marked above cannot be applied")
    return 0 if migration.supported else EXIT_FAILURE


@schema.command(epilog=render_examples("schema apply"))
@add_graph_options(positional=True, writes=True, served=True, clusters=False)
@click.option(
    "--schema", "schema_path", type=FILE, required=True, metavar="FILE", help="As it shall be."
)
@click.option("--branch", default="main", show_default=True, help="The branch to change.")
@click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Remove what is dropped from older states too, for good.",
)
@click.option(
    "--allow-drop-all",
    is_flag=True,
    help="Accept a schema that drops every type of the graph.",
)
@_SET
@click.option(
    "--mutation",
    "mutation_paths",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="Mutations (.gq) to run first, in the same commit. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--if-commit", "expected", metavar="ID", help="Only if the branch is at this commit.")
@message_option
@click.option(
    "--engine", type=click.Choice(ENGINES), default="local", help="Where columns are written."
)
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@click.option("--yes", is_flag=True, help="Do not ask before data is lost.")
@json_option
def apply(
    scope: CommandTarget,
    schema_path: str,
    branch: str,
    allow_data_loss: bool,
    allow_drop_all: bool,
    given: tuple[str, ...],
    mutation_paths: tuple[str, ...],
    dry_run: bool,
    expected: str | None,
    message: str | None,
    engine: EngineName,
    spark_conf: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Give a graph another schema as one commit; rows keep what the schema still has.

    FILE may be - for standard input.
    """
    wanted, mutations = read_source(schema_path), [read_source(path) for path in mutation_paths]
    _warn_if_managed(scope)
    if allow_data_loss and not dry_run:
        require_confirmation(scope, "schema apply --allow-data-loss", yes=yes, as_json=as_json)
    graph = scope.reach(read_only=dry_run and not mutations)
    if not dry_run:
        scope.echo("schema apply")
    with stage_log(quiet=scope.quiet or as_json):
        result = graph.apply_schema(
            wanted,
            branch=branch,
            allow_data_loss=allow_data_loss,
            allow_drop_all=allow_drop_all,
            expressions=_read_expressions(given),
            mutations=mutations,
            expected_head=expected,
            message=message,
            dry_run=dry_run,
            engine=engine,
            spark_conf=parse_spark_options(spark_conf),
        )
    print_result(result, _describe_applied(result), as_json=as_json, uri=graph.uri)
    if as_json:
        return
    if mutations and not result.steps:
        note("the schema is already applied; no mutation was run")
    for found in result.notes:
        note(f"{found.severity} {found.code}: {found.message}")


def _warn_if_managed(scope: CommandTarget) -> None:
    """Warn that a cluster does not record a change made directly in storage."""
    if scope.is_served:
        return
    from omnigraph.cli.scope_resolution import read_settings
    from omnigraph.cluster.cluster_files import find_managing_root

    root = find_managing_root(scope.uri, read_settings(quietly=True))
    if root is not None:
        note(
            f"warning: the cluster at {root} manages this graph and does not learn of the change; "
            "change its files instead and run `omnigraph cluster apply`"
        )


def _read_expressions(given: tuple[str, ...]) -> dict[str, str]:
    """Parse the values of `--set` by property."""
    found = {}
    for text in given:
        name, equals, expression = text.partition("=")
        if not equals or "." not in name or not expression.strip():
            raise click.UsageError(f"--set {text!r}: write it as Type.property=expression")
        found[name.strip()] = expression.strip()
    return found


def _describe_applied(result: SchemaApplyResult) -> Iterator[str]:
    """Yield the lines of the report of a schema apply: mutation, steps, tables and result."""
    for ran in result.mutations:
        counts = f"{ran.affected_nodes} nodes, {ran.affected_edges} edges"
        yield f"- run mutation {ran.query_name}: {counts}"
    for step in result.steps:
        yield f"- {step.describe()}"
    if not result.steps:
        yield "no schema changes"
        return
    for table in result.tables:
        written = f", writes {', '.join(table.written)}" if table.written else ""
        rows = f"{table.rows_before} -> {table.rows_after} rows"
        yield f"{table.table_key}  {table.effect}{written}  {rows}"
    if result.commit is None:
        yield "nothing was changed: this was a dry run"
    else:
        yield f"applied to {result.branch} (commit {result.commit.commit_id})"


schema.add_command(
    click.Command(
        "get", params=show.params, callback=show.callback, help="The same as show.", hidden=True
    )
)


@schema.command(epilog=render_examples("schema lint"))
@click.option(
    "--schema", "schema_path", type=FILE, required=True, metavar="FILE", help="The schema (.pg)."
)
@json_option
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
    document = {
        "status": "ok",
        "schema_path": schema_path,
        "warnings": warnings,
        "infos": infos,
        "findings": [finding.wire() for finding in findings],
    }
    lines = [f"{finding.code} {finding.render()}\n" for finding in findings]
    summary = f"{schema_path}: {warnings} warnings, {infos} infos"
    print_result(document, (*lines, summary), as_json=as_json)
