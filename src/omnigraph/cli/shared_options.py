"""Options that several commands share: the graph, the revision, the engine, rows and conflicts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from omnigraph.cli.scope_resolution import CommandTarget as CommandTarget
from omnigraph.cli.scope_resolution import RequestedScope, resolve_scope
from omnigraph.cli.shell_completion import (
    FILE,
    complete_cluster,
    complete_profile,
    complete_server,
    complete_store,
)
from omnigraph.cli.terminal import clear_progress_line, note, should_show_progress
from omnigraph.progress import Progress, listening, working
from omnigraph.settings import LOAD_ENGINES

if TYPE_CHECKING:
    from omnigraph.client.served_view import ServedView
    from omnigraph.graph.graph import GraphView
    from omnigraph.wire.merge_results import ApplyResult, MergeResult


Command = TypeVar("Command", bound=Callable[..., object])

_QUERY_NAME = re.compile(r"\w+")
"""The form of a query name; any other argument in its place is the address of a graph."""
_MANIFEST = "__manifest"
"""The folder that every graph has."""
_OTHER_ARGUMENTS = {
    "branch_name": "the branch",
    "new_name": "the new name",
    "tag_name": "the tag",
    "commit_id": "the commit id",
    "property_name": "the property",
    "before": "the first state",
    "after": "the second state",
    "consumer_name": "the consumer",
    "entity_id": "the id",
}
"""Arguments that stand before the address of the graph, with their descriptions."""


TIMEOUT = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="How long to wait for a silent server, in seconds; no limit by default.",
)


def add_graph_options(
    *,
    positional: bool,
    writes: bool,
    served: bool = False,
    clusters: bool = True,
    offline: tuple[str, ...] = (),
) -> Callable[[Command], Command]:
    """Add the options that select a graph; the command gets a `CommandTarget`.

    A verb that is `served` can be given a graph of a server; every verb one of a cluster, unless
    it changes what a cluster manages. With `offline`, names of parameters, a command that is given
    one of them works on files alone and gets no scope: naming a graph besides is a mistake.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*args: object, **given: object) -> object:
            _shift_address(given)
            files = [name for name in offline if given.get(name)]
            if files:
                _refuse_address(given, files[0])
                given["scope"] = None
                return command(*args, **given)
            _refuse_other_order(given)
            _refuse_missing_argument(given)
            asked = RequestedScope(
                tuple(given.pop(name, None) for name in ("graph_uri", "uri", "store")),
                given.pop("server", None),
                given.pop("graph_id", None),
                given.pop("profile", None),
                given.pop("actor", None),
                given.pop("cluster", None),
            )
            quiet = bool(given.pop("quiet", False))
            timeout_s = given.pop("timeout_s", None)
            scope = resolve_scope(asked, served=served, quiet=quiet, clusters=clusters)
            given["scope"] = scope if timeout_s is None else with_timeout(scope, timeout_s)
            return command(*args, **given)

        decorated: Callable[..., object] = run
        own = list(getattr(run, "__click_params__", ()))
        reach = _AddressKinds(served=served, clusters=clusters)
        for option in _list_options(reach, positional=positional, writes=writes):
            decorated = option(decorated)
        _show_last(decorated, len(own))
        return decorated  # type: ignore[return-value]

    return decorate


def with_timeout(scope: CommandTarget, timeout_s: object) -> CommandTarget:
    """Return the target with another read timeout for its server."""
    if not scope.is_served:
        raise click.UsageError("--timeout is for a graph of a server")
    assert isinstance(timeout_s, float), "click has read it"
    return replace(scope, timeout_s=timeout_s)


def _show_last(decorated: Callable[..., object], own: int) -> None:
    """Move the options of every graph verb behind those of the verb itself in its help."""
    parameters: list[click.Parameter] = decorated.__click_params__  # type: ignore[attr-defined]
    added = parameters[own:]
    del parameters[own:]
    parameters[:0] = [one for one in added if isinstance(one, click.Option)]
    parameters += [one for one in added if not isinstance(one, click.Option)]


def _shift_address(given: dict[str, object]) -> None:
    """Accept the address first, too: alone, where a query needs no name, or before the name."""
    name, address = given.get("name"), given.get("graph_uri")
    if not name or (_QUERY_NAME.fullmatch(str(name)) and not _is_only_address(given, str(name))):
        return
    if address is None or _QUERY_NAME.fullmatch(str(address)):
        given["graph_uri"], given["name"] = name, address


def _is_only_address(given: dict[str, object], name: str) -> bool:
    """Return whether the argument is the address of a graph and no option gives another."""
    is_elsewhere = any(
        given.get(one) for one in ("graph_uri", "uri", "store", "server", "profile", "cluster")
    )
    return not is_elsewhere and (Path(name) / _MANIFEST).is_dir()


def _refuse_missing_argument(given: dict[str, object]) -> None:
    """Refuse the address of a graph in place of another argument that is missing."""
    for name, what in reversed(_OTHER_ARGUMENTS.items()):
        other = given.get(name)
        if other and _is_only_address(given, str(other)):
            raise click.UsageError(f"{what} is missing: '{other}' is the graph, which comes last")


def _refuse_other_order(given: dict[str, object]) -> None:
    """Refuse a folder in place of another argument, with the arguments swapped."""
    address = str(given.get("graph_uri") or "")
    if not address or "://" in address or Path(address).exists():
        return
    for name in _OTHER_ARGUMENTS:
        other = given.get(name)
        if other and Path(str(other)).is_dir():
            raise click.UsageError(
                f"nothing found at '{address}', and '{other}' is a folder: "
                "the address of the graph comes last"
            )


def _refuse_address(given: dict[str, object], parameter: str) -> None:
    names = ("graph_uri", "uri", "store", "server", "cluster", "graph_id", "profile", "timeout_s")
    named = [given.pop(name, None) for name in names]
    if any(named):
        flag = f"--{parameter.removesuffix('_path').replace('_', '-')}"
        raise click.UsageError(f"give a graph or {flag}, not both")
    for name in ("actor", "quiet"):
        given.pop(name, None)


class _AddressKinds(NamedTuple):
    """The kinds of addresses a command accepts besides a store."""

    served: bool
    clusters: bool


def _list_options(
    reach: _AddressKinds, *, positional: bool, writes: bool
) -> list[Callable[..., Callable[..., object]]]:
    options: list[Callable[..., Callable[..., object]]] = [
        click.option("--quiet", is_flag=True, help="Do not print what is being changed."),
        click.option(
            "--profile",
            metavar="NAME",
            shell_complete=complete_profile,
            help="A profile of the operator's config.",
        ),
        *_list_server_options(reach),
        *add_address_options(),
    ]
    if writes:
        options.insert(
            1,
            click.option(
                "--as", "actor", metavar="ACTOR", help="The actor the change is recorded for."
            ),
        )
    if positional:
        options.append(
            click.argument(
                "graph_uri", required=False, metavar="[URI]", shell_complete=complete_store
            )
        )
    return options


def _list_server_options(reach: _AddressKinds) -> list[Callable[..., Callable[..., object]]]:
    """Return the options that name a server or a cluster, and a graph of it."""
    named = {"the server": reach.served, "the cluster": reach.clusters}
    whose = " or ".join(name for name, is_taken in named.items() if is_taken)
    options: list[Callable[..., Callable[..., object]]] = [
        click.option("--graph", "graph_id", metavar="ID", help=f"The graph of {whose}."),
    ]
    if reach.clusters:
        options.append(add_cluster_option())
    if reach.served:
        options.insert(0, TIMEOUT)
        options.append(
            click.option(
                "--server",
                metavar="NAME|URL",
                shell_complete=complete_server,
                help="A server instead of storage.",
            )
        )
    return options


def add_cluster_option() -> Callable[..., Callable[..., object]]:
    """Return the option that names a cluster."""
    return click.option(
        "--cluster",
        metavar="NAME|DIR|URI",
        shell_complete=complete_cluster,
        help="A cluster: its name in the operator's config, its folder or its storage root.",
    )


def add_address_options() -> list[Callable[..., Callable[..., object]]]:
    """Return the option of the graph's address under its two names."""
    return [
        click.option(
            "--uri", metavar="URI", shell_complete=complete_store, help="An alias of --store."
        ),
        click.option(
            "--store", metavar="URI", shell_complete=complete_store, help="The graph's storage."
        ),
    ]


yes_option = click.option("--yes", is_flag=True, help="Do not ask before changing a remote graph.")
"""The option of commands that ask with `require_confirmation`."""


def require_confirmation(scope: CommandTarget, verb: str, *, yes: bool, as_json: bool) -> None:
    """Ask before a destructive change to a graph that is not on this machine."""
    if scope.is_local or yes:
        return
    stdin = sys.stdin
    if as_json or stdin is None or not stdin.isatty():
        raise click.ClickException(f"{verb} on {scope.uri} needs --yes")
    clear_progress_line()
    click.echo(f"{verb} on {scope.uri}: type yes to continue: ", err=True, nl=False)
    if stdin.readline().strip().lower() not in ("y", "yes"):
        raise click.ClickException("cancelled; nothing was changed")


def revision_options(command: Command) -> Command:
    """Add `--branch`, `--at` and `--snapshot`, passed on unparsed."""
    decorated: Callable[..., object] = command
    for option in (
        click.option("--snapshot", metavar="ID", help="A commit or snapshot id instead of --at."),
        click.option(
            "--at", metavar="REVISION", help="A tag, commit, version, time or branch to read."
        ),
        click.option("--branch", metavar="NAME", help="The branch to read; main by default."),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[return-value]


def check_revision(branch: str | None, at: str | None, snapshot: str | None) -> None:
    """Refuse options that contradict each other."""
    if snapshot is not None and (branch is not None or at is not None):
        raise click.UsageError("give a branch or a snapshot, not both; --at goes with --branch")


def open_view(
    scope: CommandTarget, branch: str | None, at: str | None, snapshot: str | None
) -> GraphView | ServedView:
    check_revision(branch, at, snapshot)
    return scope.reach(read_only=True).at(at, branch=branch or "main", snapshot=snapshot)


mode_option = partial(
    click.option,
    "--mode",
    type=click.Choice(("append", "merge", "overwrite")),
    help="append: every id is new; merge: replace by id; overwrite: replace whole types.",
)
"""A factory of the option, since only some commands require it."""
branch_option = click.option(
    "--branch", default="main", show_default=True, help="The branch to load into."
)
engine_option = click.option(
    "--engine",
    type=click.Choice(LOAD_ENGINES),
    help="local: in this process; spark: on Spark; auto: by the amount of input. By default, what "
    "OMNIGRAPH_LOAD_ENGINE says, or auto.",
)
delimiter_option = click.option(
    "--delimiter",
    metavar="C",
    help="The column separator of text files; a comma by default, a tab in .tsv.",
)
on_error_option = click.option(
    "--on-error",
    type=click.Choice(("fail", "skip")),
    default="fail",
    show_default=True,
    help="fail: load nothing if a row is bad; skip: leave bad rows out.",
)
rejects_option = click.option(
    "--rejects", type=FILE, metavar="PATH", help="Write every rejected record to this file."
)


def parse_spark_options(texts: Sequence[str]) -> dict[str, str]:
    """Parse `--spark-conf` by name; without values nothing of Spark is imported."""
    if not texts:
        return {}
    from omnigraph.pipeline.spark_session import parse_options

    return parse_options(texts)


@contextmanager
def report_spark_start(engine: str) -> Iterator[None]:
    """Report the start of Spark on the progress line."""
    if engine != "spark":
        yield
        return
    with working("starting Spark"):
        yield


@contextmanager
def stage_log(*, quiet: bool) -> Iterator[None]:
    """Log the end of each stage on stderr, where no progress line is drawn."""
    if quiet or should_show_progress(sys.stderr):
        yield
        return

    def log(report: Progress) -> None:
        if report.is_over and report.unit == "tasks":
            note(f"{report.what}: {report.total or report.done} tasks")

    with listening(log):
        yield


MAX_SHOWN_CONFLICTS = 20


def add_conflict_options(command: Command) -> Command:
    """Add the options that preview and resolve conflicts."""
    for option in (
        click.option(
            "--decisions",
            type=click.Path(exists=True, dir_okay=False),
            help="Decisions about single conflicts: what --dry-run --json printed, with 'take' "
            "filled in.",
        ),
        click.option(
            "--resolve",
            multiple=True,
            metavar="RULE",
            help="Decide conflicts: ours, theirs, newest, Type=RULE or Type.property=RULE; "
            "repeatable.",
        ),
        click.option(
            "--entity",
            "granularity",
            is_flag=True,
            callback=lambda _context, _option, entity: "entity" if entity else "property",
            help="Merge whole rows: one that both sides changed conflicts.",
        ),
        click.option("--dry-run", is_flag=True, help="Show the changes; write nothing."),
    ):
        command = option(command)
    return command


def describe_counts(result: MergeResult | ApplyResult) -> Iterator[str]:
    """Yield a line for each type, each rule that applied and each conflict."""
    for table in result.tables:
        yield (
            f"  {table.table_key}: {table.inserted} inserted, {table.updated} updated, "
            f"{table.deleted} deleted, {table.conflicts} conflicts"
        )
    for rule, count in result.resolved.items():
        yield f"  resolved by {rule}: {count}"
    for conflict in result.conflicts[:MAX_SHOWN_CONFLICTS]:
        yield f"  conflict ({conflict.kind}): {conflict.message}"
    if len(result.conflicts) > MAX_SHOWN_CONFLICTS:
        yield f"  and {len(result.conflicts) - MAX_SHOWN_CONFLICTS} more conflicts"


message_option = click.option("-m", "--message", metavar="TEXT", help="The message of the commit.")
