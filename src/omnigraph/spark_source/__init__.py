"""`spark.read.format("omnigraph")` and `df.write.format("omnigraph")`.

A data source runs in several processes that Spark starts: one that plans, those of the executors,
one that commits. None of them shares anything with the caller, so each opens the graph by its
address. Executors read fragments of pinned table versions and stage rows; the process that commits
checks them and publishes one commit, under the graph's own fence.

    from omnigraph.spark_source import register

    register(session)
"""

from __future__ import annotations

from omnigraph.spark_source.register import register as register
