"""What is wrong with a cluster: its configuration, its ledger, its graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.errors.error_details import Severity
from omnigraph.errors.omni_error import InputError, JsonValue


@dataclass(frozen=True, slots=True)
class ClusterDiagnostic:
    """One finding about a cluster: `path` is a place in a file, a file of the root or a resource.

    >>> str(ClusterDiagnostic("state_missing", Severity.ERROR, "state.json", "there is no ledger"))
    'ERROR  state_missing state.json: there is no ledger'
    """

    code: str
    severity: Severity
    path: str
    message: str

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        word = "ERROR" if self.is_error else "WARN"
        return f"{word:<5}  {self.code} {self.path}: {self.message}"

    def wire(self) -> dict[str, JsonValue]:
        return {
            "code": self.code,
            "severity": str(self.severity),
            "path": self.path,
            "message": self.message,
        }


class ClusterError(InputError):
    """A cluster that cannot be read, planned or changed as asked, with everything found wrong."""

    code = "cluster"

    def __init__(
        self, diagnostics: Sequence[ClusterDiagnostic], result: object | None = None
    ) -> None:
        errors = [one for one in diagnostics if one.is_error]
        assert errors, "warnings alone are no error"
        rest = f" (+{len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{errors[0].path}: {errors[0].message} [{errors[0].code}]{rest}")
        self.diagnostics = tuple(diagnostics)
        self.result = result
        """What the command came to all the same: the plan with its mistakes, the partial apply."""

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(one.code for one in self.diagnostics)

    def details(self) -> Mapping[str, JsonValue]:
        return {"diagnostics": [one.wire() for one in self.diagnostics]}
