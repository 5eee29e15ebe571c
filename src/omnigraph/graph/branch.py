"""Branch: the verbs of a graph, on one branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.history_verbs import HistoryVerbs
from omnigraph.graph.invoking_verbs import InvokingVerbs
from omnigraph.graph.maintenance_verbs import MaintenanceVerbs
from omnigraph.graph.results import DeletedBranch, MadeBranch
from omnigraph.graph.schema_verbs import SchemaVerbs
from omnigraph.graph.undo_verbs import UndoVerbs

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph


class Branch(HistoryVerbs, UndoVerbs, InvokingVerbs, SchemaVerbs, MaintenanceVerbs):
    """One branch of a graph, by name: what `Graph` does on `main`, this does here.

    >>> main = graph.branch("main")
    >>> main.query("query q() { match { $p: Person } return { count($p) as n } }").rows
    [{'n': 2}]
    """

    def __init__(self, graph: Graph, name: str) -> None:
        super().__init__(graph._open, name, graph._guard, graph._registry)
        self.graph = graph

    @property
    def name(self) -> str:
        return self._default_branch

    @property
    def place(self) -> str:
        """What names its newest commit wherever a commit is taken."""
        return f"branch:{self.name}"

    def __repr__(self) -> str:
        return f"Branch({self.uri!r}, {self.name!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the types with how many rows each has here."""
        return self.at()._repr_html_()

    def delete(self) -> DeletedBranch:
        """Delete this branch."""
        return self.graph.delete_branch(self.name)

    def rename(self, new_name: str) -> MadeBranch:
        """Rename this branch; this object uses the new name from now on."""
        ref = self.graph.rename_branch(self.name, new_name)
        self._default_branch = str(ref.name)
        return ref
