"""Execution of plans on a snapshot: to rows, or to staged writes; nothing becomes visible."""
