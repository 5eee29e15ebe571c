"""Types that several threads read into for the first time, all at once."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from pathlib import Path

import omnigraph
from omnigraph import typed_reading

SOURCE = Path(omnigraph.__file__).parent
HALF_DESCRIBED = """
import dataclasses, threading, msgspec

def look():
    other = threading.Thread(target=msgspec.json.decode, args=(b'{"inner": {"n": 1}, "m": 2}',),
                             kwargs={"type": Outer})
    other.start()
    other.join()
    return int

@dataclasses.dataclass
class Inner:
    n: "look()"

@dataclasses.dataclass
class Outer:
    inner: Inner
    m: int

msgspec.json.decode(b'{"inner": {"n": 1}, "m": 2}', type=Outer)
"""
"""While `Outer` is being described, another thread reads by what there is of it."""
MANY_AT_ONCE = """
import dataclasses, sys, threading
from omnigraph.typed_reading import convert_into, decode_into

sys.setswitchinterval(1e-6)

def make_type():
    inner = int
    for depth in range(8):
        fields = [(f"f{n}", "int | None") for n in range(8)]
        inner = dataclasses.make_dataclass(f"C{depth}", [*fields, ("inner", list[inner])])
    return inner

members = {f"f{n}": n for n in range(8)} | {"inner": []}
for _ in range(30):
    kind, start, read = make_type(), threading.Barrier(8), []

    def work(number):
        start.wait()
        if number % 2:
            read.append(convert_into(members, kind))
        else:
            read.append(decode_into(str(members).replace("'", '"'), kind))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(read) == 8 and all(one == read[0] for one in read)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=170)


def test_msgspec_shows_other_threads_a_type_that_is_half_described() -> None:
    """If this fails, msgspec has become safe, and `typed_reading` may go."""
    assert run(HALF_DESCRIBED).returncode == -signal.SIGSEGV


def test_threads_that_read_into_a_new_type_at_once_all_read_it() -> None:
    done = run(MANY_AT_ONCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_decoder_is_made_once() -> None:
    assert typed_reading.find_decoder(dict[str, int]) is typed_reading.find_decoder(dict[str, int])


def test_nothing_else_reads_into_types() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if "msgspec" not in text or path.name == "typed_reading.py":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                is_typed = (
                    called == "msgspec.json.decode" and len(node.args) + len(node.keywords) > 1
                )
                assert not is_typed, f"{path}:{node.lineno}: use decode_into"
                assert called not in ("msgspec.convert", "msgspec.json.Decoder"), path
