"""The child process: reads a request, runs one system once, writes its result.

Started as `python -m bench.child FOLDER`, where FOLDER holds `request.json` and receives
`result.json`. An error is left to end the process: the parent reads the exit status and the
output, so a Python error and a crash in native code are reported by the same means.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

REQUEST = "request.json"
RESULT = "result.json"


def load_entry(entry: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The function that `module:function` names."""
    module_name, _, function_name = entry.partition(":")
    function = getattr(importlib.import_module(module_name), function_name)
    if not callable(function):
        raise TypeError(f"{entry} is not a function")
    return function  # type: ignore[no-any-return]


def peak_memory_bytes() -> int:
    """The most memory this process, or a finished process it started, has held at once.

    On Linux `ru_maxrss` of a new program starts at the peak of the process that started it, so
    it says more about the parent than about the system; the kernel's own mark begins afresh.
    """
    return max(_own_peak_bytes(), _maxrss_bytes(resource.RUSAGE_CHILDREN))


def _own_peak_bytes() -> int:
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return _maxrss_bytes(resource.RUSAGE_SELF)


def _maxrss_bytes(who: int) -> int:
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * scale


def main(folder: Path) -> None:
    request = json.loads((folder / REQUEST).read_text())
    result = load_entry(request["entry"])(request["spec"])
    # A system that measures another program knows its peak better than we do.
    peak = result.get("peak_memory_bytes", peak_memory_bytes())
    report = {"result": result, "peak_memory_bytes": peak}
    (folder / RESULT).write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
