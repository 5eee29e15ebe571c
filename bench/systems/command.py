"""A command line, timed from its start to its end."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.hashing import Row, canonical, hash_rows

# Python runs a module of this name at every start. This one has the program write down its own
# peak as it ends: seen from outside, the peak includes that of the process which started it.
_PROBE_NAME = "sitecustomize.py"
_PROBE = """
import atexit
def write_peak():
    with open("/proc/self/status") as status, open({path!r}, "w") as output:
        output.write(next(line for line in status if line.startswith("VmHWM:")))
atexit.register(write_peak)
"""


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Run `parameters.command` several times; `{python}` and `{scripts}` name this environment."""
    command = [_filled_in(word) for word in spec["parameters"]["command"]]
    # Commands have no answer in common but this: every one of them succeeded.
    return measured(spec, command, lambda _: [["exit status", 0]])


def measured(
    spec: dict[str, Any], command: list[str], answer: Callable[[str], Sequence[Row]]
) -> dict[str, Any]:
    """A sample of `parameters.repetitions` runs; `answer` finds the rows in what they print.

    The first run is not timed: it leaves the files it reads, and their bytecode, within reach.
    """
    environment = _environment()
    printed, _ = _run_once(command, environment)
    rows = answer(printed)
    repetitions = int(spec["parameters"]["repetitions"])
    walls = [_run_once(command, environment)[1] for _ in range(repetitions)]
    return {
        "timings": {"wall": walls},
        "result_hash": hash_rows(rows),
        "preview": canonical(rows[:3]),
        **_peak_memory(command, environment, Path(spec["root"])),
    }


def _run_once(command: list[str], environment: dict[str, str]) -> tuple[str, float]:
    """Run the command once and return its output and the seconds it took."""
    start = time.perf_counter()
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - start
    if run.returncode != 0:
        last_words = (run.stderr.strip() or run.stdout.strip() or "no output").splitlines()[-1]
        raise RuntimeError(f"exit status {run.returncode}: {last_words}")
    return run.stdout, elapsed


def _peak_memory(command: list[str], environment: dict[str, str], root: Path) -> dict[str, int]:
    """The peak of one more, untimed run; nothing if the system does not report it."""
    if not Path("/proc/self/status").exists():
        return {}
    written = root / "peak.txt"
    probe = root / "probe"
    probe.mkdir()
    (probe / _PROBE_NAME).write_text(_PROBE.format(path=str(written)))
    _run_once(command, {**environment, "PYTHONPATH": str(probe)})
    return {"peak_memory_bytes": int(written.read_text().split()[1]) * 1024}


def _filled_in(word: str) -> str:
    return word.format(python=sys.executable, scripts=sysconfig.get_path("scripts"))


def _environment() -> dict[str, str]:
    """Return the environment of a user's shell, without the harness's bytecode folder."""
    bytecode = "PYTHONPYCACHEPREFIX"
    return {
        name: value
        for name, value in os.environ.items()
        if name == bytecode or not name.startswith("PYTHON")
    }
