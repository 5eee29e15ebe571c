"""Where a graph is kept: tables, versions, commits and control objects."""
