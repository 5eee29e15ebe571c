"""Opening a graph: what is refused, what is healed, and what a read-only open leaves alone."""

from __future__ import annotations

import json
import shutil
import sys

import lance
import pyarrow as pa
import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from graph.music_graph import SCHEMA, contents, files_below, node, refusal, run
from omnigraph.catalog.schema_json import hash_text
from omnigraph.errors import (
    BadOptions,
    BadRequest,
    GraphNotFound,
    ManifestCorrupt,
    SchemaContractMismatch,
    StampRefused,
    StorageFailure,
)
from omnigraph.identity import TableIdentity, TableIncarnationId, TypeId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import make_table_path
from omnigraph.storage.manifest.manifest_changes import Publication, Register, SetVersion, Tombstone
from omnigraph.storage.manifest.manifest_reader import read_newest
from omnigraph.storage.manifest.manifest_state import SchemaContract
from omnigraph.storage.publish import publish
from omnigraph.storage.refs import MAIN_REF

STAMP = "omnigraph:internal_schema_version"
BOTH_WAYS = pytest.mark.parametrize("read_only", [False, True], ids=["writing", "reading"])


def restamp(place, value):
    """Give the manifest another stamp, or none, as another build would have left it."""
    manifest = lance.dataset(str(place / "__manifest"))
    metadata = {k.decode(): v.decode() for k, v in (manifest.schema.metadata or {}).items()}
    metadata.pop(STAMP)
    if value is not None:
        metadata[STAMP] = value
    manifest.update_schema_metadata(metadata, replace=True)


# --- nothing there, or nothing to be written ----------------------------------------------------


@BOTH_WAYS
def test_there_must_be_a_graph(tmp_path, read_only):
    with refusal(GraphNotFound, "omnigraph init"):
        omnigraph.open(tmp_path / "nothing", read_only=read_only)
    assert list(tmp_path.iterdir()) == []


@BOTH_WAYS
def test_files_of_an_init_that_died_are_no_graph(tmp_path, read_only):
    (tmp_path / "g/__manifest/data").mkdir(parents=True)
    (tmp_path / "g/__manifest/data/x.lance").write_bytes(b"half")
    with refusal(GraphNotFound, "no graph"):
        omnigraph.open(tmp_path / "g", read_only=read_only)


def test_a_read_only_open_writes_nothing(music, music_place):
    music.create_branch("dev")
    run(music, 'insert Artist {slug: "z", name: "Z"}', branch="dev")
    (music_place / "_schema.pg").unlink()
    before = list(files_below(music_place))
    graph = omnigraph.open(music_place, read_only=True)
    contents(graph)
    contents(graph, branch="dev")
    graph.commits("dev")
    graph.at(commit=graph.commits("dev")[0].commit_id)
    graph.snapshot("dev")
    assert graph.branches() == ["main", "dev"]
    assert graph.recovery_pending() == []
    assert graph.recovery_list() == ()
    assert (graph.schema, graph.recover(check=True)) == (SCHEMA, [])
    assert list(files_below(music_place)) == before


def test_a_read_only_graph_refuses_every_write(music_place):
    before = list(files_below(music_place))
    graph = omnigraph.open(music_place, read_only=True)
    for attempt in (
        lambda: run(graph, 'insert Artist {slug: "z", name: "Z"}'),
        lambda: graph.load(b"", "append"),
        lambda: graph.create_branch("dev"),
        lambda: graph.delete_branch("dev"),
        graph.recover,
    ):
        with refusal(BadRequest, "read-only"):
            attempt()
    assert list(files_below(music_place)) == before


@BOTH_WAYS
def test_opening_finds_the_newest_version_once_and_parses_no_schema(music_place, read_only):
    entered = []

    def note(frame, event, argument):
        if event == "call":
            entered.append((frame.f_globals.get("__name__", ""), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        omnigraph.open(music_place, read_only=read_only)
    finally:
        sys.setprofile(before)
    assert entered.count(("omnigraph.storage.manifest.manifest_reader", "read_newest")) == 1
    assert not [name for name, _ in entered if name.startswith("omnigraph.language")]


def test_opening_for_writing_leaves_a_whole_graph_as_it_is(music_place):
    omnigraph.open(music_place)  # a copy, which records its address first
    before = list(files_below(music_place))
    omnigraph.open(music_place)
    assert list(files_below(music_place)) == before


def test_a_store_that_cannot_create_is_read_but_not_written(music_place):
    with observed(Trouble("before", "put_if_absent", times=9)):
        with refusal(StorageFailure, "trouble"):
            omnigraph.open(music_place)
        assert contents(omnigraph.open(music_place, read_only=True))


# --- stamps -------------------------------------------------------------------------------------


@BOTH_WAYS
@pytest.mark.parametrize(
    ("stamp", "texts"),
    [
        ("8", ["__manifest is stamped at internal schema v8", "expects v7", "upgrade omnigraph"]),
        (
            "6",
            [
                "internal schema v6",
                "0.9.x to 0.10.x",
                "omnigraph export",
                "omnigraph init",
                "omnigraph load --mode overwrite",
                "data, vectors and blobs survive",
                "history and branches do not",
                "upgrade guide",
            ],
        ),
        ("3", ["internal schema v3", "0.6.2 to 0.7.2", "omnigraph export"]),
        ("0", ["internal schema v0", "an unrecognized older release"]),
        ("seven", ["'seven'", "corrupt"]),
        ("-7", ["'-7'", "corrupt"]),
        ("", ["''", "corrupt"]),
        (
            None,
            [
                "no stamp",
                "interrupted initialization",
                "damaged metadata",
                "only if you know that the initialization failed",
                "preserve",
            ],
        ),
    ],
)
def test_a_graph_of_another_format_is_refused(music_place, stamp, texts, read_only):
    restamp(music_place, stamp)
    before = list(files_below(music_place))
    with pytest.raises(StampRefused) as refused:
        omnigraph.open(music_place, read_only=read_only)
    for text in texts:
        assert text in str(refused.value)
    if stamp is not None and not stamp.isdigit():
        assert "delete" not in str(refused.value)
    assert refused.value.expected == omnigraph.INTERNAL_SCHEMA_VERSION
    assert list(files_below(music_place)) == before


@BOTH_WAYS
def test_a_manifest_from_before_stamps_is_distinguished_from_a_damaged_one(music_place, read_only):
    shutil.rmtree(music_place / "__manifest")
    old = pa.table({"object_id": ["x"], "object_type": ["table"]})
    lance.write_dataset(old, str(music_place / "__manifest"))
    with refusal(StampRefused, "0.3.1 or earlier"):
        omnigraph.open(music_place, read_only=read_only)


def test_a_write_checks_the_stamp_again(music, music_place):
    restamp(music_place, "8")
    with refusal(StampRefused, "upgrade omnigraph"):
        run(music, 'insert Artist {slug: "z", name: "Z"}')
    with refusal(StampRefused, "upgrade omnigraph"):
        music.create_branch("dev")


def test_a_branch_has_the_stamp_of_its_source(music):
    music.create_branch("dev")
    assert music.snapshot("dev").internal_schema_version == 7


@BOTH_WAYS
def test_a_branch_of_another_format_is_refused_and_the_others_remain_usable(
    music, music_place, read_only
):
    ref = music.create_branch("dev")
    branch = lance.dataset(str(music_place / "__manifest/tree" / ref.incarnation))
    metadata = {k.decode(): v.decode() for k, v in branch.schema.metadata.items()}
    branch.update_schema_metadata(metadata | {STAMP: "8"}, replace=True)
    graph = omnigraph.open(music_place, read_only=read_only)
    attempts = [lambda: contents(graph, branch="dev"), lambda: graph.commits("dev")]
    if not read_only:
        attempts += [
            lambda: run(graph, 'insert Artist {slug: "z", name: "Z"}', branch="dev"),
            lambda: graph.create_branch("sub", source="dev"),
            lambda: graph.cleanup(keep=1, confirm=True),
        ]
    for attempt in attempts:
        with refusal(StampRefused, "upgrade omnigraph"):
            attempt()
    assert contents(graph) == contents(music)
    assert graph.branches() == ["main", "dev"]
    if not read_only:
        run(graph, 'insert Artist {slug: "z", name: "Z"}')


def test_data_comes_over_through_an_export(music, music_place, tmp_path):
    lines = b"".join(music.at().export_jsonl())
    restamp(music_place, "6")
    with pytest.raises(StampRefused):
        omnigraph.open(music_place)
    rebuilt = omnigraph.init(tmp_path / "new.omni", SCHEMA)
    rebuilt.load(lines, "overwrite")
    assert b"".join(rebuilt.at().export_jsonl()) == lines


# --- the schema ---------------------------------------------------------------------------------


def publish_contract(place, **changed):
    """Put another schema record in the manifest, as damage would."""
    root = GraphRoot.at(str(place))
    stored = omnigraph.open(place, read_only=True)._open.views.read_newest("main").snapshot.contract
    fields = {"source": stored.source, "ir": stored.ir, "state": stored.state} | changed
    publish(root, MAIN_REF, Publication(contract=SchemaContract(**fields)))


def stored_contract(place):
    return omnigraph.open(place, read_only=True)._open.views.read_newest("main").snapshot.contract


@BOTH_WAYS
@pytest.mark.parametrize("part", ["source", "ir", "state"])
def test_a_schema_record_that_contradicts_itself_is_refused(music_place, part, read_only):
    stored = stored_contract(music_place)
    state = json.loads(stored.state)
    state["schema_ir_hash"] = "0" * len(state["schema_ir_hash"])
    damaged = {
        "source": stored.source.replace("born: I32?", "born: I64?"),
        "ir": stored.ir.replace('"Artist"', '"Artisan"', 1),
        "state": json.dumps(state),
    }
    publish_contract(music_place, **{part: damaged[part]})
    with pytest.raises(SchemaContractMismatch):
        omnigraph.open(music_place, read_only=read_only)


@BOTH_WAYS
@pytest.mark.parametrize("part", ["ir", "state"])
def test_a_schema_record_mixed_with_that_of_another_graph_is_refused(
    music_place, tmp_path, part, read_only
):
    """The other graph has the same schema, but its types are others."""
    omnigraph.init(tmp_path / "other.omni", SCHEMA)
    foreign = stored_contract(tmp_path / "other.omni")
    publish_contract(music_place, **{part: getattr(foreign, part)})
    with pytest.raises(SchemaContractMismatch):
        omnigraph.open(music_place, read_only=read_only)


@BOTH_WAYS
def test_a_table_of_another_identity_under_a_known_name_is_refused(music_place, read_only):
    root = GraphRoot.at(str(music_place))
    label = read_newest(root.manifest()).state.entries["node:Label"]
    identity = TableIdentity(TypeId(900), TableIncarnationId(901))
    swapped = (
        Tombstone(label.identity, label.table_key, label.version),
        Register(identity, label.table_key, make_table_path(label.kind, identity)),
        SetVersion(identity, label.table_key, 1, None, 0),
    )
    publish(root, MAIN_REF, Publication(changes=swapped))
    with refusal(SchemaContractMismatch, "node:Label"):
        omnigraph.open(music_place, read_only=read_only)


def test_a_handle_that_is_open_already_notices_as_well(music, music_place):
    stored = stored_contract(music_place)
    publish_contract(music_place, source=stored.source.replace("born: I32?", "born: I64?"))
    with pytest.raises(SchemaContractMismatch):
        contents(music)
    with pytest.raises(SchemaContractMismatch):
        run(music, 'insert Artist {slug: "z", name: "Z"}')


def test_verify_compares_a_schema_whose_hashes_are_right_in_full(music_place):
    stored = stored_contract(music_place)
    ir = stored.ir.replace('"I32"', '"I64"', 1)
    state = json.loads(stored.state) | {"schema_ir_hash": hash_text(ir)}
    publish_contract(music_place, ir=ir, state=json.dumps(state))
    graph = omnigraph.open(music_place)
    found = [(one.check, one.message) for one in graph.verify().findings]
    assert [check for check, _ in found] == ["schema"]
    assert "recorded hash" in found[0][1]


def test_a_graph_without_the_hash_of_its_schema_text_opens_as_before(music_place):
    state = json.loads(stored_contract(music_place).state)
    assert state.pop("schema_source_hash")
    publish_contract(music_place, state=json.dumps(state))
    graph = omnigraph.open(music_place)
    assert contents(graph)
    assert graph.verify().is_sound
    publish_contract(music_place, source=graph.schema.replace("born: I32?", "born: I64?"))
    with pytest.raises(SchemaContractMismatch, match="text no longer matches"):
        omnigraph.open(music_place)


def test_a_schema_record_that_is_no_json_is_refused(music_place):
    publish_contract(music_place, ir="{")
    with pytest.raises((SchemaContractMismatch, ManifestCorrupt)):
        omnigraph.open(music_place)


def test_a_comment_in_the_schema_changes_nothing(music_place):
    stored = stored_contract(music_place)
    publish_contract(music_place, source=stored.source + "\n// a remark\n")
    assert omnigraph.open(music_place).schema.endswith("// a remark\n")


FILES = ["_schema.pg", "_schema.ir.json", "__schema_state.json"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_the_schema_files_are_healed_by_a_writer_and_ignored_by_a_reader(music_place, file, damage):
    place = music_place / file
    text = place.read_bytes()
    if damage == "missing":
        place.unlink()
    else:
        place.write_bytes(b"something else")
    before = list(files_below(music_place))
    assert contents(omnigraph.open(music_place, read_only=True))
    assert list(files_below(music_place)) == before
    omnigraph.open(music_place)
    assert place.read_bytes() == text


def test_failing_to_heal_a_schema_file_is_no_reason_to_refuse(music_place):
    (music_place / "_schema.pg").unlink()
    with observed(Trouble("before", "put", "_schema.pg")):
        graph = omnigraph.open(music_place)
    graph.load([node("Label", slug="x", name="X")], "append")
    omnigraph.open(music_place)
    assert (music_place / "_schema.pg").read_text() == SCHEMA


@pytest.mark.parametrize("actor", ["two\nlines", "bell\x07", "\u2028", "\ud800"])
def test_an_actor_that_would_break_a_line_is_refused(tmp_path, music, actor):
    for use in (
        lambda: omnigraph.init(tmp_path / "new.omni", "node A { k: String @key }", actor=actor),
        lambda: omnigraph.open(music.uri, actor=actor),
        lambda: music.as_actor(actor),
        lambda: music.mutate('query q() { delete Label where slug = "x" }', actor=actor),
        lambda: music.load([], "append", actor=actor),
        lambda: music.create_branch("b", actor=actor),
        lambda: music.tag("t", actor=actor),
        lambda: music.merge("main", actor=actor),
        lambda: music.revert("HEAD", actor=actor),
        lambda: music.apply_schema(music.schema, actor=actor),
    ):
        with refusal(BadOptions, "control character"):
            use()
    assert not (tmp_path / "new.omni").exists()
    assert music.as_actor("Zoë 李 🙂").actor == "Zoë 李 🙂"
