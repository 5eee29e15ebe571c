"""Text cases of every code that a command can report."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.cluster_cases import CASES, Case, CaseRunner, read_cases
from omnigraph.cluster.cluster_diagnostics import CLUSTER_CODES, WARNINGS

FOUND = [(path, case) for path in sorted(CASES.glob("*.txt")) for case in read_cases(path)]
ALL_SEVERITIES = {
    # Of these, the command decides: a plan warns of a lock, an apply is stopped by it.
    "state_lock_held",
    "state_missing",
    "catalog_payload_missing",
    "invalid_recovery_sidecar",
    "unsupported_recovery_sidecar_version",
    "recovery_sidecar_read_error",
    "invalid_state_lock",
    "unsupported_state_lock_version",
    "state_lock_read_error",
}


@pytest.fixture
def runner(tmp_path, applied_cluster, monkeypatch, capsys) -> CaseRunner:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    return CaseRunner(folder, applied_cluster, lambda: capsys.readouterr().out)


@pytest.mark.parametrize(
    ("path", "case"), FOUND, ids=[f"{path.stem}: {case.name}" for path, case in FOUND]
)
def test_a_command_reports_the_diagnostics_of_its_case(
    path: Path, case: Case, runner, request
) -> None:
    found = runner.play(case)
    if request.config.getoption("--rewrite-golden"):
        rewrite(path, case, found)
    else:
        assert found == list(case.lines)


def rewrite(path: Path, case: Case, found: list[str]) -> None:
    text = path.read_text()
    before = f"=== {case.name}\n" + "".join(f"{line}\n" for line in case.lines)
    assert before in text
    path.write_text(text.replace(before, f"=== {case.name}\n" + "".join(f"{x}\n" for x in found)))


def list_shown() -> dict[str, set[str]]:
    shown: dict[str, set[str]] = {}
    for _, case in FOUND:
        for line in case.lines:
            word, _, rest = line.partition(" ")
            if word in ("ERROR", "WARN"):
                shown.setdefault(rest.split()[0], set()).add(word)
    return shown


def test_every_code_has_a_case_of_its_severity() -> None:
    shown = list_shown()
    assert shown.keys() == CLUSTER_CODES.keys(), shown.keys() ^ CLUSTER_CODES.keys()
    for code, words in shown.items():
        usual = "WARN" if code in WARNINGS else "ERROR"
        assert usual in words, code
        assert words == {usual} or code in ALL_SEVERITIES, code
