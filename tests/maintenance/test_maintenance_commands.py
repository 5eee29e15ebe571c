"""The commands: what they print, where, and how they end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from commands.quick_command import quick_command
from maintenance.library_graph import BOOK, READER, TABLES, entry, head, native, write_a_little

OPTIMIZE_COLUMNS = [
    "table_key",
    "fragments_removed",
    "fragments_added",
    "committed",
    "skipped",
    "manifest_version",
    "lance_head_version",
    "pending_indexes",
]
CLEANUP_COLUMNS = ["table_key", "bytes_removed", "old_versions_removed", "error"]
REPAIR_COLUMNS = [
    "table_key",
    "classification",
    "action",
    "manifest_version",
    "lance_head_version",
    "operations",
    "error",
]


def test_optimize_prints_a_row_for_every_table(command, library):
    write_a_little(library)
    done = command("optimize", "--json")
    assert done.code == 0
    assert done.err == f"optimize → {library.uri} (direct, local)\n"
    assert [row["table_key"] for row in done.json["tables"]] == [*sorted(TABLES), "__manifest"]
    assert [*done.json["tables"][0]] == OPTIMIZE_COLUMNS
    assert done.json["graph_commit_id"] == library.commits()[0].commit_id
    pending = next(row for row in done.json["tables"] if row["table_key"] == BOOK)
    assert [*pending["pending_indexes"][0]] == ["table_key", "property", "reason"]
    again = command("optimize", "--quiet")
    assert (again.code, again.err) == (0, "")
    assert "nothing to do" in again.out
    assert "index on feel is pending" in again.out


def test_optimize_takes_a_branch_and_names_drift(command, library):
    library.create_branch("dev")
    write_a_little(library, branch="dev")
    assert "5 fragments became 1" in command("optimize", "--branch", "dev").out
    native(library, READER).delete("slug = 'ann'")
    reported = command("optimize").out
    assert "drift_needs_repair" in reported
    assert "omnigraph repair" in reported
    assert command("optimize", "--branch", "nowhere").code == 1


def test_ensuring_nothing_requests_nothing_of_a_server(command):
    for verb in ("optimize", "cleanup", "repair", "verify", "maintain"):
        done = subprocess.run(
            quick_command(verb, "https://example.org/graph"),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 2
        assert "is a server" in done.stderr


def test_cleanup_without_confirmation_says_what_it_would_do(command, library):
    write_a_little(library)
    before = library.snapshot()
    done = command("cleanup", "--keep", "1")
    assert done.code == 0
    assert "nothing was removed" in done.err
    assert "node:Book  5 versions" in done.out
    assert command("cleanup", "--keep", "99", "--json").json["confirm"] is False
    assert library.snapshot() == before


def test_cleanup_prints_what_went(command, library):
    write_a_little(library)
    done = command("cleanup", "--keep", "1", "--confirm", "--json")
    assert done.code == 0
    body = done.json
    assert (body["keep_versions"], body["older_than_secs"]) == (1, None)
    assert [*body["tables"][0]] == CLEANUP_COLUMNS
    removed = {row["table_key"]: row["old_versions_removed"] for row in body["tables"]}
    assert removed[BOOK] == 5
    assert removed["__manifest"] >= 5


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--confirm",),
        ("--older-than", "soon", "--confirm"),
        ("--keep", "-3", "--confirm"),
        ("--keep", "many"),
    ],
)
def test_cleanup_refuses_flags_that_make_no_policy(command, library, flags):
    write_a_little(library, 1)
    before = library.snapshot()
    done = command("cleanup", *flags)
    assert done.code in (1, 2)
    assert done.err
    assert library.snapshot() == before


def test_cleanup_elsewhere_needs_consent():
    done = subprocess.run(
        quick_command("cleanup", "s3://bucket/graph", "--keep", "3", "--confirm"),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=600,
    )
    assert done.returncode == 1
    assert "needs --yes" in done.stderr


def test_repair_shows_refuses_and_forces(command, library):
    native(library, READER).delete("slug = 'ann'")
    shown = command("repair")
    assert shown.code == 0
    assert "node:Reader  suspicious  preview" in shown.out
    assert "run again with --confirm" in shown.err
    refused = command("repair", "--confirm", "--json")
    assert refused.code == 1
    rows = {row["table_key"]: row for row in refused.json["tables"]}
    assert [*rows[READER]] == REPAIR_COLUMNS
    assert (rows[READER]["action"], rows[BOOK]["action"]) == ("refused", "no_op")
    assert command("repair", "--force").code == 1
    forced = command("repair", "--force", "--confirm")
    assert forced.code == 0
    assert entry(library, READER).version == head(library, READER)


def test_verify_ends_with_one_where_something_is_wrong(command, library):
    sound = command("verify", "--deep")
    assert sound.code == 0
    assert sound.out.splitlines()[-1].startswith("in order: ")
    native(library, READER).delete("slug = 'ann'")
    wrong = command("verify", "--json")
    assert wrong.code == 1
    (finding,) = wrong.json["findings"]
    assert (finding["check"], finding["table_key"]) == ("drift", READER)
    assert "not in order" in command("verify").out


def test_maintain_does_what_is_due_once(command, library):
    write_a_little(library)
    assert "nothing is due" in command("maintain").out
    done = command("maintain", "--json", OMNIGRAPH_AUTOPILOT_FRAGMENTS="4")
    assert done.code == 0
    assert done.json["optimized"]["graph_commit_id"] is None
    assert done.json["cleaned"] is None


def test_maintain_watches_until_it_is_interrupted(place, library):
    write_a_little(library)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "omnigraph.cli",
            "maintain",
            str(place),
            "--watch",
            "--interval",
            "0.05",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["nothing is due\n"] * 3
    finally:
        process.send_signal(2)
        process.communicate(timeout=600)
    assert process.returncode == 130


def test_a_broken_record_of_a_write_is_set_aside_only_when_confirmed(command, place, library):
    (place / "__recovery").mkdir(exist_ok=True)
    (place / "__recovery/01BROKEN.json").write_text("{")
    assert command("optimize").code == 1
    assert command("recover", "--quarantine", "01BROKEN").code == 2
    done = command("recover", "--quarantine", "01BROKEN", "--confirm", "--json")
    assert done.code == 0
    assert done.json["kept_at"] == "__recovery/quarantine/01BROKEN.json"
    assert command("optimize").code == 0
