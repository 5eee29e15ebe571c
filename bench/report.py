"""A finished run as Markdown: the ratios first, then the times they came from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from bench.figures import Spread
from bench.run import CaseRun, Disagreement, SuiteRun
from bench.suite import (
    AnyTarget,
    CallsTarget,
    GrowthTarget,
    JsonValue,
    MemoryTarget,
    Suite,
    Target,
)
from bench.summary import (
    Crossover,
    Growth,
    Headline,
    RecoveryVerdict,
    Row,
    case_rows,
    crossovers,
    growth,
    headlines,
    verdicts,
)

_ABSENT = "–"


def markdown(run: SuiteRun, machine: Mapping[str, JsonValue]) -> str:
    """The report of one suite: headlines, a table of ratios per case, targets, the machine."""
    return "\n\n".join(_blocks(run, machine)) + "\n"


def short_markdown(run: SuiteRun, machine: Mapping[str, JsonValue]) -> str:
    """Return the summary of a run for the results file: ratios, targets, date and machine."""
    blocks = [
        f"## {run.suite.name}",
        f"{run.started:%Y-%m-%d}, {run.samples} samples. {run.suite.question}",
        _seconds_table(run),
        "\n".join(_crossover(found) for found in crossovers(run)),
        "\n".join(_headline(headline, run) for headline in headlines(run)),
        "\n".join(_verdict(verdict) for verdict in verdicts(run)),
        _machine_line(machine),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first two columns are words, the others figures."""
    rule = ["---" if index < 2 else "---:" for index in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows))


def show_seconds(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{_digits(seconds / scale)} {unit}"
    return f"{_digits(seconds / 1e-6)} µs"


def show_ratio(ratio: float) -> str:
    return f"{_digits(ratio)}×"


def show_count(count: float) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{_digits(count / scale)} {unit}"
    return _digits(count)


def show_bytes(count: float) -> str:
    if count >= 2**30:
        return f"{_digits(count / 2**30)} GiB"
    return f"{count / 2**20:.0f} MiB"


def _digits(value: float) -> str:
    """Three significant digits, and never an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _blocks(run: SuiteRun, machine: Mapping[str, JsonValue]) -> Iterator[str]:
    suite = run.suite
    yield f"## {suite.name}: {suite.question}"
    yield _setting(run)
    if run.quick:
        yield "**Quick sizes: these figures show that the suite runs and are not to be quoted.**"
    if not run.is_sound:
        yield "**This run failed; the reason is below.**"
    if found := headlines(run):
        yield "\n".join(_headline(headline, run) for headline in found)
    for case in run.cases:
        yield from _case_blocks(suite, case)
    if grown := growth(run):
        yield _growth_table(suite, grown)
    if crossed := crossovers(run):
        yield _seconds_table(run)
        yield "\n".join(_crossover(one) for one in crossed)
    if results := verdicts(run):
        yield "\n".join(_verdict(verdict) for verdict in results)
    yield _machine_line(machine)


def _setting(run: SuiteRun) -> str:
    return (
        f"{run.samples} samples, each system in a fresh process on a fresh folder, the order "
        f"mirrored between rounds. A ratio is the median over rounds with its range; noise is "
        f"how far `{run.reference}` was from itself."
    )


def _headline(headline: Headline, run: SuiteRun) -> str:
    where = f" at {headline.case}" if len(run.cases) > 1 else ""
    noise = f"noise {show_ratio(headline.floor.factor)}" if headline.floor else "noise unknown"
    verdict = ", no difference shown" if headline.is_within_noise else ""
    return (
        f"- **{headline.system}**, {headline.measure}{where}: "
        f"**{show_ratio(headline.ratio.median)}** `{headline.baseline}` "
        f"({_range(headline.ratio)}; {noise}{verdict})"
    )


def _case_blocks(suite: Suite, case: CaseRun) -> Iterator[str]:
    parameters = ", ".join(f"{name} = {value}" for name, value in case.case.parameters.items())
    yield f"### {case.case.name}" + (f" ({parameters})" if parameters else "")
    if case.disagreement is not None:
        yield _disagreement(case.disagreement)
    elif rows := case_rows(suite, case):
        yield _ratio_table(suite, rows)
    if case.failures:
        yield "\n".join(f"- {label}: {failure}" for label, failure in case.failures.items())


def _ratio_table(suite: Suite, rows: Sequence[Row]) -> str:
    ratios = [f"÷ {name}" for name in suite.baselines]
    header = ["measure", "system", *ratios, "median", "range", "p95", "per second"]
    return table([*header, "peak memory", "storage calls"], [_cells(row) for row in rows])


def _cells(row: Row) -> list[str]:
    rate = f"{show_count(row.rate)} {row.measure.unit or ''}".rstrip() if row.rate else _ABSENT
    calls = ", ".join(f"{name} {count}" for name, count in row.calls.items())
    return [
        row.measure.name,
        f"{row.label} ({'noise' if row.is_repeat else row.role})",
        *(_ratio_cell(ratio) for ratio in row.ratios),
        show_seconds(row.seconds.median),
        f"{show_seconds(row.seconds.low)} – {show_seconds(row.seconds.high)}",
        show_seconds(row.p95_s) if row.p95_s is not None else _ABSENT,
        rate,
        _memory_cell(row),
        calls or _ABSENT,
    ]


def _memory_cell(row: Row) -> str:
    if not row.memory:
        return show_bytes(row.peak_memory_bytes)
    return ", ".join(f"{process} {show_bytes(held)}" for process, held in row.memory.items())


def _ratio_cell(ratio: Spread | None) -> str:
    if ratio is None:
        return _ABSENT
    if ratio.low == ratio.high:  # a baseline beside itself
        return show_ratio(ratio.median)
    return f"{show_ratio(ratio.median)} ({_range(ratio)})"


def _range(ratio: Spread) -> str:
    return f"{_digits(ratio.low)} – {_digits(ratio.high)}"


def _disagreement(found: Disagreement) -> str:
    lines = [f"**{found.first} and {found.second} gave different answers: no time is reported.**"]
    sides = (
        (found.first, found.first_hash, found.first_preview),
        (found.second, found.second_hash, found.second_preview),
    )
    for label, result_hash, preview in sides:
        shown = f": `{json.dumps(preview, ensure_ascii=False)}`" if preview is not None else ""
        lines.append(f"- {label}: hash `{result_hash}`{shown}")
    return "\n".join(lines)


def _growth_table(suite: Suite, found: Sequence[Growth]) -> str:
    header = ["measure", "system", f"{suite.axis}: {found[0].last_case} ÷ {found[0].first_case}"]
    return table(header, [[item.measure, item.system, show_ratio(item.ratio)] for item in found])


def _seconds_table(run: SuiteRun) -> str:
    """The median of every system in each measure of the series, for a suite that has some."""
    systems = [system.name for system in run.suite.systems]
    rows = []
    for case in run.cases:
        found = {
            (row.measure.name, row.label): show_seconds(row.seconds.median)
            for row in case_rows(run.suite, case)
        }
        for name in (name for one in run.suite.series for name in one):
            cells = [found.get((name, system), _ABSENT) for system in systems]
            rows.append([case.case.name, name, *cells])
    return table(["case", "measure", *systems], rows) if rows else ""


def _crossover(found: Crossover) -> str:
    series = f"{found.series[0]} to {found.series[-1]}"
    verdict = "in none of them" if found.measure is None else f"from {found.measure} on"
    return f"- **{found.system}** beats `{found.baseline}`, of {series}: **{verdict}**"


def _verdict(verdict: RecoveryVerdict) -> str:
    target = verdict.target
    if verdict.found is None:
        found = "not measured"
    else:
        found = f"{'met' if verdict.is_met else 'missed'} with {_amount(target, verdict.found)}"
    limit = _amount(target, target.at_most)
    aim = target.aim if isinstance(target, Target | GrowthTarget) else None
    wished = "" if aim is None else f" (aim {_amount(target, aim)})"
    promise = f"{target.system}, {_promised(target)} ≤ {limit}{wished}"
    return f"- target {promise} at {verdict.case}: {found}"


def _promised(target: AnyTarget) -> str:
    match target:
        case CallsTarget():
            return "storage calls"
        case MemoryTarget():
            return f"memory of a {target.process}"
        case _:
            return target.measure


def _amount(target: AnyTarget, value: float) -> str:
    match target:
        case CallsTarget():
            return show_count(value)
        case MemoryTarget():
            return show_bytes(value)
        case GrowthTarget():
            return show_ratio(value)
        case Target(of=None):
            return show_seconds(value)
        case _:
            return f"{show_ratio(value)} {target.of}"


def _machine_line(machine: Mapping[str, JsonValue]) -> str:
    packages = machine["packages"]
    memory = machine["memory_bytes"]
    assert isinstance(packages, dict)
    assert isinstance(memory, int)
    versions = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    return (
        f"{machine['cores']} cores ({machine['processor']}), {memory / 2**30:.0f} GiB, "
        f"{machine['system']}, {machine['filesystem']}, a new file in {machine['new_file_us']} µs, "
        f"load {machine['load_average']}, "
        f"{machine['python']}, {versions}; commit {machine['commit']}."
    )
