"""Origins of web pages: where a browser got them from."""

from __future__ import annotations

from urllib.parse import urlsplit

from omnigraph.environment import Kind

_DEFAULT_PORTS = {"http": 80, "https": 443}


def parse_origins(text: str) -> tuple[str, ...]:
    """Origins as browsers send them.

    >>> parse_origins("https://App.example.org, http://localhost:3000")
    ('https://app.example.org', 'http://localhost:3000')
    """
    if not text.strip():
        return ()
    return tuple(dict.fromkeys(_parse_origin(part.strip()) for part in text.split(",")))


def _parse_origin(text: str) -> str:
    """One origin; anything that would let in more than one is refused, such as `*`."""
    parts = urlsplit(text)
    port = parts.port  # a ValueError where it is none
    host = parts.hostname or ""
    plain = f"{parts.scheme}://{parts.netloc}".lower()
    if plain != text.lower() or parts.scheme not in _DEFAULT_PORTS or parts.username is not None:
        raise ValueError
    if not host or not all(one.isascii() and (one.isalnum() or one in "-.:") for one in host):
        raise ValueError
    shown = f"[{host}]" if ":" in host else host
    is_default = port is None or port == _DEFAULT_PORTS[parts.scheme]
    return f"{parts.scheme}://{shown}" if is_default else f"{parts.scheme}://{shown}:{port}"


WEB_ORIGINS: Kind[tuple[str, ...]] = Kind(
    "origins",
    "origins such as https://app.example.org, separated by commas",
    parse_origins,
    ",".join,
)
