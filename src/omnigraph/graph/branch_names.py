"""The rules for names of branches and actors, for those who stand above the graph."""

from omnigraph.storage.names import check_actor as check_actor
from omnigraph.storage.names import normalize_branch as normalize_branch
