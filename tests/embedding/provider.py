"""A provider of embeddings on this machine, scripted by the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from omnigraph.settings import EmbedProvider, EmbedSettings


class Server(ThreadingHTTPServer):
    provider: Provider


class Handler(BaseHTTPRequestHandler):
    """Plays the next act for each request; the last act is played again and again."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        assert isinstance(self.server, Server)
        provider = self.server.provider
        body = self.rfile.read(int(self.headers["Content-Length"]))
        provider.requests.append(Request(self.path, dict(self.headers), json.loads(body)))
        number = min(len(provider.requests), len(provider.acts)) - 1
        self.close_connection = True
        provider.acts[number](self)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict


Act = Callable[[Handler], None]


@dataclass
class Provider:
    url: str
    over: threading.Event = field(default_factory=threading.Event)
    acts: list[Act] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def settings(self, **changes) -> EmbedSettings:
        """Short pauses and few attempts; the test of one that hangs sets the timeout."""
        given = {
            "provider": EmbedProvider.OPENAI,
            "base_url": self.url,
            "model": "m-1",
            "openai_api_key": "secret-key",
            "timeout_s": 60.0,
            "deadline_s": 600.0,
            "attempts": 4,
            "backoff_s": 0.01,
        }
        return EmbedSettings(**{**given, **changes})

    # --- acts -------------------------------------------------------------------------------------

    def says(self, status: int, body: object, **headers: str) -> Act:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return lambda handler: handler.answer(status, text, named)

    def embeds(self, *values: object) -> Act:
        return self.says(200, {"data": [{"index": 0, "embedding": list(values)}]})

    def hangs(self) -> Act:
        return lambda handler: self.over.wait(600)

    def hangs_up(self) -> Act:
        return lambda handler: None

    def drips(self, text: bytes) -> Act:
        """A byte now and then, for ever."""

        def act(handler: Handler) -> None:
            try:
                while not self.over.wait(0.02):
                    handler.wfile.write(text)
            except OSError:
                pass

        return act

    def drips_a_body(self) -> Act:
        def act(handler: Handler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000000")
            handler.end_headers()
            self.drips(b" ")(handler)

        return act


@contextmanager
def running_provider() -> Iterator[Provider]:
    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider = Provider(f"http://127.0.0.1:{server.server_port}/v1")
    server.provider = provider
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.over.set()
        server.shutdown()
        server.server_close()
        thread.join(600)
