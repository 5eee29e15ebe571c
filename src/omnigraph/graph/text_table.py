"""Tables as text: aligned columns, also where characters take two places or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def render_text_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], max_width: int, *, wraps: bool = False
) -> Iterator[str]:
    """A header, a rule and the rows; a cell that is too wide is cut or goes on below."""
    from rich.cells import cell_len, chop_cells, set_cell_size  # noqa: PLC0415 - only for this

    def split(text: str, width: int) -> list[str]:
        if cell_len(text) <= width:
            return [text]
        return chop_cells(text, width) if wraps else [f"{chop_cells(text, width - 1)[0]}…"]

    def join(cells: Sequence[str]) -> str:
        padded = (set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=True))
        return " | ".join(padded).rstrip()

    widths = [
        min(max_width, max(map(cell_len, (name, *cells))))
        for name, *cells in zip(columns, *rows, strict=True)
    ]
    yield join([split(name, width)[0] for name, width in zip(columns, widths, strict=True)])
    yield "-+-".join("-" * width for width in widths)
    for row in rows:
        pieces = [split(text, width) for text, width in zip(row, widths, strict=True)]
        for line in range(max((len(p) for p in pieces), default=0)):
            yield join([p[line] if line < len(p) else "" for p in pieces])
