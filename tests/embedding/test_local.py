"""Vectors computed in process, with a small random model: the real one is optional."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedding.small_model import (
    DIMENSION,
    HEADS,
    LONGEST,
    WORDS,
    exact_gelu,
    exact_vector,
    random_tensors,
)
from omnigraph.embedding.embed_files import EmbedRequest, EmbedSpec, EmbedTarget, embed_file
from omnigraph.embedding.embedder import BatchEmbedder, TextRole
from omnigraph.embedding.embedder_choice import LazyEmbedder, choose_model, open_embedder
from omnigraph.embedding.local_embedder import (
    LOCAL_MODEL,
    LocalEmbedder,
    PublishedFile,
    SentenceModel,
    apply_gelu,
    apply_softmax,
    build_encoder,
    plan_batches,
    read_published,
    read_tensors,
)
from omnigraph.errors import BadRequest, EmbeddingFailed, MissingPackage
from omnigraph.settings import EmbedProvider, EmbedSettings, Settings

TENSORS = random_tensors()
ENCODER = build_encoder(TENSORS, HEADS)
LOCAL = EmbedSettings(provider=EmbedProvider.LOCAL)

token_lists = st.lists(
    st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=LONGEST), min_size=1, max_size=12
)


def letters(text: str) -> list[int]:
    """A tokenizer: a letter is a token, between a first and a last one."""
    return [0, *(ord(letter) % WORDS for letter in text[: LONGEST - 2]), 1]


class Loading:
    """A small model that counts its loads and calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return SentenceModel(letters, ENCODER)


@pytest.fixture
def small():
    return LocalEmbedder("small", DIMENSION, Loading())


# --- the forward pass -----------------------------------------------------------------------------


def test_gelu_is_that_of_the_error_function():
    x = np.linspace(-12, 12, 60_001, dtype=np.float32)
    expected = [exact_gelu(float(value)) for value in x]
    assert np.abs(apply_gelu(x.copy()) - expected).max() < 6e-7


def test_gelu_keeps_the_shape_and_takes_the_extremes():
    x = np.array([[-3e38, -1e4, 0.0], [1e4, 3e38, -0.0]], np.float32)
    with np.errstate(over="ignore"):
        assert apply_gelu(x.copy()).tolist() == [[0, 0, 0], [float(np.float32(1e4)), x[1, 1], 0]]


def test_softmax_sums_to_one_even_for_large_scores():
    weights = apply_softmax(np.array([[1000.0, 1000.0], [-1000.0, 0.0]], np.float32))
    assert weights.tolist() == [[0.5, 0.5], [0.0, 1.0]]


@given(texts=token_lists)
def test_a_text_gets_the_mean_over_its_tokens_whatever_stands_beside_it(texts):
    found = ENCODER.encode(texts)
    expected = [exact_vector(TENSORS, text, HEADS) for text in texts]
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_the_same_tokens_in_another_order_are_another_text():
    one, other = ENCODER.encode([[3, 4, 5], [5, 4, 3]])
    assert np.abs(one - other).max() > 1e-3


def test_an_encoder_knows_its_dimension():
    assert ENCODER.dimension == DIMENSION


# --- batches --------------------------------------------------------------------------------------


@given(lengths=st.lists(st.integers(1, 40)), at_once=st.integers(1, 100))
def test_batches_hold_every_text_once_by_length_and_are_not_too_large(lengths, at_once):
    made = list(plan_batches(lengths, at_once))
    places = [place for batch in made for place in batch]
    assert sorted(places) == list(range(len(lengths)))
    assert [lengths[place] for place in places] == sorted(lengths)
    for batch in made:
        assert len(batch) == 1 or sum(lengths[place] for place in batch) <= at_once


@given(texts=st.lists(st.text(max_size=30), max_size=40))
def test_many_texts_at_once_get_the_vectors_of_each_alone_in_their_order(texts):
    embedder = LocalEmbedder("small", DIMENSION, Loading())
    together = embedder.embed_many(texts, DIMENSION, TextRole.DOCUMENT)
    alone = [embedder.embed(text, DIMENSION, TextRole.QUERY) for text in texts]
    assert len(together) == len(texts)
    for one, other in zip(together, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
        assert np.linalg.norm(one) == pytest.approx(1, abs=1e-6)


def test_more_texts_than_one_batch_holds_come_back_in_their_order(small):
    texts = [f"{number:0{1 + number % 13}}" for number in range(700)]
    together = small.embed_many(texts, DIMENSION, TextRole.DOCUMENT)
    expected = [small.embed(text, DIMENSION, TextRole.DOCUMENT) for text in texts]
    np.testing.assert_allclose(together, expected, atol=1e-5)


# --- the embedder ---------------------------------------------------------------------------------


def test_a_property_of_another_dimension_is_refused_before_anything_is_loaded(small):
    with pytest.raises(EmbeddingFailed, match=r"'small' have 8 dimensions, not 384"):
        small.embed("tides", 384, TextRole.QUERY)
    assert small.load.calls == 0


def test_threads_may_share_an_embedder(small):
    texts = [f"text {number}" for number in range(40)]
    expected = [small.embed(text, DIMENSION, TextRole.QUERY) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda t: small.embed(t, DIMENSION, TextRole.QUERY), texts))
    assert found == expected


def test_the_file_pipeline_embeds_many_lines_at_once(tmp_path, small):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    titles = [f"t{number}" * (1 + number % 5) for number in range(600)]
    records = [{"type": "Album", "data": {"title": title}} for title in titles]
    edge = '{"edge": "Made",  "from": "ada", "to": "tides"}'
    source.write_text("\n".join([*map(json.dumps, records), edge, ""]))
    spec = EmbedSpec(DIMENSION, {"Album": EmbedTarget("vibe", ("title",))})
    summary = embed_file(EmbedRequest(source, target, spec), small)
    assert (summary.records, summary.embedded_records, summary.model) == (601, 600, "small")
    assert small.load.calls == 3
    *lines, last = target.read_text().splitlines()
    assert last == edge
    made = [json.loads(line)["data"] for line in lines]
    assert [data["title"] for data in made] == titles
    expected = [small.embed(f"type: Album\ntitle: {t}", DIMENSION, TextRole.QUERY) for t in titles]
    np.testing.assert_allclose([data["vibe"] for data in made], expected, atol=1e-5)


def test_a_wrong_line_is_named_and_nothing_is_written(tmp_path, small):
    source = tmp_path / "in.jsonl"
    good = json.dumps({"type": "Album", "data": {"title": "Tides"}})
    huge = '{"type": "Album", "data": {"x": 1e999}}'
    spec = EmbedSpec(DIMENSION, {"Album": EmbedTarget("vibe", ("title",))})
    for wrong, reason in (("[1]", "a record is"), (huge, "too large")):
        source.write_text(f"{good}\n\n{wrong}\n{good}\n")
        with pytest.raises(BadRequest, match=rf"in\.jsonl:3: .*{reason}"):
            embed_file(EmbedRequest(source, tmp_path / "out.jsonl", spec), small)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


# --- the provider ---------------------------------------------------------------------------------


def test_the_provider_is_chosen_by_name_and_has_one_model():
    settings = Settings.from_environment({"OMNIGRAPH_EMBED_PROVIDER": "local"}).embed
    assert choose_model(settings) == LOCAL_MODEL == LazyEmbedder(settings).model
    assert isinstance(LocalEmbedder(), BatchEmbedder)
    other = EmbedSettings(provider=EmbedProvider.LOCAL, model="m-1")
    with pytest.raises(BadRequest, match=f"no model 'm-1', only '{LOCAL_MODEL}'"):
        open_embedder(other)


@pytest.mark.skipif(
    importlib.util.find_spec("tokenizers") is not None, reason="the optional packages are there"
)
def test_packages_that_are_not_installed_are_named_with_the_command_that_installs_them():
    lazy = LazyEmbedder(LOCAL)
    with pytest.raises(MissingPackage, match="'local' needs the package 'tokenizers'") as raised:
        lazy.embed("tides", 384, TextRole.QUERY)
    assert "pip install --no-deps --require-hashes -r requirements/local.txt" in str(raised.value)
    with pytest.raises(MissingPackage):
        open_embedder(LOCAL)


# --- files of the model ---------------------------------------------------------------------------


def safetensors(tensors):
    """A file in the safetensors format."""
    header, content = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors.items():
        kind = {"float32": "F32", "int64": "I64"}[str(values.dtype)]
        places = [len(content), len(content) + values.nbytes]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": places}
        content += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content


def test_tensors_are_read_as_they_were_written():
    ids = np.arange(LONGEST).reshape(1, LONGEST)
    found = read_tensors(safetensors({"embeddings.position_ids": ids, **TENSORS}))
    assert found.keys() == TENSORS.keys()
    for name, values in TENSORS.items():
        np.testing.assert_array_equal(found[name], values, strict=True)


def test_a_file_with_another_content_is_not_used(tmp_path):
    content = safetensors(TENSORS)
    file = PublishedFile("model.safetensors", hashlib.sha256(content).hexdigest())
    path = tmp_path / file.name
    path.write_bytes(content)
    assert read_published(tmp_path, file) == content
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(EmbeddingFailed, match=r"model\.safetensors is not the published file"):
        read_published(tmp_path, file)
    path.unlink()
    with pytest.raises(EmbeddingFailed, match=r"cannot read .*model\.safetensors"):
        read_published(tmp_path, file)
