"""Typed plans of queries; they know neither storage nor Spark.

`bind` turns a syntax tree and a catalog into a plan and reports every mistake; `rewrite_rules`
optimizes it; `explain` prints it; `compile` does all of it in one call.
"""
