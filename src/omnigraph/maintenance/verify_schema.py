"""The accepted schema compared in full: its text, its compiled form and what vouches for both."""

from __future__ import annotations

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.codec import check_contract
from omnigraph.catalog.identify import identify_first
from omnigraph.language.source import SourceText
from omnigraph.storage.layout import SCHEMA_SOURCE
from omnigraph.storage.manifest import SchemaContract


def check_schema(contract: SchemaContract) -> Catalog:
    """The accepted catalog.

    Raises:
        SchemaContractMismatch: naming what does not agree.
    """
    draft = compile_schema(SourceText(contract.source, SCHEMA_SOURCE))
    return check_contract(contract.ir, contract.state, identify_first(draft, "comparison"))
