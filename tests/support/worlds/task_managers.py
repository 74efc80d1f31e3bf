"""A job master that does what a test says: it deploys a job graph on task managers of this process and listens."""

import functools
import threading
import time
import uuid

from flinkbuf._core.operators.function_operator import MapOperator
from flinkbuf.runtime.graph.job_graph import build_job_graph
from flinkbuf.runtime.graph.job_plan import plan_of
from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph
from flinkbuf.runtime.graph.transformation import KeyedExchange, OperatorTransformation, PartitionTransformation
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.manager_link import link_pair
from flinkbuf.runtime.manager.running_task import RunningTask
from flinkbuf.runtime.manager.shuffle import LocalShuffle, segments_needed
from flinkbuf.runtime.manager.task_manager import TaskManager
from flinkbuf.runtime.protocol.deployment import (
    AttemptId,
    GateDescriptor,
    PartitionDescriptor,
    TaskDeploymentDescriptor,
)
from flinkbuf.runtime.protocol.messages import (
    AcknowledgeReport,
    CancelTask,
    DeployTasks,
    HeartbeatReport,
    HeartbeatRequest,
    ManagerLeaving,
    OperatorEventReport,
    RegisterManager,
    RegistrationAccepted,
    ReleaseManager,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.places import PartitionLocation
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sinks.sink_factories import CallableSinkFactory
from flinkbuf.streaming.sources.source_factories import CollectionSourceFactory

SESSION = "5e55" * 8
FINAL = ("FINISHED", "CANCELED", "FAILED")


def graph_of(elements, function, collect, parallelism=1, **settings):
    """elements -> map(function) -> by key -> map(+ 1) -> collect."""
    factory = elements if hasattr(elements, "create") or callable(elements) else CollectionSourceFactory(elements)
    source = OperatorTransformation("numbers", None, [], factory=factory, is_source=True, parallelism=1)
    first = OperatorTransformation("first", None, [source], factory=functools.partial(make_map, function))
    keyed = PartitionTransformation(
        "key", None, [first], partitioner=KeyedExchange(lambda value: value % 7), ship_strategy="HASH"
    )
    second = OperatorTransformation("second", None, [keyed], factory=functools.partial(MapOperator, add_one))
    sink = OperatorTransformation(
        "sink", None, [second], factory=CallableSinkFactory(collect), is_sink=True, parallelism=1
    )
    return build_job_graph(build_stream_graph([sink], GraphSettings("numbers", parallelism=parallelism, **settings)))


def make_map(function):
    """Of a callable, or of a MapFunction."""
    return MapOperator(function.map, function) if hasattr(function, "map") else MapOperator(function)


def add_one(value):
    return value + 1


class Master:
    """Speaks with managers, and keeps all that they say."""

    def __init__(self, graph, settings=None, heartbeat_timeout_ms=50_000, acknowledges=True):
        self.graph, self.settings = graph, settings or ExecutionSettings()
        self.plan = plan_of(graph, uuid.uuid4().hex)
        self.heartbeat_timeout_ms, self.acknowledges = heartbeat_timeout_ms, acknowledges
        self.said = []  # (manager_id, message)
        self.news = threading.Condition()
        self.connections, self.managers, self.threads, self.reasons = {}, {}, {}, {}
        self.where = {}  # attempt -> manager_id

    def add(self, manager_id="m0", shuffle=None, slot_count=1, link=None, **options):
        """Start a manager on a thread of this process."""
        bundle = options.pop("bundle", None) or JobBundle.of(self.graph, self.plan.job_id, self.settings)
        on_message = functools.partial(self.hear, manager_id)
        made, connection = link_pair(on_message, lambda reason: on_message(ManagerLeaving(f"closed: {reason}")))
        shuffle = shuffle or LocalShuffle(segments_needed(self.plan))
        manager = TaskManager(
            bundle,
            link or made,
            manager_id=manager_id,
            run=1,
            index=len(self.managers),
            slot_count=slot_count,
            shuffle=shuffle,
            make_task=RunningTask,
            can_kill_process=False,
            **options,
        )
        self.connections[manager_id], self.managers[manager_id] = connection, manager
        thread = threading.Thread(target=self._serve, args=(manager_id,), name=f"manager {manager_id}", daemon=True)
        self.threads[manager_id] = thread
        thread.start()
        self.wait(lambda: any(isinstance(each, RegisterManager) for each in self.messages(manager_id)))
        self.tell(manager_id, RegistrationAccepted(SESSION, 10_000, self.heartbeat_timeout_ms))
        return manager

    def _serve(self, manager_id):
        self.reasons[manager_id] = self.managers[manager_id].run()

    def hear(self, manager_id, message):
        with self.news:
            self.said.append((manager_id, message))
            self.news.notify_all()
        if self.acknowledges and isinstance(message, TaskStateReport) and message.state in FINAL:
            self.tell(manager_id, AcknowledgeReport(SESSION, message.attempt))

    def tell(self, manager_id, message):
        self.connections[manager_id].send(message)

    def messages(self, manager_id=None, kind=object):
        return [each for who, each in list(self.said) if manager_id in (None, who) and isinstance(each, kind)]

    def wait(self, condition, timeout_s=20):
        with self.news:
            assert self.news.wait_for(condition, timeout_s), self.said

    # ---- tasks ------------------------------------------------------------------------------------------

    def attempt(self, vertex, subtask, number=0):
        return AttemptId(self.plan.vertices[vertex].id, subtask, number)

    def partition_id(self, vertex, subtask, partition, number=0):
        digits = f"{partition + 1:032x}{partition:08x}{self.plan.job_id}{self.plan.vertices[vertex].id}"
        return f"{digits}{subtask:08x}{number:08x}"

    def descriptor(self, vertex, subtask, number=0):
        plan, mine = self.plan, self.plan.vertices[vertex]
        outputs = sorted((edge for edge in plan.edges if edge.source == vertex), key=lambda edge: edge.partition_index)
        inputs = sorted((edge for edge in plan.edges if edge.target == vertex), key=lambda edge: edge.gate_index)
        return TaskDeploymentDescriptor(
            self.attempt(vertex, subtask, number),
            mine.name,
            mine.parallelism,
            mine.max_parallelism,
            0,
            tuple(
                PartitionDescriptor(
                    self.partition_id(vertex, subtask, edge.partition_index, number),
                    plan.subpartition_count(edge, subtask),
                )
                for edge in outputs
            ),
            tuple(
                GateDescriptor(
                    plan.channels_of(edge, subtask)[0][1],
                    tuple(self.location(edge, producer, number) for producer, _ in plan.channels_of(edge, subtask)),
                )
                for edge in inputs
            ),
        )

    def location(self, edge, producer, number):
        manager_id = self.where[self.attempt(edge.source, producer, number)]
        registration = self.messages(manager_id, RegisterManager)[0]
        name = self.partition_id(edge.source, producer, edge.partition_index, number)
        return PartitionLocation(name, registration.host, registration.data_port)

    def deploy(self, vertex, subtask, manager_id="m0", number=0):
        self.where[self.attempt(vertex, subtask, number)] = manager_id
        self.tell(manager_id, DeployTasks(SESSION, (self.descriptor(vertex, subtask, number),)))

    def deploy_all(self, number=0, place=None):
        """Producers first; place(vertex, subtask) -> manager_id."""
        managers = list(self.managers)
        for vertex, mine in enumerate(self.plan.vertices):
            for subtask in range(mine.parallelism):
                manager_id = place(vertex, subtask) if place else managers[subtask % len(managers)]
                self.deploy(vertex, subtask, manager_id, number)

    def cancel(self, attempt):
        self.tell(self.where[attempt], CancelTask(SESSION, attempt))

    def reports(self, attempt):
        return [each for each in self.messages(kind=TaskStateReport) if each.attempt == attempt]

    def states(self, attempt):
        return [each.state for each in self.reports(attempt)]

    def final(self, attempt):
        return next((each for each in self.reports(attempt) if each.state in FINAL), None)

    def attempts(self, number=0):
        return [
            self.attempt(vertex, subtask, number)
            for vertex, mine in enumerate(self.plan.vertices)
            for subtask in range(mine.parallelism)
        ]

    def wait_for_end(self, number=0, timeout_s=20):
        self.wait(lambda: all(self.final(each) for each in self.attempts(number)), timeout_s)
        return [self.final(each).state for each in self.attempts(number)]

    def wait_for_state(self, attempt, state, timeout_s=20):
        self.wait(lambda: state in self.states(attempt), timeout_s)

    def heartbeat(self, manager_id="m0", sequence=1):
        self.tell(manager_id, HeartbeatRequest(SESSION, sequence))
        answers = lambda: [each for each in self.messages(manager_id, HeartbeatReport) if each.sequence == sequence]  # noqa: E731
        self.wait(answers)
        return answers()[0]

    def events(self):
        return self.messages(kind=OperatorEventReport)

    # ---- the end ----------------------------------------------------------------------------------------

    def release(self, timeout_s=20):
        for manager_id in self.managers:
            self.tell(manager_id, ReleaseManager(SESSION, "the job is over"))
        deadline = time.monotonic() + timeout_s
        for thread in self.threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
            assert not thread.is_alive(), thread.name

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.release()
