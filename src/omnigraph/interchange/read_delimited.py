"""CSV and TSV files as tables of text; what their headers declare is read elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as csv

from omnigraph.errors import BadRequest

_TABS = (".tsv", ".tab")
_COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Delimited:
    """A file of delimited text, and how it is written."""

    path: Path
    delimiter: str
    names: tuple[str, ...] | None = None
    """Where the file has no header of its own."""
    quote: str = '"'
    escape: str | None = None
    has_header: bool = True
    """Whether the first line is a header; with `names` it is then passed over."""

    def read_names(self) -> list[str]:
        """The names of the columns."""
        if self.names is not None:
            return list(self.names)
        with self._open() as stream:
            return list(csv.open_csv(stream, **self._list_options(())).schema.names)

    def read(self) -> Iterator[pa.RecordBatch]:
        """All rows; every column holds text, and an empty cell without quotes is null."""
        names = self.read_names()
        repeated = next((one for one in names if names.count(one) > 1), None)
        if repeated is not None:
            raise BadRequest(f"{self.path}: two columns are called '{repeated}'")
        with self._open() as stream:
            yield from csv.open_csv(stream, **self._list_options(names))

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            with pa.input_stream(str(self.path), compression="detect") as stream:
                yield stream
        except (OSError, pa.ArrowInvalid) as error:
            raise BadRequest(f"cannot read {self.path}: {error}") from error

    def _list_options(self, names: list[str] | tuple[()]) -> dict[str, object]:
        reading = csv.ReadOptions(
            column_names=list(self.names) if self.names is not None else None,
            skip_rows=1 if self.names is not None and self.has_header else 0,
        )
        parsing = csv.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=True,
            quote_char=self.quote,
            escape_char=self.escape or False,
        )
        converting = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        return {
            "read_options": reading,
            "parse_options": parsing,
            "convert_options": converting,
        }


def find_delimiter(path: Path, given: str | None) -> str:
    """The one that was given, or that of files of this name."""
    if given is not None:
        return given
    name = path.name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return "\t" if name.endswith(_TABS) else ","
