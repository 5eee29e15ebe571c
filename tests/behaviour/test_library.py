"""The library as notebooks, threads and other processes use it."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph
from omnigraph.errors import BadRequest, MissingPackage
from omnigraph.graph.conversion.graph_formats import (
    MAX_ARROWS,
    MAX_NODES,
    _arrange_nodes,
    draw,
    select_arrows,
)
from omnigraph.settings import Settings

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
NAMES = ["Ada", "Ben", '<Cy> & "Di"']
KNOWS = "query q() { match { $a: Person  $a knows $b } return { $a.name, $b.name, $b.age } }"
COUNT = "query q() { match { $a: Person } return { count($a) as n } }"


@pytest.fixture
def graph(tmp_path: Path) -> omnigraph.Graph:
    made = omnigraph.init(tmp_path / "g.omni", SCHEMA, actor="maria")
    records: list[dict] = [{"type": "Person", "data": {"name": name}} for name in NAMES]
    records += [{"edge": "Knows", "from": a, "to": b} for a in NAMES for b in NAMES[:2]]
    made.load(records, "append")
    return made


# --- notebooks ------------------------------------------------------------------------------------


def test_a_graph_shows_its_types_and_branches(graph) -> None:
    graph.create_branch("review")
    page = graph._repr_html_()
    assert "<td>Person</td><td>node</td><td>3</td>" in page
    assert "branches: main, review" in page


def test_a_snapshot_shows_its_tables(graph) -> None:
    page = graph.snapshot()._repr_html_()
    assert "<td>node:Person</td>" in page
    assert graph.commits()[0].commit_id in page


def test_the_contents_of_a_result_are_escaped(graph) -> None:
    page = graph.query(KNOWS)._repr_html_()
    assert "&lt;Cy&gt; &amp; &quot;Di&quot;" in page
    assert "<Cy>" not in page


def test_a_result_is_drawn_with_its_names(graph) -> None:
    drawing = graph.query(KNOWS).plot()
    assert drawing._repr_svg_() == drawing
    root = ElementTree.fromstring(drawing)
    space = "{http://www.w3.org/2000/svg}"
    assert sorted(t.text for t in root.iter(f"{space}title")) == sorted(NAMES)
    assert len(list(root.iter(f"{space}path"))) == 1 + 6  # the tip and six arrows


def test_columns_to_draw_can_be_named(graph) -> None:
    result = graph.query(KNOWS)
    assert result.plot("b.name", "a.name") != result.plot()
    with pytest.raises(BadRequest, match="no such column 'nobody'"):
        result.plot("nobody")
    with pytest.raises(BadRequest, match="two columns"):
        graph.query(COUNT).plot()


def test_a_drawing_of_nothing_is_a_drawing() -> None:
    ElementTree.fromstring(draw(select_arrows([])))
    ElementTree.fromstring(draw(select_arrows([(None, None), ("a", None)])))


def test_elements_beyond_the_drawing_limit_are_counted() -> None:
    picture = select_arrows([(n, n + 1) for n in range(2 * MAX_NODES)])
    assert (len(picture.names), picture.left_out) == (MAX_NODES, MAX_NODES + 1)
    many = [(a, b) for a in range(60) for b in range(60)]
    picture = select_arrows(many)
    assert (len(picture.arrows), picture.left_out) == (MAX_ARROWS, len(many) - MAX_ARROWS)
    assert "1600 rows are not drawn" in draw(picture)


def test_nodes_stay_apart_and_inside() -> None:
    places = _arrange_nodes(30, tuple((n, (n * 7) % 30) for n in range(30)))
    assert np.array_equal(places, _arrange_nodes(30, tuple((n, (n * 7) % 30) for n in range(30))))
    apart = np.hypot(*(places[:, None] - places[None, :]).transpose(2, 0, 1))
    assert apart[np.triu_indices(30, 1)].min() > 10
    assert places.min() >= 0
    assert places.max() <= 640


# --- other forms ----------------------------------------------------------------------------------


def test_pandas_that_is_not_installed_is_named(graph, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr("omnigraph.graph.conversion.row_formats.find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"to_pandas\(\) needs the package 'pandas'"):
        graph.query(KNOWS).to_pandas()


def test_rows_are_written_to_files_and_streams(graph, tmp_path: Path) -> None:
    result = graph.query(KNOWS)
    expected = result.to_arrow()
    result.write_parquet(tmp_path / "rows.parquet")
    assert parquet.read_table(tmp_path / "rows.parquet").equals(expected)
    stream = io.BytesIO()
    result.write_arrow(stream)
    assert pa.ipc.open_file(stream.getvalue()).read_all().equals(expected)
    result.write_arrow(str(tmp_path / "rows.arrow"))
    assert (tmp_path / "rows.arrow").read_bytes() == stream.getvalue()


def test_streamed_rows_are_readable_once_and_reported_as_consumed(graph) -> None:
    result = graph.query(KNOWS)
    assert sum(batch.num_rows for batch in result.batches()) == 6
    for again in (result.batches, result.to_arrow, lambda: result.rows, lambda: len(result)):
        with pytest.raises(BadRequest, match="already been streamed"):
            again()
    held = graph.query(KNOWS)
    assert len(held) == sum(batch.num_rows for batch in held.batches()) == len(held.rows)


def test_queries_are_checked_without_being_run(graph) -> None:
    report = graph.lint("query a() { match { $p: Persn } return { $p.name } }\n" + COUNT)
    assert (report.status, [r.name for r in report.results]) == ("error", ["a", "q"])
    assert report.wire()["schema_source"] == {"kind": "graph", "uri": graph.uri}


def test_a_schema_change_is_planned(graph) -> None:
    plan = graph.plan_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"))
    assert [step.describe() for step in plan.steps] == ["add property Person.nick: String?"]
    assert graph.schema == SCHEMA


# --- threads and processes ------------------------------------------------------------------------


def test_threads_share_a_graph(graph) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(3):
                graph.mutate(
                    "query q($n: String) { insert Person { name: $n } }",
                    params={"n": f"t{number}-{step}"},
                )
                assert len(graph.query(KNOWS)) == 6
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert graph.query(COUNT).rows == [{"n": 3 + 12}]


def count_and_add(graph: omnigraph.Graph, name: str) -> tuple[int, str | None]:
    """Count the rows and add one, in another process that was handed the graph."""
    found = graph.query(COUNT).rows[0]["n"]
    graph.mutate("query q($n: String) { insert Person { name: $n } }", params={"n": name})
    return found, graph.actor


def test_a_graph_goes_to_another_process(graph) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(count_and_add, (graph, "from afar")) == (3, "maria")
    assert graph.query(COUNT).rows == [{"n": 4}]


def test_a_pickled_graph_keeps_how_it_was_opened(graph) -> None:
    settings = Settings.from_environment({"OMNIGRAPH_WRITER_WAIT": "7"})
    opened = omnigraph.open(graph.uri, read_only=True, settings=settings)
    again = pickle.loads(pickle.dumps(opened))
    assert (again.uri, again.read_only, again.settings) == (graph.uri, True, settings)


# --- frames ---------------------------------------------------------------------------------------


class Frame:
    """A frame of some library that hands out Arrow data and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_a_frame_of_any_library_is_loaded(graph) -> None:
    views = pa.array(["Eve", "Fay"], pa.string_view())
    graph.load(Frame(pa.table({"name": views, "age": [52, None]})), "append", type="Person")
    words = pa.array(["Gus", "Hal", "Gus"]).dictionary_encode().take(pa.array([0, 1]))
    result = graph.load(Frame(pa.table({"name": words})), "append", type="Person")
    assert result.nodes == {"Person": 2}
    assert graph.query(COUNT).rows == [{"n": 7}]


def test_a_polars_frame_is_loaded_as_it_is(graph) -> None:
    frame = pl.DataFrame({"who": pl.Series(["Ivy", "Jon"], dtype=pl.Categorical), "age": [1, None]})
    columns = {"name": "who", "age": "age"}
    assert graph.load(frame, "append", type="Person", columns=columns).nodes == {"Person": 2}
