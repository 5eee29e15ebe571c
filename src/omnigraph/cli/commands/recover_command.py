"""`omnigraph recover` and `omnigraph recovery …`."""

from __future__ import annotations

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json


@click.command(epilog=render_examples("recover"))
@add_graph_options(positional=True, writes=True)
@click.option("--check", is_flag=True, help="Only report what would be done.")
@click.option(
    "--quarantine",
    metavar="ID",
    help="Set aside the record of this write, which cannot be read; needs --confirm.",
)
@click.option("--confirm", is_flag=True, help="Confirm --quarantine.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def recover(
    scope: CommandTarget, check: bool, quarantine: str | None, confirm: bool, as_json: bool
) -> None:
    """Finish or undo interrupted writes; every writer does this by itself as well."""
    if quarantine is not None:
        _set_aside(scope, quarantine, confirm=confirm, as_json=as_json)
        return
    if check:
        _print_pending(scope, as_json=as_json)
        return
    scope.echo("recover")
    graph = scope.open(read_only=False)
    settled = [*graph.recovered_on_open, *graph.recover()]
    if as_json:
        print_json({"recovered": [one.wire() for one in settled]})
        return
    for one in settled:
        click.echo(f"{one.operation_id}  {one.decision}  {one.commit_id or '-'}")
    if not settled:
        click.echo("nothing to recover")


def _set_aside(scope: CommandTarget, operation_id: str, *, confirm: bool, as_json: bool) -> None:
    if not confirm:
        raise click.UsageError("--quarantine stops a write from ever being settled: add --confirm")
    scope.echo("recover --quarantine")
    place = scope.quarantine(operation_id)
    if as_json:
        print_json({"uri": scope.uri, "operation_id": operation_id, "kept_at": place})
        return
    click.echo(f"{operation_id} is kept at {place}")


@click.group()
def recovery() -> None:
    """Show interrupted writes."""


@recovery.command("pending", epilog=render_examples("recovery pending"))
@add_graph_options(positional=True, writes=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def pending(scope: CommandTarget, as_json: bool) -> None:
    """Show pending interrupted writes, and how each would be settled."""
    _print_pending(scope, as_json=as_json)


@recovery.command("list", epilog=render_examples("recovery list"))
@add_graph_options(positional=True, writes=False)
@click.option("--branch", default="main", show_default=True, help="The branch to read.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_(scope: CommandTarget, branch: str, as_json: bool) -> None:
    """Show writes that were recovered."""
    audits = scope.open(read_only=True).recovery_list(branch)
    if as_json:
        print_json({"recoveries": [one.wire() for one in audits]})
        return
    for one in audits:
        tables = ", ".join(f"{t.table_key} {t.from_version}→{t.to_version}" for t in one.tables)
        click.echo(f"{one.operation_id}  {one.kind}  {one.writer_kind}  {tables or '-'}")
    if not audits:
        click.echo("no writes were recovered")


def _print_pending(scope: CommandTarget, *, as_json: bool) -> None:
    found = scope.open(read_only=True).recovery_pending()
    if as_json:
        print_json({"pending": [one.wire() for one in found]})
        return
    for one in found:
        click.echo(f"{one.operation_id}  {one.branch}  {one.writer_kind}  {one.decision}")
        click.echo(f"  {one.reason}")
    if not found:
        click.echo("no writes are pending")
