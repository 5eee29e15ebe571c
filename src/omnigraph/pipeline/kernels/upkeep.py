"""Merged fragments, or a segment of an index, of one table."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.storage.tables.orders import Delivery, Order, carry_out, is_there


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPiece:
    """What was delivered for a piece of an order, and whether its table was to be seen at all."""

    delivery: Delivery | None
    was_there: bool


def write_piece(spec: None, task: Order) -> WrittenPiece:
    """What was written; running it twice leaves files nobody refers to, and does no harm."""
    del spec
    if not is_there(task):
        return WrittenPiece(delivery=None, was_there=False)
    return WrittenPiece(delivery=carry_out(task), was_there=True)
