"""Requests made from the OpenAPI document: every answer is one that the document describes."""

from __future__ import annotations

import copy
import json
import os
import random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from omnigraph.operations.openapi import describe_api
from omnigraph.operations.operation_table import ROUTES
from server.serving import Server

FEW = 2
MANY = int(os.environ.get("OMNIGRAPH_TEST_REQUESTS", "150"))
SECRETS = (b"Traceback", b".omni", b"/tmp", b"site-packages", b'File "')


@pytest.fixture(scope="module")
def document():
    """Return the OpenAPI document of a server with one graph."""
    schemathesis = pytest.importorskip("schemathesis")

    @schemathesis.serializer("application/x-ndjson")
    def as_lines(_: object, value: object) -> bytes:
        return value if isinstance(value, bytes) else json.dumps(value).encode()

    body = copy.deepcopy(describe_api(has_auth=False))
    for methods in body["paths"].values():
        for one in methods.values():
            for parameter in one["parameters"]:
                if parameter["name"] == "graph_id":
                    parameter["schema"] = {"enum": ["people"]}
    return schemathesis.openapi.from_dict(body)


def try_operation(server: Server, document, operation: str, count: int, chance: int) -> None:
    from schemathesis import GenerationMode, checks

    kept = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]
    route = next(one for one in ROUTES if one.operation == operation)
    described = document[route.path][route.method]
    print(f"seed {chance}")
    # Where everything may be left out and anything may be given, no request is wrong.
    can_be_wrong = route.is_of_graph
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)[: 1 + can_be_wrong]:
        strategy = described.as_strategy(generation_mode=mode)

        @seed(chance)
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def run(case) -> None:
            answer = case.call(base_url=f"http://{server.address}")
            case.validate_response(answer, checks=kept)
            sent = repr((case.path_parameters, case.query, case.headers, case.body)).encode()
            for secret in SECRETS:
                assert secret in sent or secret not in answer.content, answer.content

        run()


OPERATIONS = [route.operation for route in ROUTES]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_answers_are_what_the_document_says(shared, document, operation: str) -> None:
    try_operation(shared, document, operation, FEW, random.randrange(1 << 32))
    assert "Traceback" not in shared.log


@pytest.mark.fuzz
@pytest.mark.parametrize("operation", OPERATIONS)
def test_many_answers_are_what_the_document_says(shared, document, operation: str) -> None:
    try_operation(shared, document, operation, MANY, random.randrange(1 << 32))
    assert "Traceback" not in shared.log
