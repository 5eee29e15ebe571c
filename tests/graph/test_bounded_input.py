"""Input that is too long, expands too far or cannot be written down is refused, not swallowed."""

from __future__ import annotations

import gzip
import io
import json
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.embedding.embed_files import EmbedRequest, embed_file, parse_spec
from omnigraph.embedding.embedder import MockEmbedder
from omnigraph.errors import AlreadyExists, BadRequest, InputTooLarge, RowsRejected
from omnigraph.pipeline.input_splits import Format, InputFile, InputSplit
from omnigraph.pipeline.kernels.input_blocks import ParquetRows
from omnigraph.settings import InputSettings, Settings

SCHEMA = "node Doc { slug: String @key  body: String? }"
LINE = b'{"type": "Doc", "data": {"slug": "%d", "body": "%s"}}\n'
MIB = 1 << 20
BLANK = b" " * (MIB - 1) + b"\n"
"""An empty line."""
UNLIMITED = InputSettings(expanded_bytes=0, expansion_ratio=0)


def graph_with(tmp_path: Path, limits: InputSettings | None = None) -> omnigraph.Graph:
    settings = Settings() if limits is None else replace(Settings(), input=limits)
    return omnigraph.init(tmp_path / "g.omni", SCHEMA, settings=settings)


def zipped(path: Path, *parts: bytes) -> Path:
    """A compressed file of these parts, one after another."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        for part in parts:
            file.write(part)
    return path


def peak_bytes(load) -> int:
    """The most memory a load took, and that it was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(RowsRejected, match=r"line 2\b.*graph_batch_line_bytes"):
            load()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("ends", [True, False], ids=["that ends", "that never ends"])
@pytest.mark.parametrize("is_zipped", [True, False], ids=["compressed", "plain"])
def test_no_more_of_a_line_is_held_than_a_line_may_have(tmp_path, is_zipped, ends):
    graph = graph_with(tmp_path, UNLIMITED)
    parts = [LINE % (1, b"short"), *([b"x" * MIB] * 300)]
    parts += [b"\n", LINE % (2, b"short")] if ends else []
    if is_zipped:
        path = zipped(tmp_path / "long.jsonl.gz", *parts)
    else:
        path = tmp_path / "long.jsonl"
        path.write_bytes(b"".join(parts))
    assert peak_bytes(lambda: graph.load(path, "append")) < 200 * MIB


def test_records_after_a_line_that_is_too_long_are_loaded_and_keep_their_line_numbers(tmp_path):
    graph = graph_with(tmp_path, UNLIMITED)
    path = zipped(
        tmp_path / "long.jsonl.gz",
        LINE % (1, b"short"),
        *([b"x" * MIB] * 70),
        b"\n",
        LINE % (2, b"short"),
        b"not json\n",
    )
    result = graph.load(path, "append", on_error="skip")
    assert result.nodes == {"Doc": 2}
    assert [problem.line for problem in result.skipped.first] == [2, 4]


def test_a_line_just_as_long_as_allowed_is_loaded_from_a_compressed_file(tmp_path):
    graph = graph_with(tmp_path, UNLIMITED)
    rest = 32 * MIB - len(LINE % (1, b"")) + 1
    path = zipped(tmp_path / "long.jsonl.gz", LINE % (1, b"x" * rest), LINE % (2, b""))
    assert graph.load(path, "append").nodes == {"Doc": 2}


@pytest.mark.parametrize("name", ["bomb.jsonl.gz", "bomb.csv.gz"])
def test_a_file_that_expands_too_far_for_its_size_is_refused(tmp_path, name):
    graph = graph_with(tmp_path, InputSettings(expansion_ratio=50))
    before = graph.commits()
    rows = (b"x," + b"-" * 1021 + b"\n") * 1024 if "csv" in name else BLANK
    path = zipped(tmp_path / name, b"slug,body\n" if "csv" in name else b"", *([rows] * 100))
    options = {"type": "Doc"} if "csv" in name else {}
    with pytest.raises(InputTooLarge, match=r"bomb.* expands to more than 50 times its size"):
        graph.load(path, "append", **options)
    assert graph.commits() == before


@pytest.mark.parametrize("name", ["big.jsonl.gz", "big.csv.gz"])
def test_a_file_that_expands_to_more_than_is_allowed_is_refused(tmp_path, name):
    graph = graph_with(tmp_path, InputSettings(expanded_bytes=MIB))
    row = b"%d,text\n" if "csv" in name else LINE.replace(b"%s", b"text")
    rows = [row % number for number in range(150_000)]
    path = zipped(tmp_path / name, b"slug,body\n" if "csv" in name else b"", *rows)
    options = {"type": "Doc"} if "csv" in name else {}
    with pytest.raises(InputTooLarge, match=r"more than 1 MiB; OMNIGRAPH_INPUT_EXPANDED_MIB"):
        graph.load(path, "append", **options)


def test_a_small_file_may_compress_as_well_as_it_likes(tmp_path):
    graph = graph_with(tmp_path)
    path = zipped(tmp_path / "blank.jsonl.gz", *([BLANK] * 60), LINE % (1, b"short"))
    assert graph.load(path, "append").nodes == {"Doc": 1}


def test_the_limits_are_read_from_the_environment():
    variables = {"OMNIGRAPH_INPUT_EXPANDED_MIB": "5", "OMNIGRAPH_INPUT_EXPANSION": "7"}
    limits = Settings.from_environment(variables).input
    assert (limits.expanded_bytes, limits.expansion_ratio) == (5 * MIB, 7)


# --- records of Python ----------------------------------------------------------------------------


def around() -> dict[str, object]:
    """An object that contains itself."""
    data: dict[str, object] = {"slug": "a"}
    data["body"] = data
    return data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (around(), "record 2 contains itself or is nested too deep"),
        ({"slug": "a", "body": 10**10_000}, "record 2 cannot be written as JSON: .*digits"),
        ({"slug": "a", "body": "\ud800"}, "record 2 cannot be written as JSON: .*surrogates"),
        ({"slug": "a", "body": object()}, "record 2: property 'body': expects String, got object"),
    ],
    ids=["a cycle", "a number of 10,000 digits", "half a character", "any object"],
)
@pytest.mark.parametrize("options", [{}, {"on_error": "skip"}], ids=["plain", "in tasks"])
def test_a_record_that_cannot_be_written_down_is_named(tmp_path, data, reason, options):
    graph = graph_with(tmp_path)
    records = [json.loads(LINE % (1, b"fine")), {"type": "Doc", "data": data}]
    with pytest.raises(BadRequest, match=reason) as caught:
        graph.load(records, "append", **options)
    assert not re.search("set_int_max_str_digits", str(caught.value))


# --- Parquet --------------------------------------------------------------------------------------


def parquet(path: Path, bodies: pa.Array, **options) -> Path:
    slugs = pa.array([str(number) for number in range(len(bodies))])
    pq.write_table(pa.table({"slug": slugs, "body": bodies}), path, **options)
    return path


def repeated(text: str, rows: int) -> pa.DictionaryArray:
    """A text that stands in the file once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))


def test_a_text_that_a_parquet_file_repeats_is_not_written_out_beyond_the_limits(tmp_path):
    graph = graph_with(tmp_path)
    path = parquet(tmp_path / "bomb.parquet", repeated("x" * MIB, 100_000))
    assert path.stat().st_size < 4 * MIB, "it stands for 100 GB"
    before = pa.total_allocated_bytes()
    with pytest.raises(InputTooLarge, match=r"bomb.parquet expands to more than 200 times"):
        graph.load(path, "append", type="Doc")
    assert pa.total_allocated_bytes() - before < 200 * MIB


def test_a_text_that_lists_of_a_parquet_file_repeat_is_not_written_out_either(tmp_path):
    texts = repeated("x" * MIB, 60_000)
    lists = pa.ListArray.from_arrays(pa.array(range(0, 60_001, 3), pa.int32()), texts)
    path = parquet(tmp_path / "lists.parquet", lists)
    assert path.stat().st_size < 4 * MIB, "it stands for 60 GB"
    before = pa.total_allocated_bytes()
    with pytest.raises(InputTooLarge, match=r"lists.parquet expands to more than 200 times"):
        read_parquet(path, ["body"])
    assert pa.total_allocated_bytes() - before < 200 * MIB


NESTED = [
    pa.array([["a", "b", None], None, [], ["a" * 50] * 3] * 100),
    pa.array([{"k": "a", "n": 1}, {"k": None, "n": 2}, None] * 100),
    pa.array([[{"k": ["a", "b"]}], None, [{"k": None}]] * 100),
    pa.array([[("a", "b"), ("c", None)], None] * 100, pa.map_(pa.string(), pa.string())),
]


@pytest.mark.parametrize("bodies", NESTED, ids=lambda bodies: str(bodies.type)[:20])
def test_texts_within_lists_and_structs_come_as_they_are(tmp_path, bodies):
    path = parquet(tmp_path / "nested.parquet", bodies)
    (batch,) = read_parquet(path, ["slug", "body"])
    assert batch.column("body").to_pylist() == bodies.to_pylist()
    assert batch.schema.field("body").type == pq.read_schema(path).field("body").type


def read_parquet(path: Path, columns: list[str]) -> list[pa.RecordBatch]:
    file = InputFile(path.name, str(path), path.stat().st_size, Format.PARQUET)
    with pa.OSFile(str(path)) as stream:
        return list(
            ParquetRows(stream, InputSplit(0, file, 0, 1), InputSettings()).batches(columns)
        )


def test_a_parquet_file_that_says_it_expands_too_far_is_refused(tmp_path):
    graph = graph_with(tmp_path, InputSettings(expanded_bytes=MIB))
    bodies = pa.array(["y" * 1000 + str(number) for number in range(3000)])
    path = parquet(tmp_path / "big.parquet", bodies, use_dictionary=False, compression="zstd")
    with pytest.raises(InputTooLarge, match=r"more than 1 MiB; OMNIGRAPH_INPUT_EXPANDED_MIB"):
        graph.load(path, "append", type="Doc")


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_repeated_texts_of_a_parquet_file_are_loaded_whole(tmp_path, use_dictionary):
    graph = graph_with(tmp_path)
    texts = [f"text {number % 3}" if number % 5 else None for number in range(1000)]
    path = parquet(tmp_path / "some.parquet", pa.array(texts), use_dictionary=use_dictionary)
    graph.load(path, "append", type="Doc")
    read = "query q() { match { $d: Doc } return { $d.slug as slug, $d.body as body } }"
    found = {int(row["slug"]): row["body"] for row in graph.query(read).rows}
    assert found == dict(enumerate(texts))


def test_rows_that_are_long_once_written_out_come_in_pieces(tmp_path):
    path = parquet(tmp_path / "long.parquet", repeated("z" * MIB, 300))
    file = InputFile("long.parquet", str(path), path.stat().st_size, Format.PARQUET)
    with pa.OSFile(str(path)) as stream:
        rows = ParquetRows(stream, InputSplit(0, file, 0, 1), UNLIMITED)
        sizes = [(batch.num_rows, batch.nbytes) for batch in rows.batches(["body", "slug"])]
    assert sum(rows for rows, _ in sizes) == 300
    assert all(size <= 257 * MIB for _, size in sizes)


# --- streams --------------------------------------------------------------------------------------


class Watched(io.RawIOBase):
    """A stream that records the size of each read, and may run a callback."""

    def __init__(self, content: bytes, when_read: Callable[[], object] = lambda: None) -> None:
        self._content, self._when_read = io.BytesIO(content), when_read
        self.asked: list[int] = []

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self.asked.append(size)
        self._when_read()
        return self._content.read(min(size, MIB) if size >= 0 else -1)  # like a pipe


@pytest.mark.parametrize("rows", [3, 30_000])
def test_a_stream_is_loaded_without_reading_it_whole(tmp_path, rows):
    graph = graph_with(tmp_path)
    stream = Watched(b"".join(LINE % (number, b"x" * 400) for number in range(rows)))
    assert graph.load(stream, "append").nodes == {"Doc": rows}
    assert all(0 <= size <= 9 * MIB for size in stream.asked)


def test_a_stream_of_text_is_refused(tmp_path):
    with pytest.raises(BadRequest, match="binary mode"):
        graph_with(tmp_path).load(io.StringIO("{}"), "append")


def test_rejects_do_not_replace_a_file_that_appeared_while_the_load_ran(tmp_path):
    graph, rejects = graph_with(tmp_path), tmp_path / "rejects.jsonl"
    before = graph.commits()
    stream = Watched(LINE % (1, b"fine") + b"not json\n", lambda: rejects.write_text("precious"))
    with pytest.raises(
        AlreadyExists, match=r"rejects\.jsonl was written concurrently by another process"
    ):
        run_on_tasks(graph, stream, rejects)
    assert rejects.read_text() == "precious"
    assert graph.commits() == before
    assert {file.name for file in tmp_path.iterdir()} == {"g.omni", "rejects.jsonl"}


def test_rejects_replace_the_file_that_was_there_when_the_load_began(tmp_path):
    graph, rejects = graph_with(tmp_path), tmp_path / "rejects.jsonl"
    rejects.write_text("of an earlier load")
    run_on_tasks(graph, LINE % (1, b"fine") + b"not json\n", rejects)
    assert json.loads(rejects.read_text())["line"] == 2


def test_rejects_do_not_replace_a_link_to_a_folder(tmp_path):
    graph, rejects = graph_with(tmp_path), tmp_path / "rejects"
    before = graph.commits()
    (tmp_path / "folder").mkdir()
    rejects.symlink_to(tmp_path / "folder")
    with pytest.raises(BadRequest, match="Is a directory"):
        run_on_tasks(graph, LINE % (1, b"fine") + b"not json\n", rejects)
    assert rejects.is_symlink()
    assert graph.commits() == before


def run_on_tasks(graph, records, rejects: Path) -> None:
    graph.load(records, "append", on_error="skip", rejects=rejects)


class WritingEmbedder:
    """An embedder that creates the output file in between."""

    model = "mock"

    def __init__(self, file: Path) -> None:
        self._file, self._mock = file, MockEmbedder()

    def embed(self, text, dimension, role):
        self._file.write_text("precious")
        return self._mock.embed(text, dimension, role)


def test_embedding_does_not_replace_a_file_created_concurrently(tmp_path):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(LINE % (1, b"short"))
    spec = parse_spec({"dimension": 3, "types": {"Doc": {"target": "v", "fields": ["body"]}}})
    with pytest.raises(
        AlreadyExists, match=r"out\.jsonl was written concurrently by another process"
    ):
        embed_file(EmbedRequest(source, output, spec), WritingEmbedder(output))
    assert output.read_text() == "precious"
    assert {file.name for file in tmp_path.iterdir()} == {"in.jsonl", "out.jsonl"}
