"""Plans executed with data frames.

The same optimized plan the embedded executor runs. Rows are wide: for every variable its id, its
type and the properties something above still needs. Scans and conditions run in Python workers with
the code of the embedded executor, so that a value means the same in both; joins, groups, orders and
slices are Spark's.
"""
