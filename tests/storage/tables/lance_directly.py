"""Direct use of Lance, for the tests that pin its behaviour."""

from __future__ import annotations

import lance
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from storage.tables.table_fixtures import rows


def create(uri, values: dict[str, int | None]) -> LanceDataset:
    return lance.write_dataset(
        rows(values), str(uri), enable_stable_row_ids=True, data_storage_version="2.2"
    )


def newest(dataset: LanceDataset) -> LanceDataset:
    return lance.dataset(dataset.uri)


def append(dataset: LanceDataset, values: dict[str, int | None]) -> LanceDataset:
    return lance.write_dataset(rows(values), dataset.uri, mode="append")


def staged_append(dataset: LanceDataset, values: dict[str, int | None], **identity) -> Transaction:
    operation = LanceOperation.Append(write_fragments(rows(values), dataset))
    return Transaction(dataset.version, operation, **identity)


def staged_overwrite(dataset: LanceDataset, values: dict[str, int | None]) -> Transaction:
    fragments = write_fragments(rows(values), dataset)
    operation = LanceOperation.Overwrite(dataset.lance_schema, fragments)
    return Transaction(dataset.version, operation)


def commit(dataset: LanceDataset, transaction: Transaction) -> LanceDataset:
    return LanceDataset.commit(dataset, transaction, max_retries=0)


def ids(dataset: LanceDataset) -> list[str]:
    return sorted(dataset.to_table(columns=["id"]).column("id").to_pylist())


def facts(dataset: LanceDataset) -> dict[str, tuple[int, int, int]]:
    columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found = dataset.to_table(columns=columns).to_pydict()
    return dict(zip(found["id"], zip(*(found[c] for c in columns[1:]), strict=True), strict=True))
