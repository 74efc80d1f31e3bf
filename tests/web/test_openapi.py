"""The description of the REST API is made from its routes, and no request, right or wrong, fails the server."""

import contextlib
import http.client
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_routes import JOB, SINK, Job, full_world

from flinkbuf.web.openapi import description_of
from flinkbuf.web.routes import ROUTER
from flinkbuf.web.served_job import ServedJob
from flinkbuf.web.server import JobServer

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402


@pytest.fixture(scope="module")
def server():
    job = Job(full_world())
    job.flame_graph = lambda vertex, subtask, kind: {"endTimestamp": -3}
    with contextlib.closing(JobServer()) as made:
        made.add(ServedJob(job, {"a": "b"}, lambda parallelism: job.future))
        job.future.set_result("done")
        made.cluster.operations.add(JOB, job.future, TRIGGER)
        yield made


def test_all_routes_are_described_and_it_is_served(server):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.request("GET", "/v1/openapi.json")
        served = json.loads(connection.getresponse().read())
    assert served == json.loads(json.dumps(description_of(ROUTER)))
    described = {(method.upper(), path) for path, methods in served["paths"].items() for method in methods}
    assert len(described) == len(ROUTER.paths) == len(set(ROUTER.paths))
    for methods in served["paths"].values():
        for method, operation in methods.items():
            assert operation["summary"].endswith("."), "each has a sentence"
            assert ("security" in operation) == (method != "get"), "whatever changes something needs a token"


TRIGGER = "ab" * 16
DESCRIBED = schemathesis.openapi.from_dict(description_of(ROUTER))
KNOWN = {"jobid": JOB, "vertexid": SINK, "subtaskindex": "0", "attempt": "0", "checkpointid": "1", "triggerid": TRIGGER}


def _can_be_wrong(operation):
    return operation.path_parameters or operation.query or operation.body


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fits", "does not fit"])
@pytest.mark.parametrize(("method", "path"), ROUTER.paths)
def test_no_request_is_a_failure(server, method, path, mode):
    operation = DESCRIBED[re.sub(":([a-z]+)", r"{\1}", path)][method]
    if mode is GenerationMode.NEGATIVE and (path.endswith(":taskmanagerid") or not _can_be_wrong(operation)):
        return
    statuses = set()

    @settings(max_examples=8, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(case=operation.as_strategy(generation_mode=mode), is_known=st.integers(0, 3))
    def ask(case, is_known):
        KNOWN["taskmanagerid"] = server.cluster.jobs[JOB].picture.managers[0].id
        if is_known:  # else whatever was drawn, which is not there
            case.path_parameters.update({name: KNOWN[name] for name in case.path_parameters if name in KNOWN})
        token = {"Authorization": f"Bearer {server.token}"}
        response = case.call(base_url=f"http://127.0.0.1:{server.port}", headers=token)
        case.validate_response(response, checks=[not_a_server_error])
        statuses.add(response.status_code)

    ask()
    assert statuses and 401 not in statuses, statuses
    if mode is GenerationMode.POSITIVE:
        assert statuses & {200, 202}, f"{method} {path} was never answered: {statuses}"
