"""`cluster.yaml`, read strictly: every mistake with its line and column, all of them at once."""

from __future__ import annotations

from pathlib import Path

from omnigraph.cluster.binding_text import PolicyReader
from omnigraph.cluster.cluster_config import ClusterConfig
from omnigraph.cluster.cluster_layout import CONFIG_FILE
from omnigraph.cluster.cluster_report import ClusterReport, refuse
from omnigraph.cluster.config_values import ConfigValues, show_place
from omnigraph.cluster.graph_text import GraphReader
from omnigraph.cluster.provider_text import ProviderReader
from omnigraph.errors import BadRequest, CompileError
from omnigraph.language.source import SourceText
from omnigraph.language.yaml_reader import Value
from omnigraph.storage.control_files import normalize_root

VERSION = 1
_KEYS = ("metadata", "storage", "state", "providers", "graphs", "policies")
_RESERVED = ("apply", "env_file", "pipelines", "embeddings", "ui", "aliases", "bindings")
_BACKEND = "cluster"


def read_cluster_config(folder: Path, report: ClusterReport) -> ClusterConfig:
    """What a folder declares; what could not be understood is in the report and left out.

    Raises:
        ClusterError: there is no such folder, or its file cannot be read at all.
    """
    return _ConfigReader(_read_source(folder), report).read_config()


def read_storage_root(folder: Path) -> str:
    """The storage root of a folder with a `cluster.yaml`, whatever else is wrong with that.

    Raises:
        ClusterError: the file cannot be read, or does not say where the storage is.
    """
    report = ClusterReport()
    storage = _ConfigReader(_read_source(folder), report).read_only_storage()
    report.raise_if_errors()
    return choose_root(folder, storage)


def choose_root(folder: Path, storage: str | None) -> str:
    """Where a cluster is kept: in the folder itself, unless it says otherwise."""
    if storage is None:
        return normalize_root(str(folder))
    return normalize_root(storage if "://" in storage else str(folder / storage))


def _read_source(folder: Path) -> SourceText:
    if not folder.is_dir():
        raise refuse("config_dir_not_found", str(folder), "there is no such folder")
    try:
        data = (folder / CONFIG_FILE).read_bytes()
        return SourceText.from_bytes(data, CONFIG_FILE)
    except FileNotFoundError:
        message = f"the folder has no {CONFIG_FILE}"
        raise refuse("config_dir_not_found", str(folder), message) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise refuse("cluster_config_read_error", CONFIG_FILE, reason) from None
    except CompileError as error:
        found = error.diagnostics[0]
        raise refuse("cluster_config_read_error", show_place(found), found.message) from None


class _ConfigReader:
    def __init__(self, source: SourceText, report: ClusterReport) -> None:
        self._values, self._report = ConfigValues(source), report
        self._yaml = self._values.yaml

    def read_config(self) -> ClusterConfig:
        document = self._yaml.read(CONFIG_FILE)
        config = ClusterConfig() if document is None else self._read_document(document)
        self._values.report_to(self._report)
        return config

    def read_only_storage(self) -> str | None:
        document = self._yaml.read(CONFIG_FILE)
        found = None if document is None else self._yaml.read_entries(document).get("storage")
        storage = None if found is None else self._read_storage(found[1])
        self._values.report_to(self._report)
        return storage

    def _read_document(self, document: Value) -> ClusterConfig:
        reserved = self._refuse_reserved(document)
        top = self._yaml.read_members(document, ("version",), (*_KEYS, *reserved))
        if "version" in top:
            self._yaml.check_version(top["version"], VERSION)
        name = self._read_metadata(top["metadata"]) if "metadata" in top else None
        storage = self._read_storage(top["storage"]) if "storage" in top else None
        locks_state = self._read_state(top["state"]) if "state" in top else True
        reader = ProviderReader(self._values)
        providers = reader.read_providers(top["providers"]) if "providers" in top else {}
        graph_reader = GraphReader(self._values, providers.keys())
        graphs = graph_reader.read_graphs(top["graphs"]) if "graphs" in top else {}
        policy_reader = PolicyReader(self._values, graphs.keys())
        policies = policy_reader.read_policies(top["policies"]) if "policies" in top else {}
        known = {name: profile for name, profile in providers.items() if profile is not None}
        return ClusterConfig(name, storage, locks_state, known, graphs, policies)

    def _refuse_reserved(self, document: Value) -> tuple[str, ...]:
        """Report reserved keys; gives them, so that they are not unknown ones as well."""
        entries = self._yaml.read_entries(document) if self._yaml.is_mapping(document) else {}
        found = tuple(name for name in _RESERVED if name in entries)
        for name in found:
            self._values.add("future_phase_field", f"'{name}' is reserved", entries[name][0])
        return found

    def _read_metadata(self, value: Value) -> str | None:
        members = self._yaml.read_members(value, (), ("name",))
        name = self._yaml.read_text(members["name"]) if "name" in members else None
        if name == "":
            self._values.add("empty_metadata_name", "the name is blank", members["name"])
        return name or None

    def _read_storage(self, value: Value) -> str | None:
        uri = self._yaml.read_text(value)
        if uri is None:
            return None
        try:
            normalize_root(uri)
        except BadRequest as error:
            self._values.add("invalid_storage_root", error.message, value)
            return None
        return uri.rstrip("/") or "/"

    def _read_state(self, value: Value) -> bool:
        members = self._yaml.read_members(value, (), ("backend", "lock"))
        backend = self._yaml.read_text(members["backend"]) if "backend" in members else _BACKEND
        if backend is not None and backend != _BACKEND:
            message = f"no such backend '{backend}'; use {_BACKEND}"
            self._values.add("unsupported_state_backend", message, members["backend"])
        locks = self._yaml.read_flag(members["lock"]) if "lock" in members else True
        if locks is False:
            message = "no lock is taken; of two operators at once, one finds its work refused"
            place = self._values.find_place(members["lock"])
            self._report.add("state_lock_disabled", place, message)
        return locks is not False
