"""The only package that imports Lance. Above it the word is *table*.

A `Table` is one pinned version, read only (`table`). Changes are staged (`stage_table`,
`table_columns`, `indices`, `manifest_table`), which writes unreferenced files, and then committed
as exactly the next version or not at all (`table_commit`). `table_branches` reads branches and
transaction history; `compaction` merges fragments without changing rows. The package depends on
neither schemas nor the meaning of manifest rows.
"""

from omnigraph.storage.tables.compaction import CompactionJob as CompactionJob
from omnigraph.storage.tables.compaction import CompactionOutput as CompactionOutput
from omnigraph.storage.tables.compaction import combine_outputs as combine_outputs
from omnigraph.storage.tables.compaction import is_available as is_available
from omnigraph.storage.tables.compaction import run_job as run_job
from omnigraph.storage.tables.compaction import stage_rewrite as stage_rewrite
from omnigraph.storage.tables.compaction import write_groups as write_groups
from omnigraph.storage.tables.fragments import Rows as Rows
from omnigraph.storage.tables.fragments import parse_fragments as parse_fragments
from omnigraph.storage.tables.fragments import write_fragments as write_fragments
from omnigraph.storage.tables.indices import DELETED as DELETED
from omnigraph.storage.tables.indices import DISTANCE as DISTANCE
from omnigraph.storage.tables.indices import ColumnPiece as ColumnPiece
from omnigraph.storage.tables.indices import LanceIndexKind as LanceIndexKind
from omnigraph.storage.tables.indices import describe_indices as describe_indices
from omnigraph.storage.tables.indices import drop_stop_words as drop_stop_words
from omnigraph.storage.tables.indices import find_nearest as find_nearest
from omnigraph.storage.tables.indices import read_piece as read_piece
from omnigraph.storage.tables.indices import read_row_ids as read_row_ids
from omnigraph.storage.tables.indices import split_column as split_column
from omnigraph.storage.tables.indices import split_words as split_words
from omnigraph.storage.tables.indices import stem_words as stem_words
from omnigraph.storage.tables.lance_errors import IoCounters as IoCounters
from omnigraph.storage.tables.lance_errors import read_io_counters as read_io_counters
from omnigraph.storage.tables.location import Generation as Generation
from omnigraph.storage.tables.location import PhysicalTable as PhysicalTable
from omnigraph.storage.tables.location import TableLocation as TableLocation
from omnigraph.storage.tables.row_lookup import are_few_keys as are_few_keys
from omnigraph.storage.tables.row_lookup import build_in_list as build_in_list
from omnigraph.storage.tables.row_lookup import build_key_filters as build_key_filters
from omnigraph.storage.tables.row_lookup import quote_identifier as quote_identifier
from omnigraph.storage.tables.row_lookup import quote_literal as quote_literal
from omnigraph.storage.tables.stage_table import NO_DELETIONS as NO_DELETIONS
from omnigraph.storage.tables.stage_table import Deletions as Deletions
from omnigraph.storage.tables.stage_table import StagedTransaction as StagedTransaction
from omnigraph.storage.tables.stage_table import delete_addresses as delete_addresses
from omnigraph.storage.tables.stage_table import stage_changes as stage_changes
from omnigraph.storage.tables.stage_table import stage_first_version as stage_first_version
from omnigraph.storage.tables.stage_table import stage_fragments as stage_fragments
from omnigraph.storage.tables.stage_table import stage_fresh as stage_fresh
from omnigraph.storage.tables.stage_table import stage_overwrite as stage_overwrite
from omnigraph.storage.tables.table import ROW_ADDRESS as ROW_ADDRESS
from omnigraph.storage.tables.table import ROW_ID as ROW_ID
from omnigraph.storage.tables.table import UPDATED_AT as UPDATED_AT
from omnigraph.storage.tables.table import PinnedTable as PinnedTable
from omnigraph.storage.tables.table import ScanOrder as ScanOrder
from omnigraph.storage.tables.table import Table as Table
from omnigraph.storage.tables.table import open_table as open_table
from omnigraph.storage.tables.table_columns import Column as Column
from omnigraph.storage.tables.table_columns import ColumnJob as ColumnJob
from omnigraph.storage.tables.table_columns import EmptyColumn as EmptyColumn
from omnigraph.storage.tables.table_columns import FilledColumn as FilledColumn
from omnigraph.storage.tables.table_columns import RetainedColumn as RetainedColumn
from omnigraph.storage.tables.table_columns import WrittenColumns as WrittenColumns
from omnigraph.storage.tables.table_columns import carry_out as carry_out
from omnigraph.storage.tables.table_columns import find_expression_error as find_expression_error
from omnigraph.storage.tables.table_columns import (
    find_outdated_fragments as find_outdated_fragments,
)
from omnigraph.storage.tables.table_columns import is_blob as is_blob
from omnigraph.storage.tables.table_columns import make_blob_array as make_blob_array
from omnigraph.storage.tables.table_columns import make_blob_field as make_blob_field
from omnigraph.storage.tables.table_columns import open_noting_failures as open_noting_failures
from omnigraph.storage.tables.table_columns import read_blob_range as read_blob_range
from omnigraph.storage.tables.table_columns import read_blobs as read_blobs
from omnigraph.storage.tables.table_columns import read_blobs_at as read_blobs_at
from omnigraph.storage.tables.table_columns import read_computed as read_computed
from omnigraph.storage.tables.table_columns import stage_columns as stage_columns
from omnigraph.storage.tables.table_commit import commit_exact as commit_exact
from omnigraph.storage.tables.version_diff import ADDRESSES_PER_READ as ADDRESSES_PER_READ
from omnigraph.storage.tables.version_diff import ChangedKeys as ChangedKeys
from omnigraph.storage.tables.version_diff import estimate_changed_rows as estimate_changed_rows
from omnigraph.storage.tables.version_diff import find_changed_keys as find_changed_keys
from omnigraph.storage.tables.version_diff import find_unmoved as find_unmoved
from omnigraph.storage.tables.version_diff import read_rows_at_addresses as read_rows_at_addresses
