"""A tiny S3 server that misbehaves on request, for what a good server never shows.

It knows one bucket, single objects with both conditions, and deletion. Before a write it looks
whether the test has scripted something for it.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from omnigraph.settings import Settings

BUCKET = "bucket"


class ScriptedS3:
    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.script: deque[Callable[[Exchange, Callable[[], None]], None]] = deque()
        self.is_blind = False
        """True if conditions are ignored."""
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.port = 0

    @property
    def root(self) -> str:
        return f"s3://{BUCKET}/graph"

    @property
    def settings(self) -> Settings:
        return Settings.from_environment(
            {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
                "AWS_ACCESS_KEY_ID": "AKIA-KEY-ID",
                "AWS_SECRET_ACCESS_KEY": "very-secret",
            }
        )

    # What can be scripted for the next write. `proceed` carries the write out and answers.

    def fail_before(self, status, code="InternalError", body_extra=""):
        self.script.append(lambda exchange, _: exchange.refuse(status, code, body_extra))

    def fail_after(self, status, code="InternalError"):
        def act(exchange, proceed):
            with exchange.muted():
                proceed()
            exchange.refuse(status, code)

        self.script.append(act)

    def hang_up_after(self):
        def act(exchange, proceed):
            with exchange.muted():
                proceed()
            exchange.hang_up()

        self.script.append(act)

    def fail_for(self, name, code):
        """Answer as if one of the objects to be deleted could not be, and delete the others."""

        def act(exchange, proceed):
            exchange.remove([*exchange.names], {name: code})

        self.script.append(act)

    def do_first(self, action):
        def act(exchange, proceed):
            action()
            proceed()

        self.script.append(act)


class Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: ScriptedS3
    is_muted = False

    def log_message(self, *arguments):
        pass

    @contextmanager
    def muted(self):
        self.is_muted = True
        yield
        self.is_muted = False

    def answer(self, status, body=b"", headers=()):
        if self.is_muted:
            return
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, extra=""):
        self.answer(status, f"<Error><Code>{code}</Code>{extra}</Error>".encode())

    def hang_up(self):
        self.close_connection = True
        self.connection.close()

    def do_GET(self):
        self.scripted.requests.append(self.command)
        if not self.is_in_bucket():
            return
        if "list-type" in self.path:
            self.answer(200, b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")
            return
        found = self.scripted.objects.get(self.path)
        if found is None:
            self.refuse(404, "NoSuchKey")
            return
        data, metadata = found
        stamp = ("Last-Modified", "Sun, 15 Nov 2026 05:00:00 GMT")
        self.answer(200, data, [("ETag", tag_of(data)), stamp, *metadata.items()])

    do_HEAD = do_GET

    def is_in_bucket(self):
        if self.path.split("?")[0].split("/")[1] == BUCKET:
            return True
        self.refuse(404, "NoSuchBucket")
        return False

    def read_body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_PUT(self):
        data = self.read_body()
        if self.is_in_bucket():
            self.write(lambda: self.store(data))

    def do_POST(self):
        self.names = re.findall(r"<Key>(.*?)</Key>", self.read_body().decode())
        if self.is_in_bucket():
            self.write(lambda: self.remove(self.names))

    def write(self, proceed):
        with self.scripted.lock:
            self.scripted.requests.append(self.command)
            if self.scripted.script:
                self.scripted.script.popleft()(self, proceed)
            else:
                proceed()

    def remove(self, names, refused=()):
        refused = dict(refused)
        listed = "".join(
            f"<Error><Key>{name}</Key><Code>{code}</Code><Message>no</Message></Error>"
            for name, code in refused.items()
        )
        for name in set(names) - set(refused):
            self.scripted.objects.pop(f"/{BUCKET}/{name}", None)
            listed += f"<Deleted><Key>{name}</Key></Deleted>"
        self.answer(200, f"<DeleteResult>{listed}</DeleteResult>".encode())

    def store(self, data):
        current = self.scripted.objects.get(self.path)
        wanted = self.headers.get("If-Match")
        if not self.scripted.is_blind:
            if self.headers.get("If-None-Match") == "*" and current is not None:
                self.refuse(412, "PreconditionFailed")
                return
            if wanted is not None and (current is None or tag_of(current[0]) != wanted):
                self.refuse(412, "PreconditionFailed")
                return
        kept = {k: v for k, v in self.headers.items() if k.lower().startswith("x-amz-meta-")}
        self.scripted.objects[self.path] = (data, kept)
        self.answer(200, headers=[("ETag", tag_of(data))])


def tag_of(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


@contextmanager
def running_scripted_s3() -> Iterator[ScriptedS3]:
    scripted = ScriptedS3()
    handler = type("Handler", (Exchange,), {"scripted": scripted})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    scripted.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield scripted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
