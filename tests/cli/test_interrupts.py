"""Ctrl-C and closed pipes, at any moment: no traceback, the right exit code, nothing half."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import omnigraph as library
from waiting import wait_until

SCHEMA = "node Artist { slug: String @key  name: String }\nedge Knows: Artist -> Artist"
ROWS = 20_000
COUNT = "query q() { match { $a: Artist } return { count($a) as n } }"
ALL = "query q() { match { $a: Artist } return { $a.name } }"

# The same as the command, except that it says when the interpreter is up: an interrupt of the
# interpreter itself, before any code of ours, is not ours to handle.
READY = """\
import os, runpy, signal, sys
signal.signal(signal.SIGINT, lambda *_: os._exit(130))
os.write(int(sys.argv.pop(1)), b"!")
runpy.run_module("omnigraph.cli", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("interrupts") / "g.omni"
    records = [{"type": "Artist", "data": {"slug": f"a{n}", "name": f"A {n}"}} for n in range(ROWS)]
    library.init(path, SCHEMA).load(records, "append")
    (path.parent / "more.jsonl").write_text(
        "".join(
            json.dumps({"type": "Artist", "data": {"slug": f"b{n}", "name": "B"}}) + "\n"
            for n in range(ROWS)
        )
    )
    return path


def start(*arguments: str, cwd: Path, stdout=subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Start the command and wait until its interpreter is up."""
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", READY, str(write_end), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        pass_fds=[write_end],
        cwd=cwd,
        env={**os.environ, "OMNIGRAPH_HOME": str(cwd)},
    )
    os.close(write_end)
    try:
        assert os.read(read_end, 1) == b"!"
    finally:
        os.close(read_end)
    return process


def seconds_to_run(*arguments: str, cwd: Path) -> float:
    started = time.monotonic()
    process = start(*arguments, cwd=cwd, stdout=subprocess.DEVNULL)
    process.communicate(timeout=600)
    return time.monotonic() - started


def interrupted(delay: float, *arguments: str, cwd: Path) -> tuple[int, bytes, bytes]:
    process = start(*arguments, cwd=cwd)
    try:
        # Reading all the while, so that the command is never stopped by a full pipe.
        out, err = process.communicate(timeout=delay)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def moments(whole: float, count: int = 4) -> list[float]:
    """Random moments of a run; the seed is printed for a repetition."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chosen = random.Random(seed)
    return sorted(chosen.uniform(0, whole * 1.05) for _ in range(count))


@pytest.mark.parametrize(
    "arguments",
    [("query", "-e", ALL), ("export",), ("commit", "list"), ("--help",)],
    ids=["query", "export", "commit list", "help"],
)
def test_a_reading_command_ends_quietly(template: Path, tmp_path: Path, arguments) -> None:
    command = arguments if arguments == ("--help",) else (*arguments, "--store", str(template))
    whole = seconds_to_run(*command, cwd=tmp_path)
    for delay in moments(whole):
        code, _, err = interrupted(delay, *command, cwd=tmp_path)
        assert b"Traceback" not in err, err.decode()
        assert (code, err.strip()) in ((0, b""), (130, b""), (130, b"interrupted"))


def test_a_load_happens_whole_or_not_at_all(template: Path, tmp_path: Path) -> None:
    data = str(template.parent / "more.jsonl")
    command = ("load", str(template), "--data", data, "--mode", "append")
    flags = ("--engine", "local") if _takes_engine() else ()
    sizes = {ROWS, 2 * ROWS}
    base = library.open(template).snapshot().tables
    for number, delay in enumerate(moments(3.0)):
        branch = f"try-{number}"
        library.open(template).create_branch(branch)
        code, out, err = interrupted(delay, *command, *flags, "--branch", branch, cwd=tmp_path)
        assert b"Traceback" not in err, err.decode()
        assert code in (0, 130), err
        graph = library.open(template)
        count = graph.query(COUNT, branch=branch).rows[0]["n"]
        assert count in sizes
        assert code == 130 or count == 2 * ROWS
        assert (code == 130) == (out == b"")
        graph.mutate('query q() { insert Artist { slug: "z", name: "Z" } }', branch=branch)
    assert library.open(template).snapshot().tables == base


def _takes_engine() -> bool:
    from omnigraph.cli.commands.load_command import load

    return any("--engine" in option.opts for option in load.params)


def test_a_file_is_written_whole_or_not_at_all(template: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    command = ("query", str(template), "-e", ALL, "--format", "csv", "--force", "--out", str(out))
    whole = seconds_to_run(*command, cwd=tmp_path)
    expected = out.read_bytes()
    for delay in moments(whole):
        out.write_bytes(b"before")
        code, _, err = interrupted(delay, *command, cwd=tmp_path)
        assert b"Traceback" not in err, err.decode()
        assert code in (0, 130)
        assert out.read_bytes() in (expected, b"before")
        assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


@pytest.mark.parametrize(
    "arguments", [("export",), ("query", "-e", ALL, "--format", "jsonl"), ("query", "-e", ALL)]
)
def test_a_reader_that_exits_ends_the_command_quietly(
    template: Path, tmp_path: Path, arguments
) -> None:
    process = start(*arguments, "--store", str(template), cwd=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(600), err) == (1, b"")


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks at processes there")
def test_an_interrupt_while_spark_starts_leaves_no_process(template: Path, tmp_path: Path) -> None:
    data = str(template.parent / "more.jsonl")
    library.open(template).create_branch("spark")
    command = ("load", str(template), "--data", data, "--mode", "append", "--branch", "spark")
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph.cli", *command, "--engine", "spark"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "OMNIGRAPH_HOME": str(tmp_path)},
        start_new_session=True,
    )
    wait_until(lambda: process.poll() is not None or has_java(process.pid))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole foreground group
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err, err.decode()
    assert b"Exception" not in err, err.decode()
    wait_until(lambda: not members(process.pid))
    assert library.open(template).query(COUNT, branch="spark").rows == [{"n": ROWS}]


def members(group: int) -> list[str]:
    """List the commands of the processes in a group."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(place.name)) == group:
                found.append((place / "cmdline").read_text())
        except OSError:  # it has ended since
            continue
    return [one for one in found if one]


def has_java(group: int) -> bool:
    return any("java" in one.split("\0")[0] for one in members(group))


def run_in_shell(line: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {
        **os.environ,
        "OMNIGRAPH_HOME": str(cwd),
        "OMNIGRAPH": f"{sys.executable} -m omnigraph.cli",
    }
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, cwd=cwd, env=environment, check=False, timeout=600
    )


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("$OMNIGRAPH version >/dev/full", 1, b"No space left"),
        ("$OMNIGRAPH version >&-", 0, b""),
        ("$OMNIGRAPH version 2>&-", 0, b""),
        ("$OMNIGRAPH nope 2>&-", 2, b""),
        ("$OMNIGRAPH nope --json >&- 2>&-", 2, b""),
        ("$OMNIGRAPH export nowhere >&-", 1, b"no graph at"),
        ("$OMNIGRAPH lint --schema - --query - <&-", 1, b"standard input is closed"),
        ("echo '' | $OMNIGRAPH lint --schema - --query -", 2, b"can be read only once"),
    ],
)
def test_odd_streams_are_one_clear_error_at_most(tmp_path, line: str, code: int, words) -> None:
    done = run_in_shell(line, tmp_path)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_a_full_disk_is_reported(template: Path, tmp_path: Path) -> None:
    done = run_in_shell(f"$OMNIGRAPH export {template} >/dev/full", tmp_path)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"No space left" in done.stderr


WHERE_NOTHING_CAN_BE_RAISED = """
import sys
import time
from omnigraph.cli.terminal import forget_interrupt, is_interrupt, raise_interrupts

class Removed:
    def __del__(self):
        raise KeyboardInterrupt

raise_interrupts()
try:
    {meet}
    time.sleep(60)
except KeyboardInterrupt:
    pass
assert is_interrupt(ImportError("it did not load"))
forget_interrupt()
assert not is_interrupt(ImportError("it is not there"))
print("interrupted")
"""


@pytest.mark.parametrize(
    "meet",
    ["Removed()", "sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)"],
    ids=["an object is removed", "native code prints what it cannot raise"],
)
def test_an_interrupt_where_nothing_can_be_raised_comes_right_after(meet: str) -> None:
    code = WHERE_NOTHING_CAN_BE_RAISED.format(meet=meet)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


AT_THE_EDGES = """
import io
import signal
import sys
from omnigraph.cli.__main__ import main

class Stream(io.TextIOWrapper):
    def {call}(self, *args, **options):
        signal.raise_signal(signal.SIGINT)
        super().{call}(*args, **options)

sys.stdout = Stream(sys.stdout.buffer)
main(["version"])
"""


@pytest.mark.parametrize("call", ["reconfigure", "flush"])
def test_an_interrupt_before_and_after_the_command_is_quiet(call: str) -> None:
    code = AT_THE_EDGES.format(call=call)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr.strip()) in ((130, ""), (130, "interrupted"))


def test_an_error_behind_an_interrupt_is_reported_as_one() -> None:
    from omnigraph.cli.terminal import is_interrupt
    from omnigraph.errors import OutcomeUnknown

    broken = RuntimeError("a callback failed")
    broken.__context__ = KeyboardInterrupt()
    assert is_interrupt(broken)
    assert not is_interrupt(RuntimeError("a callback failed"))
    unknown = OutcomeUnknown("load", "the connection was closed")
    unknown.__context__ = KeyboardInterrupt()
    assert not is_interrupt(unknown), "what became of a write is news"


def test_an_interrupt_ends_a_command_whose_reader_does_not_read(
    template: Path, tmp_path: Path
) -> None:
    # More than a pipe holds, so without a reader it never comes to its end.
    process = start("export", str(template), cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.read(10)
    process.send_signal(signal.SIGINT)
    code = process.wait(600)
    _, err = process.communicate(timeout=600)
    assert (code, b"Traceback" in err) == (130, False)


def test_a_pipe_with_a_name_is_written_to_and_not_replaced(template: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "rows"
    os.mkfifo(pipe)
    line = f"$OMNIGRAPH query {template} -e '{COUNT}' --format csv --out rows & cat rows; wait"
    done = run_in_shell(line, tmp_path)
    assert (done.stdout, done.stderr) == (b"n\n%d\n" % ROWS, b"")
    assert pipe.is_fifo()
    refused = run_in_shell(f"$OMNIGRAPH query {template} -e '{COUNT}' --out .", tmp_path)
    assert (refused.returncode, b"cannot write .: Is a directory" in refused.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
