"""Every path and file name below a graph root, and the names of branches, tags and consumers."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from urllib.parse import quote, unquote

from omnigraph.errors import BadOptions, BadRequest
from omnigraph.identity import MAIN, BranchName, EntityKind, OperationId, TableIdentity

SCHEMA_APPLY_MARKER = BranchName("__schema_apply_lock__")
"""A reserved name: hidden from lists and refused everywhere else."""

MAX_MESSAGE_CHARACTERS = 10_000
MAX_SEGMENT_BYTES = 200
MAX_ENCODED_BYTES = 240
"""File systems allow 255 bytes in a file name, including the suffix."""

_BREAKING = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Control characters, unpaired surrogates, line and paragraph separators."""
_PUNCTUATION = frozenset(".-_")
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9._-]+)*")


def normalize_branch(name: str) -> BranchName:
    """Normalize the name of a branch: trimmed, composed, and within the rules.

    Raises:
        BadRequest: the name is empty, reserved for the system or breaks a rule.
    """
    return BranchName(normalize_name(name, "branch"))


@lru_cache(maxsize=256)  # every read and write names its branch
def normalize_name(name: str, what: str) -> str:
    """Normalize a name; `what` it names is for messages."""
    trimmed = unicodedata.normalize("NFC", name.strip())
    if not trimmed:
        raise BadRequest(f"{what} name cannot be empty")
    if is_internal(trimmed):
        raise BadRequest(f"{what} name '{trimmed}' is reserved for the system")
    problem = _find_problem(trimmed)
    if problem is not None:
        raise BadRequest(f"{what} name '{trimmed}' {problem}")
    return trimmed


def check_actor(actor: str | None) -> None:
    """Raise for an actor name that would break the lines it is shown in.

    Raises:
        BadOptions: it has a line break or another control character.
    """
    if actor is not None and any(unicodedata.category(one) in _BREAKING for one in actor):
        raise BadOptions(
            f"the actor {actor[:80]!r} contains a line break or another control character"
        )


def normalize_message(message: str | None) -> str | None:
    """Normalize the message of a commit: strip it; None if nothing is left.

    Raises:
        BadOptions: it is too long, or not valid Unicode.
    """
    said = (message or "").strip()
    if len(said) > MAX_MESSAGE_CHARACTERS:
        raise BadOptions(
            f"the message has {len(said):,} characters; at most {MAX_MESSAGE_CHARACTERS:,} are kept"
        )
    if any(unicodedata.category(one) == "Cs" for one in said):
        raise BadOptions("the message contains an unpaired surrogate")
    return said or None


def normalize_new_branch(name: str) -> BranchName:
    """Normalize the name of a branch to create; `main` always exists."""
    return _require_other_than_main(name, "created")


def normalize_deletable_branch(name: str) -> BranchName:
    """Normalize the name of a branch to delete; `main` cannot be deleted."""
    return _require_other_than_main(name, "deleted")


def _require_other_than_main(name: str, verb: str) -> BranchName:
    branch = normalize_branch(name)
    if branch == MAIN:
        raise BadRequest(f"branch 'main' cannot be {verb}")
    return branch


def is_internal(name: str) -> bool:
    return name.strip().lstrip("/") == SCHEMA_APPLY_MARKER


def _find_problem(name: str) -> str | None:
    if name.startswith("/") or name.endswith("/"):
        return "must not start or end with '/'"
    if "//" in name:
        return "must not contain '//'"
    if ".." in name:
        return "must not contain '..'"
    if name.endswith(".lock"):
        return "must not end with '.lock'"
    for character in name:
        if not (character.isalnum() or character in _PUNCTUATION or character == "/"):
            return f"contains {character!r}; letters, digits, '.', '-', '_' and '/' are allowed"
    return _find_excess(name)


def _find_excess(name: str) -> str | None:
    for segment in name.split("/"):
        size = len(segment.encode())
        if size > MAX_SEGMENT_BYTES:
            return f"has a part of {size} bytes; {MAX_SEGMENT_BYTES} are allowed"
    size = len(_quote(name))
    if size > MAX_ENCODED_BYTES:
        return f"is too long: {size} bytes as a file name; {MAX_ENCODED_BYTES} are allowed"
    return None


def encode_name(name: str) -> str:
    """Encode a name as one plain file name.

    >>> encode_name("team/x")
    'team%2Fx'
    """
    return _quote(name)


def decode_name(encoded: str) -> str | None:
    """Decode a file name; None if no name is encoded like this."""
    plain = encoded.replace("%2F", "/")
    if _is_plain(plain):
        return plain
    try:
        name = normalize_name(unquote(encoded, errors="strict"), "file")
    except (UnicodeDecodeError, BadRequest):
        return None
    return name if encode_name(name) == encoded else None


def _is_plain(name: str) -> bool:
    """Return whether a name is valid and plain, so that only `/` is escaped.

    Of thousands of names, most are, and the full rules would take longer than reading the files.
    """
    return (
        _PLAIN.fullmatch(name) is not None
        and len(name) <= MAX_SEGMENT_BYTES // 2
        and ".." not in name
        and not name.endswith(".lock")
        and not is_internal(name)
    )


def _quote(name: str) -> str:
    # A leading dot would make the file hidden, and a tilde is not in the alphabet.
    quoted = quote(name, safe="")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted


MANIFEST = "__manifest"
REFS = "_refs"
BRANCHES = f"{REFS}/branches"
DELETED = f"{REFS}/deleted"
RELATED = f"{REFS}/related"
TAGS = f"{REFS}/tags"
CONSUMERS = f"{REFS}/consumers"
REQUESTS = f"{REFS}/requests"
RECOVERY = "__recovery"
QUARANTINE = "__recovery/quarantine"
STAGING = "__staging"
ORPHAN_CANDIDATES = "__maintenance/unreferenced.json"
ADDRESS = "__maintenance/address.json"
HEARTBEATS = "__maintenance/at_work"
INIT_CLAIM = "__init_claim.json"
CLONE_CLAIM = "__clone_claim.json"
WRITER_LOCK = "__writer.lock"
WRITER_QUEUE_LOCK = "__writer_queue.lock"
WRITER_LEASE = "__writer_lease.json"

SCHEMA_SOURCE = "_schema.pg"
SCHEMA_IR = "_schema.ir.json"
SCHEMA_STATE = "__schema_state.json"
SCHEMA_FILES = (SCHEMA_SOURCE, SCHEMA_IR, SCHEMA_STATE)

LOCAL_HIDDEN_PREFIX = ".omnigraph-"
"""The prefix of internal files of the local store, which listings omit."""
OBJECTS_LOCK = f"{LOCAL_HIDDEN_PREFIX}objects.lock"

_FOLDERS = {EntityKind.NODE: "nodes", EntityKind.EDGE: "edges"}
_JSON = ".json"


def make_tables_folder(kind: EntityKind) -> str:
    """Return the folder of all tables of nodes, or of edges."""
    return _FOLDERS[kind]


def make_table_path(kind: EntityKind, identity: TableIdentity) -> str:
    """Return the path of a table, which does not depend on its name.

    >>> make_table_path(EntityKind.NODE, TableIdentity(TypeId(1), TableIncarnationId(255)))
    'nodes/0000000000000001-00000000000000ff'
    """
    return f"{_FOLDERS[kind]}/{identity}"


def make_record_path(folder: str, name: str) -> str:
    """Return the path of a named record.

    >>> make_record_path(BRANCHES, "team/x")
    '_refs/branches/team%2Fx.json'
    """
    return f"{folder}/{encode_name(name)}{_JSON}"


def find_name(file_name: str) -> str | None:
    """Return the name of the object with this file name, or None for any other file."""
    return decode_name(file_name.removesuffix(_JSON)) if file_name.endswith(_JSON) else None


def make_intent_path(operation: OperationId) -> str:
    return f"{RECOVERY}/{operation}{_JSON}"


def make_quarantined_intent_path(operation: OperationId) -> str:
    return f"{QUARANTINE}/{operation}{_JSON}"


def find_operation(file_name: str) -> OperationId | None:
    """Return the operation whose intent has this file name; None for any other file."""
    operation = file_name.removesuffix(_JSON)
    if operation == file_name or not operation or "/" in operation:
        return None
    return OperationId(operation)


def make_staging_path(staging_id: str) -> str:
    return f"{STAGING}/{staging_id}"


def make_heartbeat_path(note_id: str) -> str:
    return f"{HEARTBEATS}/{note_id}"


def probe_path(probe_id: str) -> str:
    """Return the path of an object that probes the store and is removed at once."""
    return f"__create_if_absent_probe_{probe_id}"
