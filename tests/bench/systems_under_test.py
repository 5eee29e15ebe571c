"""Systems that behave in ways a harness must survive; each runs in a child process."""

import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path


def steady(spec):
    """A system that answers at once and reports the configured time."""
    parameters = spec["parameters"]
    root = Path(spec["root"])
    _log(spec, found=[path.name for path in root.iterdir()])
    (root / "leftover").write_text("data")
    return {
        "timings": {"work": parameters.get("seconds", 0.01)},
        "result_hash": parameters.get("answer", "same"),
        "preview": parameters.get("answer", "same"),
        "calls": {"reads": 3},
        "work": {"work": 1000},
        "notes": f"kept under {root}",
    }


def changes_its_mind(spec):
    _log(spec)
    return {"timings": {"work": 0.01}, "result_hash": str(_runs_so_far(spec) // 5)}


def repeats(spec):
    """Many repetitions a sample, the first ones slower."""
    return {"timings": {"work": [0.05] + [0.01] * 9}, "result_hash": "same"}


def segfault(spec):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)


def raises(spec):
    raise LookupError("no table in /some/secret/place.lance today")


def hangs(spec):
    """Never answers, and neither does the process it starts."""
    suspended = subprocess.Popen(["sleep", "600"])
    Path(spec["parameters"]["pid_file"]).write_text(str(suspended.pid))
    time.sleep(600)


def fails_in_the_third_round(spec):
    _log(spec)
    if _runs_so_far(spec) > 3:
        raise RuntimeError("out of luck")
    return {"timings": {"work": 0.01}, "result_hash": "same"}


def reports(spec):
    return spec["parameters"]["result"]


def ends_without_a_word(spec):
    os._exit(0)


def large(spec):
    data = bytearray(150_000_000)
    return {"timings": {"work": 0.01}, "result_hash": "same", "notes": len(data)}


def prepare(spec):
    _log(spec)
    Path(spec["root"], "input.txt").write_text(str(spec["parameters"]["size"]))
    return {}


def prepare_store(spec):
    """Prepare the store of a system before its samples."""
    size = Path(spec["inputs"], "input.txt").read_text()
    Path(spec["root"], "store.json").write_text(
        json.dumps({"size": size, "system": spec["system"]})
    )
    return {}


def reads_store(spec):
    return {
        "timings": {"work": 0.01},
        "result_hash": json.loads(Path(spec["store"], "store.json").read_text())["size"],
    }


def reads_inputs(spec):
    text = Path(spec["inputs"], "input.txt").read_text()
    return {"timings": {"work": 0.01}, "result_hash": text}


def _log(spec, **facts):
    line = {"system": spec.get("system"), "pid": os.getpid(), "root": spec["root"], **facts}
    with Path(spec["parameters"]["log"]).open("a") as log:
        log.write(json.dumps(line) + "\n")


def _runs_so_far(spec):
    return len(Path(spec["parameters"]["log"]).read_text().splitlines())
