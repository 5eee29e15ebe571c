"""A generated literature as files of JSON lines, deterministic by seed.

Everything is generated and written by column: half a million lines take a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Columns: TypeAlias = Mapping[str, pa.Array]

SEED = 7
FILE_NAMES = (
    "venues.jsonl",
    "authors.jsonl",
    "papers.jsonl",
    "wrote.jsonl",
    "cites.jsonl",
    "appeared.jsonl",
)
PAPERS = 62_000
PAPERS_PER_VENUE, PAPERS_PER_AUTHOR = 155, 1.63
CITATIONS_PER_PAPER = 5.4
DIMENSIONS = 16
FIRST_YEAR, LAST_YEAR = 1975, 2025

_COUNTRIES = ("br", "de", "in", "jp", "ke", "us", None)
_SUBJECTS = (
    "tides coast harbour wave current estuary sediment reef",
    "enzyme protein folding membrane receptor ligand binding cell",
    "galaxy dust spectrum redshift cluster halo telescope survey",
    "parser grammar compiler type inference program syntax proof",
    "glacier snow albedo melt permafrost drift core climate",
    "market price auction bidder contract risk credit trade",
    "neuron cortex synapse memory sleep rhythm attention signal",
    "graph node edge path traversal partition community query",
    "soil root fungus nitrogen harvest drought seed canopy",
    "laser photon cavity crystal lattice phonon spin quantum",
    "verse manuscript scribe archive dialect folklore poem letter",
    "bridge load beam fatigue steel concrete crack vibration",
)
_MANNER = (
    "adaptive observed robust seasonal sparse fast late early deep slow",
    "model study measure bound theory map account survey limit test",
)
_FIRST = "Ada Bela Chidi Dora Emre Femi Gita Hana Ivo Juno Kofi Lena Mika Nuri Olga Pavel"
_LAST = "Abara Brandt Costa Dhar Eriksen Fuchs Gono Hoshi Ito Jansen Kamau Lima Mora Novak Otieno"


class Literature:
    """The tables of the literature, generated on demand in the order they are written."""

    def __init__(self, papers: int = PAPERS, seed: int = SEED) -> None:
        self.papers = papers
        self.authors = int(papers / PAPERS_PER_AUTHOR)
        self.venues = max(papers // PAPERS_PER_VENUE, 1)
        self._draw = np.random.default_rng(seed)
        self.subjects = self._draw.integers(0, len(_SUBJECTS), papers)
        self._centres = self._draw.normal(size=(len(_SUBJECTS), DIMENSIONS))

    def meaning_of(self, subject: int) -> list[float]:
        """Return the vector near which papers of a subject lie."""
        return [float(x) for x in self._centres[subject].round(3)]

    def write(self, folder: Path) -> list[Path]:
        """One file for each type, in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = (
            _make_nodes("Venue", self._make_venues()),
            _make_nodes("Author", self._make_authors()),
            _make_nodes("Paper", self._make_papers()),
            self._make_wrote(),
            self._make_cites(),
            self._make_appeared(),
        )
        paths = [folder / name for name in FILE_NAMES]
        for path, columns in zip(paths, tables, strict=True):
            path.write_bytes(_write_lines(columns))
        return paths

    # --- nodes -----------------------------------------------------------------------------------

    def _make_venues(self) -> Columns:
        name = _join_words(
            self._draw_words(_MANNER, self.venues),
            self._draw_words([" ".join(_SUBJECTS)], self.venues),
        )
        return {
            "slug": _make_slugs("venue", np.arange(self.venues)),
            "name": pc.utf8_title(name),
            "kind": _take(["conference", "journal"], self._draw.integers(0, 2, self.venues)),
        }

    def _make_authors(self) -> Columns:
        return {
            "slug": _make_slugs("author", np.arange(self.authors)),
            "name": _join_words(self._draw_words([_FIRST, _LAST], self.authors)),
            "country": _take(_COUNTRIES, self._draw.integers(0, len(_COUNTRIES), self.authors)),
        }

    def _make_papers(self) -> Columns:
        title = _join_words(
            self._draw_words(_MANNER[:1], self.papers),
            self._draw_subject_words(2),
            self._draw_words(_MANNER[1:], self.papers),
        )
        abstract = _join_words(
            self._draw_subject_words(12), self._draw_words([" ".join(_SUBJECTS)] * 6, self.papers)
        )
        noise = self._draw.normal(scale=0.6, size=(self.papers, DIMENSIONS))
        meaning = (self._centres[self.subjects] + noise).round(3)
        return {
            "slug": _make_slugs("paper", np.arange(self.papers)),
            "title": pc.utf8_title(title),
            "abstract": abstract,
            "year": pa.array(self._draw_years()),
            "meaning": pa.FixedSizeListArray.from_arrays(pa.array(meaning.ravel()), DIMENSIONS),
        }

    def _draw_years(self) -> np.ndarray:
        """Papers are numbered as they appear, and more appear every year."""
        span = LAST_YEAR - FIRST_YEAR
        return (FIRST_YEAR + span * np.sqrt(np.arange(self.papers) / self.papers)).astype(np.int64)

    def _draw_words(self, lists: Sequence[str], count: int) -> list[pa.Array]:
        return [
            _take(words, self._draw.integers(0, len(words), count))
            for words in (text.split() for text in lists)
        ]

    def _draw_subject_words(self, count: int) -> list[pa.Array]:
        """Words of each paper's own subject."""
        vocabulary = [word for text in _SUBJECTS for word in text.split()]
        size = len(vocabulary) // len(_SUBJECTS)
        draws = self._draw.integers(0, size, (count, self.papers))
        return [_take(vocabulary, self.subjects * size + row) for row in draws]

    # --- edges -----------------------------------------------------------------------------------

    def _make_wrote(self) -> Columns:
        """One to four authors a paper; a few authors write much."""
        papers = np.repeat(np.arange(self.papers), self._draw.integers(1, 5, self.papers))
        authors = (self._draw.random(len(papers)) ** 1.7 * self.authors).astype(np.int64)
        pairs = np.unique(np.stack([papers, authors], axis=1), axis=0)
        _, first, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
        position = pa.array(np.arange(len(pairs)) - np.repeat(first, counts))
        edges = _make_edges("Wrote", "author", pairs[:, 1], "paper", pairs[:, 0])
        return {**edges, "data": pa.StructArray.from_arrays([position], ["position"])}

    def _make_cites(self) -> Columns:
        """Papers cite older ones, and the famous most of all."""
        citing = np.repeat(
            np.arange(1, self.papers), self._draw.poisson(CITATIONS_PER_PAPER, self.papers - 1)
        )
        cited = (self._draw.random(len(citing)) ** 2.2 * citing).astype(np.int64)
        pairs = np.unique(np.stack([citing, cited], axis=1), axis=0)
        return _make_edges("Cites", "paper", pairs[:, 0], "paper", pairs[:, 1])

    def _make_appeared(self) -> Columns:
        papers = np.flatnonzero(self._draw.random(self.papers) < 0.95)
        venues = self._draw.integers(0, self.venues, len(papers))
        return _make_edges("AppearedIn", "paper", papers, "venue", venues)


def _take(values: Sequence[str | None], at: np.ndarray) -> pa.Array:
    return pa.array(values).take(pa.array(at))


def _make_slugs(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "-")


def _join_words(*words: Iterable[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*(one for group in words for one in group), " ")


def _make_nodes(type_name: str, properties: Columns) -> Columns:
    data = pa.StructArray.from_arrays(list(properties.values()), list(properties))
    return {"type": pa.repeat(type_name, len(data)), "data": data}


def _make_edges(
    name: str, source: str, sources: np.ndarray, target: str, targets: np.ndarray
) -> Columns:
    return {
        "edge": pa.repeat(name, len(sources)),
        "from": _make_slugs(source, sources),
        "to": _make_slugs(target, targets),
    }


# --- JSON lines ----------------------------------------------------------------------------------


def _write_lines(columns: Columns) -> bytes:
    """Encode one JSON object per line; no text here needs escapes."""
    return "\n".join([*_render_objects(columns).to_pylist(), ""]).encode()


def _render_objects(columns: Columns) -> pa.Array:
    members = [
        pc.binary_join_element_wise(f'"{name}"', _render(values), ":")
        for name, values in columns.items()
    ]
    return pc.binary_join_element_wise("{", pc.binary_join_element_wise(*members, ","), "}", "")


def _render(values: pa.Array) -> pa.Array:
    """The JSON text of every value."""
    if pa.types.is_struct(values.type):
        return _render_objects(dict(zip(values.type.names, values.flatten(), strict=True)))
    if pa.types.is_fixed_size_list(values.type):
        numbers = values.cast(pa.list_(values.type.value_type)).cast(pa.list_(pa.string()))
        return pc.binary_join_element_wise("[", pc.binary_join(numbers, ","), "]", "")
    if pa.types.is_string(values.type):
        return pc.fill_null(pc.binary_join_element_wise('"', values, '"', ""), "null")
    return values.cast(pa.string())
