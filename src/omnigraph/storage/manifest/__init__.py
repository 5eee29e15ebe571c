"""The manifest: the version of each table of the graph, and their history.

`manifest_state` is its layout and the state of one version, with every integrity check;
`manifest_changes` the pure function from one state to the next, `commit_records` the history,
and `manifest_reader` reads and caches them.
"""

from omnigraph.storage.manifest.commit_records import CommitMetadata as CommitMetadata
from omnigraph.storage.manifest.commit_records import CommitRecord as CommitRecord
from omnigraph.storage.manifest.commit_records import MergedState as MergedState
from omnigraph.storage.manifest.commit_records import RecoveryAudit as RecoveryAudit
from omnigraph.storage.manifest.commit_records import with_commit as with_commit
from omnigraph.storage.manifest.manifest_changes import Register as Register
from omnigraph.storage.manifest.manifest_changes import Rename as Rename
from omnigraph.storage.manifest.manifest_changes import SchemaChange as SchemaChange
from omnigraph.storage.manifest.manifest_changes import SetVersion as SetVersion
from omnigraph.storage.manifest.manifest_changes import Tombstone as Tombstone
from omnigraph.storage.manifest.manifest_reader import History as History
from omnigraph.storage.manifest.manifest_reader import ManifestSnapshot as ManifestSnapshot
from omnigraph.storage.manifest.manifest_reader import read_manifest as read_manifest
from omnigraph.storage.manifest.manifest_reader import read_newest as read_newest
from omnigraph.storage.manifest.manifest_reader import sort_newest_first as sort_newest_first
from omnigraph.storage.manifest.manifest_state import ManifestState as ManifestState
from omnigraph.storage.manifest.manifest_state import SchemaContract as SchemaContract
from omnigraph.storage.manifest.manifest_state import TableEntry as TableEntry
