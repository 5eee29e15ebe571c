"""`omnigraph cluster …`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.cluster_rendering import (
    render_applied,
    render_approved,
    render_plan,
    render_status,
    render_unlocked,
    render_validated,
)
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json
from omnigraph.cli.process_settings import read_settings

if TYPE_CHECKING:
    from omnigraph.cluster.cluster_results import ClusterResult

Result = TypeVar("Result", bound="ClusterResult")

_FOLDER = click.argument("folder", metavar="[DIR]", default=".", type=FILE)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
_ACTOR = click.option("--as", "actor", metavar="ACTOR", help="The actor changes are recorded for.")


@click.group()
def cluster() -> None:
    """Declare graphs, schemas, queries and policies in files, and apply them."""


@cluster.command(epilog=render_examples("cluster validate"))
@_FOLDER
@_JSON
def validate(folder: str, as_json: bool) -> int:
    """Check the cluster.yaml of a folder and every file it names.

    Storage is not looked at. Exits with 1 when there are mistakes.
    """
    from omnigraph.cluster import validate_cluster

    return _run(lambda: validate_cluster(folder), render_validated, as_json=as_json)


@cluster.command(epilog=render_examples("cluster plan"))
@_FOLDER
@_JSON
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
@_JSON
def apply(folder: str, actor: str | None, as_json: bool) -> int:
    """Make the cluster what its configuration says, and record it in the ledger.

    What needs an approval is left out. Exits with 0 when nothing failed; "converged" says whether
    everything was done.
    """
    from omnigraph.cluster import apply_cluster

    settings, who = read_settings(), _choose_actor(actor)
    return _run(
        lambda: apply_cluster(folder, actor=who, settings=settings), render_applied, as_json=as_json
    )


@cluster.command("import", epilog=render_examples("cluster import"))
@_FOLDER
@_JSON
def import_(folder: str, as_json: bool) -> int:
    """Make the first ledger of graphs that are there already.

    For a ledger that was lost, and for graphs that are older than the cluster.
    """
    from omnigraph.cluster import import_cluster

    settings = read_settings()
    return _run(lambda: import_cluster(folder, settings=settings), render_status, as_json=as_json)


@cluster.command(epilog=render_examples("cluster approve"))
@click.argument("resource", metavar="RESOURCE")
@_FOLDER
@_ACTOR
@_JSON
def approve(resource: str, folder: str, actor: str | None, as_json: bool) -> int:
    """Allow the deletion of a graph, or an empty graph in place of one that was there.

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
@_JSON
def status(folder: str, as_json: bool) -> int:
    """Show what the ledger says, and who holds the lock.

    Writes nothing and opens no graph.
    """
    from omnigraph.cluster import read_cluster_status

    settings = read_settings()
    return _run(
        lambda: read_cluster_status(folder, settings=settings), render_status, as_json=as_json
    )


@cluster.command(epilog=render_examples("cluster refresh"))
@_FOLDER
@_JSON
def refresh(folder: str, as_json: bool) -> int:
    """Look at the graphs and the catalog, and record in the ledger what is found."""
    from omnigraph.cluster import refresh_cluster

    settings = read_settings()
    return _run(lambda: refresh_cluster(folder, settings=settings), render_status, as_json=as_json)


@cluster.command("force-unlock", epilog=render_examples("cluster force-unlock"))
@click.argument("lock_id", metavar="LOCK_ID")
@_FOLDER
@_JSON
def force_unlock(lock_id: str, folder: str, as_json: bool) -> int:
    """Remove the lock of an operator who is gone."""
    from omnigraph.cluster import unlock_cluster

    settings = read_settings()
    return _run(
        lambda: unlock_cluster(folder, lock_id, settings=settings), render_unlocked, as_json=as_json
    )


def _run(
    command: Callable[[], Result], render: Callable[[Result], Iterator[str]], *, as_json: bool
) -> int:
    """Print what a command came to, on stdout whether it succeeded or not."""
    from omnigraph.errors import ClusterError

    try:
        result = command()
    except ClusterError as error:
        if error.result is None:
            raise
        result = error.result  # type: ignore[assignment]
    if as_json:
        print_json(result.wire())
    else:
        for diagnostic in result.diagnostics:
            click.echo(str(diagnostic))
        for line in render(result):
            click.echo(line)
    return 0 if result.ok else 1


def _choose_actor(given: str | None) -> str | None:
    """Who works: as the command says, or else as the operator's configuration does."""
    if given:
        return given
    from omnigraph.cli.output import note
    from omnigraph.client.operator_config import find_config_folder, read_config

    return read_config(find_config_folder(), lambda message: note(f"warning: {message}")).actor
