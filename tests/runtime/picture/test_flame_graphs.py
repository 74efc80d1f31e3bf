"""Flame graphs: trees of calls, who is asked for them and when, and a real job whose threads are looked at."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import wait_until
from support.worlds.task_managers import graph_of

from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.driver.target import target_named
from flinkbuf.runtime.manager.stack_sampler import REQUESTS_MAX, StackSampler
from flinkbuf.runtime.picture.flame_graphs import KEPT, PATIENCE_MS, REFRESH_MS, WAITING, FlameGraphs
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.runtime.protocol.flame_tree import MORE, TERMINATED, FlameTree
from flinkbuf.targets.launcher_process import end_launcher

ONE = {"name": "root", "on": 2, "off": 1, "children": [{"name": "run:1", "on": 2, "off": 1, "children": []}]}


def size_of(tree):
    return 1 + sum(map(size_of, tree["children"]))


# ---- the tree


@given(
    st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=6), st.booleans()), max_size=40), st.integers(1, 30)
)
def test_a_tree_counts_every_sample_and_stays_small(samples, most):
    tree = FlameTree(most)
    for stack, is_on_cpu in samples:
        tree.add(stack, is_on_cpu=is_on_cpu)
    assert tree.sample_count == len(samples)
    assert size_of(tree.root) <= 2 * most
    for kind, wanted in (("FULL", len(samples)), ("ON_CPU", sum(on for _, on in samples))):
        shown = tree.shown(kind)
        assert shown["value"] == wanted
        pending = [shown]
        while pending:
            node = pending.pop()
            assert sum(child["value"] for child in node["children"]) <= node["value"]
            assert all(child["value"] > 0 for child in node["children"])
            pending += node["children"]


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=5), max_size=20), st.integers(0, 20))
def test_trees_merge_into_what_one_tree_would_have_been(stacks, cut):
    whole, first, second = FlameTree(1000), FlameTree(1000), FlameTree(1000)
    for place, stack in enumerate(stacks):
        whole.add(stack, is_on_cpu=True)
        (first if place < cut else second).add(stack, is_on_cpu=True)
    first.merge(second.root)

    def plain(node):
        return node["name"], node["on"], sorted(map(plain, node["children"]))

    assert plain(first.root) == plain(whole.root)


@pytest.mark.parametrize(
    "bad", [{}, {"on": 1, "off": "x", "children": []}, [], None, {"on": 1, "off": 1, "children": [3]}]
)
def test_what_is_no_tree_is_refused(bad):
    with pytest.raises(ValueError, match="not a tree of calls"):
        FlameTree(10).merge(bad)


def test_what_there_is_no_room_for_is_counted_to_the_last_call_there_is():
    tree = FlameTree(nodes_max=2)
    for stack in (["a", "b"], ["a", "c"], ["d"]):
        tree.add(stack, is_on_cpu=True)
    assert [child["name"] for child in tree.root["children"]] == ["a", MORE]
    assert tree.root["children"][0]["children"] == [{"name": MORE, "on": 2, "off": 0, "children": []}]


# ---- who is asked, and when


def test_a_graph_is_asked_for_once_and_again_when_it_is_old():
    graphs = FlameGraphs()
    assert graphs.ask("v", None, "FULL", 0) == (WAITING, 1)
    assert graphs.ask("v", None, "ON_CPU", 10) == (WAITING, None)
    graphs.sent(1, ["m0", "m1"], 10)
    graphs.answered("m0", 1, ONE, 2_000)
    assert graphs.ask("v", None, "FULL", 2_000) == (WAITING, None)
    graphs.answered("m0", 1, ONE, 2_010)  # comes twice
    graphs.answered("stranger", 1, ONE, 2_020)
    graphs.answered("m1", 1, ONE, 2_100)
    graph, request = graphs.ask("v", None, "FULL", 2_200)
    assert (graph["endTimestamp"], graph["data"]["value"], request) == (2_100, 6, None)
    assert graphs.ask("v", None, "OFF_CPU", 2_200)[0]["data"]["value"] == 2
    graph, request = graphs.ask("v", None, "FULL", 2_101 + REFRESH_MS)
    assert (graph["endTimestamp"], request) == (2_100, 2)


def test_whoever_does_not_answer_is_not_waited_for():
    graphs = FlameGraphs()
    graphs.ask("v", 3, "FULL", 0)
    graphs.sent(1, ["m0", "m1"], 0)
    graphs.answered("m0", 1, ONE, 900)
    graph, request = graphs.ask("v", 3, "FULL", PATIENCE_MS + 1)
    assert (graph["data"]["value"], request) == (3, None)
    graphs.answered("m1", 1, ONE, PATIENCE_MS + 2)
    assert graphs.ask("v", 3, "FULL", PATIENCE_MS + 3)[0]["data"]["value"] == 3


def test_a_task_that_does_not_run_yet_and_one_whose_manager_is_silent_are_asked_again():
    graphs = FlameGraphs()
    graphs.ask("v", None, "FULL", 0)
    graphs.sent(1, [], 5)
    assert graphs.ask("v", None, "FULL", 6) == (WAITING, 2)
    graphs.sent(2, ["m0"], 6)
    assert graphs.ask("v", None, "FULL", PATIENCE_MS) == (WAITING, None)
    assert graphs.ask("v", None, "FULL", PATIENCE_MS + 7) == (WAITING, 3)


def test_only_the_last_graphs_are_kept():
    graphs = FlameGraphs()
    for number in range(KEPT + 1):
        graphs.ask("v", number, "FULL", 0)
    assert graphs.key_of(1) is None
    graphs.sent(1, ["m0"], 0)
    graphs.answered("m0", 1, ONE, 1)
    assert graphs.key_of(2) == ("v", 1)
    with pytest.raises(ValueError, match="type must be one of FULL, ON_CPU, OFF_CPU, got 'all'"):
        graphs.ask("v", 0, "all", 0)


# ---- threads


class Busy:
    """Two threads: one works, one waits."""

    def __init__(self):
        self.over = threading.Event()
        self.threads = [threading.Thread(target=each, daemon=True) for each in (self.work_hard, self.wait_long)]

    def work_hard(self):
        while not self.over.is_set():
            sum(range(2_000))

    def wait_long(self):
        self.over.wait()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self.threads

    def __exit__(self, *error):
        self.over.set()
        for thread in self.threads:
            thread.join()


def names_of(tree, kind):
    return {each["name"].rpartition(":")[0] for each in tree["children"] if each[kind]} | {
        name for each in tree["children"] for name in names_of(each, kind)
    }


def names_in(shown):
    return {shown["name"].rpartition(":")[0]}.union(*map(names_in, shown["children"]))


def ends_with(names, text):
    return any(name.endswith(text) for name in names)


def test_what_threads_do_is_seen_and_whether_they_work():
    answered, answers = threading.Event(), []
    sampler = StackSampler(lambda request, tree: (answers.append((request, tree)), answered.set()))
    with Busy() as threads:
        assert sampler.ask(7, threads, 12, 10)
        assert answered.wait(10)
    ((request, tree),) = answers
    assert request == 7
    assert 4 <= tree["on"] + tree["off"] <= 24
    assert ends_with(names_of(tree, "on"), "work_hard")
    assert ends_with(names_of(tree, "off"), "wait_long")
    assert not ends_with(names_of(tree, "on"), "wait_long")
    sampler.close()


def test_samplers_are_bounded_and_end_at_once():
    answers = []
    sampler = StackSampler(lambda request, tree: answers.append(request))
    with Busy() as threads:
        started = time.monotonic()
        asked = [sampler.ask(number, threads, 10**6, 10**6) for number in range(REQUESTS_MAX + 3)]
        sampler.close()
        assert time.monotonic() - started < 20  # one wait alone would be 1,000 s
    assert asked.count(False) in (2, 3)  # the first may already have been begun
    assert answers == []
    assert not sampler.ask(1, threads, 1, 10)
    assert not [each for each in threading.enumerate() if each.name == "stack sampler"]


def test_a_thread_that_has_ended_is_nobody_to_look_at():
    answered, answers = threading.Event(), []
    sampler = StackSampler(lambda request, tree: (answers.append(tree), answered.set()))
    with Busy() as threads:
        pass
    assert sampler.ask(1, threads, 2, 10)
    assert answered.wait(10)
    assert answers == [{"name": "root", "on": 0, "off": 0, "children": []}]
    sampler.close()


# ---- a job


def slow_parse(value):
    deadline = time.thread_time() + 0.002
    while time.thread_time() < deadline:
        pass
    return value


@pytest.mark.parametrize("target", ["embedded", "local"])
def test_a_jobs_task_is_looked_at_while_it_runs(target):
    graph = graph_of(range(20_000), slow_parse, [].append, parallelism=2, runs_in_program=False)
    job = RunningJob(graph, target=target_named(target))
    vertex = next(each for each in job.plan.vertices if "first" in each.name)
    assert job.flame_graph(vertex.id) == TERMINATED
    job.start()
    try:
        wait_until(lambda: job.flame_graph(vertex.id) != WAITING)
        found = job.flame_graph(vertex.id)
        assert found["data"]["value"] > 5
        assert ends_with(names_in(found["data"]), "test_flame_graphs.slow_parse")
        parts = [job.flame_graph(vertex.id, kind=kind)["data"]["value"] for kind in ("ON_CPU", "OFF_CPU")]
        assert sum(parts) == found["data"]["value"]
        with pytest.raises(KeyError):
            job.flame_graph("f" * 32)
        with pytest.raises(ValueError, match="has the subtasks 0 to 1, not 2"):
            job.flame_graph(vertex.id, subtask=2)
        assert job.flame_graph(vertex.id, subtask=1) == WAITING
    finally:
        job.cancel()
        with pytest.raises(JobCanceledError):
            job.wait()
    assert job.flame_graph(vertex.id) == TERMINATED
    if target == "local":
        end_launcher()
