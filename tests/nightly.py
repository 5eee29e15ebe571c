"""Every test that the default run leaves out, one suite after the other, and one table at the end.

    ./dev nightly                 all of them: hours
    ./dev nightly fuzz soak       some of them
    ./dev nightly --list          what each one is

A test says how much it tried with `record_property("seeds", …)` and `record_property("states", …)`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
WORKERS = 2
NOTHING_CHOSEN = 5
"""The exit code of pytest where no test has the mark."""

SUITES = {
    "sweep": (
        "slow and crash and not fuzz and not soak and not object_store",
        "every state a killed process can leave",
    ),
    "fuzz": ("fuzz and not soak and not object_store", "random input, the long runs"),
    "slow": (
        "slow and not crash and not fuzz and not soak and not object_store",
        "whatever else takes more than a few seconds",
    ),
    "object-store": ("object_store", "the same against an S3-compatible server"),
    "soak": ("soak", "an hour of all processes at once; SOAK_SECONDS shortens it"),
}
"""By name: the marks of its tests, and what they are. No test is in two of them."""


@dataclass(frozen=True)
class Tried:
    """The result of a suite."""

    suite: str
    tests: int = 0
    seeds: int = 0
    states: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: int = 0


def run_suite(name: str, marks: str, given: Sequence[str], folder: Path) -> tuple[Tried, int]:
    """Run the tests of a suite; gives what was tried and how pytest ended."""
    report = folder / f"{name}.xml"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", str(WORKERS), "--dist", "loadfile"),
            *("-m", marks, f"--junitxml={report}", "-o", "junit_family=xunit1", *given),
        ],
        cwd=ROOT,
    )
    tried = read_report(name, report) if report.exists() else Tried(name)
    ended = 0 if done.returncode == NOTHING_CHOSEN else done.returncode
    return tried, ended


def read_report(name: str, report: Path) -> Tried:
    """The counts in a JUnit report."""
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))

    def total(attribute: str) -> float:
        return sum(float(suite.get(attribute, "0")) for suite in suites)

    def recorded(what: str) -> int:
        found = [p for suite in suites for p in suite.iter("property") if p.get("name") == what]
        return sum(int(property.get("value", "0")) for property in found)

    tests, skipped = int(total("tests")), int(total("skipped"))
    failed = int(total("failures") + total("errors"))
    return Tried(
        name,
        tests=tests,
        seeds=recorded("seeds"),
        states=recorded("states"),
        passed=tests - failed - skipped,
        failed=failed,
        skipped=skipped,
        seconds=round(total("time")),
    )


def draw_table(rows: Sequence[Tried]) -> str:
    names = [field.name for field in fields(Tried)]
    cells = [names, *([str(getattr(row, name)) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    lines = []
    for line in cells:
        numbers = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        lines.append("  ".join([line[0].ljust(widths[0]), *numbers]))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./dev nightly", description="The long test suites.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--list", action="store_true", help="say what each suite is")
    parser.add_argument(
        "--pytest", action="append", default=[], metavar="ARG", help="an argument for pytest"
    )
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.suites if name not in SUITES]
    if unknown:
        parser.error(f"no such suite '{unknown[0]}'; the suites are {', '.join(SUITES)}")
    if chosen.list:
        for name, (_, meaning) in SUITES.items():
            print(f"{name:13} {meaning}")
        return 0
    rows, worst = [], 0
    with tempfile.TemporaryDirectory(prefix="omnigraph-nightly-") as folder:
        for name in chosen.suites or SUITES:
            print(f"--- {name}", flush=True)
            tried, ended = run_suite(name, SUITES[name][0], chosen.pytest, Path(folder))
            rows.append(tried)
            worst = max(worst, ended)
    print(draw_table(rows))
    return worst


if __name__ == "__main__":
    sys.exit(main())
