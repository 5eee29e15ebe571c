"""Types that several threads read into for the first time, all at once."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from pathlib import Path

import omnigraph
from omnigraph import struct_decoding

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
from omnigraph.struct_decoding import convert_into, decode_into

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
    """If this fails, msgspec has become safe, and `struct_decoding` may go."""
    assert run(HALF_DESCRIBED).returncode == -signal.SIGSEGV


def test_threads_that_read_into_a_new_type_at_once_all_read_it() -> None:
    done = run(MANY_AT_ONCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_decoder_is_built_once() -> None:
    assert struct_decoding.find_decoder(dict[str, int]) is struct_decoding.find_decoder(
        dict[str, int]
    )


TYPED = {"msgspec.json.decode": 2, "msgspec.json.Decoder": 1, "msgspec.convert": 2}
"""The numbers of arguments with which these read into a type."""


def test_nothing_else_reads_into_types() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if "msgspec" not in text or path.name == "struct_decoding.py":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                given = len(node.args) + len(node.keywords)
                is_typed = given >= TYPED.get(ast.unparse(node.func), given + 1)
                assert not is_typed, f"{path}:{node.lineno}: use omnigraph.struct_decoding"
