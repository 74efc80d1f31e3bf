"""Flink's REST API over pictures: paths, fields and types are Flink's, errors have its bodies; no socket is open."""

import json
from concurrent.futures import Future
from pathlib import Path

import pytest
from support.worlds.checkpoint_world import CheckpointWorld
from support.worlds.master_world import SESSION, MasterWorld, error, pipeline

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.picture.job_details import headline_of
from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import HeartbeatReport
from flinkbuf.runtime.scheduler.master_actions import CancelJob
from flinkbuf.web.router import METHODS, Answer, Cluster, Later, Request
from flinkbuf.web.routes import ROUTER, answer
from flinkbuf.web.served_job import OPERATIONS_MAX, Operations, ServedJob

FLINK = json.loads((Path(__file__).parent / "flink_rest_v1.json").read_text())
JOB = "0b" * 16
SINK = b"sink".hex().ljust(32, "0")
OPERATOR = {
    "operator_id": "sink",
    "name": "sink",
    "records_in": 3,
    "records_out": 1,
    "metrics": {"seen": 5, "size": {"p99": 2.5, "count": 3}},
}


class Job:
    """What a RunningJob is to those who serve it."""

    silence_s = 0.0

    def __init__(self, world):
        self.maker = PictureMaker(world.job)
        self.world = world
        self.asked = []
        self.future = Future()

    @property
    def picture(self):
        return self.maker.make(self.world.now_ms)

    def cancel(self):
        self.asked.append("cancel")

    def trigger_checkpoint(self, kind):
        self.asked.append(kind)
        return self.future

    def trigger_savepoint(self, directory, kind):
        self.asked.append((directory, kind))
        return self.future

    def inspect_manager(self, manager_id, subject):
        self.asked.append((manager_id, subject))
        future = Future()
        future.set_result({"log": "all is well\n"} if subject == "log" else {"threadInfos": []})
        return future


def beat(world, records):
    for manager_id in set(world.place.values()):
        here = tuple(each for each, place in world.place.items() if place == manager_id and each in world.tasks)
        told = {
            "records_in": records,
            "records_out": 2 * records,
            "busy_ms": 5,
            "watermark": 7,
            "operators": [OPERATOR],
        }
        metrics = {str(each): {**told, "records_in": records * (each.subtask_index + 1)} for each in here}
        accumulators = {str(each): {"lines": {"type": "IntCounter", "value": 2}} for each in here}
        world.say(manager_id, HeartbeatReport(SESSION, 1, here, metrics, accumulators, {"resident_bytes": 99}))


def full_world():
    """Everything has happened once: a checkpoint, a savepoint, one that failed, a restart, metrics."""
    world = CheckpointWorld(restart=None)
    world.begin()
    world.complete()
    world.report(world.attempt(0, 0), "FAILED", error())
    world.begin_again()
    world.now_ms += 1000
    beat(world, 10)
    world.now_ms += 1000
    beat(world, 30)
    return world


@pytest.fixture(scope="module")
def world():
    return full_world()


@pytest.fixture
def cluster(world):
    return Cluster({JOB: ServedJob(Job(world), {"state.backend.type": "hashmap"})})


def get(cluster, path, **query):
    made = answer(Request("GET", path, {name: [value] for name, value in query.items()}), cluster)
    json.dumps(made.body, allow_nan=False)
    return made


def fits(value, shape, where, wrong):
    """Note in `wrong` where a value is not what Flink would give."""
    if isinstance(shape, str) and shape.startswith("@"):
        shape = FLINK[shape[1:]]
    if shape == "*" or value is None:
        return
    kinds = {"i": int, "n": (int, float), "s": str, "b": bool}
    if isinstance(shape, str):
        is_nan = shape == "n" and value == "NaN"
        if not (isinstance(value, kinds[shape]) or is_nan) or (shape in "in" and isinstance(value, bool)):
            wrong.append(f"{where}: {value!r} is not {shape}")
    elif isinstance(shape, list):
        assert isinstance(value, list), where
        for number, each in enumerate(value):
            fits(each, shape[0], f"{where}[{number}]", wrong)
    elif list(shape) == ["*"]:
        for name, each in value.items():
            fits(each, shape["*"], f"{where}.{name}", wrong)
    else:
        for name, each in shape.items():
            if name not in value:
                wrong.append(f"{where}.{name} is missing")
            else:
                fits(value[name], each, f"{where}.{name}", wrong)


def filled(path, world):
    manager = next(iter(world.job.managers.registered))
    attempt = world.job.graph.vertices[1].subtasks[1].current.attempt.attempt_number
    names = {":jobid": JOB, ":vertexid": SINK, ":checkpointid": "1", ":subtaskindex": "1", ":taskmanagerid": manager}
    for name, value in {**names, ":attempt": str(attempt)}.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize("path", FLINK["answers"])
def test_answers_have_flinks_fields_and_types(path, cluster, world):
    made = get(cluster, filled(path, world))
    assert made.status == 200, made.body
    wrong = []
    fits(made.body, FLINK["answers"][path], path, wrong)
    assert not wrong


def test_a_shape_that_does_not_fit_would_be_found():
    wrong = []
    fits({"a": "1", "c": [{"d": True}]}, {"a": "i", "b": "s", "c": [{"d": "n"}]}, "x", wrong)
    assert wrong == ["x.a: '1' is not i", "x.b is missing", "x.c[0].d: True is not n"]


def test_every_path_that_is_read_is_compared_with_flink_or_is_our_own():
    own = {"/jobs/:jobid/picture", "/picture", "/metrics", "/openapi.json", "/health", "/health/live", "/health/ready"}
    later = {f"/jobs/:jobid/{command}/:triggerid" for command in ("savepoints", "checkpoints", "rescaling")}  # below
    later.add("/jobs/:jobid/vertices/:vertexid/flamegraph")
    later |= {
        f"/{who}/{what}" for who in ("jobmanager", "taskmanagers/:taskmanagerid") for what in ("log", "thread-dump")
    }
    paths = {path for method, path in ROUTER.paths if method == "GET"}
    assert paths == FLINK["answers"].keys() | own | later


# ---- what they say


def test_flame_graphs_are_what_the_job_says_of_the_task_asked_for(cluster):
    vertex, asked = get(cluster, f"/jobs/{JOB}/picture").body["vertices"][0]["id"], []
    graph = {"endTimestamp": 5, "data": {"name": "root", "value": 0, "children": []}}

    def flame_graph(*arguments):
        asked.append(arguments)
        return graph

    cluster.jobs[JOB].flame_graph = flame_graph
    path = f"/jobs/{JOB}/vertices/{vertex}/flamegraph"
    assert get(cluster, path).body == graph
    assert get(cluster, path, type="on_cpu", subtaskindex="0").body == graph
    assert asked == [(vertex, None, "FULL"), (vertex, 0, "ON_CPU")]
    assert get(cluster, path, type="all").status == 400
    assert get(cluster, path, subtaskindex="-1").status == 400
    assert get(cluster, path, subtaskindex="99").status == 404


def test_a_task_manager_is_asked_about_its_process(cluster, world):
    manager = next(iter(world.job.managers.registered))
    log = answer(Request("GET", f"/taskmanagers/{manager}/log"), cluster)
    assert isinstance(log, Later)
    assert log.make(log.future.result()) == Answer("all is well\n", content_type="text/plain; charset=UTF-8")
    threads = answer(Request("GET", f"/taskmanagers/{manager}/thread-dump"), cluster)
    assert threads.make(threads.future.result()) == {"threadInfos": []}
    assert get(cluster, "/taskmanagers/nobody/log").status == 404
    cluster.jobs[JOB].end()
    assert get(cluster, f"/taskmanagers/{manager}/log").status == 404


def test_an_attempt_says_what_it_has_failed_with(cluster, world):
    vertex = world.job.graph.vertices[0]
    path = f"/jobs/{JOB}/vertices/{vertex.plan.id}/subtasks/0/attempts"
    first, second = (get(cluster, f"{path}/{number}").body for number in (0, 1))
    assert (first["status"], first["failure"]) == ("FAILED", headline_of(error()))
    assert (second["status"], second["failure"]) == ("RUNNING", None)


def test_the_program_says_what_its_threads_do(cluster):
    infos = get(cluster, "/jobmanager/thread-dump").body["threadInfos"]
    (own,) = [each for each in infos if each["threadName"] == "MainThread"]
    assert own["stringifiedThreadInfo"].startswith('"MainThread" Id=')
    assert "test_the_program_says_what_its_threads_do" in own["stringifiedThreadInfo"]


def test_lists_of_jobs(cluster):
    (line,) = get(cluster, "/jobs/overview").body["jobs"]
    assert (line["jid"], line["state"], line["tasks"]["running"], line["tasks"]["total"]) == (JOB, "RUNNING", 4, 4)
    assert get(cluster, "/jobs").body == {"jobs": [{"id": JOB, "status": "RUNNING"}]}
    overview = get(cluster, "/overview").body
    assert (overview["jobs-running"], overview["taskmanagers"], overview["slots-available"]) == (1, 2, 0)


def test_the_configuration_is_what_was_given_and_the_parameters_are_flat(world):
    parameters = {"user": "ada", "db.password": "******"}
    served = ServedJob(Job(world), {"b": "2", "a": "1"}, job_parameters=parameters)
    cluster = Cluster({JOB: served})
    entries = [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]
    assert get(cluster, f"/jobs/{JOB}/jobmanager/config").body == entries
    assert get(cluster, "/jobmanager/config").body == entries
    assert get(cluster, f"/jobs/{JOB}/config").body["execution-config"]["user-config"] == parameters


def test_exceptions_can_be_cut(cluster):
    assert len(get(cluster, f"/jobs/{JOB}/exceptions").body["exceptionHistory"]["entries"]) == 1
    cut = get(cluster, f"/jobs/{JOB}/exceptions", maxExceptions="0").body["exceptionHistory"]
    assert cut == {"entries": [], "truncated": True}


def test_the_execution_result_comes_with_the_end():
    world = MasterWorld(pipeline())
    world.start().register_all()
    world.all_report("INITIALIZING", "RUNNING")
    cluster = Cluster({JOB: ServedJob(Job(world))})
    assert get(cluster, f"/jobs/{JOB}/execution-result").body["status"]["id"] == "IN_PROGRESS"
    world.report(world.attempt(0, 0), "FAILED", error())
    world.all_report("CANCELED")
    assert world.job.status is JobStatus.FAILED
    result = get(cluster, f"/jobs/{JOB}/execution-result").body["job-execution-result"]
    assert (result["application-status"], result["failure-cause"]["class"]) == ("FAILED", "builtins.ValueError")


# ---- metrics


def test_metrics_are_asked_for_by_name(cluster):
    path = f"/jobs/{JOB}/vertices/{SINK}"
    assert {"id": "1.numRecordsIn"} in get(cluster, path + "/metrics").body
    made = get(cluster, path + "/metrics", get="0.numRecordsIn,1.sink.size_p99,1.nothing").body
    assert made == [{"id": "0.numRecordsIn", "value": "30"}, {"id": "1.sink.size_p99", "value": "2.5"}]
    assert get(cluster, path + "/subtasks/1/metrics", get="numRecordsIn").body == [
        {"id": "numRecordsIn", "value": "60"}
    ]
    assert get(cluster, f"/jobs/{JOB}/metrics", get="numRestarts").body == [{"id": "numRestarts", "value": "1"}]


def test_metrics_over_subtasks(cluster):
    path = f"/jobs/{JOB}/vertices/{SINK}/subtasks/metrics"
    (made,) = get(cluster, path, get="numRecordsIn").body
    assert made == {"id": "numRecordsIn", "min": 30, "max": 60, "sum": 90, "avg": 45, "skew": pytest.approx(100 / 3)}
    assert get(cluster, path, get="numRecordsIn", subtasks="1-9", agg="max").body == [{"id": "numRecordsIn", "max": 60}]
    assert {"id": "numRecordsIn"} in get(cluster, path).body
    (made,) = get(cluster, "/taskmanagers/metrics", get="Status.Process.Memory.Resident", agg="sum").body
    assert made["sum"] == 198
    (made,) = get(cluster, "/jobs/metrics", get="numRestarts", agg="sum", jobs=JOB).body
    assert made["sum"] == 1


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        (f"/jobs/{JOB}/vertices/{SINK}/subtasks/metrics", {"get": "x", "agg": "mode"}, "parameter (agg) from value"),
        (f"/jobs/{JOB}/vertices/{SINK}/subtasks/metrics", {"get": "x", "subtasks": "1-"}, "parameter (subtasks)"),
        (f"/jobs/{JOB}/exceptions", {"maxExceptions": "-1"}, "query parameter (maxExceptions) from value"),
        (f"/jobs/{JOB}/picture", {"subtasks": "10001"}, "query parameter (subtasks)"),
        ("/jobs/abc", {}, 'Cannot resolve path parameter (jobid) from value "abc".'),
        (f"/jobs/{JOB}/checkpoints/details/x", {}, "path parameter (checkpointid)"),
        (f"/jobs/{JOB}/vertices/none", {}, "path parameter (vertexid)"),
        ("/jobs/metrics", {"jobs": "x"}, "query parameter (jobs)"),
    ],
)
def test_what_cannot_be_read_is_a_bad_request(path, query, text, cluster):
    made = get(cluster, path, **query)
    assert made.status == 400 and text in made.body["errors"][0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/nothing", "Not found: /nothing"),
        (f"/jobs/{'1' * 32}", f"Job {'1' * 32} not found"),
        (f"/jobs/{JOB}/vertices/{'3' * 32}", f"JobVertex {'3' * 32} not found"),
        (f"/jobs/{JOB}/vertices/{SINK}/subtasks/2", "Invalid subtask index"),
        (f"/jobs/{JOB}/vertices/{SINK}/subtasks/0/attempts/9", "attempt 9"),
        (f"/jobs/{JOB}/checkpoints/details/77", "checkpoint 77"),
        (f"/jobs/{JOB}/savepoints/{'2' * 32}", "no operation"),
        ("/taskmanagers/nobody", "Could not find TaskExecutor nobody"),
    ],
)
def test_what_is_not_there_is_not_found(path, text, cluster):
    made = get(cluster, path)
    assert made.status == 404 and text in made.body["errors"][0]


def test_another_method_is_told_which_ones_there_are(cluster):
    made = answer(Request("PUT", f"/jobs/{JOB}"), cluster)
    assert made.status == 405 and "use GET or PATCH" in made.body["errors"][0] and "PUT" in METHODS


# ---- Prometheus


def test_prometheus_scrapes_all_metrics(cluster):
    made = get(cluster, "/metrics")
    lines = made.body.splitlines()
    assert made.content_type.startswith("text/plain; version=0.0.4")
    assert f'flink_jobmanager_job_numRestarts{{job_id="{JOB}",job_name="pipeline"}} 1' in lines
    (line,) = [
        each
        for each in lines
        if each.startswith("flink_taskmanager_job_task_numRecordsIn{")
        and "sink" in each
        and 'subtask_index="1"' in each
    ]
    assert line.endswith(" 60")
    assert "# TYPE flink_taskmanager_job_task_operator_size summary" in lines
    assert any(
        each.startswith("flink_taskmanager_job_task_operator_size{") and 'quantile="0.99"' in each for each in lines
    )
    types = [each for each in lines if each.startswith("# TYPE")]
    assert len(types) == len(set(types)), "a family stands in one place"
    assert "None" not in made.body and made.body.endswith("\n")


# ---- commands


def ask(cluster, method, path, body=None, **query):
    return answer(Request(method, path, {name: [value] for name, value in query.items()}, body or {}), cluster)


def test_cancel(cluster):
    assert (ask(cluster, "PATCH", f"/jobs/{JOB}").status, cluster.jobs[JOB]._job.asked) == (202, ["cancel"])
    assert ask(cluster, "PATCH", f"/jobs/{JOB}", mode="stop").status == 308
    assert ask(cluster, "PATCH", f"/jobs/{JOB}", mode="kill").status == 400


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("savepoints", {"target-directory": "/s"}, SnapshotKind.SAVEPOINT),
        ("stop", {"targetDirectory": "/s"}, SnapshotKind.SAVEPOINT_SUSPEND),
        ("stop", {"targetDirectory": "/s", "drain": True}, SnapshotKind.SAVEPOINT_TERMINATE),
    ],
)
def test_savepoints_are_asked_for_again_by_their_id(path, body, kind, cluster):
    job = cluster.jobs[JOB]._job
    made = ask(cluster, "POST", f"/jobs/{JOB}/{path}", body)
    assert made.status == 202 and job.asked == [("/s", kind)]
    status = f"/jobs/{JOB}/savepoints/{made.body['request-id']}"
    assert get(cluster, status).body["status"] == {"id": "IN_PROGRESS"}
    job.future.set_result("/s/savepoint-1")
    assert get(cluster, status).body == {"status": {"id": "COMPLETED"}, "operation": {"location": "/s/savepoint-1"}}


def test_a_savepoint_that_fails_says_why(cluster):
    trigger_id = ask(cluster, "POST", f"/jobs/{JOB}/savepoints", {"target-directory": "/s"}).body["request-id"]
    cluster.jobs[JOB]._job.future.set_exception(ValueError("no directory"))
    cause = get(cluster, f"/jobs/{JOB}/savepoints/{trigger_id}").body["operation"]["failure-cause"]
    assert cause["class"] == "builtins.ValueError" and "no directory" in cause["stack-trace"]


def test_who_asks_twice_with_one_id_begins_one_savepoint(cluster):
    body = {"triggerId": "AB" * 16, "target-directory": "/s"}
    for _ in range(2):
        assert ask(cluster, "POST", f"/jobs/{JOB}/savepoints", body).body == {"request-id": "ab" * 16}
    assert len(cluster.jobs[JOB]._job.asked) == 1


def test_cancel_comes_after_its_savepoint_and_not_without(cluster):
    job = cluster.jobs[JOB]._job
    ask(cluster, "POST", f"/jobs/{JOB}/savepoints", {"cancel-job": True, "target-directory": "/s"})
    assert "cancel" not in job.asked
    job.future.set_result("/s")
    assert job.asked[-1] == "cancel"


@pytest.mark.parametrize(("path", "name"), [("savepoints", "target-directory"), ("stop", "targetDirectory")])
def test_a_savepoint_has_to_go_somewhere(path, name, cluster):
    for body in ({}, {name: None}, {name: ""}):
        made = ask(cluster, "POST", f"/jobs/{JOB}/{path}", body)
        key = "execution.checkpointing.savepoint-dir"
        assert made.body["errors"] == [f"Config key [{key}] is not set. Property [{name}] must be provided."]
        assert made.status == 400
    assert not cluster.jobs[JOB]._job.asked


def test_a_savepoint_goes_where_the_program_has_said():
    job = Job(CheckpointWorld(savepoint_directory="/saved").begin())
    made = ask(Cluster({JOB: ServedJob(job)}), "POST", f"/jobs/{JOB}/savepoints")
    assert made.status == 202 and job.asked == [(None, SnapshotKind.SAVEPOINT)]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, SnapshotKind.CHECKPOINT),
        ({"checkpointType": "CONFIGURED"}, SnapshotKind.CHECKPOINT),
        ({"checkpointType": "INCREMENTAL"}, SnapshotKind.CHECKPOINT),
        ({"checkpointType": "FULL", "triggerId": "AB" * 16}, SnapshotKind.FULL_CHECKPOINT),
    ],
)
def test_a_checkpoint_is_asked_for_again_by_its_id(body, kind, cluster):
    job = cluster.jobs[JOB]._job
    made = ask(cluster, "POST", f"/jobs/{JOB}/checkpoints", body)
    assert made.status == 202 and job.asked == [kind]
    status = f"/jobs/{JOB}/checkpoints/{made.body['request-id']}"
    assert get(cluster, status).body == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    job.future.set_result(7)
    assert get(cluster, status).body == {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 7}}


def test_a_checkpoint_that_fails_says_why_under_flinks_name(cluster):
    trigger_id = ask(cluster, "POST", f"/jobs/{JOB}/checkpoints").body["request-id"]
    cluster.jobs[JOB]._job.future.set_exception(ValueError("a task declined"))
    operation = get(cluster, f"/jobs/{JOB}/checkpoints/{trigger_id}").body["operation"]
    assert "a task declined" in operation["failureCause"]["stack-trace"]


@pytest.mark.parametrize("body", [{"checkpointType": "NONE"}, {"checkpointType": 5}, {"triggerId": "x"}])
def test_a_checkpoint_of_no_known_type_is_refused(body, cluster):
    made = ask(cluster, "POST", f"/jobs/{JOB}/checkpoints", body)
    assert made.status == 400
    assert made.body["errors"] == ["Request did not match expected format CheckpointTriggerRequestBody."]
    assert not cluster.jobs[JOB]._job.asked


def test_paths_may_begin_with_the_version(cluster):
    assert get(cluster, f"/v1/jobs/{JOB}/status").body == get(cluster, f"/jobs/{JOB}/status").body
    assert get(cluster, "/v2/jobs").status == get(cluster, "/v1").status == 404


@pytest.mark.parametrize(
    "path",
    [
        f"/jobs/{'1' * 32}/metrics",
        f"/jobs/{JOB}/vertices/{'1' * 32}/metrics",
        f"/jobs/{JOB}/vertices/{'1' * 32}/subtasks/metrics",
        f"/jobs/{JOB}/vertices/{SINK}/subtasks/9/metrics",
        "/taskmanagers/nobody/metrics",
    ],
)
def test_what_is_not_there_has_no_metrics(path, cluster):
    assert get(cluster, path).body == []


def test_resources_are_in_mebibytes_and_memory_in_bytes(world, cluster):
    metrics = {"managed_memory_total": 64 << 20, "totalMemory": 32 << 20, "machine_bytes": 8 << 30}
    for manager_id in world.job.managers.registered:
        world.say(manager_id, HeartbeatReport(SESSION, 2, (), {}, {}, metrics))
    for manager in get(cluster, "/taskmanagers").body["taskmanagers"]:
        assert (manager["totalResource"]["managedMemory"], manager["totalResource"]["networkMemory"]) == (64, 32)
        assert manager["memoryConfiguration"]["networkMemory"] == 32 << 20
        assert manager["hardware"]["physicalMemory"] == manager["memoryConfiguration"]["totalProcessMemory"] == 8 << 30


@pytest.mark.parametrize(
    "body", [{"target-directory": 5}, {"cancel-job": "yes"}, {"triggerId": "x"}, {"formatType": "OTHER"}]
)
def test_a_body_of_another_shape_is_refused(body, cluster):
    made = ask(cluster, "POST", f"/jobs/{JOB}/savepoints", {"target-directory": "/s"} | body)
    assert made.status == 400
    assert made.body["errors"] == ["Request did not match expected format SavepointTriggerRequestBody."]
    assert not cluster.jobs[JOB]._job.asked


def test_rescaling_is_asked_of_the_program(cluster):
    assert ask(cluster, "PATCH", f"/jobs/{JOB}/rescaling").status == 400
    assert ask(cluster, "PATCH", f"/jobs/{JOB}/rescaling", parallelism="4").status == 503
    asked, done = [], Future()
    done.set_result("1c" * 16)
    cluster.jobs[JOB].rescale = lambda parallelism: (asked.append(parallelism), done)[1]
    trigger_id = ask(cluster, "PATCH", f"/jobs/{JOB}/rescaling", parallelism="4").body["request-id"]
    assert asked == [4]
    assert get(cluster, f"/jobs/{JOB}/rescaling/{trigger_id}").body["operation"] == {"job-id": "1c" * 16}


def test_a_job_that_is_over_shows_its_last_picture_and_takes_no_commands():
    world = full_world()
    served = ServedJob(Job(world))
    cluster = Cluster({JOB: served})
    world.tell(CancelJob())
    world.all_report("CANCELED")
    served.end()
    page = get(cluster, f"/jobs/{JOB}/picture").body
    assert (page["state"], page["can-command"]) == ("CANCELED", False)
    assert ask(cluster, "POST", f"/jobs/{JOB}/stop").status == 409
    assert ask(cluster, "PATCH", f"/jobs/{JOB}").status == 202, "it is what was asked for"
    assert get(cluster, "/taskmanagers").body == {"taskmanagers": []}
    assert get(cluster, f"/jobs/{JOB}/vertices/{SINK}/backpressure").body == {"status": "deprecated"}
    for each in world.job.managers.registered:
        assert get(cluster, f"/taskmanagers/{each}").status == 404, "it is gone, another job may have one of its name"
    assert get(cluster, "/metrics").body == ""


def test_what_was_begun_is_forgotten_at_last():
    operations, ids = Operations(), []
    for _ in range(OPERATIONS_MAX + 1):
        ids.append(operations.add(JOB, Future()))
    assert operations.find(JOB, ids[0]) is None and operations.find(JOB, ids[1]) is not None


def test_the_newest_job_has_the_short_path(cluster):
    assert get(cluster, "/picture").body["jid"] == JOB
    assert get(Cluster(), "/picture").status == 404
