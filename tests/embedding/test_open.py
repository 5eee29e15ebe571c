"""Choosing an embedder, made-up vectors, and the check of models."""

from __future__ import annotations

import logging

import pytest

from omnigraph.embedding.embedder import (
    MockEmbedder,
    TextRole,
    hash_fnv1a64,
    make_query_embedder,
    require_same_model,
)
from omnigraph.embedding.embedder_choice import LazyEmbedder, choose_model, open_embedder
from omnigraph.embedding.remote_embedder import RemoteEmbedder
from omnigraph.errors import BadRequest, EmbeddingFailed
from omnigraph.settings import EmbedProvider, EmbedSettings, Settings


def test_made_up_vectors_are_always_the_same():
    assert hash_fnv1a64(b"tides") == 0x6334A36C59440B26
    vector = MockEmbedder().embed("tides", 3, TextRole.QUERY)
    assert vector == pytest.approx([0.53274232, 0.77475107, -0.34050897], abs=5e-9)
    assert MockEmbedder("other").embed("tides", 3, TextRole.DOCUMENT) == vector


@pytest.mark.parametrize(
    ("environment", "model", "base_url"),
    [
        ({}, "openai/text-embedding-3-large", "https://openrouter.ai/api/v1"),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "openai"},
            "text-embedding-3-large",
            "https://api.openai.com/v1",
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "gemini"},
            "gemini-embedding-2",
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        (
            {"OMNIGRAPH_EMBED_MODEL": "m", "OMNIGRAPH_EMBED_BASE_URL": "http://localhost:1/x/"},
            "m",
            "http://localhost:1/x",
        ),
    ],
)
def test_each_provider_has_its_address_and_model(environment, model, base_url):
    keys = dict.fromkeys(("OPENAI_API_KEY", "GEMINI_API_KEY"), "k")
    settings = Settings.from_environment({**environment, **keys}).embed
    embedder = open_embedder(settings)
    assert isinstance(embedder, RemoteEmbedder)
    assert (embedder.model, embedder.base_url) == (model, base_url)
    assert choose_model(settings) == model


def test_the_key_of_openrouter_precedes_that_of_openai():
    both = EmbedSettings(openrouter_api_key="first", openai_api_key="second")
    for settings, key in ((both, "first"), (EmbedSettings(openai_api_key="second"), "second")):
        embedder = open_embedder(settings)
        assert isinstance(embedder, RemoteEmbedder)
        assert embedder.key == key


@pytest.mark.parametrize(
    ("provider", "names"),
    [
        (EmbedProvider.OPENAI_COMPATIBLE, "OPENROUTER_API_KEY or OPENAI_API_KEY is required"),
        (EmbedProvider.OPENAI, "^OPENAI_API_KEY is required"),
        (EmbedProvider.GEMINI, "GEMINI_API_KEY is required"),
    ],
)
def test_a_missing_key_is_named(provider, names):
    with pytest.raises(EmbeddingFailed, match=names):
        open_embedder(EmbedSettings(provider=provider))


def test_the_mock_needs_no_key_and_takes_the_model_as_it_is():
    assert open_embedder(EmbedSettings(provider=EmbedProvider.MOCK)) == MockEmbedder("")
    named = EmbedSettings(provider=EmbedProvider.MOCK, model="m-1")
    assert open_embedder(named) == MockEmbedder("m-1")


def test_the_mock_can_replace_any_provider_and_says_so(caplog):
    settings = EmbedSettings.from_environment({"OMNIGRAPH_EMBEDDINGS_MOCK": "on"})
    with caplog.at_level(logging.WARNING):
        assert open_embedder(settings) == MockEmbedder("")
    assert "mock values" in caplog.text


def test_a_lazy_embedder_needs_its_key_only_when_it_embeds():
    lazy = LazyEmbedder(EmbedSettings(provider=EmbedProvider.OPENAI))
    assert lazy.model == "text-embedding-3-large"
    with pytest.raises(EmbeddingFailed, match="OPENAI_API_KEY"):
        lazy.embed("tides", 3, TextRole.QUERY)


def test_a_lazy_embedder_is_created_once(caplog):
    lazy = LazyEmbedder(EmbedSettings(is_mock=True))
    with caplog.at_level(logging.WARNING):
        first, second = (lazy.embed("tides", 3, TextRole.QUERY) for _ in range(2))
    assert first == second
    assert len(caplog.records) == 1


def test_vectors_of_two_models_are_not_compared():
    with pytest.raises(BadRequest, match=r"'m-1'.*'m-2'"):
        require_same_model(MockEmbedder("m-2"), "m-1")


def test_a_query_is_embedded_with_the_recorded_model_or_not_at_all():
    embed = make_query_embedder(MockEmbedder("m-1"))
    assert len(embed("tides", 3, "m-1")) == 3
    assert len(embed("tides", 3, None)) == 3
    with pytest.raises(BadRequest, match=r"'m-0'.*'m-1'"):
        embed("tides", 3, "m-0")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMNIGRAPH_EMBED_PROVIDER", "acme"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "0"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "1.5"),
        ("OMNIGRAPH_EMBED_DEADLINE_MS", "-1"),
        ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "0"),
        ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", "soon"),
        ("OMNIGRAPH_EMBEDDINGS_MOCK", "maybe"),
        ("OMNIGRAPH_TEXT_CACHE_MIB", "²"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(BadRequest, match=f"{name} must be"):
        Settings.from_environment({name: value})


def test_times_are_given_in_milliseconds():
    settings = EmbedSettings.from_environment(
        {
            "OMNIGRAPH_EMBED_TIMEOUT_MS": "1500",
            "OMNIGRAPH_EMBED_DEADLINE_MS": "0",
            "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "7",
            "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "50",
        }
    )
    assert (settings.timeout_s, settings.deadline_s) == (1.5, 0)
    assert (settings.attempts, settings.backoff_s) == (7, 0.05)
