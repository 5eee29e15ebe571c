"""What a command found, collected so that all of it can be told at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from omnigraph.cluster.cluster_codes import CLUSTER_CODES, WARNINGS
from omnigraph.errors import ClusterDiagnostic, ClusterError, Severity


def make_diagnostic(
    code: str, path: str, message: str, severity: Severity | None = None
) -> ClusterDiagnostic:
    """A finding; by default it is as severe as its code."""
    assert code in CLUSTER_CODES, code
    usual = Severity.WARNING if code in WARNINGS else Severity.ERROR
    return ClusterDiagnostic(code, severity or usual, path, message)


def refuse(code: str, path: str, message: str) -> ClusterError:
    """The error of one finding that leaves nothing else to be done."""
    return ClusterError([make_diagnostic(code, path, message, Severity.ERROR)])


@dataclass
class ClusterReport:
    """Findings in the order in which they were made, each once."""

    found: list[ClusterDiagnostic] = field(default_factory=list)

    def add(self, code: str, path: str, message: str, severity: Severity | None = None) -> None:
        self.extend([make_diagnostic(code, path, message, severity)])

    def extend(self, diagnostics: Iterable[ClusterDiagnostic]) -> None:
        self.found += [one for one in dict.fromkeys(diagnostics) if one not in self.found]

    @property
    def has_errors(self) -> bool:
        return any(one.is_error for one in self.found)

    def raise_if_errors(self) -> None:
        if self.has_errors:
            raise ClusterError(self.found)
