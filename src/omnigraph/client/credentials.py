"""The operator's tokens, one section for each server, readable only by their owner.

[lab]
token = example
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.environment import TOKEN_PREFIX
from omnigraph.errors import BadRequest
from omnigraph.settings import CommandLineSettings

_SECTION = re.compile(r"\[(?P<name>[^\]\n]+)\]\s*")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token, the declared server it belongs to, if any, and where it was found."""

    text: str = field(repr=False)
    server: str | None
    source: str


def find_server(url: str, servers: Mapping[str, str]) -> str | None:
    """The declared server an address belongs to: the one whose own address is most of it.

    An address belongs only where a part of the path ends: `http://h:8080` does not own
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
    """The token for an address; one that is kept for a server goes to no other."""
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
    """The token kept for a server, if there is one.

    Raises:
        BadRequest: others may read the file; then no token is taken from it.
    """
    for name, lines in _split_sections(_read(path)):
        if name == server:
            for line in lines:
                key, equals, value = line.partition("=")
                if equals and key.strip() == "token":
                    return value.strip().strip("\"'").strip() or None
    return None


def store_token(path: Path, server: str, token: str) -> None:
    """Keep a token for a server in place of the one before; every other line stays as it is."""
    check_name(server)
    if not token or any(character in token for character in "\r\n"):
        raise BadRequest("a token is one line of text")
    kept = _remove_section(_read(path), server)
    if kept and not kept.endswith("\n"):
        kept += "\n"
    _write(path, f"{kept}[{server}]\ntoken = {token}\n")


def remove_token(path: Path, server: str) -> bool:
    """Forget the token of a server; whether there was one."""
    check_name(server)
    text = _read(path)
    kept = _remove_section(text, server)
    if kept == text:
        return False
    _write(path, kept)
    return True


def check_name(server: str) -> None:
    if not _NAME.fullmatch(server):
        raise BadRequest(f"'{server}' cannot be the name of a server")


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if mode & _OTHERS:
            raise BadRequest(f"{path} can be read by others; run: chmod 600 {path}")
        return path.read_text()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read {path}: {error}") from error


def _split_sections(text: str) -> list[tuple[str | None, list[str]]]:
    """The lines of the file by section, each with its end; comments belong where they stand."""
    found: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in text.splitlines(keepends=True):
        header = _SECTION.fullmatch(line.strip())
        if header:
            found.append((header["name"].strip(), [line]))
        else:
            found[-1][1].append(line)
    return found


def _remove_section(text: str, server: str) -> str:
    """The text without the section of a server; comments in it may be about the next one."""
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
        raise BadRequest(f"cannot write {path}: {error.strerror or error}") from error
