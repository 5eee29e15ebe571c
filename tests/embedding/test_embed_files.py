"""The embedding pipeline over files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from omnigraph.embedding.embed_files import (
    EmbedRequest,
    EmbedSpec,
    EmbedTarget,
    build_embed_text,
    embed_file,
    parse_selector,
    read_manifest,
    read_spec,
    render_field,
)
from omnigraph.embedding.embedder import MockEmbedder, TextRole
from omnigraph.errors import BadRequest, EmbeddingFailed

SPEC = EmbedSpec(3, {"Album": EmbedTarget("vibe", ("title", "notes"))})
LINES = [
    '{"type":"Album", "data":{"slug": "tides", "title": "Slow Tides", "plays": 9007199254740993}}',
    '{"type": "Album", "data": {"slug": "embers", "title": "Night Embers", "vibe": [1, 0, 0]}}',
    '{"type": "Album", "data": {"slug": "tidal", "title": " Tidal Maps ", "vibe": null}}',
    '{"type": "Album", "data": {"slug": "static", "title": null, "vibe": []}}',
    '{"type": "Artist", "data": {"slug": "ada",   "vibe": null}}',
    '{"edge": "Made", "from": "ada", "to": "tides"}',
]


@dataclass
class Recorder:
    """Made-up vectors, and a list of the requested texts."""

    model: str = "m-1"
    asked: list[tuple[str, int, TextRole]] = field(default_factory=list)

    def embed(self, text, dimension, role):
        self.asked.append((text, dimension, role))
        return MockEmbedder().embed(text, dimension, role)


@pytest.fixture
def embedder():
    return Recorder()


@pytest.fixture
def run(tmp_path, embedder):
    """Embed these lines, and give the summary and the output as lines."""

    def embedded(lines=LINES, spec=SPEC, **options):
        source, target = tmp_path / "in.jsonl", tmp_path / "out" / "made.jsonl"
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        options["selectors"] = tuple(map(parse_selector, options.pop("select", ())))
        summary = embed_file(EmbedRequest(source, target, spec, **options), embedder)
        assert not list(target.parent.glob("*.tmp"))
        return summary, target.read_text(encoding="utf-8").splitlines()

    return embedded


def vibe(line):
    return json.loads(line)["data"].get("vibe", "absent")


def test_missing_targets_are_filled_and_everything_else_is_left_alone(run, embedder, tmp_path):
    summary, lines = run()
    assert summary.wire() == {
        "input": str(tmp_path / "in.jsonl"),
        "output": str(tmp_path / "out" / "made.jsonl"),
        "records": 6,
        "selected_records": 4,
        "embedded_records": 3,
        "cleaned_records": 0,
        "mode": "fill_missing",
        "dimension": 3,
        "model": "m-1",
    }
    assert [lines[n] for n in (1, 4, 5)] == [LINES[n] for n in (1, 4, 5)]
    assert embedder.asked == [
        ("type: Album\ntitle: Slow Tides", 3, TextRole.DOCUMENT),
        ("type: Album\ntitle: Tidal Maps", 3, TextRole.DOCUMENT),
        ("type: Album", 3, TextRole.DOCUMENT),
    ]
    first = json.loads(lines[0])
    assert first["data"]["plays"] == 9007199254740993
    assert list(first["data"]) == ["slug", "title", "plays", "vibe"]
    assert all(len(vibe(line)) == 3 for line in lines[:4])


def test_a_second_run_finds_nothing_to_do(run, embedder):
    _, lines = run()
    embedder.asked.clear()
    summary, again = run(lines)
    assert again == lines
    assert (summary.embedded_records, embedder.asked) == (0, [])


def test_everything_can_be_embedded_again(run):
    summary, lines = run(is_reembed_all=True)
    assert (summary.mode, summary.embedded_records) == ("reembed_all", 4)
    assert vibe(lines[1]) != [1, 0, 0]


def test_selected_records_are_embedded_again_and_others_not_even_filled(run):
    summary, lines = run(select=["slug=embers", "Album:title=Tidal Maps"])
    assert (summary.mode, summary.selected_records) == ("reembed_selected", 2)
    assert vibe(lines[1]) != [1, 0, 0]
    assert vibe(lines[2]) is not None
    assert lines[0] == LINES[0]


def test_cleaning_takes_the_target_away_without_an_embedder(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join(LINES))
    request = EmbedRequest(source, source, SPEC, is_clean=True)
    summary = embed_file(request, None)
    assert (summary.mode, summary.selected_records, summary.cleaned_records) == ("clean", 4, 3)
    assert summary.model is None
    lines = source.read_text().splitlines()
    assert [vibe(line) for line in lines[:4]] == ["absent"] * 4
    assert lines[4:] == LINES[4:]


def test_types_limit_what_is_selected(run):
    both = EmbedSpec(3, {**SPEC.types, "Artist": EmbedTarget("vibe", ("slug",))})
    summary, lines = run(spec=both, types=("Artist",))
    assert (summary.selected_records, summary.embedded_records) == (1, 1)
    assert lines[:4] == LINES[:4]
    assert run(spec=both)[0].embedded_records == 4


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"types": ("Song",)}, "not mention type 'Song'; its types are Album"),
        ({"select": ["Song:slug=x"]}, "not mention type 'Song'"),
        ({"is_clean": True, "is_reembed_all": True}, "not both"),
    ],
)
def test_a_request_that_does_not_fit_is_refused(run, options, reason):
    with pytest.raises(BadRequest, match=reason):
        run(**options)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "invalid JSON"),
        ("[1]", "a record is a JSON object"),
        ('{"type": "Album"}', "object 'data'"),
        ('{"type": "Other", "data": 3}', "object 'data'"),
        ('{"a": 1, "a": 2}', "duplicate JSON member"),
        ('{"type": "Album", "data": {"x": 1e999}}', "too large"),
    ],
)
def test_a_line_that_is_no_record_is_named_and_nothing_is_written(tmp_path, embedder, line, reason):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(f"{LINES[0]}\n\n{line}\n")
    target.write_text("as it was")
    with pytest.raises(BadRequest, match=reason) as raised:
        embed_file(EmbedRequest(source, target, SPEC), embedder)
    assert f"{source}:3: " in str(raised.value)
    assert target.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_a_provider_that_fails_leaves_no_output(run, embedder, tmp_path, monkeypatch):
    def refuse(*arguments):
        raise EmbeddingFailed("out of order")

    monkeypatch.setattr(embedder, "embed", refuse)
    with pytest.raises(EmbeddingFailed):
        run()
    assert list((tmp_path / "out").iterdir()) == []


def test_an_input_that_is_not_there_is_refused(tmp_path, embedder):
    with pytest.raises(BadRequest, match=r"cannot read .*missing"):
        embed_file(EmbedRequest(tmp_path / "missing", tmp_path / "out", SPEC), embedder)


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("  a b ", "a b"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (-2.5, "-2.5"),
        (["a ", 1, None, True], "a, 1, , true"),
        (None, ""),
        ([], ""),
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
    ],
)
def test_values_read_as_text(value, text):
    assert render_field(value) == text


def test_the_text_of_a_record_names_its_type_and_its_fields():
    data = {"title": "Tides", "notes": ["slow", "blue"], "empty": " ", "more": 1}
    text = build_embed_text("Album", data, ("title", "missing", "empty", "notes"))
    assert text == "type: Album\ntitle: Tides\nnotes: slow, blue"


@pytest.mark.parametrize("text", ["slug", "=x", ":slug=x", "Album:=x"])
def test_a_selection_has_a_field_and_a_value(text):
    with pytest.raises(BadRequest, match=r"\[Type:\]field=value"):
        parse_selector(text)


def test_a_value_may_hold_anything():
    assert parse_selector("a=b=c:d").value == "b=c:d"
    assert parse_selector("a=").value == ""


# --- specs and manifests --------------------------------------------------------------------------

MANIFEST = """
# Where the seed comes from.
sources:
  raw_seed: data/seed.jsonl
artifacts:
  embedded_seed: made/seed.jsonl
embeddings:
  dimension: 3
  types:
    Album:
      target: vibe
      fields: [title, notes]
other: ignored
"""


def test_a_manifest_names_its_files_from_its_own_folder(tmp_path):
    path = tmp_path / "seed.yaml"
    path.write_text(MANIFEST)
    manifest = read_manifest(path)
    assert manifest.input == tmp_path / "data/seed.jsonl"
    assert manifest.output == tmp_path / "made/seed.jsonl"
    assert manifest.spec == SPEC


def test_a_manifest_may_be_json_and_leave_the_output_out(tmp_path):
    path = tmp_path / "seed.json"
    spec = {"dimension": 3, "types": {"Album": {"target": "vibe", "fields": ["title", "notes"]}}}
    path.write_text(json.dumps({"seed": {"data": "/abs/seed.jsonl"}, "embeddings": spec}))
    manifest = read_manifest(path)
    assert str(manifest.input) == "/abs/seed.jsonl"
    assert manifest.output == tmp_path / "build/seed.embedded.jsonl"
    assert manifest.spec == SPEC


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [", "not YAML"),
        ("- a", "expected names with values"),
        ("embeddings: {}", "raw_seed"),
        ("sources: {raw_seed: 3}", "must be a path"),
        ("sources: {raw_seed: x}", "embeddings: expected"),
        ("sources: {raw_seed: x}\nembeddings: {dimension: 3}", "types"),
        ("sources: x", "sources: expected"),
        ("!!python/object:os.system {}", "not YAML"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path, text, reason):
    path = tmp_path / "seed.yaml"
    path.write_text(text)
    with pytest.raises(BadRequest, match=reason):
        read_manifest(path)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ([], "expected names"),
        ({"dimension": 0, "types": {}}, "positive"),
        ({"dimension": True, "types": {}}, "positive"),
        ({"dimension": 3, "types": {}}, "name a type"),
        ({"dimension": 3, "types": {"A": {"target": "", "fields": ["x"]}}}, "target"),
        ({"dimension": 3, "types": {"A": {"target": "v", "fields": []}}}, "fields"),
        ({"dimension": 3, "types": {"A": {"target": "v", "fields": [1]}}}, "fields"),
        ({"dimension": 3, "types": {"A": {"target": "v"}}, "model": "m"}, "unknown key 'model'"),
    ],
)
def test_a_spec_that_is_none_is_refused(tmp_path, spec, reason):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec))
    with pytest.raises(BadRequest, match=reason):
        read_spec(path)


def test_a_spec_is_read(tmp_path):
    path = tmp_path / "spec.json"
    spec = {"dimension": 3, "types": {"Album": {"target": "vibe", "fields": ["title", "notes"]}}}
    path.write_text(json.dumps(spec))
    assert read_spec(path) == SPEC
