"""Starting, stopping and reading the configuration again."""

import json
import shutil
import signal
import socket
from pathlib import Path

import pytest

from omnigraph.errors import BadRequest
from omnigraph.server.serving_config import Address, ServeFlags, Store, read_options
from omnigraph.server.tokens import RuntimeState, classify_state
from server.serving import ALL, boot, serving
from waiting import wait_until

TOKENS = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"


@pytest.mark.parametrize(
    ("tokens", "policy", "unauthenticated", "state"),
    [
        (False, False, False, None),
        (False, False, True, RuntimeState.OPEN),
        (True, False, False, RuntimeState.DEFAULT_DENY),
        (True, False, True, RuntimeState.DEFAULT_DENY),
        (False, True, False, None),
        (False, True, True, None),
        (True, True, False, RuntimeState.POLICY_ENABLED),
        (True, True, True, RuntimeState.POLICY_ENABLED),
    ],
)
def test_the_state_follows_from_tokens_and_policy(tokens, policy, unauthenticated, state) -> None:
    def classify():
        return classify_state(
            has_tokens=tokens, has_policy=policy, is_unauthenticated=unauthenticated
        )

    if state is None:
        with pytest.raises(Exception, match="token"):
            classify()
    else:
        assert classify() is state


def test_without_tokens_it_refuses_to_start_unless_configured_to(people) -> None:
    done = boot("--store", str(people))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "--unauthenticated" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("stores", "settings", "said"),
    [
        (("x/people.omni", "y/people.omni"), {}, "two graphs have the id 'people'"),
        (("x/pe ople",), {}, "cannot be the id of a graph"),
        (("x=graphs",), {}, "cannot be the id of a graph"),
        ((), {}, "no graph to serve"),
        (("x",), {"grace_s": "soon"}, "OMNIGRAPH_SHUTDOWN_GRACE_SECONDS"),
    ],
)
def test_flags_that_cannot_be_meant_are_refused(stores, settings, said) -> None:
    with pytest.raises(BadRequest, match=said):
        read_options(ServeFlags(stores=stores, settings=settings), {})


@pytest.mark.parametrize("text", ["nowhere", "127.0.0.1:99999", "127.0.0.1:", ":80", "a:b", "a:-1"])
def test_an_address_has_a_host_and_a_port(text) -> None:
    with pytest.raises(BadRequest, match="HOST:PORT"):
        Address.parse(text)
    assert Address.parse("[::1]:80") == Address("::1", 80)
    assert str(Address("::1", 80)) == "[::1]:80"


def test_a_graph_is_named_after_its_folder_or_as_configured() -> None:
    called = {text: Store.parse(text) for text in ("a/people.omni", "s3://b/g=team-a", "y=1/g/")}
    assert called == {
        "a/people.omni": Store("a/people.omni", "people"),
        "s3://b/g=team-a": Store("s3://b/g", "team-a"),
        "y=1/g/": Store("y=1/g/", "g"),
    }


def test_an_address_in_use_is_refused(people) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = boot("--store", str(people), "--unauthenticated", "--bind", address)
    assert done.returncode == 1
    assert "cannot listen" in done.stderr


def test_a_graph_that_cannot_be_opened_is_quarantined_and_served_after_a_reload(
    people, tmp_path
) -> None:
    other = tmp_path / "other.omni"
    with serving(people, other) as server:
        assert server.get("/readyz").body["quarantined_graph_count"] == 1
        assert server.get("/graphs/other/schema").status == 404
        assert server.get("schema").status == 200
        shutil.copytree(people, other)
        server.signal(signal.SIGHUP)
        wait_until(lambda: server.get("/graphs/other/schema").status == 200)
        ready = server.get("/readyz").body
        assert (ready["quarantined_graph_count"], ready["served_graph_count"]) == (0, 2)
        assert ready["state_revision"] == 2


def test_with_every_graph_required_a_bad_one_keeps_it_from_starting(people, tmp_path) -> None:
    missing = str(tmp_path / "missing.omni")
    strict = boot(
        "--store", str(people), "--store", missing, "--unauthenticated", "--require-all-graphs"
    )
    assert strict.returncode == 1
    assert "missing" in strict.stderr
    nothing = boot("--store", missing, "--unauthenticated")
    assert nothing.returncode == 1
    assert "no graph can be served" in nothing.stderr


def test_a_signal_to_stop_ends_an_idle_server_with_zero(server) -> None:
    kept = server.connect()
    kept.request("GET", "/healthz")
    kept.getresponse().read()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert '"stopped"' in server.log or "stopped" in server.log
    kept.close()


def test_a_request_that_does_not_end_is_cut_off_when_the_grace_is_over(people) -> None:
    _make_large(people)
    flags = ("--unauthenticated", "--shutdown-grace-seconds", "1")
    with serving(people, flags=flags) as server:
        stuck = _start_export(server)
        try:
            server.signal(signal.SIGTERM)
            assert server.wait() == 2
        finally:
            stuck.close()


def test_a_second_signal_ends_it_at_once(people) -> None:
    _make_large(people)
    with serving(people, flags=("--unauthenticated",)) as server:
        stuck = _start_export(server)
        try:
            server.signal(signal.SIGTERM)
            wait_until(lambda: "draining" in server.log)
            server.signal(signal.SIGTERM)
            assert server.wait() == 2
        finally:
            stuck.close()


def test_tokens_are_read_again_on_a_signal_and_a_bad_file_changes_nothing(people, tmp_path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"maria": "first"}))
    given = {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(file)}
    with serving(people, flags=(), **given) as server:

        def status(token: str) -> int:
            return server.get("schema", token=token).status

        assert (status("first"), status("second")) == (200, 401)
        file.write_text(json.dumps({"maria": ["first", "second"]}))
        server.signal(signal.SIGHUP)
        wait_until(lambda: status("second") == 200)
        file.write_text("{")
        server.signal(signal.SIGHUP)
        wait_until(lambda: "reload refused" in server.log)
        assert (status("first"), status("second")) == (200, 200)
        file.write_text(json.dumps({"maria": "second"}))
        server.signal(signal.SIGHUP)
        wait_until(lambda: status("first") == 401)


def test_health_answers_without_a_token_and_names_no_graph(people) -> None:
    with serving(people, flags=(), **{TOKENS: '{"maria": "t"}'}) as server:
        health = server.get("/healthz")
        assert health.status == 200
        assert health.body["status"] == "ok"
        assert "people" not in server.get("/readyz").data.decode()
        assert server.get("/openapi.json").status == 200


def test_stdout_has_one_line_and_the_log_is_json_where_requested(people) -> None:
    with serving(people, OMNIGRAPH_LOG_FORMAT="json") as server:
        server.post("query", {"query": ALL}, headers={"X-Request-Id": "abc-1"})
        # The line of a request follows its answer.
        wait_until(lambda: '"event": "request"' in server.log and server.log.endswith("\n"))
        lines = [json.loads(line) for line in server.log.splitlines()]
        mine = [line for line in lines if line.get("request_id") == "abc-1"]
        assert {line["event"] for line in mine} == {"policy decision", "request"}
        assert mine[-1]["status"] == 200
        assert mine[-1]["rows"] == 2
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert server.process.stdout.read() == ""


def _make_large(place: Path) -> None:
    import omnigraph

    records = ({"type": "Person", "data": {"name": f"{n:06}" + "x" * 2_000}} for n in range(20_000))
    omnigraph.open(place).load(records, "append")


def _start_export(server) -> socket.socket:
    """An export whose client does not read."""
    client = socket.create_connection((server.host, server.port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sendall(
        f"POST {server.graph}/export HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()
    )
    assert client.recv(64).startswith(b"HTTP/1.1 200")
    return client
