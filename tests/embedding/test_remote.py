"""Requests to an embedding provider: bodies, accepted responses, retries and deadlines."""

from __future__ import annotations

import math
import socket
import time

import pytest

from omnigraph.embedding.embedder import TextRole
from omnigraph.embedding.embedder_choice import open_embedder
from omnigraph.errors import BadRequest, EmbeddingFailed
from omnigraph.settings import EmbedProvider

WELL_WITHIN_S = 300.0
"""Far more than any call here should need, and far less than the provider would take."""


def embed(running, text="tides", dimension=2, role=TextRole.QUERY, **settings):
    return open_embedder(running.settings(**settings)).embed(text, dimension, role)


def failure(running, **arguments) -> str:
    started = time.monotonic()
    with pytest.raises(EmbeddingFailed) as raised:
        embed(running, **arguments)
    assert time.monotonic() - started < WELL_WITHIN_S
    assert "secret-key" not in str(raised.value)
    return raised.value.message


# --- requests -------------------------------------------------------------------------------------


def test_an_openai_request_names_model_text_and_dimension(provider):
    provider.acts = [provider.embeds(3.0, 4.0)]
    assert embed(provider) == pytest.approx([0.6, 0.8])
    (request,) = provider.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["Authorization"] == "Bearer secret-key"
    assert request.body == {"model": "m-1", "input": ["tides"], "dimensions": 2}


@pytest.mark.parametrize(
    ("role", "task"),
    [(TextRole.QUERY, "RETRIEVAL_QUERY"), (TextRole.DOCUMENT, "RETRIEVAL_DOCUMENT")],
)
def test_a_gemini_request_says_what_the_text_is_for(provider, role, task):
    provider.acts = [provider.says(200, {"embedding": {"values": [0, 2]}})]
    settings = {"provider": EmbedProvider.GEMINI, "gemini_api_key": "secret-key"}
    assert embed(provider, role=role, **settings) == [0.0, 1.0]
    (request,) = provider.requests
    assert request.path == "/v1/models/m-1:embedContent"
    assert request.headers["x-goog-api-key"] == "secret-key"
    assert request.body == {
        "model": "models/m-1",
        "content": {"parts": [{"text": "tides"}]},
        "taskType": task,
        "outputDimensionality": 2,
    }


def test_the_first_of_several_embeddings_is_selected_by_its_index(provider):
    data = [{"index": 1, "embedding": [1, 0]}, {"index": 0, "embedding": [0, 1]}]
    provider.acts = [provider.says(200, {"data": data})]
    assert embed(provider) == [0.0, 1.0]


def test_trailing_slashes_of_the_base_url_do_not_matter(provider):
    provider.acts = [provider.embeds(1, 0)]
    embed(provider, base_url=f"{provider.url}//")
    assert provider.requests[0].path == "/v1/embeddings"


# --- answers that are not usable ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.0], "1 dimensions instead of 2"),
        ([1.0, 2.0, 3.0], "3 dimensions instead of 2"),
        ([1e300, 1.0], "not finite"),
        ([10**400, 1.0], "not finite"),
        ([0.0, 0.0], "no direction"),
        ([1e-20, 1e-20], "no direction"),
        (["1", 2], "no embedding"),
        ([True, 2], "no embedding"),
        ([None, 2], "no embedding"),
    ],
)
def test_a_vector_that_cannot_be_used_is_refused(provider, values, reason):
    provider.acts = [provider.embeds(*values)]
    assert reason in failure(provider)
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"3",
        b'{"data": []}',
        b'{"data": [{"index": 1, "embedding": [1, 2]}]}',
        b'{"data": {"index": 0}}',
        b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}',
        b'{"data": [{"index": 0, "embedding": "AAAA"}]}',
        b"\xff\xfe",
    ],
)
def test_an_answer_without_an_embedding_is_refused(provider, body):
    provider.acts = [provider.says(200, body)]
    assert "the answer" in failure(provider)
    assert len(provider.requests) == 1


def test_a_huge_answer_is_not_read_to_its_end(provider, monkeypatch):
    monkeypatch.setattr("omnigraph.embedding.remote_embedder.MAX_RESPONSE_BYTES", 1000)
    provider.acts = [provider.says(200, b" " * 2000)]
    assert "longer than 1000 bytes" in failure(provider, attempts=1)


# --- trying again ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_request_to_a_provider_that_is_busy_is_repeated(provider, status):
    provider.acts = [provider.says(status, "busy"), provider.embeds(1, 0)]
    assert embed(provider) == [1.0, 0.0]
    assert len(provider.requests) == 2


def test_a_request_to_a_provider_that_hangs_up_is_repeated(provider):
    provider.acts = [provider.hangs_up(), provider.hangs_up(), provider.embeds(1, 0)]
    assert embed(provider) == [1.0, 0.0]


def test_a_request_to_a_provider_that_hangs_is_repeated(provider):
    provider.acts = [provider.hangs(), provider.embeds(1, 0)]
    assert embed(provider, timeout_s=2.0) == [1.0, 0.0]


def test_requests_to_a_provider_that_always_fails_are_limited(provider):
    provider.acts = [provider.says(500, {"error": "out of order, secret-key"})]
    message = failure(provider)
    assert "HTTP 500" in message
    assert "out of order, ***" in message
    assert "4 attempts" in message
    assert len(provider.requests) == 4


@pytest.mark.parametrize("status", [301, 400, 401, 404])
def test_a_refusal_is_final(provider, status):
    provider.acts = [provider.says(status, {"error": "wrong key secret-key"})]
    message = failure(provider)
    assert f"HTTP {status}" in message
    assert len(provider.requests) == 1


def test_pauses_double(provider):
    provider.acts = [provider.says(500, b"")]
    started = time.monotonic()
    failure(provider, attempts=4, backoff_s=0.05)
    assert time.monotonic() - started >= 0.05 + 0.1 + 0.2


def test_a_provider_that_names_a_pause_is_given_it(provider):
    provider.acts = [provider.says(429, b"", Retry_After="1"), provider.embeds(1, 0)]
    started = time.monotonic()
    assert embed(provider) == [1.0, 0.0]
    assert time.monotonic() - started >= 1


# --- giving up in time ----------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["hangs", "drips_a_body"])
def test_one_request_takes_no_longer_than_its_timeout(provider, act):
    provider.acts = [getattr(provider, act)()]
    assert "no answer within 0.2 s" in failure(provider, timeout_s=0.2, attempts=1)


def test_headers_that_never_end_take_no_longer_either(provider):
    provider.acts = [provider.drips(b"H")]
    assert "no answer within 0.2 s" in failure(provider, timeout_s=0.2, attempts=1)


def test_all_attempts_together_take_no_longer_than_the_deadline(provider):
    provider.acts = [provider.hangs()]
    started = time.monotonic()
    failure(provider, timeout_s=30.0, deadline_s=0.5, attempts=100)
    assert time.monotonic() - started < WELL_WITHIN_S
    assert len(provider.requests) <= 1


def test_a_pause_beyond_the_deadline_is_not_waited_for(provider):
    provider.acts = [provider.says(429, b"", Retry_After="3600")]
    assert "1 attempt," in failure(provider, deadline_s=20.0)


def test_a_deadline_of_zero_is_none(provider):
    provider.acts = [provider.says(500, b""), provider.embeds(1, 0)]
    assert embed(provider, deadline_s=0.0) == [1.0, 0.0]


def test_a_closed_port_is_a_failure(provider):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        message = failure(provider, base_url=url, attempts=2)
    assert "cannot be reached" in message
    assert url in message


def test_something_that_is_not_http_is_a_failure(provider):
    provider.acts = [lambda handler: handler.wfile.write(b"nonsense\r\n\r\n")]
    assert "cannot be reached" in failure(provider, attempts=2)


def test_a_key_that_cannot_be_a_header_does_not_show(provider):
    assert "cannot be reached" in failure(provider, openai_api_key="secret-key\nx", attempts=1)


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1",
        "host/v1",
        "http://",
        "http://user:secret-key@host/v1",
        "http://host:99999/v1",
        "http://host/v1?key=secret-key",
    ],
)
def test_a_base_url_that_is_not_one_is_refused_without_repeating_it(provider, url):
    with pytest.raises(BadRequest, match="embedding base URL") as raised:
        embed(provider, base_url=url)
    assert "secret-key" not in str(raised.value)


def test_the_key_shows_nowhere(provider):
    settings = provider.settings()
    assert "secret-key" not in repr(settings)
    assert "secret-key" not in repr(open_embedder(settings))


def test_vectors_have_length_one_in_single_precision(provider):
    provider.acts = [provider.embeds(*[0.1] * 384)]
    vector = embed(provider, dimension=384)
    assert math.fsum(x * x for x in vector) == pytest.approx(1, abs=1e-6)
