"""`omnigraph embed`, asking a provider on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from commands.quick_command import quick_command
from embedding.provider import Provider, running_provider

SPEC = {"dimension": 2, "types": {"Album": {"target": "vibe", "fields": ["title"]}}}
WELL_WITHIN_S = 300


@pytest.fixture
def provider():
    with running_provider() as running:
        yield running


@pytest.fixture
def embed(tmp_path: Path, provider: Provider):
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    lines = [{"type": "Album", "data": {"title": f"t{n}"}} for n in range(3)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def run(*arguments: str, **environment: str):
        files = ("--input", "in.jsonl", "--output", "out.jsonl", "--spec", "spec.json")
        given = {
            "OMNIGRAPH_EMBED_PROVIDER": "openai",
            "OMNIGRAPH_EMBED_BASE_URL": provider.url,
            "OPENAI_API_KEY": "secret-key",
            "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "1",
            **environment,
        }
        return subprocess.run(
            quick_command("embed", *files, *arguments),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **given},
            check=False,
            timeout=600,
        )

    return run


def test_the_texts_of_a_file_are_embedded(embed, provider, tmp_path: Path) -> None:
    provider.acts = [provider.embeds(0, 2)]
    done = embed("--json")
    assert json.loads(done.stdout) == {
        "input": "in.jsonl",
        "output": "out.jsonl",
        "records": 3,
        "selected_records": 3,
        "embedded_records": 3,
        "cleaned_records": 0,
        "mode": "fill_missing",
        "dimension": 2,
        "model": "text-embedding-3-large",
    }
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert first["data"]["vibe"] == [0.0, 1.0]


def test_a_manifest_names_the_files(embed, tmp_path: Path) -> None:
    (tmp_path / "seed.yaml").write_text(
        f"sources: {{raw_seed: in.jsonl}}\nembeddings: {json.dumps(SPEC)}\n"
    )
    done = subprocess.run(
        quick_command("embed", "--seed", "seed.yaml"),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "OMNIGRAPH_EMBED_PROVIDER": "mock"},
        check=False,
        timeout=600,
    )
    assert done.stdout == "build/seed.embedded.jsonl: 3 records, 3 selected, 3 embedded\n"


def test_a_missing_key_is_named_at_once(embed, provider) -> None:
    done = embed("--json", OPENAI_API_KEY="")
    body = json.loads(done.stdout)
    assert (done.returncode, body["kind"]) == (1, "embedding_failed")
    assert "OPENAI_API_KEY is required" in body["error"]
    assert provider.requests == []


def test_a_server_that_hangs_is_given_up(embed, provider, tmp_path: Path) -> None:
    provider.acts = [provider.hangs()]
    started = time.monotonic()
    done = embed("--json", OMNIGRAPH_EMBED_TIMEOUT_MS="30000", OMNIGRAPH_EMBED_DEADLINE_MS="400")
    assert time.monotonic() - started < WELL_WITHIN_S
    assert (done.returncode, json.loads(done.stdout)["kind"]) == (1, "embedding_failed")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_vector_of_the_wrong_dimension_is_refused(embed, provider, tmp_path: Path) -> None:
    provider.acts = [provider.embeds(1, 0, 0)]
    done = embed("--json")
    assert (done.returncode, json.loads(done.stdout)["kind"]) == (1, "embedding_failed")
    assert "3 dimensions instead of" in json.loads(done.stdout)["error"]
    assert not (tmp_path / "out.jsonl").exists()


def test_a_run_is_resumed(embed, provider, tmp_path: Path) -> None:
    ok, bad = provider.embeds(1, 0), provider.says(400, b"no more")
    provider.acts = [ok, ok, bad]
    assert embed("--resume").returncode == 1
    assert not (tmp_path / "out.jsonl").exists()
    provider.acts = [ok]
    done = embed("--resume", "--per-minute", "6000")
    assert done.stdout == "out.jsonl: 3 records, 3 selected, 3 embedded\n"
    assert [r.body["input"] for r in provider.requests[2:]] == [["type: Album\ntitle: t2"]] * 2


def test_cleaning_needs_no_provider(embed, provider, tmp_path: Path) -> None:
    done = embed("--clean", OPENAI_API_KEY="")
    assert (done.returncode, provider.requests) == (0, [])
    assert done.stdout == "out.jsonl: 3 records, 3 selected, 0 cleaned\n"


def piped(*arguments: str, stdin: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        quick_command("embed", *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "OMNIGRAPH_EMBED_PROVIDER": "mock"},
        check=False,
        timeout=600,
    )


def test_records_are_piped_from_one_program_to_another(embed, tmp_path: Path) -> None:
    records = (tmp_path / "in.jsonl").read_text()
    flags = ("--input", "-", "--output", "-", "--spec", "spec.json")
    done = piped(*flags, stdin=records, cwd=tmp_path)
    assert done.stderr == "-: 3 records, 3 selected, 3 embedded\n"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["data"]["title"], len(line["data"]["vibe"])) for line in lines] == [
        ("t0", 2),
        ("t1", 2),
        ("t2", 2),
    ]
    wrong = piped(*flags, stdin=records + "[]\n", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("error: <stdin>:4: ")


def test_the_spec_comes_from_another_program(embed, tmp_path: Path) -> None:
    flags = ("--input", "in.jsonl", "--output", "out.jsonl", "--spec", "-", "--json")
    done = piped(*flags, stdin=json.dumps(SPEC), cwd=tmp_path)
    assert json.loads(done.stdout)["embedded_records"] == 3
    for said, problem in (("[1]", "a spec must be a JSON object"), ("null", "dimension")):
        wrong = piped(*flags, stdin=said, cwd=tmp_path)
        assert (wrong.returncode, problem in wrong.stdout) == (1, True), wrong.stdout


FROM_STDIN = ("--input", "-", "--output", "o", "--spec", "s")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (*FROM_STDIN, "--resume"),
        (*FROM_STDIN, "--engine", "spark"),
        ("--input", "i", "--output", "-", "--spec", "s", "--json"),
        ("--input", "-", "--output", "o", "--spec", "-"),
        ("--seed", "-"),
        ("--input", "a"),
        ("--seed", "a", "--input", "b"),
        ("--seed", "a", "--clean", "--reembed-all"),
        ("--seed", "a", "--per-minute", "0"),
        ("--seed", "a", "--branch", "b"),
        ("--seed", "a", "-m", "why"),
    ],
    ids=" ".join,
)
def test_wrong_usage(omnigraph, arguments) -> None:
    assert omnigraph("embed", *arguments).code == 2


def test_the_commit_of_a_graph_keeps_a_message(omnigraph, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setenv("OMNIGRAPH_EMBED_WRITES", "false")
    schema = 'node Note { slug: String @key  text: String  v: Vector(3)? @embed("text") }'
    (tmp_path / "notes.pg").write_text(schema)
    assert omnigraph("init", "notes.omni", "--schema", "notes.pg").code == 0
    record = json.dumps({"type": "Note", "data": {"slug": "a", "text": "tides"}})
    loaded = omnigraph("load", "notes.omni", "--data", "-", "--mode", "append", stdin=record)
    assert loaded.code == 0, loaded.err
    done = omnigraph("embed", "notes.omni", "-m", "first vectors", "--json")
    assert json.loads(done.out)["embedded"] == 1
    commits = json.loads(omnigraph("commit", "list", "notes.omni", "--json").out)["commits"]
    assert commits[0]["details"]["message"] == "first vectors"
