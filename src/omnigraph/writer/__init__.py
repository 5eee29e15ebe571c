"""Everything that changes a graph, whatever it is, goes through the one driver in here."""
