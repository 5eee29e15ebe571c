"""Writers of the data source, called as Spark calls them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import (
    BadRequest,
    ConstraintViolated,
    KeyConflict,
    OmniError,
    RowsRejected,
)
from omnigraph.spark_source.datasource import GraphSource


def writer(graph, overwrite=False, **options):
    return GraphSource({"path": graph.uri, **options}).writer(pa.schema([]), overwrite)


def write(graph, rows, overwrite=False, **options):
    """Rows as one task hands them over, committed or, should anything fail, aborted."""
    made = writer(graph, overwrite, **options)
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
    messages = [None]
    try:
        messages = [made.write(iter(table.to_batches()))]
        made.commit(messages)
    except OmniError:
        made.abort(messages)
        raise


def staged_files(graph) -> list[str]:
    folder = Path(graph.uri.removeprefix("file://")) / "__staging"
    return sorted(str(path) for path in folder.rglob("*") if path.is_file())


def keys(graph, **where):
    rows = graph.at(**where).query("query q() { match { $p: Person } return { $p.key } }").rows
    return [row["p.key"] for row in rows]


def test_rows_are_appended_as_one_commit(empty):
    before = len(empty.commits())
    rows = [{"key": "a", "age": 1}, {"key": "b", "age": None}]
    write(empty, rows, type="Person", actor="job", message="nightly")
    assert keys(empty) == ["a", "b"]
    assert len(empty.commits()) == before + 1
    newest = empty.commits()[0]
    assert (newest.actor_id, newest.message) == ("job", "nightly")
    assert staged_files(empty) == []


def test_rows_that_were_read_can_be_written_elsewhere(graph, empty):
    for type_name in ("Person", "Knows"):
        source = GraphSource({"path": graph.uri, "type": type_name})
        reader = source.reader(schema=source.schema())
        batches = [b for part in reader.partitions() for b in reader.read(part)]
        write(empty, pa.Table.from_batches(batches), type=type_name)
    assert list(empty.export()) == list(graph.export())


def test_several_tasks_make_one_commit(empty):
    made = writer(empty, type="Note")
    parts = [pa.record_batch({"text": [f"n{n}"]}) for n in range(3)]
    messages = [made.write(iter([part])) for part in parts]
    for number, message in enumerate(messages):
        message.split.split = number
    before = len(empty.commits())
    made.commit([*messages, None])
    assert len(empty.commits()) == before + 1
    assert len(empty.nodes("Note")) == 3


def test_a_merge_replaces_whole_rows(graph):
    write(graph, [{"key": "p1", "age": 100}, {"key": "new"}], type="Person", mode="merge")
    rows = graph.query(
        'query q() { match { $p: Person { key: "p1" } } return { $p.age, $p.big } }'
    ).rows
    assert rows == [{"p.age": 100, "p.big": None}]
    assert len(graph.nodes("Person")) == 11


def test_an_overwrite_replaces_all_rows_of_the_type(graph):
    write(graph, [{"id": "k", "from": "p0", "to": "p1"}], overwrite=True, type="Knows")
    assert len(graph.edges("Knows")) == 1
    assert len(graph.nodes("Person")) == 10


def test_a_write_is_committed_to_a_branch(graph):
    graph.create_branch("draft")
    write(graph, [{"key": "x"}], type="Person", branch="draft")
    assert "x" in keys(graph, branch="draft")
    assert "x" not in keys(graph)


@pytest.mark.parametrize(
    ("rows", "options", "error"),
    [
        ([{"key": "p1"}], {"type": "Person"}, KeyConflict),
        ([{"key": "a"}, {"key": "a"}], {"type": "Person"}, OmniError),
        ([{"key": "a", "age": "old"}], {"type": "Person"}, RowsRejected),
        ([{"key": None}], {"type": "Person"}, RowsRejected),
        ([{"key": "a", "hight": 1}], {"type": "Person"}, BadRequest),
        ([{"src": "p1", "dst": "nobody"}], {"type": "Knows"}, ConstraintViolated),
        ([{"src": "p1", "dst": f"p{n}"} for n in range(3)], {"type": "Knows"}, ConstraintViolated),
    ],
    ids=["key taken", "key twice", "bad value", "no key", "no such column", "no end", "too many"],
)
def test_rows_are_checked_as_in_any_load(graph, rows, options, error):
    before = graph.commits()[0]
    with pytest.raises(error):
        write(graph, rows, **options)
    assert graph.commits()[0] == before
    assert staged_files(graph) == []


def test_an_aborted_write_leaves_nothing(graph):
    before = graph.commits()[0]
    made = writer(graph, type="Note")
    message = made.write(iter([pa.record_batch({"text": ["a"]})]))
    assert staged_files(graph) != []
    made.abort([message, None])
    assert staged_files(graph) == []
    assert graph.commits()[0] == before


def test_no_rows_make_no_commit_and_replace_nothing(graph):
    before = graph.commits()[0]
    nothing = pa.table({"text": pa.array([], pa.string())})
    write(graph, nothing, type="Note")
    with pytest.raises(BadRequest, match="without rows"):
        write(graph, nothing, overwrite=True, type="Note")
    assert graph.commits()[0] == before
    assert staged_files(graph) == []


def test_modes_that_contradict_are_refused(graph):
    for overwrite, options, text in [
        (True, {"mode": "merge"}, "contradicts"),
        (False, {"mode": "overwrite"}, 'mode\\("overwrite"\\)'),
        (False, {"mode": "replace"}, "not one of"),
        (False, {"partial": "true"}, "only a merge"),
        (False, {"commit": graph.commits()[0].commit_id}, "'commit' is for reads only"),
        (False, {"where": "age > 1"}, "'where' is for reads only"),
        (False, {"actr": "me"}, "no such option 'actr'; did you mean 'actor'"),
    ]:
        with pytest.raises(BadRequest, match=text):
            writer(graph, overwrite, type="Person", **options)


def test_an_epoch_is_committed_once(empty):
    source = GraphSource({"path": empty.uri, "type": "Note", "streamId": "s1"})
    for batch_id, text in [(0, "a"), (1, "b"), (1, "b"), (0, "a"), (2, "c")]:
        made = source.streamWriter(pa.schema([]), overwrite=False)
        made.commit([made.write(iter([pa.record_batch({"text": [text]})]))], batch_id)
    assert sorted(row["text"] for row in empty.nodes("Note").to_arrow().to_pylist()) == [*"abc"]
    origins = [commit.origin for commit in empty.commits()][:3]
    assert origins == [f"spark-stream:s1:{n}" for n in (2, 1, 0)]
    assert empty.commits()[0].wire()["origin"] == "spark-stream:s1:2"
    assert staged_files(empty) == []


def test_epochs_of_another_query_are_others(empty):
    for query in ("s1", "s2"):
        source = GraphSource({"path": empty.uri, "type": "Note", "streamId": query})
        made = source.streamWriter(pa.schema([]), overwrite=False)
        made.commit([made.write(iter([pa.record_batch({"text": ["a"]})]))], 0)
    assert len(empty.nodes("Note")) == 2


def test_an_epoch_without_rows_makes_no_commit(empty):
    before = empty.commits()[0]
    made = GraphSource({"path": empty.uri, "type": "Note", "streamId": "s"}).streamWriter(
        pa.schema([]), overwrite=False
    )
    made.commit([made.write(iter([]))], 0)
    made.commit([], 1)
    assert empty.commits()[0] == before


def test_a_stream_cannot_replace_everything(empty):
    with pytest.raises(BadRequest, match="appends or merges"):
        GraphSource({"path": empty.uri, "type": "Note"}).streamWriter(pa.schema([]), overwrite=True)


def test_a_merge_of_the_same_text_keeps_the_vector(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    schema = 'node Note { slug: String @key  text: String?  v: Vector(2)? @embed("text") }'
    graph = omnigraph.init(tmp_path / "notes.omni", schema)
    given = [{"slug": slug, "text": "tides", "v": [9.0, 9.0]} for slug in "ab"]
    graph.load(given, "append", type="Note")
    rows = [{"slug": "a", "text": "tides"}, {"slug": "b", "text": "waves"}]
    write(graph, rows, type="Note", mode="merge")
    vectors = {one["slug"]: one["v"] for one in graph.nodes("Note")}
    assert vectors["a"] == [9.0, 9.0]
    assert vectors["b"] not in (None, [9.0, 9.0])
