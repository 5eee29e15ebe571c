"""What every command of a cluster begins with: the configuration, the files, and a report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_report import ClusterReport
from omnigraph.cluster.cluster_results import ClusterResult
from omnigraph.cluster.config_text import choose_root
from omnigraph.cluster.desired_files import read_desired
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.state_lock import StateLock, hold_lock
from omnigraph.errors import ClusterError
from omnigraph.settings import Settings

Result = TypeVar("Result", bound=ClusterResult)


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """One command on one folder."""

    folder: Path
    settings: Settings
    report: ClusterReport = field(default_factory=ClusterReport)

    @classmethod
    def on(cls, folder: str | Path, settings: Settings | None) -> ClusterSession:
        return cls(Path(folder), settings or Settings())

    @property
    def config_dir(self) -> str:
        return str(self.folder)

    def read_desired(self) -> DesiredState:
        """What the folder asks for, without mistakes.

        Raises:
            ClusterError: it has some.
        """
        desired = read_desired(self.folder, self.report)
        self.report.raise_if_errors()
        return desired

    def open_files(self, desired: DesiredState) -> ClusterFiles:
        return ClusterFiles(choose_root(self.folder, desired.config.storage), self.settings)

    @contextmanager
    def lock(
        self, files: ClusterFiles, desired: DesiredState, operation: str
    ) -> Iterator[StateLock | None]:
        with hold_lock(files, operation, is_wanted=desired.config.locks_state) as lock:
            yield lock

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Put what is refused inside into the report; the block ends there."""
        try:
            yield
        except ClusterError as error:
            self.report.extend(error.diagnostics)


def require_ok(result: Result) -> Result:
    """The result of a command that did what it was asked for.

    Raises:
        ClusterError: it did not; with everything found and the result itself.
    """
    if not result.ok:
        raise ClusterError(result.diagnostics, result)
    return result
