"""Execution of plans on a snapshot: to rows, or to staged writes that are not visible yet."""
