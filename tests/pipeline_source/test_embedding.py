"""Embedding in tasks: files and graphs, batches, pace, and going on after a failure."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from msgspec import structs

import omnigraph
from embedding.provider import running_provider
from omnigraph.cli.commands.embed_command import embed
from omnigraph.embedding.embed_files import EmbedRequest, EmbedSpec, EmbedTarget, embed_file
from omnigraph.embedding.embedder import MockEmbedder
from omnigraph.embedding.text_vectors import Pace
from omnigraph.errors import BadRequest, EmbeddingFailed
from omnigraph.pipeline.bulk_embed import embed_file_in_tasks
from omnigraph.pipeline.tasks import InlineTasks
from omnigraph.settings import EmbedProvider, EmbedSettings, Settings

MOCK = EmbedSettings(provider=EmbedProvider.MOCK, embeds_writes=False)
SPEC = EmbedSpec(3, {"Doc": EmbedTarget("vector", ("title", "size"))})
SCHEMA = """
node Doc {
  slug: String @key
  title: String?
  vector: Vector(3)? @embed("title")
  other: Vector(2)? @embed("slug")
  photo: Blob?
}
node Plain { name: String @key }
"""


def records(count: int) -> list[dict[str, object]]:
    return [
        {"type": "Doc", "data": {"slug": f"d{n}", "title": f"Title {n}", "size": n}}
        for n in range(count)
    ]


def write_lines(path, items) -> None:
    path.write_text("".join(json.dumps(item) + "\n" for item in items))


@pytest.fixture
def request_for(tmp_path, monkeypatch):
    """A request over some records, cut into small pieces."""
    monkeypatch.setattr("omnigraph.pipeline.bulk_embed._LINES_PER_PIECE", 7)

    def make(items, **changes) -> EmbedRequest:
        write_lines(tmp_path / "in.jsonl", items)
        return EmbedRequest(tmp_path / "in.jsonl", tmp_path / "out.jsonl", SPEC, **changes)

    return make


def run(request, settings=MOCK, per_minute=None):
    return embed_file_in_tasks(InlineTasks(), request, settings, per_minute)


def leftovers(request) -> list[str]:
    known = {request.input.name, request.output.name}
    return [path.name for path in request.output.parent.iterdir() if path.name not in known]


# --- files ----------------------------------------------------------------------------------------


def test_tasks_write_what_one_process_writes(request_for, tmp_path):
    items = [*records(30), {"edge": "Likes", "from": "a", "to": "b"}]
    items[4]["data"]["vector"] = [1.0, 0.0, 0.0]
    request = request_for(items)
    alone = replace(request, output=tmp_path / "alone.jsonl")
    expected = embed_file(alone, MockEmbedder())
    done = run(request)
    assert request.output.read_bytes() == alone.output.read_bytes()
    there = structs.replace(done, output=expected.output)
    assert there == structs.replace(expected, model=done.model)
    assert leftovers(request) == ["alone.jsonl"]


def test_a_bad_line_is_named_by_its_position_in_the_whole_file(request_for):
    items = records(20)
    request = request_for(items)
    lines = request.input.read_text().splitlines()
    lines[16] = '{"type": "Doc", "data": 5}'
    request.input.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadRequest, match=r"in\.jsonl:17: a record of type 'Doc'"):
        run(request)
    assert leftovers(request) == []
    assert not request.output.exists()


def test_an_empty_file_stays_one(request_for):
    request = request_for([])
    assert run(request).records == 0
    assert request.output.read_bytes() == b""


def vectors_for(handler, body):
    items = [{"index": n, "embedding": [1.0, float(n), 0.5]} for n in range(len(body["input"]))]
    handler.answer(200, json.dumps({"data": items[::-1]}).encode())


def answering(provider):
    return lambda handler: vectors_for(handler, provider.requests[-1].body)


def test_texts_are_sent_in_batches(request_for):
    with running_provider() as provider:
        provider.acts = [answering(provider)]
        request = request_for(records(7))
        run(request, provider.settings())
        sizes = [len(asked.body["input"]) for asked in provider.requests]
    assert sizes == [7]
    found = [json.loads(line)["data"]["vector"] for line in request.output.read_text().splitlines()]
    assert all(len(vector) == 3 for vector in found)
    assert len({tuple(vector) for vector in found}) > 1


def test_a_resumed_run_pays_for_no_text_twice(request_for):
    with running_provider() as provider:
        refusing = provider.says(400, {"error": "no"})
        request = request_for(records(20), is_resumable=True)
        provider.acts = [answering(provider), refusing]
        with pytest.raises(EmbeddingFailed, match="HTTP 400"):
            run(request, provider.settings())
        assert not request.output.exists()
        paid = len(provider.requests[0].body["input"])
        provider.requests.clear()
        provider.acts = [answering(provider)]
        done = run(request, provider.settings())
        again = sum(len(asked.body["input"]) for asked in provider.requests)
    assert done.embedded_records == 20
    assert paid + again == 20
    assert leftovers(request) == []


def test_without_resume_nothing_is_retained(request_for):
    with running_provider() as provider:
        provider.acts = [answering(provider), provider.says(400, {})]
        request = request_for(records(20))
        with pytest.raises(EmbeddingFailed):
            run(request, provider.settings())
    assert leftovers(request) == []


def test_equal_texts_are_embedded_once(request_for):
    with running_provider() as provider:
        provider.acts = [answering(provider)]
        same = [{"type": "Doc", "data": {"slug": f"d{n}", "title": "T"}} for n in range(5)]
        run(request_for(same), provider.settings())
        assert [asked.body["input"] for asked in provider.requests] == [["type: Doc\ntitle: T"]]


def test_the_pace_counts_texts():
    pauses = []
    pace = Pace(60, clock=lambda: 100.0, pause=pauses.append)
    pace.wait(5)
    pace.wait(2)
    assert pauses == [5.0]


# --- graphs ---------------------------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path):
    settings = Settings(embed=MOCK)
    made = omnigraph.init(tmp_path / "docs.omni", SCHEMA, settings=settings)
    docs = [{"type": "Doc", "data": {"slug": f"d{n}", "title": f"Title {n}"}} for n in range(6)]
    docs[1]["data"]["vector"] = [1.0, 0.0, 0.0]
    docs[2]["data"]["title"] = None
    docs[3]["data"]["photo"] = "base64:aGk="
    made.load([*docs, {"type": "Plain", "data": {"name": "x"}}], "append")
    return made


def vectors(graph) -> dict[str, tuple[object, object]]:
    rows = graph.nodes("Doc").to_arrow().to_pylist()
    return {row["slug"]: (row["vector"], row["other"]) for row in rows}


def test_null_vectors_of_a_graph_are_filled_in_one_commit(graph):
    before = len(graph.commits())
    done = graph.embed(actor="me")
    assert done.embedded == 4 + 6
    assert len(graph.commits()) == before + 1
    assert graph.commits()[0].commit_id == done.commit_id
    assert graph.commits()[0].actor_id == "me"
    found = vectors(graph)
    assert found["d1"][0] == [1.0, 0.0, 0.0], "one that was there stays"
    assert found["d2"][0] is None, "nothing to embed"
    assert found["d0"][0] == pytest.approx(
        MockEmbedder().embed("type: Doc\ntitle: Title 0", 3, None)
    )
    assert all(other is not None for _, other in found.values())
    photo = graph.read_blob("Doc", "d3", "photo")
    assert photo.read() == b"hi"


def test_nothing_to_fill_makes_no_commit(graph):
    graph.embed()
    head = graph.commits()[0]
    done = graph.embed()
    assert (done.embedded, done.commit_id) == (0, None)
    assert graph.commits()[0] == head


def test_types_and_a_spec_narrow_down_what_is_filled(graph):
    spec = {"dimension": 2, "types": {"Doc": {"target": "other", "fields": ["title"]}}}
    assert graph.embed(["Doc"], spec=spec).embedded == 5
    with pytest.raises(BadRequest, match="vectors of 'Plain'"):
        graph.embed(["Plain"])
    for bad, text in [
        (
            {"dimension": 3, "types": {"Doc": {"target": "other", "fields": ["title"]}}},
            "dimensions",
        ),
        (
            {"dimension": 2, "types": {"Doc": {"target": "title", "fields": ["slug"]}}},
            "not a vector",
        ),
        (
            {"dimension": 2, "types": {"Doc": {"target": "other", "fields": ["photo"]}}},
            "cannot be used as text",
        ),
    ]:
        with pytest.raises(BadRequest, match=text):
            graph.embed(spec=bad)


def test_all_vectors_can_be_recomputed(graph):
    done = graph.embed(reembed_all=True)
    assert done.embedded == 5 + 6
    assert vectors(graph)["d1"][0] != [1.0, 0.0, 0.0]


def test_a_failed_run_over_a_graph_is_resumed(graph, tmp_path):
    with running_provider() as provider:
        settings = Settings(embed=provider.settings())
        same = omnigraph.open(graph.uri, settings=settings)
        spec = {"dimension": 3, "types": {"Doc": {"target": "vector", "fields": ["title"]}}}
        head = same.commits()[0]
        provider.acts = [provider.says(400, {})]
        with pytest.raises(EmbeddingFailed):
            same.embed(spec=spec)
        assert same.commits()[0] == head
        provider.acts = [answering(provider)]
        assert same.embed(spec=spec).embedded == 4
    staging = tmp_path / "docs.omni" / "__staging"
    assert [path for path in staging.rglob("*") if path.is_file()] == []


def test_another_model_than_the_schema_records_is_refused(tmp_path):
    schema = 'node Doc { t: String @key v: Vector(3)? @embed("t", model="m-2") }'
    made = omnigraph.init(tmp_path / "g.omni", schema, settings=Settings(embed=MOCK))
    with pytest.raises(BadRequest, match="'m-2'"):
        made.embed()


def test_the_command_fills_a_graph(graph):
    asks = {"OMNIGRAPH_EMBED_PROVIDER": "mock"}
    done = CliRunner().invoke(embed, ["--store", graph.uri, "--type", "Doc", "--json"], env=asks)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["embedded"] == 10
    again = CliRunner().invoke(embed, ["--store", graph.uri], env=asks)
    assert "0 embedded, commit -" in again.stdout
    mixed = CliRunner().invoke(embed, ["--store", graph.uri, "--input", "x"], env=asks)
    assert mixed.exit_code == 2


def test_both_run_on_spark(spark, graph, request_for):
    assert graph.embed(engine="spark", session=spark).engine == "spark"
    assert vectors(graph)["d0"][0] is not None
    request = request_for(records(10))
    done = omnigraph.embed(
        input=request.input,
        output=request.output,
        spec={"dimension": 3, "types": {"Doc": {"target": "vector", "fields": ["title"]}}},
        settings=Settings(embed=MOCK),
        engine="spark",
        session=spark,
    )
    assert done.embedded_records == 10
