"""Merged fragments, or a segment of an index, of one table."""

from __future__ import annotations

from omnigraph.storage.tables.orders import Delivery, Order, carry_out


def write_piece(spec: None, task: Order) -> Delivery | None:
    """What was written; running it twice leaves files nobody refers to, and does no harm."""
    return carry_out(task)
