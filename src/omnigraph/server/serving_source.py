"""What a server shall serve, and where it learns that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from omnigraph.errors import ClusterError, OmniError
from omnigraph.policy import Policy
from omnigraph.settings import Settings
from omnigraph.stored_queries import QueryRegistry


def keep_settings(settings: Settings) -> Settings:
    """The settings of the server, for a graph that has none of its own."""
    return settings


@dataclass(frozen=True, slots=True)
class GraphDefinition:
    """One graph as it shall be served.

    What it refers to is read when it is bound, so that a mistake there concerns this graph alone.
    """

    id: str
    uri: str
    load_policy: Callable[[], Policy | None]
    load_queries: Callable[[], QueryRegistry]
    choose_settings: Callable[[Settings], Settings] = keep_settings


@dataclass(frozen=True, slots=True)
class ServingDefinitions:
    """Everything that shall be served, as it was read at one moment."""

    graphs: tuple[GraphDefinition, ...]
    has_policy: bool
    load_server_policy: Callable[[], Policy | None]
    unsettled: Mapping[str, str] = field(default_factory=dict)
    """Graphs whose definition is being changed, and how: they are served as before or not at all"""
    revision: int | None = None
    """The revision of the definitions, where they have one."""
    mark: str = ""
    """Differs where they were read from something else."""


class ServingSource(Protocol):
    """Where a server learns what it shall serve."""

    @property
    def is_cluster(self) -> bool:
        """Whether schemas are changed there, and whether it may move while the server runs.

        A graph whose definition cannot be used is then quarantined even if it was served before;
        files are all taken over or none.
        """

    def read(self) -> ServingDefinitions:
        """What shall be served now.

        Raises:
            OmniError: it cannot be told as a whole.
        """

    def find_mark(self) -> str:
        """The mark that `read` would give now, at less expense.

        Raises:
            OmniError: it cannot be told.
        """


def list_problems(error: OmniError) -> list[str]:
    """Everything that is wrong, a line each: of a cluster, all that was found at once."""
    if isinstance(error, ClusterError):
        return [f"[{one.code}] {one.path}: {one.message}" for one in error.diagnostics]
    return [error.message]
