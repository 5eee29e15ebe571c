"""Typed plans of queries, independent of storage and Spark.

`bind` turns a syntax tree and a catalog into a plan and reports every error; `rewrite_rules`
optimizes it; `explain` prints it; `compile` does all of it in one call.
"""
