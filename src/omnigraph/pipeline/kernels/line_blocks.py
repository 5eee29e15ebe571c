"""Pieces of input as blocks of whole lines, with bounded memory however long a line is.

Of a line that is longer than a record may be, only so much is read that it is refused as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

BLOCK_BYTES = 32 << 20
_STEP_BYTES = 1 << 16


def read_lines_between(stream: BinaryIO, start: int, end: int, longest: int) -> bytes:
    """The lines that start in this range; the last one is read to its end."""
    stream.seek(max(0, start - 1))
    data = stream.read(end - max(0, start - 1))
    if start:
        first = data.find(b"\n") + 1
        if first == 0:
            return b""  # the whole range is the inside of a line that started before it
        data = data[first:]
    if not data or data.endswith(b"\n"):
        return data
    pieces, size = [data], len(data) - data.rfind(b"\n") - 1
    while size <= longest and (piece := stream.read(_STEP_BYTES)):
        line_end = piece.find(b"\n")
        if line_end >= 0:
            pieces.append(piece[: line_end + 1])
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def read_line_blocks(stream: BinaryIO, longest: int) -> Iterator[tuple[bytes, bool]]:
    """Blocks of whole lines from a stream that cannot be cut, and whether they start it."""
    begun, is_start = bytearray(), True
    while block := stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        room = max(0, longest + 1 - len(begun))
        if end == 0:
            begun += block[:room]
            continue
        line_end = block.find(b"\n")
        yield bytes(begun) + block[: min(room, line_end)] + block[line_end:end], is_start
        begun, is_start = bytearray(block[end:]), False
    if begun:
        yield bytes(begun), is_start
