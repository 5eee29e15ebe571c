"""The operator's files: `config.yaml` with servers, defaults and aliases, and the credentials.

The credentials file has a token for each server and is readable only by its owner.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from omnigraph.settings import CommandLineSettings
from omnigraph.settings.environment import TOKEN_PREFIX, make_bad_request

if TYPE_CHECKING:
    from omnigraph.errors import BadRequest

_GRAPH_ID = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server, and optionally of one of its graphs."""

    base: str
    """Scheme, host and path prefix of the routes, without a trailing slash."""
    graph_id: str | None = None

    @property
    def url(self) -> str:
        return self.base if self.graph_id is None else f"{self.base}/graphs/{self.graph_id}"

    def select(self, graph_id: str) -> ServerAddress:
        """Return the address of one graph of the server."""
        if not _GRAPH_ID.fullmatch(graph_id):
            raise make_bad_request(f"'{graph_id}' cannot be the id of a graph")
        return ServerAddress(self.base, graph_id)

    def join(self, path: str, values: dict[str, str]) -> str:
        """Return the URL of a route; values in its path are percent-encoded, slashes too."""
        if self.graph_id is not None:
            values = {**values, "graph_id": self.graph_id}
        encoded = {name: quote(value, safe="") for name, value in values.items()}
        return self.base + path.format(**encoded)


def parse_server(url: str) -> ServerAddress:
    """Parse the address of a server, without a graph.

    Raises:
        BadRequest: the text is no such address.
    """
    split = urlsplit(url.strip())
    if split.scheme not in ("http", "https") or not split.hostname:
        raise make_bad_request(f"'{url}' is not the address of a server; write https://host")
    if split.username is not None or split.password is not None:
        raise make_bad_request("a server is not addressed with a user or password; give a token")
    if split.query or split.fragment:
        raise make_bad_request(f"'{url}': the address of a server has no query and no fragment")
    return ServerAddress(f"{split.scheme}://{split.netloc}{split.path.rstrip('/')}")


def parse_graph_address(url: str) -> ServerAddress:
    """Parse the address of one graph of a server.

    Raises:
        BadRequest: the text is no such address.
    """
    whole = parse_server(url).base
    base, found, graph_id = whole.rpartition("/graphs/")
    if not found or "/" in graph_id:
        raise make_bad_request(
            f"'{url}' does not name a graph of a server; write https://host/graphs/ID"
        )
    return ServerAddress(base).select(graph_id)


OUTPUT_FORMATS = ("table", "kv", "csv", "jsonl", "json")
CELL_LAYOUTS = ("truncate", "wrap")
FILE_NAME = "config.yaml"


@dataclass(frozen=True, slots=True)
class OperatorProfile:
    """A named scope: exactly one of a server, a cluster and a store."""

    name: str
    server: str | None = None
    cluster: str | None = None
    store: str | None = None
    default_graph: str | None = None

    @property
    def problem(self) -> str | None:
        bound = [v for v in (self.server, self.cluster, self.store) if v is not None]
        if len(bound) == 1:
            return None
        return f"profile '{self.name}' must bind exactly one of server, cluster and store"


@dataclass(frozen=True, slots=True)
class Alias:
    """The operator's name for a query, with default parameters.

    The query is in a file and runs on a store, or is a stored query of a server.
    """

    name: str
    query: str | None = None
    server: str | None = None
    graph: str | None = None
    store: str | None = None
    file: str | None = None
    args: tuple[str, ...] = ()
    params: Mapping[str, object] = field(default_factory=dict)
    format: str | None = None
    mutate: bool = False

    @property
    def problem(self) -> str | None:
        if (self.server is None) == (self.store is None):
            return f"alias '{self.name}' must name a server or a store"
        if self.store is not None and self.file is None:
            return f"alias '{self.name}' must name the file its query is in"
        if self.server is not None and self.query is None:
            return f"alias '{self.name}' must name the query of the server"
        return None


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    actor: str | None = None
    servers: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, OperatorProfile] = field(default_factory=dict)
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    output: str = "table"
    table_max_column_width: int = 80
    table_cell_layout: str = "truncate"
    default_server: str | None = None
    default_store: str | None = None
    default_graph: str | None = None
    path: Path | None = None

    def wire(self) -> dict[str, object]:
        """Return the configuration as JSON, defaults included."""
        return {
            "path": str(self.path) if self.path else None,
            "actor": self.actor,
            "servers": dict(self.servers),
            "clusters": dict(self.clusters),
            "profiles": sorted(self.profiles),
            "aliases": sorted(self.aliases),
            "active_profile": find_active_profile(),
            "output": self.output,
            "table_max_column_width": self.table_max_column_width,
            "table_cell_layout": self.table_cell_layout,
            "default_server": self.default_server,
            "default_store": self.default_store,
            "default_graph": self.default_graph,
        }

    def profile(self, name: str) -> OperatorProfile:
        found = self.profiles.get(name)
        if found is None:
            raise make_bad_request(f"no such profile '{name}'; {self._find_known(self.profiles)}")
        if found.problem:
            raise make_bad_request(found.problem)
        return found

    def alias(self, name: str) -> Alias:
        found = self.aliases.get(name)
        if found is None:
            raise make_bad_request(f"no such alias '{name}'; {self._find_known(self.aliases)}")
        if found.problem:
            raise make_bad_request(found.problem)
        return found

    def _find_known(self, names: Mapping[str, object]) -> str:
        path = self.path or find_config_folder() / FILE_NAME
        return f"known: {', '.join(sorted(names))}" if names else f"{path} names none"


def find_config_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the operator's files; without a home folder, one that does not exist."""
    given = CommandLineSettings.from_environment(environment).home
    try:
        return Path(given).expanduser()
    except RuntimeError:
        return Path(given)


def find_active_profile(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the profile the environment selects."""
    return CommandLineSettings.from_environment(environment).profile


def read_config(folder: Path, warn: Callable[[str], None]) -> OperatorConfig:
    """Read the configuration of a folder; unknown keys are reported to `warn` and ignored."""
    path = folder / FILE_NAME
    if not path.is_file():
        return OperatorConfig()
    import yaml  # noqa: PLC0415 - only commands that resolve a graph need it

    try:
        body = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise make_bad_request(f"cannot read {path}: {error}") from error
    return _Reader(path, warn).config(body)


class _Reader:
    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path, self._warn = path, warn

    def config(self, body: object) -> OperatorConfig:
        top = self._read_mapping(body, "the file")
        known = ("operator", "servers", "clusters", "profiles", "defaults", "aliases")
        self._note_unknown(top, known, "")
        operator = self._read_mapping(top.get("operator"), "operator")
        self._note_unknown(operator, ("actor",), "operator.")
        defaults = self._read_mapping(top.get("defaults"), "defaults")
        config = OperatorConfig(
            actor=self._read_text(operator, "actor"),
            servers=self._read_named(top, "servers", "url"),
            clusters=self._read_named(top, "clusters", "root"),
            profiles=self._read_profiles(top),
            aliases=self._read_aliases(top),
            path=self._path,
            **self._read_defaults(defaults),  # type: ignore[arg-type]
        )
        if config.default_server and config.default_store:
            raise self._make_wrong("defaults.server and defaults.store cannot be combined")
        if config.default_store and config.default_graph:
            raise self._make_wrong("defaults.default_graph cannot be combined with defaults.store")
        return config

    def _read_defaults(self, defaults: Mapping[str, object]) -> dict[str, object]:
        names = (
            "output",
            "table_max_column_width",
            "table_cell_layout",
            "server",
            "store",
            "default_graph",
        )
        self._note_unknown(defaults, names, "defaults.")
        width = defaults.get("table_max_column_width", 80)
        if not isinstance(width, int) or isinstance(width, bool):
            raise self._make_wrong("defaults.table_max_column_width must be a number")
        return {
            "output": self._read_choice(defaults, "output", OUTPUT_FORMATS),
            "table_max_column_width": width,
            "table_cell_layout": self._read_choice(defaults, "table_cell_layout", CELL_LAYOUTS),
            "default_server": self._read_text(defaults, "server"),
            "default_store": self._read_text(defaults, "store"),
            "default_graph": self._read_text(defaults, "default_graph"),
        }

    def _read_choice(self, body: Mapping[str, object], name: str, choices: tuple[str, ...]) -> str:
        value = body.get(name, choices[0])
        if value not in choices:
            raise self._make_wrong(f"defaults.{name} must be one of {', '.join(choices)}")
        return str(value)

    def _read_named(self, top: Mapping[str, object], group: str, member: str) -> dict[str, str]:
        found = {}
        for name, body in self._read_mapping(top.get(group), group).items():
            entry = self._read_mapping(body, f"{group}.{name}")
            self._note_unknown(entry, (member,), f"{group}.{name}.")
            value = self._read_text(entry, member)
            if value is None:
                raise self._make_wrong(f"{group}.{name} needs {member}")
            found[name] = value
        return found

    def _read_profiles(self, top: Mapping[str, object]) -> dict[str, OperatorProfile]:
        names = ("server", "cluster", "store", "default_graph")
        found = {}
        for name, body in self._read_mapping(top.get("profiles"), "profiles").items():
            entry = self._read_mapping(body, f"profiles.{name}")
            self._note_unknown(entry, names, f"profiles.{name}.")
            found[name] = OperatorProfile(
                name, *(self._read_text(entry, member) for member in names)
            )
        return found

    def _read_aliases(self, top: Mapping[str, object]) -> dict[str, Alias]:
        texts = ("query", "server", "graph", "store", "file", "format")
        found = {}
        for name, body in self._read_mapping(top.get("aliases"), "aliases").items():
            position = f"aliases.{name}"
            entry = self._read_mapping(body, position)
            self._note_unknown(entry, (*texts, "args", "params", "mutate"), f"{position}.")
            given = {text: self._read_text(entry, text) for text in texts}
            if given["format"] not in (None, *OUTPUT_FORMATS):
                raise self._make_wrong(
                    f"{position}.format must be one of {', '.join(OUTPUT_FORMATS)}"
                )
            args, mutate = entry.get("args") or [], entry.get("mutate", False)
            if not isinstance(args, list) or not all(isinstance(one, str) for one in args):
                raise self._make_wrong(f"{position}.args must be a list of names")
            if not isinstance(mutate, bool):
                raise self._make_wrong(f"{position}.mutate must be true or false")
            params = self._read_mapping(entry.get("params"), f"{position}.params")
            found[name] = Alias(name, args=tuple(args), params=params, mutate=mutate, **given)
        return found

    def _read_mapping(self, value: object, what: str) -> Mapping[str, object]:
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self._make_wrong(f"{what} must be a mapping")
        return value

    def _read_text(self, body: Mapping[str, object], name: str) -> str | None:
        value = body.get(name)
        if value is None or isinstance(value, str):
            return value or None
        raise self._make_wrong(f"{name} must be text")

    def _note_unknown(
        self, body: Mapping[str, object], known: tuple[str, ...], prefix: str
    ) -> None:
        for name in body:
            if name not in known:
                self._warn(f"{self._path}: unknown key '{prefix}{name}' is ignored")

    def _make_wrong(self, problem: str) -> BadRequest:
        return make_bad_request(f"{self._path}: {problem}")


_SECTION = re.compile(r"\[(?P<name>[^\]\n]+)\]\s*")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token, the declared server it belongs to, and its source."""

    text: str = field(repr=False)
    server: str | None
    source: str


def find_server(url: str, servers: Mapping[str, str]) -> str | None:
    """Return the declared server of an address: the one with the longest matching prefix.

    A prefix ends at a path segment: `http://h:8080` is none of
    `http://h:8080-other`.
    """
    owners = {
        name: own.rstrip("/")
        for name, own in servers.items()
        if url == own.rstrip("/") or url.startswith(own.rstrip("/") + "/")
    }
    return max(owners, key=lambda name: (len(owners[name]), name), default=None)


def choose_token(
    url: str, servers: Mapping[str, str], environment: Mapping[str, str], path: Path
) -> BearerToken | None:
    """Return the token for an address; one stored for a server is sent to no other."""
    server = find_server(url, servers)
    if server is not None:
        variable = f"{TOKEN_PREFIX}{server.upper().replace('-', '_')}"
        given = environment.get(variable, "").strip()
        if given:
            return BearerToken(given, server, variable)
        kept = read_token(path, server)
        if kept:
            return BearerToken(kept, server, str(path))
    common = CommandLineSettings.from_environment(environment).bearer_token
    source = CommandLineSettings.variable("bearer_token")
    return BearerToken(common, server, source) if common else None


def read_token(path: Path, server: str) -> str | None:
    """Return the token stored for a server, if there is one.

    Raises:
        BadRequest: others may read the file; then no token is used.
    """
    for name, lines in _split_sections(_read(path)):
        if name == server:
            for line in lines:
                key, equals, value = line.partition("=")
                if equals and key.strip() == "token":
                    return value.strip().strip("\"'").strip() or None
    return None


def store_token(path: Path, server: str, token: str) -> None:
    """Store a token for a server, replacing an earlier one; other lines are unchanged."""
    check_name(server)
    if not token or any(character in token for character in "\r\n"):
        raise make_bad_request("a token is one line of text")
    kept = _remove_section(_read(path), server)
    if kept and not kept.endswith("\n"):
        kept += "\n"
    _write(path, f"{kept}[{server}]\ntoken = {token}\n")


def remove_token(path: Path, server: str) -> bool:
    """Remove the token of a server; return whether there was one."""
    check_name(server)
    text = _read(path)
    kept = _remove_section(text, server)
    if kept == text:
        return False
    _write(path, kept)
    return True


def check_name(server: str) -> None:
    if not _NAME.fullmatch(server):
        raise make_bad_request(f"'{server}' cannot be the name of a server")


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if mode & _OTHERS:
            raise make_bad_request(f"{path} can be read by others; run: chmod 600 {path}")
        return path.read_text()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise make_bad_request(f"cannot read {path}: {error}") from error


def _split_sections(text: str) -> list[tuple[str | None, list[str]]]:
    """Split the file into sections; comments belong to the section they are in."""
    found: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in text.splitlines(keepends=True):
        header = _SECTION.fullmatch(line.strip())
        if header:
            found.append((header["name"].strip(), [line]))
        else:
            found[-1][1].append(line)
    return found


def _remove_section(text: str, server: str) -> str:
    """Remove the section of a server except its comments, which may be about the next one."""
    return "".join(
        line
        for name, lines in _split_sections(text)
        for line in lines
        if name != server or line.lstrip().startswith("#")
    )


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(prefix=".credentials.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(scratch).replace(path)
        finally:
            Path(scratch).unlink(missing_ok=True)
    except OSError as error:
        raise make_bad_request(f"cannot write {path}: {error.strerror or error}") from error
