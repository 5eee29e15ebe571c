"""Every path and file name below a graph root, in one place.

    __manifest/                          which version of which table makes up the graph
    nodes/<type id>-<incarnation>/       rows of one node type
    edges/<type id>-<incarnation>/       rows of one edge type
    _refs/branches/<encoded name>.json   which branch a name stands for
    _refs/deleted/<branch id>.json       that a branch was deleted, while something of it is left
    _refs/related/<branch id>.json       that a branch was renamed, or others were created from it
    _refs/tags/<encoded name>.json       which commit a tag names
    _refs/consumers/<encoded name>.json  how far a consumer of the change feed has read
    _refs/requests/<digest>.json         what became of a request with a key that made no commit
    _refs/_checksums.log                 which of these records there are, on a local disk
    _schema.pg, _schema.ir.json, __schema_state.json
                                         mirror of the schema the manifest holds
    __recovery/<operation>.json          what an unfinished write set out to do
    __recovery/quarantine/               intents an operator has set aside
    __staging/<id>/                      rows on their way in
    __maintenance/unreferenced.json      what cleanup found that nothing refers to, and when
    __maintenance/address.json           where the graph was when its branches were last written
    __maintenance/at_work/<id>           who is writing files that nothing refers to yet
    __init_claim.json                    who is creating this graph
    __clone_claim.json                   who is copying a graph here, which is none as yet
    __writer.lock, __writer_queue.lock   keeps writers apart on a file system
    __writer_lease.json                  keeps writers apart on an object store

Paths are relative to the root, with `/` between parts on every platform. Names that start with
`__` belong to the system.
"""

from __future__ import annotations

from omnigraph.identity import (
    EntityKind,
    OperationId,
    TableIdentity,
)
from omnigraph.storage.names import decode_name, encode_name

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
SIGHTINGS = "__maintenance/unreferenced.json"
ADDRESS = "__maintenance/address.json"
WRITE_NOTES = "__maintenance/at_work"
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
"""Files the local store keeps for itself; listings leave them out."""
OBJECTS_LOCK = f"{LOCAL_HIDDEN_PREFIX}objects.lock"

_FOLDERS = {EntityKind.NODE: "nodes", EntityKind.EDGE: "edges"}
_JSON = ".json"


def make_tables_folder(kind: EntityKind) -> str:
    """The folder that holds every table of nodes, or of edges."""
    return _FOLDERS[kind]


def make_table_path(kind: EntityKind, identity: TableIdentity) -> str:
    """Where a table lives, whatever it is called now.

    >>> make_table_path(EntityKind.NODE, TableIdentity(TypeId(1), TableIncarnationId(255)))
    'nodes/0000000000000001-00000000000000ff'
    """
    return f"{_FOLDERS[kind]}/{identity}"


def make_ref_path(branch: str) -> str:
    """The object that says which branch a name stands for.

    >>> make_ref_path("team/x")
    '_refs/branches/team%2Fx.json'
    """
    return f"{BRANCHES}/{encode_name(branch)}{_JSON}"


def deletion_mark(incarnation: str) -> str:
    """The object that says that a branch was deleted on purpose."""
    return f"{DELETED}/{incarnation}{_JSON}"


def make_relation_mark_path(incarnation: str) -> str:
    """The object that says that a branch does not stand alone."""
    return f"{RELATED}/{incarnation}{_JSON}"


def tag_ref(tag: str) -> str:
    """The object that says which commit a tag names."""
    return f"{TAGS}/{encode_name(tag)}{_JSON}"


def make_consumer_path(consumer: str) -> str:
    """The object that says how far a consumer of the change feed has read."""
    return f"{CONSUMERS}/{encode_name(consumer)}{_JSON}"


def make_request_path(name: str) -> str:
    """The object that says what became of a request that made no commit."""
    return f"{REQUESTS}/{encode_name(name)}{_JSON}"


def find_name(file_name: str) -> str | None:
    """What the object with this file name is called, or None for any other file."""
    return decode_name(file_name.removesuffix(_JSON)) if file_name.endswith(_JSON) else None


def make_intent_path(operation: OperationId) -> str:
    return f"{RECOVERY}/{operation}{_JSON}"


def make_quarantined_intent_path(operation: OperationId) -> str:
    return f"{QUARANTINE}/{operation}{_JSON}"


def find_operation(file_name: str) -> OperationId | None:
    """The operation whose intent has this file name, or None for any other file."""
    operation = file_name.removesuffix(_JSON)
    if operation == file_name or not operation or "/" in operation:
        return None
    return OperationId(operation)


def make_staging_path(staging_id: str) -> str:
    return f"{STAGING}/{staging_id}"


def make_write_note_path(note_id: str) -> str:
    return f"{WRITE_NOTES}/{note_id}"


def probe_path(probe_id: str) -> str:
    """An object written only to learn what the store can do, and removed at once."""
    return f"__create_if_absent_probe_{probe_id}"
