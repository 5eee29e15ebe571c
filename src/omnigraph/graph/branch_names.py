"""The rules for names of branches, for those who stand above the graph."""

from omnigraph.storage.names import normalize_branch as normalize_branch
