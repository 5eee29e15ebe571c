"""Demonstration of a bulk load and of versioning, on a generated literature graph.

The graph is loaded on Spark, queried, branched, read at earlier revisions and maintained; every
step reports its duration. The graph is kept. Run by `./dev demo`.
"""
