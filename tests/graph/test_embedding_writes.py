"""Vectors of `@embed` properties are computed when rows are written."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

import omnigraph
from embedding.provider import Provider, running_provider
from omnigraph.errors import BadRequest, CompileError, EmbeddingFailed, RowsRejected
from omnigraph.settings import EmbedProvider, EmbedSettings, Settings

SCHEMA = """
node Album {
  slug: String @key
  title: String?
  vibe: Vector(2)? @embed("title")
}
node Song {
  slug: String @key
  text: String?
  sound: Vector(2) @embed("text", model="m-1")
}
"""


def answer_all(provider: Provider):
    """Vectors that differ by text, for as many texts as a request has."""

    def act(handler) -> None:
        texts = provider.requests[-1].body["input"]
        data = [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(texts)]
        handler.answer(200, json.dumps({"data": data}).encode())

    return act


def vector_of(text: str) -> list[float]:
    angle = sum(text.encode()) % 628 / 100
    return [math.cos(angle), math.sin(angle)]


def expected(type_name: str, field: str, value: str):
    return pytest.approx(vector_of(f"type: {type_name}\n{field}: {value}"), abs=1e-6)


@pytest.fixture
def provider():
    with running_provider() as running:
        running.acts = [answer_all(running)]
        yield running


@pytest.fixture
def graph(tmp_path, provider):
    settings = Settings(embed=provider.settings())
    return omnigraph.init(tmp_path / "g.omni", SCHEMA, settings=settings)


def texts_asked(provider) -> list[str]:
    return [text for request in provider.requests for text in request.body["input"]]


def read(graph, type_name: str, slug: str) -> dict:
    found = {one["data"]["slug"]: one["data"] for one in graph.export([type_name])}
    return found[slug]


def test_an_insert_makes_the_vector_of_its_text(graph, provider):
    graph.mutate('query q() { insert Song { slug: "a", text: "tides" } }')
    assert read(graph, "Song", "a")["sound"] == expected("Song", "text", "tides")
    graph.mutate('query q() { insert Album { slug: "b" } }')
    assert read(graph, "Album", "b")["vibe"] is None
    assert texts_asked(provider) == ["type: Song\ntext: tides"]


def test_a_vector_that_is_given_stays(graph, provider):
    graph.mutate('query q() { insert Song { slug: "a", text: "tides", sound: [0.5, 0.25] } }')
    assert read(graph, "Song", "a")["sound"] == [0.5, 0.25]
    assert provider.requests == []


def test_an_update_of_the_text_makes_the_vector_again(graph, provider):
    graph.mutate('query q() { insert Album { slug: "a", title: "tides" } }')
    graph.mutate('query q() { insert Album { slug: "b", title: "tides" } }')
    graph.mutate('query q() { update Album set { title: "waves" } where title = "tides" }')
    assert texts_asked(provider)[2:] == ["type: Album\ntitle: waves"]
    for slug in "ab":
        assert read(graph, "Album", slug)["vibe"] == expected("Album", "title", "waves")
    graph.mutate('query q() { update Album set { title: "waves" } where slug = "a" }')
    assert len(provider.requests) == 3
    graph.mutate('query q() { update Album set { title: null } where slug = "a" }')
    assert read(graph, "Album", "a")["vibe"] is None


def test_an_update_that_takes_the_text_of_a_required_vector_is_refused(graph):
    graph.mutate('query q() { insert Song { slug: "a", text: "tides" } }')
    with pytest.raises(BadRequest, match=r"'sound' is missing .* from 'text': 'text' has no text"):
        graph.mutate('query q() { update Song set { text: null } where slug = "a" }')
    with pytest.raises(BadRequest, match="'text' has no text"):
        graph.mutate('query q() { insert Song { slug: "b", text: " " } }')
    with pytest.raises(CompileError, match="T12: Song needs required property 'sound'"):
        graph.mutate('query q() { insert Song { slug: "b" } }')


def songs(*texts: str | None) -> list[dict]:
    return [
        {"type": "Song", "data": {"slug": f"s{i}", "text": text}} for i, text in enumerate(texts)
    ]


FORMS = ["records", "file", "table"]


def load(graph, tmp_path, form: str, records: list[dict], mode: str, **options):
    if form == "records":
        return graph.load(records, mode, **options)
    if form == "table":
        table = pa.Table.from_pylist([one["data"] for one in records])
        return graph.load(table, mode, type=records[0]["type"], **options)
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return graph.load([path], mode, **options)


@pytest.mark.parametrize("form", FORMS)
def test_a_load_makes_vectors_in_batches_and_equal_texts_once(graph, provider, tmp_path, form):
    records = songs(*(f"text {i % 70}" for i in range(140)))
    result = load(graph, tmp_path, form, records, "append")
    assert result.nodes == {"Song": 140}
    assert [len(one.body["input"]) for one in provider.requests] == [64, 6]
    assert read(graph, "Song", "s75")["sound"] == expected("Song", "text", "text 5")
    assert len(graph.commits()) == 2


@pytest.mark.parametrize("form", FORMS)
def test_a_row_without_a_text_is_refused_by_line(graph, tmp_path, form):
    with pytest.raises(RowsRejected, match=r"'sound' is missing.*'text' has no text") as refused:
        load(graph, tmp_path, form, songs("tides", None, "  "), "append")
    assert refused.value.total == 2
    assert [one.property for one in refused.value.problems] == ["sound", "sound"]


@pytest.mark.parametrize("form", ["file", "table"])
def test_skipping_leaves_out_what_has_no_text(graph, tmp_path, form):
    result = load(graph, tmp_path, form, songs("tides", None), "append", on_error="skip")
    assert (result.nodes, result.skipped.total) == ({"Song": 1}, 1)


@pytest.mark.parametrize("form", FORMS)
def test_a_merge_of_the_same_text_keeps_the_vector(graph, provider, tmp_path, form):
    graph.load(songs("tides", "waves"), "append")
    asked = len(texts_asked(provider))
    load(graph, tmp_path, form, songs("tides", "storms", "calm"), "merge")
    assert texts_asked(provider)[asked:] == [
        "type: Song\ntext: storms",
        "type: Song\ntext: calm",
    ]
    assert read(graph, "Song", "s0")["sound"] == expected("Song", "text", "tides")
    assert read(graph, "Song", "s1")["sound"] == expected("Song", "text", "storms")


def test_a_partial_merge_makes_the_vectors_of_texts_it_gives(graph, provider):
    graph.load(
        [
            {"type": "Album", "data": {"slug": "a", "title": "tides"}},
            {"type": "Album", "data": {"slug": "b", "title": "waves"}},
        ],
        "append",
    )
    changes = [
        {"type": "Album", "data": {"slug": "a", "title": "storms"}},
        {"type": "Album", "data": {"slug": "b"}},
    ]
    for _ in range(2):  # nothing is embedded again
        graph.load(changes, "merge", partial=True)
        assert texts_asked(provider)[2:] == ["type: Album\ntitle: storms"]
    assert read(graph, "Album", "a")["vibe"] == expected("Album", "title", "storms")
    assert read(graph, "Album", "b")["vibe"] == expected("Album", "title", "waves")


def test_no_text_is_embedded_again_when_the_branch_moves(graph, provider):
    other = omnigraph.open(graph.uri)
    moved: list[str] = []

    def answer(handler) -> None:
        if not moved:  # another writer commits while the vectors are computed
            moved.append("yes")
            other.mutate('query q() { insert Album { slug: "z" } }')
        answer_all(provider)(handler)

    provider.acts = [answer]
    graph.mutate('query q() { insert Song { slug: "a", text: "tides" } }')
    graph.load(songs("calm", "waves"), "append")
    assert texts_asked(provider) == [
        "type: Song\ntext: tides",
        "type: Song\ntext: calm",
        "type: Song\ntext: waves",
    ]
    assert read(graph, "Album", "z")["vibe"] is None


@pytest.mark.parametrize("form", FORMS)
def test_a_provider_that_fails_leaves_nothing(graph, provider, tmp_path, form):
    provider.acts = [provider.says(400, {"error": {"message": "no credit"}})]
    with pytest.raises(EmbeddingFailed, match="no credit"):
        load(graph, tmp_path, form, songs("tides"), "append")
    with pytest.raises(EmbeddingFailed, match="no credit"):
        graph.mutate('query q() { insert Song { slug: "a", text: "tides" } }')
    assert len(graph.commits()) == 1


def test_a_request_to_a_busy_provider_is_repeated(graph, provider):
    provider.acts = [provider.says(429, {}), provider.says(500, {}), answer_all(provider)]
    graph.load(songs("tides"), "append")
    assert len(provider.requests) == 3


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (EmbedSettings(), "OPENROUTER_API_KEY or OPENAI_API_KEY is required"),
        (
            EmbedSettings(provider=EmbedProvider.MOCK, model="m-1", embeds_writes=False),
            "OMNIGRAPH_EMBED_WRITES is false",
        ),
        (
            EmbedSettings(provider=EmbedProvider.MOCK, model="m-2"),
            "the schema records the model 'm-1', and the embedder has 'm-2'",
        ),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_without_a_provider_a_required_vector_says_what_to_configure(
    tmp_path, settings, reason, form
):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA, settings=Settings(embed=settings))
    with pytest.raises(RowsRejected, match=reason):
        load(graph, tmp_path, form, songs("tides"), "append")
    with pytest.raises(BadRequest, match=reason):
        graph.mutate('query q() { insert Song { slug: "a", text: "tides" } }')
    assert len(graph.commits()) == 1


def test_without_a_provider_other_vectors_stay_as_they_are(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    graph.mutate('query q() { insert Album { slug: "a", title: "tides", vibe: [1, 0] } }')
    graph.mutate('query q() { update Album set { title: "waves" } where slug = "a" }')
    graph.load([{"type": "Album", "data": {"slug": "b", "title": "tides"}}], "append")
    assert read(graph, "Album", "a")["vibe"] == [1, 0]
    assert read(graph, "Album", "b")["vibe"] is None
