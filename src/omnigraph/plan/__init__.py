"""What a query means: typed plans that know neither storage nor Spark.

`bind` turns a syntax tree and a catalog into a plan and reports every mistake; `rewrite` holds
the rules that improve it, applied in order; `explain` prints it.
"""
