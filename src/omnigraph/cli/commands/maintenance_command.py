"""`omnigraph optimize`, `cleanup`, `repair`, `verify`, `maintain`, `recover` and `recovery …`."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_graph_options,
    parse_spark_options,
    require_confirmation,
    stage_log,
    yes_option,
)
from omnigraph.cli.terminal import json_option, note, print_result
from omnigraph.settings import ENGINES

if TYPE_CHECKING:
    from omnigraph.graph.engines import EngineName
    from omnigraph.graph.results import PendingList, RecoveryList
    from omnigraph.maintenance.autopilot import MaintainResult
    from omnigraph.maintenance.maintenance_results import (
        CleanupResult,
        OptimizedTable,
        OptimizeResult,
        RepairResult,
        VerifyResult,
    )


@click.command(epilog=render_examples("optimize"))
@add_graph_options(positional=True, writes=True)
@click.option(
    "--branch", default="main", show_default=True, help="The branch whose tables to optimize."
)
@click.option(
    "--engine", type=click.Choice(ENGINES), default="local", help="Where the files are written."
)
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@json_option
def optimize(
    scope: CommandTarget,
    branch: str,
    engine: EngineName,
    spark_conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Merge small fragments and build missing indexes; at most one commit, no row changes."""
    graph = scope.open(read_only=False)
    scope.echo("optimize")
    with stage_log(quiet=scope.quiet or as_json):
        result = graph.optimize(
            branch=branch,
            engine=engine,
            spark_conf=parse_spark_options(spark_conf),
        )
    print_result(result, _describe_optimized(result), as_json=as_json, uri=graph.uri)


def _describe_optimized(result: OptimizeResult) -> Iterator[str]:
    for table in result.tables:
        yield f"{table.table_key}  {_describe_table(table)}"
        for pending in table.pending_indexes:
            yield f"  index on {pending.property} is pending: {pending.reason}"


def _describe_table(table: OptimizedTable) -> str:
    if table.skipped is not None:
        return (
            f"skipped: {table.skipped}, the graph shows version {table.manifest_version} and the "
            f"newest is {table.lance_head_version}; see `omnigraph repair`"
        )
    if not table.committed:
        return "nothing to do"
    if not table.fragments_removed:
        return "indexes brought up to date"
    return f"{table.fragments_removed} fragments became {table.fragments_added}"


@click.command(epilog=render_examples("cleanup"))
@add_graph_options(positional=True, writes=True)
@click.option(
    "--keep",
    type=int,
    metavar="N",
    help="The number of commits to keep on every branch; 10 is a good choice.",
)
@click.option(
    "--older-than",
    metavar="DURATION",
    help="Remove only what is older than this, such as 90m, 12h or 7d.",
)
@click.option(
    "--confirm", is_flag=True, help="Remove it; otherwise only report what would be removed."
)
@yes_option
@json_option
def cleanup(
    scope: CommandTarget,
    keep: int | None,
    older_than: str | None,
    confirm: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove versions and files that only older commits need.

    At least one of --keep and --older-than is required; both protect what they match.
    The current state of every branch stays; older commits can no longer be read.
    """
    from omnigraph.maintenance.retention import Retention
    from omnigraph.types.temporal import parse_duration

    if keep is None and older_than is None:
        raise click.UsageError(
            "give --keep N, --older-than DURATION, or both; --keep 10 is a good choice"
        )
    age = None if older_than is None else parse_duration(older_than)
    policy = Retention(keep, age)
    if confirm:
        require_confirmation(scope, "cleanup", yes=yes, as_json=as_json)
    graph = scope.open(read_only=False)
    scope.echo("cleanup")
    limit = None if age is None else datetime.timedelta(seconds=age)
    result = graph.cleanup(keep=keep, older_than=limit, confirm=confirm)
    if not confirm:
        note(f"{policy}; nothing was removed, run again with --confirm")
    print_result(result, _describe_cleaned(result), as_json=as_json, uri=graph.uri)


def _describe_cleaned(result: CleanupResult) -> Iterator[str]:
    for table in result.tables:
        yield (
            f"{table.table_key}  {table.old_versions_removed:,} versions, "
            f"{table.bytes_removed:,} bytes"
        )
        if table.error:
            yield f"  failed: {table.error}"
    if result.reclaimed:
        yield f"{len(result.reclaimed):,} unreferenced forks, folders and files"


@click.command(epilog=render_examples("repair"))
@add_graph_options(positional=True, writes=True)
@click.option("--confirm", is_flag=True, help="Accept changes that provably changed no row.")
@click.option("--force", is_flag=True, help="With --confirm, accept every other change as well.")
@yes_option
@json_option
def repair(scope: CommandTarget, confirm: bool, force: bool, yes: bool, as_json: bool) -> int:
    """Show tables that another program advanced, and accept their versions."""
    if force and confirm:
        require_confirmation(scope, "repair --force", yes=yes, as_json=as_json)
    graph = scope.open(read_only=False)
    scope.echo("repair")
    result = graph.repair(confirm=confirm, force=force)
    print_result(result, _describe_repaired(result), as_json=as_json, uri=graph.uri)
    if not as_json and any(table.action == "preview" for table in result.tables):
        note("nothing was changed; run again with --confirm")
    if not as_json and result.is_refused:
        note("what may have changed rows was refused; --force --confirm accepts it")
    return 1 if result.is_refused else 0


def _describe_repaired(result: RepairResult) -> Iterator[str]:
    for table in result.tables:
        yield (
            f"{table.table_key}  {table.classification}  {table.action}  "
            f"{table.manifest_version} → {table.lance_head_version}"
        )
        if table.operations:
            yield f"  {', '.join(table.operations)}"
        if table.error:
            yield f"  {table.error}"


@click.command(epilog=render_examples("verify"))
@add_graph_options(positional=True, writes=False)
@click.option("--deep", is_flag=True, help="Read every row and compare every checksum.")
@click.option("--history", is_flag=True, help="Check every commit that can still be read.")
@json_option
def verify(scope: CommandTarget, deep: bool, history: bool, as_json: bool) -> int:
    """Check the integrity of every branch; changes nothing.

    Exits with 1 if something is wrong. Notes are shown and do not affect the exit code.
    """
    graph = scope.open(read_only=True)
    result = graph.verify(deep=deep, history=history)
    print_result(result, _describe_verified(result), as_json=as_json, uri=graph.uri)
    return 0 if result.is_sound else 1


def _describe_verified(result: VerifyResult) -> Iterator[str]:
    for label, found in (("", result.findings), ("note: ", result.notes)):
        for one in found:
            parts = ("" if label else one.check, one.branch, one.table_key, one.message)
            yield label + "  ".join(part for part in parts if part)
    checked = ", ".join(f"{count:,} {what}" for what, count in sorted(result.checked.items()))
    yield f"{'in order' if result.is_sound else 'not in order'}: {checked}"


@click.command(epilog=render_examples("maintain"))
@add_graph_options(positional=True, writes=True)
@click.option("--watch", is_flag=True, help="Run until interrupted.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Time between two checks; OMNIGRAPH_AUTOPILOT_INTERVAL by default.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document for each check.")
def maintain(scope: CommandTarget, watch: bool, interval: float | None, as_json: bool) -> int:
    """Optimize and clean up if the autopilot policy (OMNIGRAPH_AUTOPILOT…) says that it is due."""
    graph = scope.open(read_only=False)
    scope.echo("maintain")
    pause = graph.settings.autopilot.interval_s if interval is None else interval
    while True:
        result = graph.maintain()
        print_result(result, _describe_maintained(result), as_json=as_json)
        if not watch:
            return 1 if result.error else 0
        time.sleep(pause)


def _describe_maintained(result: MaintainResult) -> Iterator[str]:
    for reason in (*result.due.optimize, *result.due.cleanup):
        yield f"due: {reason}"
    if result.optimized is not None:
        changed = sum(table.committed for table in result.optimized.tables)
        yield f"optimized {changed} tables"
    if result.cleaned is not None:
        freed = sum(table.bytes_removed for table in result.cleaned.tables)
        yield f"removed {freed:,} bytes"
    if result.error:
        yield f"failed, will be retried: {result.error}"
    elif not result.due.is_any:
        yield "nothing is due"


@click.command(epilog=render_examples("recover"))
@add_graph_options(positional=True, writes=True)
@click.option("--check", is_flag=True, help="Only report what would be done.")
@click.option(
    "--quarantine",
    metavar="ID",
    help="Set aside the record of this write, which cannot be read; needs --confirm.",
)
@click.option("--confirm", is_flag=True, help="Confirm --quarantine.")
@json_option
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
    from omnigraph.graph.results import RecoveredList

    scope.echo("recover")
    graph = scope.open(read_only=False)
    recovered = RecoveredList((*graph.recovered_on_open, *graph.recover()))
    lines = [
        f"{one.operation_id}  {one.decision}  {one.commit_id or '-'}" for one in recovered.recovered
    ]
    print_result(recovered, lines or "nothing to recover", as_json=as_json)


def _set_aside(scope: CommandTarget, operation_id: str, *, confirm: bool, as_json: bool) -> None:
    if not confirm:
        raise click.UsageError("--quarantine excludes a write from recovery: add --confirm")
    scope.echo("recover --quarantine")
    path = scope.quarantine(operation_id)
    document = {"operation_id": operation_id, "kept_at": path}
    said = f"{operation_id} is kept at {path}"
    print_result(document, said, as_json=as_json, uri=scope.uri)


@click.group()
def recovery() -> None:
    """Show interrupted writes."""


@recovery.command("pending", epilog=render_examples("recovery pending"))
@add_graph_options(positional=True, writes=False)
@json_option
def pending(scope: CommandTarget, as_json: bool) -> None:
    """Show pending interrupted writes, and how each would be recovered."""
    _print_pending(scope, as_json=as_json)


@recovery.command("list", epilog=render_examples("recovery list"))
@add_graph_options(positional=True, writes=False)
@click.option("--branch", default="main", show_default=True, help="The branch to read.")
@json_option
def list_recoveries(scope: CommandTarget, branch: str, as_json: bool) -> None:
    """Show writes that were recovered."""
    from omnigraph.graph.results import RecoveryList

    found = RecoveryList(scope.open(read_only=True).recovery_list(branch))
    print_result(found, _describe_recoveries(found), as_json=as_json)


def _describe_recoveries(found: RecoveryList) -> Iterator[str]:
    for one in found.recoveries:
        tables = ", ".join(f"{t.table_key} {t.from_version}→{t.to_version}" for t in one.tables)
        yield f"{one.operation_id}  {one.kind}  {one.writer_kind}  {tables or '-'}"
    if not found.recoveries:
        yield "no writes were recovered"


def _print_pending(scope: CommandTarget, *, as_json: bool) -> None:
    from omnigraph.graph.results import PendingList

    found = PendingList(tuple(scope.open(read_only=True).recovery_pending()))
    print_result(found, _describe_pending(found), as_json=as_json)


def _describe_pending(found: PendingList) -> Iterator[str]:
    for one in found.pending:
        yield f"{one.operation_id}  {one.branch}  {one.writer_kind}  {one.decision}"
        yield f"  {one.reason}"
    if not found.pending:
        yield "no writes are pending"
