"""Going on where a run of the file pipeline ended, and not asking faster than allowed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.embedding.embed_files import EmbedRequest, EmbedSpec, EmbedTarget, embed_file
from omnigraph.embedding.embedder import MockEmbedder
from omnigraph.embedding.text_vectors import Pace
from omnigraph.errors import EmbeddingFailed

SPEC = EmbedSpec(3, {"Album": EmbedTarget("vibe", ("title",))})


@dataclass
class Fragile:
    """Made-up vectors until it has had enough."""

    lasts: int
    model: str = "m-1"
    asked: list[str] = field(default_factory=list)

    def embed(self, text, dimension, role):
        if len(self.asked) >= self.lasts:
            raise EmbeddingFailed("out of order")
        self.asked.append(text)
        return MockEmbedder().embed(text, dimension, role)


def records(count: int) -> str:
    return "".join(
        json.dumps({"type": "Album", "data": {"title": f"t{number}"}}) + "\n"
        for number in range(count)
    )


@pytest.fixture
def request_(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(records(6))
    return EmbedRequest(source, tmp_path / "out.jsonl", SPEC, is_resumable=True)


def names(request_):
    return sorted(path.name for path in request_.output.parent.iterdir())


def test_a_failed_run_is_resumed_and_embeds_nothing_twice(request_):
    first, second = Fragile(4), Fragile(99)
    with pytest.raises(EmbeddingFailed):
        embed_file(request_, first)
    assert names(request_) == ["in.jsonl", "out.jsonl.tmp", "out.jsonl.tmp.sum"]
    summary = embed_file(request_, second)
    assert first.asked + second.asked == [f"type: Album\ntitle: t{n}" for n in range(6)]
    assert (summary.records, summary.selected_records, summary.embedded_records) == (6, 6, 6)
    assert names(request_) == ["in.jsonl", "out.jsonl"]


def test_the_output_is_that_of_one_run(request_, tmp_path):
    with pytest.raises(EmbeddingFailed):
        embed_file(request_, Fragile(3))
    embed_file(request_, Fragile(99))
    whole = replace(request_, output=tmp_path / "whole.jsonl")
    embed_file(whole, Fragile(99))
    assert request_.output.read_bytes() == whole.output.read_bytes()


@pytest.mark.parametrize("change", ["input", "spec", "model", "mode"])
def test_the_files_of_another_request_are_not_used(request_, change):
    with pytest.raises(EmbeddingFailed):
        embed_file(request_, Fragile(4))
    second = Fragile(99)
    match change:
        case "input":
            request_.input.write_text(records(5))
        case "spec":
            target = EmbedTarget("vibe", ("slug", "title"))
            request_ = replace(request_, spec=EmbedSpec(3, {"Album": target}))
        case "model":
            second.model = "m-2"
        case "mode":
            request_ = replace(request_, is_reembed_all=True)
    summary = embed_file(request_, second)
    assert len(second.asked) == summary.records


def test_without_a_request_nothing_is_retained(request_):
    with pytest.raises(EmbeddingFailed):
        embed_file(replace(request_, is_resumable=False), Fragile(4))
    assert names(request_) == ["in.jsonl"]


@given(cut=st.integers(0, 400))
def test_a_truncated_line_is_computed_again(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("cut")
    source = folder / "in.jsonl"
    source.write_text(records(4))
    request_ = EmbedRequest(source, folder / "out.jsonl", SPEC, is_resumable=True)
    with pytest.raises(EmbeddingFailed):
        embed_file(request_, Fragile(3))
    scratch = folder / "out.jsonl.tmp"
    scratch.write_bytes(scratch.read_bytes()[:cut])
    embed_file(request_, Fragile(99))
    lines = request_.output.read_text().splitlines()
    assert [json.loads(line)["data"]["title"] for line in lines] == ["t0", "t1", "t2", "t3"]
    assert all(len(json.loads(line)["data"]["vibe"]) == 3 for line in lines)


def test_texts_are_spread_evenly():
    now, pauses = [100.0], []

    def pause(seconds):
        pauses.append(seconds)
        now[0] += seconds

    pace = Pace(30, clock=lambda: now[0], pause=pause)
    for _ in range(3):
        pace.wait(1)
    now[0] += 60
    pace.wait(1)
    assert pauses == [2.0, 2.0]
