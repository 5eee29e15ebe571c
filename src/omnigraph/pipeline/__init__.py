"""Bulk work on Spark: load and export, as stages of tasks.

Spark plans, schedules and retries; the rows stay in Arrow inside its Python workers, from the
input to the files of a table. A stage is a list of plain task descriptions and the name of a
kernel, a pure function that reads, checks or writes and gives a small result back. The very same
kernels run inline, without Spark. Nothing here makes anything visible: the result of a load is a
list of staged transactions, which the graph commits.
"""

from __future__ import annotations

from omnigraph.pipeline.spark_session import spark as spark
