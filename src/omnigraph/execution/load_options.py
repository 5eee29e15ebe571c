"""What a caller may say about a load: one value, from the surface to the tasks that read rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.errors import BadOptions
from omnigraph.execution.load_input import LoadMode
from omnigraph.output_files import OutputFile

ON_ERROR = ("fail", "skip")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How a load reads its input and treats it; everything but the mode has a default.

    Raises:
        BadOptions: a value is not allowed, or two of them exclude each other.
    """

    mode: LoadMode
    format: str | None = None
    """Of the files; by their names otherwise."""
    type: str | None = None
    """Of which type the rows of a table are; records say it themselves."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which column of a table holds which property; the others hold the one of their name."""
    select: tuple[str, ...] = ()
    """The columns of a table to read; by default all, and then all must be known."""
    partial: bool = False
    """Whether records of a merge keep what they leave out."""
    on_error: str = "fail"
    rejects: OutputFile | None = None
    """A file for every refused record."""
    match: tuple[str, ...] = ()
    """The columns by which a merge finds edges without ids; by default those of an `@unique`."""
    delimiter: str | None = None
    """What separates the columns of a text file; by default as its format says."""

    def __post_init__(self) -> None:
        if self.on_error not in ON_ERROR:
            raise BadOptions(f"on_error '{self.on_error}' is not one of {', '.join(ON_ERROR)}")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise BadOptions(f"a delimiter is one character, not '{self.delimiter}'")
        if self.partial and self.mode is not LoadMode.MERGE:
            raise BadOptions("only a merge can be partial")
        if self.match and self.mode is not LoadMode.MERGE:
            raise BadOptions("only a merge finds the edges that are there; leave out match")

    @property
    def skips(self) -> bool:
        """Whether bad rows are left out instead of refusing the load."""
        return self.on_error == "skip"

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked for but a mode."""
        return self == LoadOptions(mode=self.mode)

    def need_type(self) -> str:
        """The type of the rows of a table.

        Raises:
            BadOptions: no type was given.
        """
        if self.type is None:
            raise BadOptions("rows of a table do not name their type; give it with type=…")
        return self.type
