"""Execution of read plans: operators on entity codes, values fetched at the end.

Inside the operators a node or an edge is an entity code, its index among the entities its variable
ranges over; `entities` turns codes into ids and properties, `row_blocks` flow between the
operators, and `executor` connects them. Tables are read through `table_reader` only.
"""

from omnigraph.execution.read.aggregate import (
    find_aggregate_requirements as find_aggregate_requirements,
)
from omnigraph.execution.read.aggregate import is_row_count as is_row_count
from omnigraph.execution.read.code_arrays import Flags as Flags
from omnigraph.execution.read.executor import execute as execute
from omnigraph.execution.read.join import find_join_condition as find_join_condition
from omnigraph.execution.read.project import build_output_schema as build_output_schema
from omnigraph.execution.read.project import get_output_type as get_output_type
from omnigraph.execution.read.pushdown import split as split
from omnigraph.execution.read.read_context import Embedder as Embedder
from omnigraph.execution.read.read_context import ExecutionProfile as ExecutionProfile
from omnigraph.execution.read.read_context import Given as Given
from omnigraph.execution.read.read_context import ReadInput as ReadInput
from omnigraph.execution.read.read_context import ReadLimits as ReadLimits
from omnigraph.execution.read.read_context import ReadResult as ReadResult
from omnigraph.execution.read.read_context import TraversalMethod as TraversalMethod
from omnigraph.execution.read.read_context import get_scalar_type as get_scalar_type
from omnigraph.execution.read.read_context import map_operands as map_operands
from omnigraph.execution.read.read_context import restrict_to_type as restrict_to_type
from omnigraph.execution.read.sort import make_comparable as make_comparable
from omnigraph.execution.read.table_reader import Reader as Reader
from omnigraph.execution.read.table_reader import Topology as Topology
from omnigraph.execution.read.traversal_choice import forecast_traversals as forecast_traversals
