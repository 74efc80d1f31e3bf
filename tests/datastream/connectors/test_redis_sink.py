"""Commands to a real Redis, each at least once."""

import pickle
import random
import threading
import time

import cloudpickle
import pytest

redis = pytest.importorskip("redis", reason="redis is not installed: pip install redis")

from support.servers.redis_server import redis_server  # noqa: E402
from support.worlds.failing_sinks import write_with_failures  # noqa: E402

from flinkbuf.common import Configuration, WatermarkStrategy  # noqa: E402
from flinkbuf.datastream import StreamExecutionEnvironment  # noqa: E402
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource  # noqa: E402
from flinkbuf.datastream.connectors.redis import RedisCommandError, RedisSink  # noqa: E402
from flinkbuf.runtime.protocol.failure import Failure  # noqa: E402
from flinkbuf.streaming.chain.operator_config import ExecutionSettings  # noqa: E402
from flinkbuf.streaming.sinks import redis_sink  # noqa: E402
from flinkbuf.streaming.sinks.sink_factories import SinkWriterFactory  # noqa: E402
from flinkbuf.testing import OperatorHarness  # noqa: E402

WITH_CHECKPOINTS = ExecutionSettings(checkpointing_enabled=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def client(server):
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        client.flushall()
        yield client


def builder(server):
    return RedisSink.builder().set_url(server.url).set_commands(lambda pair: ("HSET", "words", *pair))


def opened(sink, restore=None):
    operator = pickle.loads(cloudpickle.dumps(SinkWriterFactory(sink)))()
    harness = OperatorHarness(operator, restore=restore, settings=WITH_CHECKPOINTS, is_keyed=False)
    harness.open()
    return harness


def test_commands_are_sent_by_size_by_time_and_before_checkpoints(server, client):
    sink = opened(builder(server).set_batch_size(2).set_batch_interval(500).build())
    sink.process_element(("a", 1))
    assert client.hgetall("words") == {}
    sink.process_element(("b", 2.5))
    assert client.hgetall("words") == {"a": "1", "b": "2.5"}
    sink.process_element(("c", b"\xc3\xbc"))
    sink.set_processing_time(499)
    assert client.hlen("words") == 2
    sink.set_processing_time(1_000)
    assert client.hget("words", "c") == "ü"
    sink.process_element(("d", ""))
    sink.snapshot(1)
    assert client.hlen("words") == 4
    sink.process_element(("e", 5))
    sink.close()  # it comes again
    assert client.hlen("words") == 4


@pytest.mark.parametrize("seed", range(3))
def test_random_failures(server, client, seed):
    chance = random.Random(seed)
    sink = builder(server).set_batch_size(chance.choice([1, 3, 1_000])).build()
    pairs = [(f"k{number % 7}", number) for number in range(60)]
    write_with_failures(pairs, lambda snapshot: opened(sink, snapshot), OperatorHarness.close, chance).close()
    assert client.hgetall("words") == {key: str(value) for key, value in dict(pairs).items()}


def test_several_commands_of_a_record_and_none(server, client):
    client.set("old", 1)
    sink = opened(
        RedisSink.builder()
        .set_url(server.url)
        .set_commands(lambda n: None if n == 0 else [("SET", f"n{n}", n), ("DEL", "old"), ("SADD", "all", n)])
        .build()
    )
    for number in (0, 1, 2):
        sink.process_element(number)
    sink.end_input()
    sink.close()
    assert client.get("n1") == "1" and client.get("old") is None and client.smembers("all") == {"1", "2"}


def test_what_is_no_command_is_an_error_that_shows_it(server, client):
    for made, words in (
        ("SET a b", "makes a command of a record.*got str 'SET a b'"),
        ([], None),
        ([()], "makes a command"),
        ((1, "a"), "begins with its name"),
        (("SET", "a", None), "Redis takes str, bytes, int and float"),
        (("SET", "a", True), "Redis takes str, bytes, int and float"),
        (("SET", "a", [1]), "Redis takes str, bytes, int and float"),
    ):
        sink = opened(builder(server).set_commands(lambda record: record).build())
        if words is None:
            sink.process_element(made)
        else:
            with pytest.raises(TypeError, match=words):
                sink.process_element(made)
        sink.close()
    sink = opened(builder(server).set_commands(lambda record: record).build())
    sink.process_element(("SET", "a", 1))
    sink.process_element(("LPUSH", "a", 1))
    with pytest.raises(RedisCommandError, match="Redis refuses a command: .*LPUSH.*WRONGTYPE"):
        sink.snapshot(1)
    sink.close()


def test_a_server_whose_state_may_pass_is_tried_again_by_the_job(server, client):
    def refused(record=("SET", "a", 1)):
        sink = opened(builder(server).set_commands(lambda record: record).build())
        sink.process_element(record)
        with pytest.raises(RedisCommandError) as caught:
            sink.snapshot(1)
        sink.close()
        return Failure.of(caught.value).can_restart

    client.set("text", "x")
    assert not refused(("LPUSH", "text", 1)) and not refused(("NONSENSE",))
    for setting, value, before in (("maxmemory", 1, 0), ("min-replicas-to-write", 1, 0)):
        client.config_set(setting, value)
        assert refused(), setting
        client.config_set(setting, before)
    client.replicaof("localhost", 1)
    assert refused()
    client.replicaof("NO", "ONE")


def test_a_server_that_comes_back_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(redis_sink, "_TRIES", 50)
    monkeypatch.setattr(redis_sink, "_LONGEST_WAIT_S", 0.1)
    with redis_server(tmp_path) as server:
        sink = opened(builder(server).build())
        sink.process_element(("a", 1))
        sink.snapshot(1)
        server.stop()
        sink.process_element(("b", 2))
        starts = threading.Timer(0.3, server.start)
        starts.start()
        sink.snapshot(2)
        starts.join()
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            assert client.hgetall("words") == {"b": "2"}  # a server without a disk has forgotten the first
        sink.close()


def test_a_job_that_fails_has_the_last_values_in_the_end(server, client, tmp_path):
    flag = tmp_path / "failed"
    config = Configuration()
    config.set_string("execution.target", "embedded")
    config.set_string("restart-strategy.type", "fixed-delay")
    config.set_string("restart-strategy.fixed-delay.delay", "1 ms")
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(2)
    env.enable_checkpointing(20)

    def slow(number):
        time.sleep(0.001)
        if number == 170 and not flag.exists():
            flag.touch()
            raise RuntimeError("the planted failure")
        return f"k{number % 5}", number

    numbers = env.from_source(NumberSequenceSource(0, 199), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(slow).key_by(lambda pair: pair[0]).max_by(1).sink_to(builder(server).set_batch_size(10).build())
    env.execute()
    assert flag.exists() and client.hgetall("words") == {f"k{number % 5}": str(number) for number in range(195, 200)}


def test_what_is_missing_or_wrong_is_said_when_it_is_built(monkeypatch):
    start = RedisSink.builder()
    for call, words in (
        (lambda: start.build(), "needs set_url"),
        (lambda: RedisSink.builder().set_url("redis://x").build(), "needs set_commands"),
        (lambda: start.set_url("secret@host"), "must begin with redis://"),
        (lambda: start.set_batch_size(0), "at least 1 command"),
        (lambda: start.set_batch_interval(-1), "must not be negative"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            call()
        assert "secret" not in str(caught.value)
    with pytest.raises(TypeError, match="a function of a record"):
        start.set_commands("SET")
    whole = RedisSink.builder().set_url("redis://user:secret@host").set_commands(lambda record: None)
    assert "secret" not in repr(whole.build().options)
    monkeypatch.setitem(__import__("sys").modules, "redis", None)
    with pytest.raises(ImportError, match=r"pip install 'flinkbuf\[redis\]'"):
        whole.build()
