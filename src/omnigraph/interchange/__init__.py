"""Data of other programs: what schema it suggests, and how it becomes a graph."""
