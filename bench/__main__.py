"""`python -m bench`: run suites, print their ratios, keep the records.

Exit status: 0 if every suite is sound, 1 if a system failed or two disagreed, 2 for a mistake
on the command line. A missed target is reported and does not change the status.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.environments import make_environments, versions
from bench.leftovers import SLOW_NEW_FILE_S, remove_leftovers
from bench.machine import machine_facts
from bench.prepared import Store
from bench.record import keep, write_report
from bench.report import markdown
from bench.run import MINIMUM_SAMPLES, run_suite
from bench.suite import JsonValue, Suite, find_suites

_RESULTS = Path(__file__).resolve().parent / "results"
_RESULTS = Path(__file__).resolve().parent / "RESULTS.md"


def main(arguments: Sequence[str] | None = None, package: str = "bench.suites") -> int:
    """Run the suites of `package` that the arguments name, and return the exit status."""
    options = _parser().parse_args(arguments)
    suites = find_suites(package)
    if options.list:
        for suite in suites.values():
            print(f"{suite.name:<14} {suite.question}")
        return 0
    unknown = sorted(set(options.names) - suites.keys())
    if unknown:
        print(
            f"no suite named {', '.join(unknown)}; there are {', '.join(suites)}", file=sys.stderr
        )
        return 2
    if options.keep and options.quick:
        print("figures of --quick are not worth keeping", file=sys.stderr)
        return 2
    chosen = {name: suites[name] for name in options.names} if options.names else suites
    try:
        return _run(chosen, options)
    finally:
        remove_leftovers()


def _run(suites: Mapping[str, Suite], options: argparse.Namespace) -> int:
    sound = True
    systems = [system for suite in suites.values() for system in suite.systems]
    if options.peers:
        make_environments(systems, _announce)
    store = Store(fresh=options.fresh)
    for suite in suites.values():
        machine = machine_facts(versions(suite.systems))
        _warn_of_slow_files(machine)
        run = run_suite(
            suite,
            samples=options.samples,
            quick=options.quick,
            announce=_announce,
            store=store,
        )
        print(markdown(run, machine), flush=True)
        page = write_report(run, machine, options.out)
        _announce(f"wrote {page.name} and its .json")
        if options.keep and run.is_sound:
            keep(run, machine, _RESULTS)
        sound = sound and run.is_sound
    return 0 if sound else 1


def _warn_of_slow_files(machine: Mapping[str, JsonValue]) -> None:
    took_us = machine["new_file_us"]
    assert isinstance(took_us, int)
    if took_us > SLOW_NEW_FILE_S * 1e6:
        _announce(
            f"a new file takes {took_us} µs here, so figures of small writes will be those of the "
            "file system; wait some minutes after deleting many files, or set TMPDIR"
        )


def _announce(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Run benchmarks as ratios.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="suites to run (default: all)")
    parser.add_argument("--list", action="store_true", help="list the suites and stop")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--samples", type=_samples, default=MINIMUM_SAMPLES, metavar="N")
    parser.add_argument(
        "--no-peers", dest="peers", action="store_false", help="do not install peers"
    )
    parser.add_argument("--keep", action="store_true", help="write the headlines to RESULTS.md")
    parser.add_argument("--fresh", action="store_true", help="prepare cached data again")
    parser.add_argument("--out", type=Path, default=_RESULTS, metavar="DIR", help="record folder")
    return parser


def _samples(text: str) -> int:
    count = int(text)
    if count < MINIMUM_SAMPLES:
        raise argparse.ArgumentTypeError(f"must be at least {MINIMUM_SAMPLES}")
    return count


if __name__ == "__main__":
    sys.exit(main())
