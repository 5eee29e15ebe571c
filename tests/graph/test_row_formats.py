"""Rows in every form: by index, as frames, as text, in notebooks; the same wherever they are."""

from __future__ import annotations

import asyncio
import datetime
import inspect
from importlib.util import find_spec
from typing import get_args, get_type_hints

import pytest

import omnigraph
from omnigraph.aio.async_graph import AsyncTypeRows
from omnigraph.client.served_results import ServedQueryResult
from omnigraph.errors import BadRequest, MissingPackage
from omnigraph.execution.load_options import LoadMode
from omnigraph.graph.conversion.row_formats import RowForms, TypeRows
from omnigraph.graph.engines import EngineName, ModeName
from omnigraph.settings import ENGINES
from server.serving import serving

SCHEMA = """\
node Day { slug: String @key  day: Date?  at: DateTime?  days: [Date]?  x: F64?  v: Vector(2)? }
edge Next: Day -> Day
"""
DAY = datetime.date(2021, 2, 28)
AT = datetime.datetime(2021, 2, 28, 12, 30, tzinfo=datetime.UTC)
ALL = "query q() { match { $d: Day } return { $d.slug, $d.day, $d.at, $d.days, $d.x, $d.v } }"
ONE = 'query q() { match { $d: Day { slug: "a" } } return { $d.day as day } }'


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    graph = omnigraph.init(tmp_path_factory.mktemp("days") / "days.omni", SCHEMA)
    whole = {"slug": "a", "day": DAY, "at": AT, "days": [DAY], "x": 0.5, "v": [0.5, 1.0]}
    graph.load([whole, {"slug": "b"}, {"slug": "c", "x": 2.0}], "append", type="Day")
    return graph


def test_rows_are_accessed_by_index(days) -> None:
    result = days.query(ALL)
    rows = list(result)
    assert (len(result), len(rows)) == (3, 3)
    assert result[0] == rows[0] == result.first()
    assert result[-1] == rows[2]
    assert result[1:] == rows[1:]
    assert result[::-1] == rows[::-1]
    assert result[5:] == []
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            result[beyond]


def test_dates_are_dates(days) -> None:
    row = days.query(ALL)[0]
    assert row == {
        "d.slug": "a",
        "d.day": DAY,
        "d.at": AT,
        "d.days": [DAY],
        "d.x": 0.5,
        "d.v": [0.5, 1.0],
    }
    assert row["d.at"].utcoffset() == datetime.timedelta(0)
    assert days.query(ONE).scalar() == DAY
    assert days.query(ONE).wire()["rows"] == [{"day": "2021-02-28"}], "as JSON shows it"
    assert [row["day"] for row in days.nodes("Day")] == [DAY, None, None]


def test_rows_are_the_same_values_through_every_door(days) -> None:
    wanted = list(days.query(ALL))
    assert days.query(ALL).rows == days.query(ALL)[:] == wanted
    with serving(days.uri, graph="days") as server:
        url = f"http://{server.address}{server.graph}"
        with omnigraph.connect(url) as served:
            assert served.query(ALL).rows == list(served.query(ALL)) == wanted
        for opening, place in ((omnigraph.aio.open, days.uri), (omnigraph.aio.connect, url)):
            found = asyncio.run(ask_async(opening, place))
            assert found.rows == list(found) == wanted


async def ask_async(opening, place: str) -> omnigraph.QueryResult:
    async with await opening(place) as graph:
        return await graph.query(ALL)


def test_one_value_is_selected_by_its_name(days) -> None:
    count = "query q() { match { $d: Day } return { count($d) as n } }"
    assert days.query(count).scalar() == 3
    with pytest.raises(BadRequest, match="3 rows with 6 columns"):
        days.query(ALL).scalar()
    none = days.query('query q() { match { $d: Day { slug: "z" } } return { $d.day } }')
    assert none.first() is None
    with pytest.raises(BadRequest, match="0 rows with 1 columns"):
        none.scalar()


def test_rows_of_types_have_every_form_too(days) -> None:
    rows = days.nodes("Day")
    assert len(rows) == 3
    assert rows.columns == ["id", "at", "day", "days", "slug", "v", "x"]
    assert [row["slug"] for row in rows] == ["a", "b", "c"]
    assert rows[0] == rows.first() == next(iter(rows))
    assert rows.to_arrow().num_rows == rows.to_polars().height == 3
    if find_spec("pandas") is None:
        with pytest.raises(MissingPackage, match="to_pandas"):
            rows.to_pandas()
    else:
        assert len(rows.to_pandas()) == 3
    assert days.edges("Next").first() is None
    assert list(days.edges("Next")) == []


def test_rows_print_as_a_table(days) -> None:
    query = "query q() { match { $d: Day } return { $d.slug, $d.day as day, $d.x } }"
    assert str(days.query(query)) == (
        "d.slug | day        | d.x\n"
        "-------+------------+----\n"
        "a      | 2021-02-28 | 0.5\n"
        "b      |            |\n"
        "c      |            | 2.0\n"
        "(3 rows)"
    )
    assert str(days.edges("Next")).splitlines()[-1] == "(0 rows)"
    assert "<td>2021-02-28</td>" in days.query(ONE)._repr_html_()
    assert "3 rows" in days.nodes("Day")._repr_html_()


def test_many_rows_are_shown_by_the_first(tmp_path) -> None:
    graph = omnigraph.init(tmp_path / "g.omni", "node N { k: String @key }")
    graph.load([{"k": f"{n:04}"} for n in range(1_000)], "append", type="N")
    shown = str(graph.nodes("N")).splitlines()
    assert (len(shown), shown[-1]) == (53, "(1,000 rows, 50 shown)")


def test_a_plan_keeps_its_lines_in_notebooks(days) -> None:
    for plan in (days.explain(ONE), days.at().explain(ONE), days.explain(ONE, analyze=True)):
        assert plan == str(plan)
        shown = plan._repr_html_()
        assert shown.startswith("<pre>")
        assert "\n└─" in shown


def test_every_result_with_rows_has_all_formats() -> None:
    forms = {name for name in dir(RowForms) if not name.startswith("_")}
    special = {"__len__", "__iter__", "__getitem__", "__str__", "_repr_html_"}
    for kind in (omnigraph.QueryResult, ServedQueryResult, TypeRows):
        assert issubclass(kind, RowForms)
        assert {*dir(kind)} >= forms | special
    assert {"__len__", "__aiter__"} <= {*dir(AsyncTypeRows)}


def test_choices_are_written_out_for_editors() -> None:
    assert set(get_args(EngineName)) == set(ENGINES)
    assert get_args(ModeName) == tuple(str(mode) for mode in LoadMode)
    for verb in (omnigraph.Graph.query, omnigraph.ServedGraph.query):
        assert inspect.signature(verb).parameters["engine"].annotation == "EngineName"
    hints = get_type_hints(omnigraph.Graph.query)
    assert hints["engine"] == EngineName
