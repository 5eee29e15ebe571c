"""A finished run as a JSON record, with which later runs can be compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from bench.outcome import Failure, Sample
from bench.report import markdown, short_markdown
from bench.run import CaseRun, SuiteRun
from bench.suite import JsonValue, Suite
from bench.summary import Row, case_floor, case_rows, crossovers, growth, headlines, verdicts

RECORD_FORMAT = 1


def record(run: SuiteRun, machine: Mapping[str, JsonValue]) -> dict[str, object]:
    """All of a run as plain JSON: every sample, and the figures drawn from them."""
    suite = run.suite
    return {
        "format": RECORD_FORMAT,
        "suite": suite.name,
        "question": suite.question,
        "baselines": list(suite.baselines),
        "axis": suite.axis,
        "started": _stamp(run.started),
        "finished": _stamp(run.finished),
        "samples": run.samples,
        "quick": run.quick,
        "is_sound": run.is_sound,
        "machine": dict(machine),
        "systems": [
            {"name": system.name, "role": system.role, "parameters": dict(system.parameters)}
            for system in suite.systems
        ],
        "measures": [asdict(measure) for measure in suite.measures],
        "cases": [_case(suite, case) for case in run.cases],
        "headlines": [
            {**asdict(found), "is_within_noise": found.is_within_noise} for found in headlines(run)
        ],
        "targets": [{**asdict(found), "is_met": found.is_met} for found in verdicts(run)],
        "growth": [asdict(found) for found in growth(run)],
        "crossovers": [asdict(found) for found in crossovers(run)],
    }


def write_report(run: SuiteRun, machine: Mapping[str, JsonValue], folder: Path) -> Path:
    """Write `<suite>-<utc stamp>.json` and `.md` into `folder`, and return the Markdown's path."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{run.suite.name}-{_stamp(run.started)}"
    text = json.dumps(record(run, machine), indent=1, ensure_ascii=False)
    (folder / f"{stem}.json").write_text(text + "\n")
    page = folder / f"{stem}.md"
    page.write_text(markdown(run, machine))
    return page


def keep(run: SuiteRun, machine: Mapping[str, JsonValue], page: Path) -> None:
    """Put the short report of a run in the place of an older one of the same suite.

    A quick run and one that is not sound are refused, because the results file may be quoted.
    """
    if run.quick or not run.is_sound:
        raise ValueError("only a sound run of the full sizes is worth keeping")
    first, *sections = page.read_text().split("\n## ") if page.exists() else ["# Results"]
    others = [text for text in sections if text.partition("\n")[0] != run.suite.name]
    mine = short_markdown(run, machine).removeprefix("## ")
    page.write_text("\n## ".join([first, *others]).rstrip() + f"\n\n## {mine}")


def _case(suite: Suite, case: CaseRun) -> dict[str, object]:
    floors = {
        measure.name: floor.factor
        for measure in suite.measures
        if (floor := case_floor(case, measure.name)) is not None
    }
    return {
        "name": case.case.name,
        "parameters": dict(case.case.parameters),
        "is_sound": case.is_sound,
        "noise_floors": floors,
        "rows": [_row(row) for row in case_rows(suite, case)],
        "failures": {label: _failure(failure) for label, failure in case.failures.items()},
        "disagreement": asdict(case.disagreement) if case.disagreement else None,
        "samples": {
            label: [_sample(sample) for sample in samples]
            for label, samples in case.samples.items()
        },
    }


def _row(row: Row) -> dict[str, object]:
    ratios = [asdict(ratio) if ratio else None for ratio in row.ratios]
    return {
        "measure": row.measure.name,
        "system": row.label,
        "ratios": ratios,
        "seconds": asdict(row.seconds),
        "p95_s": row.p95_s,
        "rate": row.rate,
        "peak_memory_bytes": row.peak_memory_bytes,
        "memory": dict(row.memory),
        "calls": dict(row.calls),
    }


def _sample(sample: Sample) -> dict[str, object]:
    return {
        "timings": {name: list(values) for name, values in sample.timings.items()},
        "result_hash": sample.result_hash,
        "peak_memory_bytes": sample.peak_memory_bytes,
        "memory": dict(sample.memory),
        "calls": dict(sample.calls),
        "work": dict(sample.work),
        "notes": sample.notes,
    }


def _failure(failure: Failure) -> dict[str, str]:
    return {"kind": failure.kind, "message": failure.message}


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y%m%dT%H%M%SZ")
