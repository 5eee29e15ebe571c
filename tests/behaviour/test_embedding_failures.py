"""A query whose text must be embedded fails soon and with a name when it cannot be."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

import omnigraph
from commands.quick_command import quick_command
from embedding.provider import running_provider
from omnigraph.errors import EmbeddingFailed
from omnigraph.settings import EmbedProvider, EmbedSettings, Settings

SCHEMA = "node Album { slug: String @key  vibe: Vector(2)? }"
NEAR = (
    "query q($t: String) { match { $a: Album } return { $a.slug } "
    "order { nearest($a.vibe, $t) } limit 1 }"
)
WELL_WITHIN_S = 300


@pytest.fixture
def place(tmp_path: Path) -> Path:
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    graph.load([{"type": "Album", "data": {"slug": "a", "vibe": [1, 0]}}], "append")
    return tmp_path / "g.omni"


@pytest.fixture
def provider():
    with running_provider() as running:
        yield running


def ask(place: Path, embed: EmbedSettings) -> list[dict]:
    graph = omnigraph.open(place, read_only=True, settings=Settings(embed=embed))
    return graph.query(NEAR, params={"t": "tides"}).rows


def test_a_text_is_embedded_to_find_what_is_near(place: Path, provider) -> None:
    provider.acts = [provider.embeds(1, 0)]
    assert ask(place, provider.settings()) == [{"a.slug": "a"}]


def test_a_missing_key_is_named(place: Path) -> None:
    with pytest.raises(EmbeddingFailed, match="OPENAI_API_KEY is required"):
        ask(place, EmbedSettings(provider=EmbedProvider.OPENAI))


def test_a_server_that_hangs_is_given_up(place: Path, provider) -> None:
    provider.acts = [provider.hangs()]
    started = time.monotonic()
    with pytest.raises(EmbeddingFailed, match="no answer within"):
        ask(place, provider.settings(timeout_s=0.3, deadline_s=0.5))
    assert time.monotonic() - started < WELL_WITHIN_S


def test_a_vector_of_the_wrong_dimension_is_refused(place: Path, provider) -> None:
    provider.acts = [provider.embeds(1, 0, 0)]
    with pytest.raises(EmbeddingFailed, match="3"):
        ask(place, provider.settings())


def test_the_command_says_so_and_fails(place: Path, provider) -> None:
    provider.acts = [provider.hangs()]
    environment = {
        "OMNIGRAPH_EMBED_PROVIDER": "openai",
        "OMNIGRAPH_EMBED_BASE_URL": provider.url,
        "OPENAI_API_KEY": "secret-key",
        "OMNIGRAPH_EMBED_DEADLINE_MS": "400",
    }
    command = ["query", str(place), "-e", NEAR, "--params", '{"t": "tides"}']
    done = subprocess.run(
        quick_command(*command),
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: embedding with ")
    assert "secret-key" not in done.stderr
