"""The queries of some files, found by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from omnigraph.errors import BadRequest, CompileError, Diagnostic
from omnigraph.language.query.query_ast import MutationBody, QueryDecl
from omnigraph.language.query.query_parser import parse_query_file
from omnigraph.language.source import SourceText

SUFFIX = ".gq"


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A query and the text it is in, called like its file.

    The folder is left out: mistakes are also told to whoever runs the query on a server.
    """

    declaration: QueryDecl
    source: SourceText

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def is_mutation(self) -> bool:
        return isinstance(self.declaration.body, MutationBody)


@dataclass(frozen=True, slots=True)
class QueryRegistry:
    """Stored queries in the order of their names."""

    queries: Mapping[str, StoredQuery] = field(default_factory=dict)

    def __iter__(self) -> Iterator[StoredQuery]:
        return iter(self.queries.values())

    def __len__(self) -> int:
        return len(self.queries)

    def find(self, name: str) -> StoredQuery | None:
        return self.queries.get(name)


def load_registry(*paths: str | Path) -> QueryRegistry:
    """The queries of files, and of all `.gq` files in folders.

    Raises:
        BadRequest: a file cannot be read.
        CompileError: a text is not a query file, or a name appears twice; with every mistake.
    """
    return parse_registry(_read(file) for path in paths for file in _list_files(Path(path)))


def parse_registry(sources: Iterable[SourceText]) -> QueryRegistry:
    """The same for texts."""
    found: dict[str, StoredQuery] = {}
    places: dict[str, str] = {}
    mistakes: list[Diagnostic] = []
    for source in sources:
        try:
            declared = parse_query_file(source).queries
        except CompileError as error:
            mistakes += error.diagnostics
            continue
        named = replace(source, name=PurePath(source.name).name)
        for one in declared:
            known = places.get(one.name)
            if known is not None:
                message = f"query '{one.name}' is also defined in {known}"
                mistakes.append(source.diagnostic("P110", message, one.name_span))
            found[one.name], places[one.name] = StoredQuery(one, named), source.name
    if mistakes:
        raise CompileError(mistakes)
    return QueryRegistry({name: found[name] for name in sorted(found)})


def _list_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(one for one in path.iterdir() if one.suffix == SUFFIX and one.is_file())


def _read(path: Path) -> SourceText:
    try:
        return SourceText.from_bytes(path.read_bytes(), str(path))
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error
