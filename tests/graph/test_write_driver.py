"""Promises of the driver for every write, regardless of its content and its source."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import omnigraph
from crash.fault_points import parked
from omnigraph.errors import (
    ConflictError,
    OmniError,
    PreconditionFailed,
    ReadSetChanged,
    WriterBusy,
)
from omnigraph.settings import AutopilotSettings, EmbedProvider, EmbedSettings, Settings
from omnigraph.spark_source.datasource import GraphSource
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.prepared_write import Merging
from omnigraph.storage.staging_heartbeat import list_heartbeats
from omnigraph.storage.write_plan import WriterKind
from omnigraph.writer.change import PlanContent, WriteOptions
from omnigraph.writer.driver import MAX_PREPARATIONS

SCHEMA = 'node Doc { slug: String @key  text: String?  v: Vector(3)? @embed("text") }'
MOCK = EmbedSettings(provider=EmbedProvider.MOCK)
STAGING = "*/__staging/*"


def rename(number: int) -> str:
    return f'query q() {{ update Doc set {{ text: "t{number}" }} where slug = "d0" }}'


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "docs.omni"
    graph = omnigraph.init(path, SCHEMA)
    docs = [{"type": "Doc", "data": {"slug": f"d{n}", "text": f"T{n}"}} for n in range(4)]
    graph.load(docs, "append")
    return path


@pytest.fixture
def graph(place):
    """A graph for which nothing is too young to be removed."""
    return omnigraph.open(place, settings=Settings(embed=MOCK, cleanup_grace_s=0))


def texts(graph) -> dict[str, str]:
    rows = graph.nodes("Doc").to_arrow().to_pylist()
    return {row["slug"]: row["text"] for row in rows}


def staged(graph, rows, type_name="Doc"):
    """A write of the data source whose task is over, and its messages."""
    options = {"path": graph.uri, "type": type_name, "mode": "merge"}
    made = GraphSource(options).writer(pa.schema([]), False)
    return made, [made.write(iter(pa.Table.from_pylist(rows).to_batches()))]


ROWS = [{"slug": "d1", "text": "new", "v": None}, {"slug": "d9", "text": "added", "v": None}]


# --- edges without ids ----------------------------------------------------------------------------

LINKS = """\
node P { k: String @key }
edge Knows: P -> P { w: I32?  @unique(src, dst) }
edge Met: P -> P { w: I32? }
"""


@pytest.fixture
def links(tmp_path):
    graph = omnigraph.init(tmp_path / "links.omni", LINKS)
    graph.load([{"k": k} for k in "abc"], "append", type="P")
    return graph


def link(weight: int) -> list[dict[str, object]]:
    return [{"from": "a", "to": "b", "w": weight}]


def list_links(graph, type_name: str) -> list[tuple[object, ...]]:
    return sorted((e["from"], e["to"], e["data"]["w"]) for e in graph.export([type_name]))


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_concurrently_written_edge_is_found_by_a_load_that_matches(links, mode):
    def work():
        other = omnigraph.open(links.uri)
        return lambda: other.load(link(1), "merge", type="Met", match=["src", "dst"])

    with parked("before", "commit", STAGING, work) as loading:
        links.load(link(2), mode, type="Met", match=["src", "dst"] if mode == "merge" else ())
        loading.finish()
    assert list_links(links, "Met") == [("a", "b", 1)]


def test_the_data_source_finds_the_edge_that_is_there(links):
    for weight in (1, 2):
        made, messages = staged(links, link(weight), "Knows")
        made.commit(messages)
        assert list_links(links, "Knows") == [("a", "b", weight)]
    (edge,) = links.export(["Knows"])
    made, messages = staged(links, [*link(3), {"from": "b", "to": "c", "w": 0}], "Knows")
    made.commit(messages)
    assert list_links(links, "Knows") == [("a", "b", 3), ("b", "c", 0)]
    assert edge["data"]["id"] in {one["data"]["id"] for one in links.export(["Knows"])}


def test_the_data_source_finds_a_concurrently_written_edge(links):
    made, messages = staged(links, link(1), "Knows")
    with parked("before", "commit", STAGING, lambda: lambda: made.commit(messages)) as writing:
        links.load(link(2), "append", type="Knows")
        writing.finish()
    assert list_links(links, "Knows") == [("a", "b", 1)]


def test_rows_of_the_data_source_are_retained_where_matched_edges_were_written_concurrently(links):
    made, messages = staged(links, [{"k": "d"}], "P")
    with parked("before", "commit", STAGING, lambda: lambda: made.commit(messages)) as writing:
        links.load(link(2), "append", type="Knows")
        writing.finish()
    assert [row["k"] for row in links.nodes("P")] == ["a", "b", "c", "d"]


# --- cleanup beside a write that takes long -------------------------------------------------------


def test_rows_of_the_data_source_are_prepared_again_where_their_snapshot_was_cleaned_away(graph):
    made, messages = staged(graph, ROWS)
    with parked("before", "commit", STAGING, lambda: lambda: made.commit(messages)) as writing:
        for number in range(4):
            graph.mutate(rename(number))
        graph.cleanup(keep=1, confirm=True)
        writing.finish()
    assert texts(graph) == {"d0": "t3", "d1": "new", "d2": "T2", "d3": "T3", "d9": "added"}


def test_vectors_are_recomputed_where_their_snapshot_was_cleaned_up(graph, place):
    def work():
        other = omnigraph.open(place, settings=graph.settings)
        return lambda: other.embed()

    with parked("before", "commit", STAGING, work) as embedding:
        for number in range(4):
            graph.mutate(rename(number))
        graph.cleanup(keep=1, confirm=True)
        embedding.finish()
    rows = graph.nodes("Doc").to_arrow().to_pylist()
    assert all(row["v"] is not None for row in rows)
    assert texts(graph)["d0"] == "t3"


def test_files_staged_by_the_data_source_are_retained_by_cleanup(graph):
    made, messages = staged(graph, ROWS)
    graph.cleanup(keep=9, confirm=True)
    graph.cleanup(keep=9, confirm=True)
    made.commit(messages)
    assert texts(graph)["d9"] == "added"
    assert list_heartbeats(graph._open.views.root.store) == []


def test_a_heartbeat_of_the_data_source_is_removed_with_the_files_it_protected(graph):
    made, messages = staged(graph, ROWS)
    assert len(list_heartbeats(graph._open.views.root.store)) == 1
    made.abort(messages)
    assert list_heartbeats(graph._open.views.root.store) == []


def test_tasks_of_one_write_share_a_heartbeat(graph):
    made, messages = staged(graph, ROWS[:1])
    messages.append(made.write(iter(pa.Table.from_pylist(ROWS[1:]).to_batches())))
    assert len(list_heartbeats(graph._open.views.root.store)) == 1
    made.commit(messages)
    assert texts(graph)["d9"] == "added"


def test_a_write_of_the_data_source_that_was_declared_dead_is_reported(graph):
    made, messages = staged(graph, ROWS)
    (note,) = list_heartbeats(graph._open.views.root.store)
    graph._open.views.root.store.delete(note.path)
    with pytest.raises(ConflictError, match="considered this write dead"):
        made.commit(messages)
    assert "d9" not in texts(graph)


def test_files_staged_by_embedding_are_retained_by_cleanup(graph, place):
    def work():
        other = omnigraph.open(place, settings=graph.settings)
        return lambda: other.embed()

    with parked("after", "write_fragments", STAGING, work) as embedding:
        graph.cleanup(keep=9, confirm=True)
        graph.cleanup(keep=9, confirm=True)
        embedding.finish()
    assert all(row["v"] is not None for row in graph.nodes("Doc").to_arrow().to_pylist())


# --- after a write --------------------------------------------------------------------------------


def test_embedding_notifies_the_autopilot(place):
    policy = AutopilotSettings(enabled=True, interval_s=0)
    with omnigraph.open(place, settings=Settings(embed=MOCK, autopilot=policy)) as graph:
        graph.embed()
    assert graph._open.autopilot.last_result is not None


def test_the_autopilot_is_not_notified_where_nothing_was_written(place):
    policy = AutopilotSettings(enabled=True, interval_s=0)
    with omnigraph.open(place, settings=Settings(autopilot=policy)) as graph:
        graph.mutate('query q() { delete Doc where slug = "nobody" }')
    assert graph._open.autopilot.last_result is None


# --- any change -----------------------------------------------------------------------------------


@dataclass
class Note:
    """A change of no table, which others may overtake."""

    graph: omnigraph.Graph
    overtaken: int = 0
    repeatable: bool = True
    given: PlanContent = field(default_factory=PlanContent)
    prepared: int = 0
    kind = WriterKind.BRANCH_MERGE
    is_costly = False

    def prepare(self, view, ticket):
        self.prepared += 1
        if self.prepared <= self.overtaken:
            omnigraph.open(self.graph.uri).mutate(rename(self.prepared))
        return self.given

    def may_retry(self, cause):
        return self.repeatable


def test_a_commit_may_change_no_table_and_keep_what_its_writer_says(graph):
    source = graph._open.views.read_newest("main").snapshot
    first = graph.commits()[0].commit_id
    details = {"message": "a note", "rules": {"Doc.text": "ours"}}
    change = Note(graph, given=PlanContent(merging=Merging(source, ()), details=details))
    published = graph._open.writer.write(change, WriteOptions(branch="main", actor_id="ada"))
    found = omnigraph.open(graph.uri).commits()[0]
    assert found == published.commit.shown
    assert (found.merged_parent_commit_id, found.details) == (first, details)
    assert found.wire()["details"] == details
    assert "details" not in graph.commits()[1].wire()


def test_a_change_that_may_be_repeated_is_prepared_until_the_branch_stands_still(graph):
    change = Note(graph, overtaken=1)
    assert graph._open.writer.write(change, WriteOptions(branch="main")) is not None
    assert change.prepared == 2


@dataclass
class Overtaken(Note):
    """One that tries, whenever it is prepared, whether others may write."""

    others: list[bool] = field(default_factory=list)

    def prepare(self, view, ticket):
        try:
            GraphRoot.at(self.graph.uri, Settings(writer_wait_s=0.0)).acquire_fence().release()
        except WriterBusy:
            self.others.append(False)
        else:
            self.others.append(True)
        return super().prepare(view, ticket)


@pytest.mark.parametrize(("is_costly", "passes"), [(False, 1), (True, 5)])
def test_a_writer_that_lost_keeps_the_others_waiting_while_it_prepares_again(
    graph, is_costly, passes
):
    """One that takes long lets them pass four times more."""
    change = Overtaken(graph, overtaken=passes)
    change.is_costly = is_costly
    assert graph._open.writer.write(change, WriteOptions(branch="main")) is not None
    assert change.others == [True] * passes + [False]


def test_a_change_that_may_not_be_repeated_says_what_moved(graph):
    change = Note(graph, overtaken=1, repeatable=False)
    with pytest.raises(ReadSetChanged, match="graph_head:main"):
        graph._open.writer.write(change, WriteOptions(branch="main"))
    assert change.prepared == 1


def test_a_change_for_another_head_is_not_prepared(graph):
    head, change = graph.commits()[0].commit_id, Note(graph)
    graph.mutate(rename(0))
    with pytest.raises(PreconditionFailed):
        graph._open.writer.write(change, WriteOptions(branch="main", expected_head=head))
    assert change.prepared == 0


def test_a_mistake_in_a_mutation_is_reported_before_the_head_is_read(graph):
    with pytest.raises(OmniError) as refused:
        graph.mutate("query q() { insert Nothing { a: 1 } }", expected_head="01" * 13)
    assert not isinstance(refused.value, PreconditionFailed)


def test_a_branch_that_never_stands_still_is_given_up(graph, monkeypatch):
    monkeypatch.setattr("omnigraph.writer.driver.MAX_PREPARATIONS", 1)
    assert MAX_PREPARATIONS > 1
    with pytest.raises(ReadSetChanged):
        graph._open.writer.write(Note(graph, overtaken=1), WriteOptions(branch="main"))
