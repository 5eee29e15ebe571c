"""Running one system once, in a fresh process on a fresh folder."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.child import REQUEST, RESULT
from bench.leftovers import leave
from bench.outcome import Failure, FailureKind, Outcome, parse_result, without_paths
from bench.suite import JsonValue

_PROJECT = Path(__file__).resolve().parent.parent
# Children cache compiled bytecode here, regardless of the machine's settings, so that a timed start
# finds it as an installed program does. The round that compares answers has written it by then.
_BYTECODE = _PROJECT / "bench" / "results" / ".bytecode"
_OUTPUT_TAIL = 4000


@dataclass(frozen=True, slots=True)
class Request:
    """The request to a child process. `spec` gains `root`, the fresh folder, before it is sent."""

    entry: str
    spec: Mapping[str, JsonValue]
    measures: frozenset[str]
    timeout_s: float
    python: str = sys.executable


def run_sample(request: Request) -> Outcome:
    """The outcome of one run; its data folder is removed later, also after a failure."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        control, root = folder / "control", folder / "root"
        control.mkdir()
        root.mkdir()
        report = _run_child(request, control, root)
        if isinstance(report, Failure):
            return report
        peak = report["peak_memory_bytes"]
        assert isinstance(peak, int)
        return parse_result(report["result"], peak, request.measures)
    finally:
        leave(folder)


def run_prepare(request: Request, folder: Path) -> Failure | None:
    """Fill `folder` with what every sample of a case will read; None means it worked."""
    with tempfile.TemporaryDirectory(prefix="bench-") as control:
        report = _run_child(request, Path(control), folder)
    return report if isinstance(report, Failure) else None


def _run_child(request: Request, control: Path, root: Path) -> dict[str, JsonValue] | Failure:
    spec = {**request.spec, "root": str(root)}
    (control / REQUEST).write_text(json.dumps({"entry": request.entry, "spec": spec}))
    status = _wait(request, control, root)
    output = (control / "output.txt").read_text(errors="replace")[-_OUTPUT_TAIL:]
    if status is None:
        message = f"no answer within {request.timeout_s:g} s"
        return Failure(FailureKind.TIMED_OUT, message, output)
    if status != 0:
        return Failure(FailureKind.CRASHED, _describe(status, output), output)
    try:
        report = json.loads((control / RESULT).read_text())
    except FileNotFoundError:
        return Failure(FailureKind.BAD_RESULT, "the process ended without a result", output)
    assert isinstance(report, dict)
    return report


def _wait(request: Request, control: Path, root: Path) -> int | None:
    """The exit status, or None if the time ran out; nothing the child started outlives this."""
    with (control / "output.txt").open("wb") as output:
        child = subprocess.Popen(
            [request.python, "-m", "bench.child", str(control)],
            cwd=root,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return child.wait(request.timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # The child leads its own process group, so a server it started goes with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _environment() -> dict[str, str]:
    paths = [str(_PROJECT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONPYCACHEPREFIX": str(_BYTECODE),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _describe(status: int, output: str) -> str:
    """Describe how the process ended, with its last output."""
    if status < 0:
        ending = f"killed by {signal.Signals(-status).name}"
    else:
        ending = f"exit status {status}"
    lines = output.strip().splitlines()
    last_words = str(without_paths(lines[-1])) if lines else "no output"
    return f"{ending}: {last_words}"
