"""Progress of long work, reported to listeners and drawn on terminals."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest

import omnigraph as library
from cli.child_process import run_command
from cli.terminal_process import on_a_terminal
from omnigraph.cli.terminal import ProgressLine, describe, should_show_progress
from omnigraph.progress import Progress, listening, working


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_no_listener_is_installed_by_default() -> None:
    with working("loading", total=3) as work:
        work.advance()
    assert work.done == 1


def test_a_listener_hears_of_the_start_every_step_and_the_end() -> None:
    heard: list[Progress] = []
    with listening(heard.append), working("loading", total=3, unit="rows") as work:
        work.advance(2)
        work.now("publishing")
    assert heard == [
        Progress("loading", 0, 3, "rows"),
        Progress("loading", 2, 3, "rows"),
        Progress("publishing", 2, 3, "rows"),
        Progress("publishing", 2, 3, "rows", is_over=True),
    ]


def test_the_innermost_listener_hears_and_the_outer_one_again_afterwards() -> None:
    outer: list[Progress] = []
    inner: list[Progress] = []
    with listening(outer.append):
        with listening(inner.append), working("a"):
            pass
        with working("b"):
            pass
    assert {news.what for news in inner} == {"a"}
    assert {news.what for news in outer} == {"b"}


def test_work_that_fails_is_over_too() -> None:
    heard: list[Progress] = []
    try:
        with listening(heard.append), working("loading"):
            raise ValueError
    except ValueError:
        pass
    assert heard[-1].is_over


def test_threads_add_up() -> None:
    with working("loading") as work:
        threads = [
            threading.Thread(target=lambda: [work.advance() for _ in range(1000)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert work.done == 4000


def test_a_line_says_what_is_known() -> None:
    assert describe(Progress("opening", 0, None, ""), 2.4) == "opening, 2 s"
    assert describe(Progress("loading", 5000, None, "rows"), 3) == "loading: 5,000 rows, 3 s"
    whole = Progress("loading", 5000, 20_000, "rows")
    assert describe(whole, 3) == "loading: 5,000 of 20,000 rows (25 %), 3 s"


def test_a_line_is_drawn_over_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    screen = Screen()
    line = ProgressLine(screen)
    line(Progress("loading", 1, 2, "rows"))
    line(Progress("loading", 2, 2, "rows"))  # too soon after the last one to be drawn
    line(Progress("loading", 2, 2, "rows", is_over=True))
    drawn = screen.getvalue()
    text = "loading: 1 of 2 rows (50 %), 0 s"
    assert drawn == f"\r{text}\r{text}\r{' ' * len(text)}\r"
    line.clear()
    assert screen.getvalue() == drawn


def test_a_line_without_news_counts_the_seconds_while_it_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen, now = Screen(), [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    line = ProgressLine(screen)
    line.count_on()
    assert screen.getvalue() == "", "there is nothing to count for"
    line(Progress("starting Spark", 0, None, ""))
    now[0] += 0.5
    line.count_on()
    assert "1 s" not in screen.getvalue(), "it was drawn a moment ago"
    now[0] += 2.5
    line.count_on()
    assert screen.getvalue().endswith("\rstarting Spark, 3 s")
    line.clear()
    drawn = screen.getvalue()
    now[0] += 2.0
    line.count_on()
    assert screen.getvalue() == drawn, "something else has been printed there"


def test_only_terminals_that_can_draw_are_drawn_on() -> None:
    assert should_show_progress(Screen(), {"TERM": "xterm"})
    assert not should_show_progress(Screen(), {"TERM": "dumb"})
    assert not should_show_progress(Screen(), {})
    assert not should_show_progress(Screen(terminal=False), {"TERM": "xterm"})
    assert not should_show_progress(None, {"TERM": "xterm"})


def test_a_load_draws_on_a_terminal_and_leaves_only_what_it_did(tmp_path: Path) -> None:
    library.init(tmp_path / "g.omni", "node A { k: String @key }")
    records = [json.dumps({"type": "A", "data": {"k": f"k{n}"}}) for n in range(2_000)]
    (tmp_path / "a.jsonl").write_text("\n".join(records))
    command = ("load", str(tmp_path / "g.omni"), "--data", str(tmp_path / "a.jsonl"))
    flags = ("--mode", "append", "--engine", "local")
    with on_a_terminal(*command, *flags, home=tmp_path) as terminal:
        assert terminal.end() == 0
    drawn, said = terminal.seen.decode().rsplit("\r", 1)[0], screen(terminal.seen.decode())
    assert "\r" in drawn
    assert [line.split(" ", 1)[0] for line in said] == ["load", "loaded"]
    with on_a_terminal(*command, "--mode", "merge", *flags[2:], "--quiet", home=tmp_path) as quiet:
        assert quiet.end() == 0
    assert quiet.seen == b""


def test_records_printed_on_a_terminal_have_it_to_themselves(tmp_path: Path) -> None:
    graph = library.init(tmp_path / "g.omni", "node A { k: String @key }")
    graph.load([{"type": "A", "data": {"k": "k1"}}], "append")
    with on_a_terminal("export", str(tmp_path / "g.omni"), home=tmp_path) as terminal:
        assert terminal.end() == 0
    assert terminal.seen.startswith(b'{"type"')
    assert terminal.seen.count(b"\n") == 1
    command = ("export", str(tmp_path / "g.omni"), "--out", str(tmp_path / "a.jsonl"))
    with on_a_terminal(*command, home=tmp_path) as terminal:
        assert terminal.end() == 0
    assert b"exporting: 0 of 1 records" in terminal.seen
    assert screen(terminal.seen.decode()) == []


def test_where_nothing_is_drawn_the_stages_are_reported_one_by_one(tmp_path: Path) -> None:
    graph = library.init(tmp_path / "g.omni", "node A { k: String @key }")
    graph.load([{"type": "A", "data": {"k": "k1"}}], "append")
    command = ("export", "g.omni", "--format", "jsonl", "--out")
    assert run_command(*command, "one", cwd=tmp_path).stderr == "export: 1 tasks\n"
    for number, flag in enumerate(("--quiet", "--json")):
        assert run_command(*command, f"more{number}", flag, cwd=tmp_path).stderr == ""


def screen(text: str) -> list[str]:
    """Return the final screen of a terminal: later writing covers what was on its line before."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = ""
        for piece in line.split("\r"):
            shown = piece + shown[len(piece) :]
        lines.append(shown.rstrip())
    return [line for line in lines if line]
