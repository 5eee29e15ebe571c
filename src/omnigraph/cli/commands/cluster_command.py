"""`omnigraph cluster …`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.scope_resolution import read_settings
from omnigraph.cli.shell_completion import FILE
from omnigraph.cli.terminal import json_option, print_result

if TYPE_CHECKING:
    from omnigraph.cluster.cluster_apply import ClusterApplyResult
    from omnigraph.cluster.cluster_commands import (
        ApproveResult,
        PlanResult,
        UnlockResult,
        ValidateResult,
    )
    from omnigraph.cluster.cluster_session import ClusterResult, ClusterStatus
    from omnigraph.cluster.cluster_state import ClusterChange


_SIGNS = {"create": "+", "update": "~", "delete": "-"}


def render_validated(result: ValidateResult) -> Iterator[str]:
    if result.ok:
        yield f"{result.config_file}: {_count(len(result.resources), 'resource')}, no mistakes"


def render_plan(result: PlanResult) -> Iterator[str]:
    if not result.ok:
        return
    yield from _render_changes(result.changes)
    for reach in result.blast_radius:
        yield f"{reach.resource} affects {', '.join(reach.affected)}"
    for approval in result.approvals_required:
        state = "approved" if approval.satisfied else "needs an approval"
        yield f"{approval.resource} {state}: {approval.reason}"
    if not result.changes:
        yield "no changes: the cluster matches the configuration"
        return
    stopped = sum(not change.is_carried_out for change in result.changes)
    waiting = f", {stopped} of them cannot be made yet" if stopped else ""
    yield f"{_count(len(result.changes), 'change')}{waiting}"


def render_applied(result: ClusterApplyResult) -> Iterator[str]:
    yield from _render_changes(result.changes)
    if not result.changes and result.ok:
        yield "no changes: the cluster matches the configuration"
        return
    word = "converged" if result.converged else "not converged"
    yield (
        f"{result.applied_count} of {_count(len(result.changes), 'change')} applied, {word} "
        f"(revision {result.state.state_revision})"
    )


def render_approved(result: ApproveResult) -> Iterator[str]:
    if result.approval_id is not None:
        yield (
            f"{result.approved_by} may {result.operation} {result.resource} "
            f"(approval {result.approval_id})"
        )


def render_status(result: ClusterStatus) -> Iterator[str]:
    for address, status in sorted(result.resource_statuses.items()):
        why = f" ({', '.join(status.conditions)})" if status.conditions else ""
        yield f"{status.status:<8}  {address}{why}"
    if result.state.state_found:
        digest = result.state.applied_config_digest
        applied = (
            f"configuration {digest[:12]}" if digest else "no configuration was applied completely"
        )
        yield f"revision {result.state.state_revision}, {applied}"


def render_unlocked(result: UnlockResult) -> Iterator[str]:
    if result.lock_removed:
        yield f"removed the lock {result.state.lock_id}"


def _render_changes(changes: tuple[ClusterChange, ...]) -> Iterator[str]:
    for change in changes:
        why = f" ({change.reason})" if change.reason else ""
        is_plain = change.disposition is None or str(change.disposition) == "applied"
        word = "" if is_plain else f"  {change.disposition}{why}"
        what = f"  {change.metadata_change}" if change.metadata_change else ""
        yield f"{_SIGNS[change.operation]} {change.operation} {change.resource}{what}{word}"
        steps = (change.migration or {}).get("steps")
        assert steps is None or isinstance(steps, list)
        for step in steps or ():
            yield f"    - {_describe_step(step)}"


def _describe_step(step: dict[str, object]) -> str:
    """Describe a schema step in one line: its kind and its target."""
    about = [str(step[name]) for name in ("type_name", "name", "property_name") if step.get(name)]
    target = ".".join(about) or str(step.get("entity", ""))
    reason = f": {step['reason']}" if step.get("reason") else ""
    return f"{str(step['kind']).replace('_', ' ')} {target}{reason}".rstrip()


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


Result = TypeVar("Result", bound="ClusterResult")

EXIT_TERMINATED = 128 + signal.SIGTERM

_FOLDER = click.argument("folder", metavar="[DIR]", default=".", type=FILE)
_ACTOR = click.option("--as", "actor", metavar="ACTOR", help="The actor changes are recorded for.")


@click.group()
def cluster() -> None:
    """Declare graphs, schemas, queries and policies in files, and apply them."""


@cluster.command(epilog=render_examples("cluster validate"))
@_FOLDER
@json_option
def validate(folder: str, as_json: bool) -> int:
    """Check the cluster.yaml of a folder and every file it names.

    Storage is not read. Exits with 1 when there are mistakes.
    """
    from omnigraph.cluster import validate_cluster

    return _run(lambda: validate_cluster(folder), render_validated, as_json=as_json)


@cluster.command(epilog=render_examples("cluster plan"))
@_FOLDER
@json_option
def plan(folder: str, as_json: bool) -> int:
    """Show what apply would do: changes, steps of schemas, and approvals that are needed.

    Changes nothing and takes no lock.
    """
    from omnigraph.cluster import plan_cluster

    settings = read_settings()
    return _run(lambda: plan_cluster(folder, settings=settings), render_plan, as_json=as_json)


@cluster.command(epilog=render_examples("cluster apply"))
@_FOLDER
@_ACTOR
@json_option
def apply(folder: str, actor: str | None, as_json: bool) -> int:
    """Apply the configuration to the cluster, and record the result in the ledger.

    Changes that need an approval are left out. Exits with 0 when nothing failed; "converged" tells
    whether all changes were applied.
    """
    from omnigraph.cluster import apply_cluster

    settings, who = read_settings(), _choose_actor(actor)
    return _run(
        lambda: apply_cluster(folder, actor=who, settings=settings), render_applied, as_json=as_json
    )


@cluster.command("import", epilog=render_examples("cluster import"))
@_FOLDER
@json_option
def import_(folder: str, as_json: bool) -> int:
    """Create the ledger of existing graphs.

    For a ledger that was lost, and for graphs that are older than the cluster.
    """
    from omnigraph.cluster import import_cluster

    settings = read_settings()
    return _run(lambda: import_cluster(folder, settings=settings), render_status, as_json=as_json)


@cluster.command(epilog=render_examples("cluster approve"))
@click.argument("resource", metavar="RESOURCE")
@_FOLDER
@_ACTOR
@json_option
def approve(resource: str, folder: str, actor: str | None, as_json: bool) -> int:
    """Approve the deletion of a graph, or its replacement by an empty one.

    RESOURCE is graph.ID. The approval holds for the configuration and the ledger of now.
    """
    from omnigraph.cluster import approve_change

    settings, who = read_settings(), _choose_actor(actor)
    return _run(
        lambda: approve_change(folder, resource, actor=who, settings=settings),
        render_approved,
        as_json=as_json,
    )


@cluster.command(epilog=render_examples("cluster status"))
@_FOLDER
@json_option
def status(folder: str, as_json: bool) -> int:
    """Show the ledger, and the holder of the lock.

    Writes nothing and opens no graph.
    """
    from omnigraph.cluster import read_cluster_status

    settings = read_settings()
    return _run(
        lambda: read_cluster_status(folder, settings=settings), render_status, as_json=as_json
    )


@cluster.command(epilog=render_examples("cluster refresh"))
@_FOLDER
@json_option
def refresh(folder: str, as_json: bool) -> int:
    """Record the current state of the graphs and the catalog in the ledger."""
    from omnigraph.cluster import refresh_cluster

    settings = read_settings()
    return _run(lambda: refresh_cluster(folder, settings=settings), render_status, as_json=as_json)


@cluster.command("force-unlock", epilog=render_examples("cluster force-unlock"))
@click.argument("lock_id", metavar="LOCK_ID")
@_FOLDER
@json_option
def force_unlock(lock_id: str, folder: str, as_json: bool) -> int:
    """Remove the lock of an operator that is gone."""
    from omnigraph.cluster import unlock_cluster

    settings = read_settings()
    return _run(
        lambda: unlock_cluster(folder, lock_id, settings=settings), render_unlocked, as_json=as_json
    )


def _run(
    command: Callable[[], Result], render: Callable[[Result], Iterator[str]], *, as_json: bool
) -> int:
    """Print the result of a command on stdout, whether it succeeded or not."""
    from omnigraph.errors import ClusterError

    try:
        with _interrupt_on_sigterm():
            result = command()
    except ClusterError as error:
        if error.result is None:
            raise
        result = error.result  # type: ignore[assignment]
    lines = chain(map(str, result.diagnostics), render(result))
    print_result(result, lines, as_json=as_json)
    return 0 if result.ok else 1


@contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Raise on SIGTERM as on Ctrl-C, so that a cancelled job releases its lock."""

    def end(*_: object) -> NoReturn:
        raise SystemExit(EXIT_TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the business of the main thread
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _choose_actor(given: str | None) -> str | None:
    """Return the actor: `--as`, or else the actor of the operator's configuration."""
    if given:
        return given
    from omnigraph.cli.terminal import note
    from omnigraph.client.operator_config import find_config_folder, read_config

    return read_config(find_config_folder(), lambda message: note(f"warning: {message}")).actor
