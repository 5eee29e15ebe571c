"""What verifying has found so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from omnigraph.maintenance.maintenance_results import VerifyFinding
from omnigraph.maintenance.verify_files import Concerned
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.checksums import Damage
from omnigraph.storage.tables.damage import DamagedFile

_SHOWN_COMMITS = 5


@dataclass
class Report:
    """What was found so far; tables are looked at side by side, and lists take that."""

    concerned: Concerned
    findings: list[VerifyFinding] = field(default_factory=list)
    notes: list[VerifyFinding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    tables: set[tuple[str, str | None, int]] = field(default_factory=set)
    """The table versions that other branches showed as well and that were looked at."""
    looked: set[tuple[str, str | None, int]] = field(default_factory=set)
    dropped: dict[str, str] = field(default_factory=dict)
    """The tables of types that a branch has dropped, by their paths."""

    def add_damaged(
        self, found: DamagedFile, snapshot: Snapshot, path: str, table_key: str | None
    ) -> None:
        """A file that is not as it was written, with the rows and the commits it concerns."""
        file = found.place.removeprefix(f"{snapshot.root.uri}/")
        commits = self.concerned.commits(snapshot, path, found.part.place)
        shown = f"; commits: {', '.join(commits[:_SHOWN_COMMITS])}" if commits else ""
        more = f" and {len(commits) - _SHOWN_COMMITS} more" if len(commits) > _SHOWN_COMMITS else ""
        message = f"{file} {found.problem}; it says {found.part.holds}{shown}{more}"
        check = "missing_file" if found.damage is Damage.MISSING else "damaged_file"
        self.findings.append(
            VerifyFinding(
                check, message, snapshot.branch, table_key, file, found.part.rows, commits
            )
        )

    def wrong(
        self, check: str, message: str, branch: str | None = None, table_key: str | None = None
    ) -> None:
        self.findings.append(VerifyFinding(check, message, branch, table_key))

    def note(
        self, check: str, message: str, branch: str | None = None, table_key: str | None = None
    ) -> None:
        self.notes.append(VerifyFinding(check, message, branch, table_key))

    def take(self, other: Report) -> None:
        """Add what was found about one branch."""
        self.findings += other.findings
        self.notes += other.notes
        self.checked += other.checked
        self.tables |= other.looked
        self.dropped |= other.dropped
