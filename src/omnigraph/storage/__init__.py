"""Storage of a graph: tables, versions, commits and control objects."""
