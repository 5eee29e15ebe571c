"""The options by which commands are told which policy bundle they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command_target import add_cluster_option
from omnigraph.cli.completion_words import FILE, complete_profile
from omnigraph.cli.input_files import read_source
from omnigraph.cli.process_settings import read_settings
from omnigraph.cli.scope_resolution import choose_applied, resolve_cluster
from omnigraph.client.operator_config import find_active_profile

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.cluster.addressed_graph import AddressedGraph
    from omnigraph.language.source import SourceText
    from omnigraph.policy import Policy

_OF_CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class ChosenBundle:
    """A bundle: of a file, or one that is applied to a cluster."""

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
        click.option("--json", "as_json", is_flag=True, help="Print a JSON document."),
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
    from omnigraph.cluster.cluster_place import read_applied_policy

    place, chosen = resolve_cluster(cluster, profile)
    settings = read_settings(quietly=True)
    if kind == _OF_CLUSTER:
        if graph_id:
            raise click.UsageError("--scope cluster takes no graph; leave out --graph")
        return ChosenBundle(read_applied_policy(place, graph_id=None, settings=settings), kind)
    applied = choose_applied(place, graph_id or chosen)
    source = read_applied_policy(place, graph_id=applied.id, settings=settings)
    return ChosenBundle(source, kind, applied)
