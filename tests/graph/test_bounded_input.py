"""Input that is too long, expands too far or cannot be written down is refused, not swallowed."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import BadRequest, InputTooLarge, RowsRejected
from omnigraph.settings import InputSettings, Settings

SCHEMA = "node Doc { slug: String @key  body: String? }"
LINE = b'{"type": "Doc", "data": {"slug": "%d", "body": "%s"}}\n'
MIB = 1 << 20
BLANK = b" " * (MIB - 1) + b"\n"
"""A line that says nothing."""
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
        ({"slug": "a", "body": object()}, "record 2 cannot be written as JSON: .*object"),
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
