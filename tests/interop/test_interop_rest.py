"""Flink's REST API, asked of a real cluster and of us about the same jobs: paths, fields, types and statuses are one.

What is not the same stands in the tables below, with the reason; a line that is not true any more fails a test.
"""

import itertools

import pytest
from rest_requests import NOBODY, REQUESTS
from rest_shapes import Shape, differences, kind_of
from rest_sides import JOBS, FlinkSide, OurSide

from flinkbuf.web.routes import ROUTER

# ---- what is not the same

OURS = "/jobs/:jobid/picture", "/picture", "/metrics", "/openapi.json"

JAVA, CLUSTER = "it is about a Java process", "there is no cluster that outlives its jobs"
LOGS = "logs go where Python's logging sends them; the last MiB of each process is its log"
ABSENT = {
    "DELETE /cluster": CLUSTER,
    "GET /datasets": CLUSTER,
    "GET /datasets/delete/:triggerid": CLUSTER,
    "DELETE /datasets/:datasetid": CLUSTER,
    "POST /jobs": "a job is run by its program",
    "PATCH /jobs/:jobid/clientHeartbeat": "a job ends with its program",
    "GET /jobmanager/environment": JAVA,
    "GET /jobs/:jobid/jobmanager/environment": JAVA,
    "GET /jobmanager/logs": LOGS,
    "GET /jobmanager/logs/:filename": LOGS,
    "GET /jobmanager/stdout": LOGS,
    "GET /jobs/:jobid/jobmanager/log-url": LOGS,
    "GET /jobs/:jobid/taskmanagers/:taskmanagerid/log-url": LOGS,
    "GET /taskmanagers/:taskmanagerid/logs": LOGS,
    "GET /taskmanagers/:taskmanagerid/logs/:filename": LOGS,
    "GET /taskmanagers/:taskmanagerid/stdout": LOGS,
    "POST /jobs/:jobid/coordinators/:operatorUid": "coordinators take no requests",
    "GET /jobs/:jobid/vertices/:vertexid/jm-operator-metrics": "coordinators have no metrics",
    "GET /jobs/:jobid/resource-requirements": "PATCH /jobs/:jobid/rescaling does what it is for",
    "PUT /jobs/:jobid/resource-requirements": "PATCH /jobs/:jobid/rescaling does what it is for",
    "POST /savepoint-disposal": "a savepoint is a directory that its owner deletes",
    "GET /savepoint-disposal/:triggerid": "a savepoint is a directory that its owner deletes",
    "GET /jobs/:jobid/yarn-cancel": "there is no YARN",
    "GET /jobs/:jobid/yarn-stop": "there is no YARN",
    "GET /:*": "files of the page lie under /static",
}

V1 = "Flink 1 has it: for tools that look for it there"
NEXT = "Flink 2.3 has it"
STAYS = "what a job reported last can be read after its end"
MORE = {
    "/config": {".flinkbuf-version": "who answers"},
    "/overview": {".flinkbuf-version": "who answers"},
    "/jobs/overview": {".jobs[].job-type": NEXT},
    "/jobs/:jobid/config": {".execution-config.execution-mode": V1},
    "/jobs/:jobid/exceptions": {
        ".root-exception": V1,
        ".timestamp": V1,
        ".exceptionHistory.entries[].message": "it heads a failure; in Flink it is the end of the stacktrace",
        ".exceptionHistory.entries[].failureLabels[]": "operator and record; in Flink these come from plug-ins",
        ".exceptionHistory.entries[].restarted": "what a failure took down",
    },
    "/jobs/:jobid/checkpoints": {
        ".history[].metadata_size": NEXT,
        ".latest.completed.metadata_size": NEXT,
    },
    "/jobs/:jobid/checkpoints/details/:checkpointid": {".metadata_size": NEXT},
    "/jobs/:jobid/metrics": {"[]": STAYS},
    "/jobs/:jobid/vertices/:vertexid": {".subtasks[].host": V1},
    "/jobs/:jobid/vertices/:vertexid/metrics": {"[]": STAYS},
    "/jobs/:jobid/vertices/:vertexid/subtasks/accumulators": {".subtasks[].host": V1},
    "/jobs/:jobid/vertices/:vertexid/subtasks/metrics": {"[]": STAYS},
    "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex": {".host": V1},
    "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt": {
        ".failure": "why it began again",
        ".host": V1,
    },
    "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics": {"[]": STAYS},
    "/jobs/:jobid/vertices/:vertexid/subtasktimes": {".subtasks[].host": V1},
    "/jobs/:jobid/vertices/:vertexid/taskmanagers": {".taskmanagers[].host": V1},
    "/jobs/:jobid/vertices/:vertexid/watermarks": {"[]": STAYS},
    "/taskmanagers": {".taskmanagers[].process_id": "to find it on its machine"},
    "/taskmanagers/:taskmanagerid": {".process_id": "to find it on its machine"},
}
LESS = {
    "/jobs/:jobid/execution-result": {
        ".job-execution-result.accumulator-results[]": "serialized by Java; /jobs/:jobid/accumulators has them as text",
    },
    "/taskmanagers/:taskmanagerid": {".metrics.garbageCollectors[]": JAVA},
}
DIFFERENCES = {path: MORE.get(path, {}) | LESS.get(path, {}) for path in MORE.keys() | LESS.keys()}

# Which it is depends on when one asks.
SOMETIMES = {
    "/jobs/:jobid/checkpoints": (".latest.completed", ".latest.failed", ".history[]"),
    "/jobs/:jobid/exceptions": (
        ".exceptionHistory.entries[].concurrentExceptions[]",
        ".exceptionHistory.entries[].endpoint",  # these three: what ends a Flink job may be no task's failure
        ".exceptionHistory.entries[].taskManagerId",
        ".exceptionHistory.entries[].taskName",
    ),
}

# ---- words that mean something, beside the states, which Flink counts by name

LEVELS, CHECKPOINTS = {"ok", "low", "high"}, {"IN_PROGRESS", "COMPLETED", "FAILED"}
TYPES = {"CHECKPOINT", "UNALIGNED_CHECKPOINT", "SAVEPOINT", "SYNC_SAVEPOINT"}
JOB_STATES, TASK_STATES = ".timestamps", ".vertices[].tasks"
WORDS = {
    "/jobs": {".jobs[].status": JOB_STATES},
    "/jobs/overview": {".jobs[].state": JOB_STATES},
    "/jobs/:jobid": {
        ".state": JOB_STATES,
        ".vertices[].status": TASK_STATES,
        ".plan.type": {"STREAMING", "BATCH"},
        ".plan.nodes[].inputs[].ship_strategy": {"HASH"},
        ".plan.nodes[].inputs[].exchange": {"pipelined_bounded"},
    },
    "/jobs/:jobid/status": {".status": JOB_STATES},
    "/jobs/:jobid/accumulators": {".user-task-accumulators[].type": {"IntCounter"}},
    "/jobs/:jobid/checkpoints": {
        ".history[].status": CHECKPOINTS,
        ".history[].checkpoint_type": TYPES,
        ".history[].className": {"in_progress", "completed", "failed"},
    },
    "/jobs/:jobid/checkpoints/config": {".mode": {"exactly_once", "at_least_once"}},
    "/jobs/:jobid/checkpoints/details/:checkpointid": {".status": CHECKPOINTS, ".checkpoint_type": TYPES},
    "/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid": {
        ".status": CHECKPOINTS,
        ".subtasks[].status": {"completed", "pending_or_failed"},
    },
    "/jobs/:jobid/execution-result": {
        ".status.id": {"IN_PROGRESS", "COMPLETED"},
        ".job-execution-result.application-status": {"SUCCEEDED", "FAILED", "CANCELED", "UNKNOWN"},
    },
    "/jobs/:jobid/vertices/:vertexid": {".subtasks[].status": TASK_STATES},
    "/jobs/:jobid/vertices/:vertexid/backpressure": {
        ".status": {"ok", "deprecated"},
        ".backpressureLevel": LEVELS,
        ".subtasks[].backpressureLevel": LEVELS,
    },
    "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex": {".status": TASK_STATES},
    "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt": {".status": TASK_STATES},
    "/jobs/:jobid/vertices/:vertexid/taskmanagers": {".taskmanagers[].status": TASK_STATES},
}


# ---- the two


@pytest.fixture(scope="module")
def flink(start_peer, tmp_path_factory):
    side = FlinkSide(start_peer(), tmp_path_factory.mktemp("flink-cluster"))
    for job in JOBS.values():
        side.run(job)
    yield side
    side.close()


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    side = OurSide(tmp_path_factory.mktemp("our-jobs"))
    for job in JOBS.values():
        side.run(job)
    yield side
    side.close()


@pytest.fixture(scope="module")
def both(flink, ours):
    """They have come to where the jobs have to be, and everything has happened that is looked at."""
    sides = flink, ours
    for side in sides:
        side.await_state("failed", "FAILED")
        side.await_state("finished", "FINISHED")
        for name in ("running", "restarted"):
            path = f"/jobs/{side.jobs[name]}"
            side.until(f"{path}/checkpoints", lambda body: body["counts"]["completed"] >= 3)
            side.until(f"{path}/accumulators", lambda body: has_counted(body["user-task-accumulators"]))
            first, last = side.vertices(name)
            side.until(f"{path}/vertices/{last}/watermarks", lambda body: len(body) == 2)
            for vertex in (first, last):
                side.until(f"{path}/vertices/{vertex}/metrics", lambda body: {"id": "1.numRecordsIn"} in body)
                side.until(f"{path}/vertices/{vertex}/backpressure", lambda body: len(body.get("subtasks", ())) == 2)
                if name == "running":
                    side.until(f"{path}/vertices/{vertex}/flamegraph", lambda body: "data" in body)
        side.until("/taskmanagers/metrics", bool)
    return sides


def has_counted(accumulators):
    return any(each["value"] not in ("0", "0.0") for each in accumulators)


PATHS = sorted(
    path
    for method, path in ROUTER.paths
    if method == "GET" and path not in OURS and "trigger" not in path and not path.endswith("/log")  # Flink's is a file
)


def filled(side, path, name):
    """Yield the path for each thing of a job that it may be about."""
    job = side.jobs[name]
    vertices = side.vertices(name) if ":vertexid" in path else [""]
    managers, checkpoints = [""], [""]
    if ":taskmanagerid" in path:
        managers = [each["id"] for each in side.get("/taskmanagers")["taskmanagers"]]
    if ":checkpointid" in path:
        history = side.get(f"/jobs/{job}/checkpoints")["history"]
        checkpoints = [str(each["id"]) for each in history if each["status"] == "COMPLETED"][:1]
    subtasks = "01" if ":subtaskindex" in path else " "
    attempts = "01" if ":attempt" in path and name in ("restarted", "failed") else "0"
    for vertex, manager, checkpoint, subtask, attempt in itertools.product(
        vertices, managers, checkpoints, subtasks, attempts
    ):
        made = path.replace(":jobid", job).replace(":vertexid", vertex).replace(":taskmanagerid", manager)
        yield made.replace(":checkpointid", checkpoint).replace(":subtaskindex", subtask).replace(":attempt", attempt)


def shape_of(side, path, name):
    shape = Shape()
    for each in filled(side, path, name):
        reply = side.ask("GET", each)
        assert reply.status == 200, (each, reply)
        assert reply.content_type == "application/json; charset=UTF-8"
        shape.add(reply.body)
    return shape


def test_there_are_no_other_paths_than_flinks_and_none_that_is_missing_unsaid(flink):
    theirs = {f"{method} {path}" for method, path in flink.paths}
    own = {f"{method} {path}" for method, path in ROUTER.paths}
    assert own - theirs == {f"GET {path}" for path in OURS}
    assert theirs - own == ABSENT.keys()


@pytest.mark.parametrize("path", PATHS)
def test_fields_and_types_are_flinks(path, both):
    flink, ours = both
    found = {}
    for name in JOBS if ":jobid" in path else ["running"]:
        if path.endswith("/flamegraph") and name == "restarted":
            continue  # another look at threads, which takes its time
        theirs, own = shape_of(flink, path, name), shape_of(ours, path, name)
        for at, text in differences(theirs, own):
            found.setdefault(at, f"{name}: {text}")
        look_at_words(path, theirs, own, flink)
    known, sometimes = DIFFERENCES.get(path, {}), SOMETIMES.get(path, "?")
    assert {at: text for at, text in found.items() if at not in known and not at.startswith(sometimes)} == {}
    assert [at for at in known if at not in found] == [], "it is not different any more"


def look_at_words(path, theirs, own, flink):
    for at, words in WORDS.get(path, {}).items():
        if isinstance(words, str):
            (states,) = Shape(flink.get(f"/jobs/{flink.jobs['running']}")).at(words)
            words = states.fields.keys()
        for side in (theirs, own):
            assert {text for shape in side.at(at) for text in shape.texts} <= set(words), at


@pytest.mark.parametrize("path", [path for path in PATHS if path.count("/") < 3])
def test_paths_may_begin_with_the_version(path, both):
    for side in both:
        for each in filled(side, path, "running"):
            assert side.ask("GET", f"/v1{each}").status == 200


# ---- what is asked with parameters, and what cannot be answered


def ask(side, request, directory):
    words = {"JOB": side.jobs["running"], "OVER": side.jobs["finished"], "NOBODY": NOBODY, "DIRECTORY": str(directory)}
    words["VERTEX"] = side.vertices("running")[0]
    for word, value in words.items():
        request = request.replace(word, value)
    method, path, *body = request.split(" ", 2)
    return side.ask(method, path, *body)


@pytest.mark.parametrize("request_text", REQUESTS)
def test_parameters_and_errors(request_text, both, tmp_path):
    theirs, own = (ask(side, request_text, tmp_path) for side in both)
    reason = REQUESTS[request_text]
    if reason is not None:
        assert own.status != theirs.status, f"it is not different any more: {reason}"
    else:
        assert (own.status, own.content_type) == (theirs.status, theirs.content_type), (own, theirs)
    for reply in (theirs, own):
        if reply.status >= 300:
            assert list(reply.body) == ["errors"] and reply.body["errors"], reply
            assert {kind_of(each) for each in reply.body["errors"]} == {"text"}
    if reason is None and own.status < 300:
        known = MORE["/jobs/:jobid/exceptions"] if "/exceptions" in request_text else {}
        assert [each for each in differences(Shape(theirs.body), Shape(own.body)) if each[0] not in known] == []


# ---- commands


def begun(side, name):
    """A job that takes no checkpoint before somebody asks."""
    side.run(JOBS["running"], name, {"execution.checkpointing.interval": "1 h"})
    path = f"/jobs/{side.jobs[name]}"
    side.until(path, lambda body: [each["tasks"]["RUNNING"] for each in body["vertices"]] == [2, 2])
    return path


def outcome(side, path, command, body, statuses):
    """Ask for something, and then again and again what has become of it."""
    reply = side.ask("POST", f"{path}/{command}", body)
    assert reply.status == 202 and list(reply.body) == ["request-id"], reply
    asked = Shape()
    done = side.until(
        f"{path}/{statuses}/{reply.body['request-id']}",
        lambda body: (asked.add(body), body["status"]["id"] == "COMPLETED")[1],
    )
    assert {text for shape in asked.at(".status.id") for text in shape.texts} <= {"IN_PROGRESS", "COMPLETED"}
    return done


@pytest.fixture(scope="module")
def stopped(both, tmp_path_factory):
    """What each has said to the commands, one after the other, of a job that ends with the last."""
    made = []
    for side in both:
        path, folder = begun(side, "stopped"), str(tmp_path_factory.mktemp("savepoints"))
        said = {
            name: outcome(side, path, "checkpoints", body, "checkpoints")
            for name, body in {
                "checkpoint": {},
                "full": {"checkpointType": "FULL"},
                "named": {"checkpointType": "CONFIGURED", "triggerId": "ab" * 16},
            }.items()
        }
        said["savepoint"] = outcome(side, path, "savepoints", {"target-directory": folder}, "savepoints")
        nowhere = {"target-directory": "/proc/nowhere"}
        said["refused"] = outcome(side, path, "savepoints", nowhere, "savepoints")
        said["stop"] = outcome(side, path, "stop", {"targetDirectory": folder, "drain": True}, "savepoints")
        side.await_state("stopped", "FINISHED")
        said["checkpoints"] = side.get(f"{path}/checkpoints")
        made.append(said)
    return made


@pytest.mark.parametrize("name", ["checkpoint", "full", "named", "savepoint", "refused", "stop"])
def test_what_becomes_of_a_command(name, stopped):
    theirs, own = (said[name] for said in stopped)
    assert list(differences(Shape(theirs), Shape(own))) == []


def test_a_checkpoint_that_was_asked_for_is_one_of_the_jobs(stopped):
    for said in stopped:
        numbers = [said[name]["operation"]["checkpointId"] for name in ("checkpoint", "full", "named")]
        history = reversed(said["checkpoints"]["history"])
        assert numbers == [each["id"] for each in history][: len(numbers)]


def test_savepoints_in_the_statistics(stopped):
    theirs, own = (Shape(said["checkpoints"]["latest"]["savepoint"]) for said in stopped)
    assert dict(differences(theirs, own)) == {".metadata_size": "more than Flink has"}
    assert [said["checkpoints"]["latest"]["savepoint"]["checkpoint_type"] for said in stopped] == ["SYNC_SAVEPOINT"] * 2


def test_cancel(both):
    for side in both:
        path = begun(side, "cancelled")
        reply = side.ask("PATCH", f"{path}?mode=cancel")
        assert (reply.status, reply.body) == (202, {})
        side.await_state("cancelled", "CANCELED")
        assert side.ask("PATCH", path).status == 202, "it is what was asked for"
        result = side.get(f"{path}/execution-result")
        assert result["job-execution-result"]["application-status"] == "CANCELED"


# ---- the tables and what compares would find it


def test_a_difference_would_be_found():
    theirs = Shape({"a": 1, "b": 0.5, "c": [{"d": "x"}], "e": None, "f": {"0" * 32: 1}, "g": [1], "h": True})
    own = Shape({"a": 1.5, "b": 1, "c": [{"d": "x", "i": 1}, {}], "e": "x", "f": {"1" * 32: "x"}, "g": []})
    assert dict(differences(theirs, own)) == {
        ".a": "number for integer",
        ".c[].d": "sometimes for always",
        ".c[].i": "more than Flink has",
        ".e": "text for null",
        ".f[]": "text for integer",
        ".g[]": "nothing for something",
        ".h": "missing",
    }


def test_objects_of_one_class_are_compared_with_their_like():
    theirs = Shape([{"className": "a", "x": 1}, {"className": "b", "y": 1}])
    assert not list(differences(theirs, Shape([{"className": "b", "y": 2}])))
    assert list(differences(theirs, Shape([{"className": "b", "x": 2}])))
