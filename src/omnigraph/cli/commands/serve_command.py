"""`omnigraph serve` and `omnigraph graphs …`."""

from __future__ import annotations

import os
from importlib.util import find_spec

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.scope_resolution import describe_unknown_settings, resolve_server
from omnigraph.cli.shared_options import TIMEOUT
from omnigraph.cli.shell_completion import complete_profile, complete_server, complete_store
from omnigraph.cli.terminal import json_option, note, print_result

_PACKAGES = ("uvicorn", "starlette", "httptools", "structlog", "prometheus_client")


@click.command(epilog=render_examples("serve"))
@click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="URI[=ID]",
    shell_complete=complete_store,
    help="A graph to serve, and its id; by default the name of its folder. Repeatable.",
)
@click.option(
    "--cluster",
    metavar="DIR|URI",
    shell_complete=complete_store,
    help="Serve what is applied to a cluster, given by its folder or storage root: its graphs, "
    "policies, stored queries and embedding profiles.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="FILE[=ID]",
    help="A policy bundle and the graph it applies to; without an id, every graph that has no "
    "other. Repeatable.",
)
@click.option(
    "--server-policy",
    metavar="FILE",
    help="A policy bundle of scope cluster: who may list the graphs.",
)
@click.option(
    "--queries",
    multiple=True,
    metavar="PATH[=ID]",
    help="A file or folder of stored queries and the graph they belong to; without an id, every "
    "graph. Repeatable.",
)
@click.option("--bind", metavar="HOST:PORT", help="Where to listen; 127.0.0.1:8080 by default.")
@click.option(
    "--unauthenticated",
    is_flag=True,
    help="Serve without tokens: anyone who can reach the port may read and write.",
)
@click.option(
    "--require-all-graphs", is_flag=True, help="Do not start unless every graph can be opened."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many processes answer requests.",
)
@click.option(
    "--cors-origin",
    "cors_origins",
    multiple=True,
    metavar="ORIGIN",
    help="An origin such as https://app.example.org whose pages may use the server from a "
    "browser. Repeatable; none by default.",
)
@click.option(
    "--metrics-bind", metavar="HOST:PORT", help="Where metrics can be read; off by default."
)
@click.option(
    "--shutdown-grace-seconds",
    metavar="S",
    help="How long requests may take to finish after a signal to stop; 25 by default.",
)
def serve(
    stores: tuple[str, ...],
    cluster: str | None,
    policies: tuple[str, ...],
    server_policy: str | None,
    queries: tuple[str, ...],
    bind: str | None,
    unauthenticated: bool,
    require_all_graphs: bool,
    workers: int,
    cors_origins: tuple[str, ...],
    metrics_bind: str | None,
    shutdown_grace_seconds: str | None,
) -> int:
    """Serve graphs over HTTP: those of --store, or those of a cluster.

    Tokens come from OMNIGRAPH_SERVER_BEARER_TOKENS_FILE and its relatives. stdout gets one line,
    OMNIGRAPH_LISTEN_ADDR=HOST:PORT, once requests are answered; the log goes to stderr. SIGTERM
    lets requests finish, SIGHUP reads tokens, policies, stored queries and what is applied to the
    cluster again and tries again to open what could not be opened.
    """
    _require_packages()
    for problem in describe_unknown_settings():
        note(f"warning: {problem}")
    from omnigraph.server.http_server import run_alone
    from omnigraph.server.serving_config import ServeFlags, read_options
    from omnigraph.server.worker_pool import run_workers

    given = {
        "bind": bind,
        "is_unauthenticated": "true" if unauthenticated else None,
        "requires_all_graphs": "true" if require_all_graphs else None,
        "cors_origins": ",".join(cors_origins) or None,
        "metrics_bind": metrics_bind,
        "grace_s": shutdown_grace_seconds,
    }
    settings = {name: text for name, text in given.items() if text is not None}
    flags = ServeFlags(
        stores=stores,
        cluster=cluster,
        workers=workers,
        settings=settings,
        policies=policies,
        server_policy=server_policy,
        queries=queries,
    )
    options = read_options(flags, os.environ)
    return run_alone(options) if workers == 1 else run_workers(options, flags)


def _require_packages() -> None:
    from omnigraph.errors import MissingPackage

    for name in _PACKAGES:
        if find_spec(name) is None:
            raise MissingPackage(name, "the server", "pip install 'omnigraph[server]'")


@click.group()
def graphs() -> None:
    """List the graphs of a server."""


@graphs.command("list", epilog=render_examples("graphs list"))
@click.option("--server", metavar="NAME|URL", shell_complete=complete_server, help="The server.")
@click.option(
    "--profile",
    metavar="NAME",
    shell_complete=complete_profile,
    help="A profile of the operator's config.",
)
@TIMEOUT
@json_option
def list_(server: str | None, profile: str | None, timeout_s: float | None, as_json: bool) -> None:
    """List the graphs that a server has, with their addresses."""
    import msgspec

    from omnigraph.client.served_graph import list_graphs

    found = list_graphs(resolve_server(server, profile), timeout_s)
    lines = (f"{one.graph_id}\t{one.uri}" for one in found.graphs)
    print_result(msgspec.to_builtins(found), lines, as_json=as_json)
    for lost in () if as_json else found.quarantined:
        note(f"{lost.graph_id} is not served: {lost.reason}")
