"""Checkpoints of jobs on Spark: processes that die, savepoints that go on elsewhere, input that Spark gives again."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.programs.checkpointed_jobs import EXPECTED, completed, environment, program, results, until, wait_for_all
from support.worlds.surroundings import Surroundings

from flinkbuf._core.operators.stream_operator import Output
from flinkbuf.common import Types
from flinkbuf.runtime.protocol.failure import JobFailedError
from flinkbuf.spark.frames.rdd_order import has_fixed_order
from flinkbuf.spark.frames.spark_source import COUNTS_STATE, SparkSourceOperator
from flinkbuf.streaming.state.state import ListStateDescriptor

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("does_not_hang")]


@pytest.mark.parametrize("deed", ["raise", "kill"])
def test_a_job_goes_on_from_its_latest_checkpoint(sc, deed, tmp_path):
    env = environment("spark")
    program(env, tmp_path, at=1500, deed=deed)
    client = env.execute_async("sums")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
    assert (tmp_path / "deed").exists()
    assert client.details()["checkpoints"]["latest"]["restored"]["id"] > 1


@pytest.mark.parametrize(("first", "second"), [("spark", "local"), ("embedded", "spark")])
def test_a_savepoint_of_one_target_is_gone_on_with_on_the_other(sc, tmp_path, first, second):
    env = environment(first, interval_ms=None)
    program(env, tmp_path, limit=1000)
    client = env.execute_async("sums")
    wait_for_all(client)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    (tmp_path / "go-on").touch()
    again = environment(second, parallelism=1, interval_ms=None)
    again._configuration.set_string("execution.state-recovery.path", path)
    program(again, tmp_path, pause_s=0.0)
    again.execute()
    assert results(tmp_path) == sorted(EXPECTED)
    assert Path(path, "_metadata").exists()


@pytest.mark.parametrize("partitions", [2, 5])
def test_input_of_spark_is_read_again_and_what_was_counted_passed_over(sc, tmp_path, partitions):
    env = environment("spark")
    numbers = env.from_rdd(sc.parallelize(range(2000), partitions), Types.LONG())
    program(env, tmp_path, numbers=numbers, at=1500)
    client = env.execute_async("sums")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
    assert (tmp_path / "deed").exists()
    assert client.details()["checkpoints"]["latest"]["restored"]["id"] > 1


def test_input_in_another_order_than_before_is_an_error_that_says_so(sc, tmp_path):
    """A shuffle gives its rows in the order in which the network brings them."""
    deed = str(tmp_path / "deed")

    def other_order(numbers):
        return iter(sorted(numbers, reverse=os.path.exists(deed)))

    shuffled = sc.parallelize(range(2000), 2).repartition(2).mapPartitions(other_order)
    env = environment("spark")
    program(env, tmp_path, numbers=env.from_rdd(shuffled, Types.LONG()), at=1500)
    with pytest.raises(
        JobFailedError, match=r"RDD Source' reads has other records, or the same in another order.*sort"
    ):
        env.execute("sums")


def source(count=0, checksum=None, type_info=None):
    """Return a source that was restored with so many records of partition 0, and their checksum."""
    operator = SparkSourceOperator(1, type_info, is_ordered=False)
    operator.setup(SimpleNamespace(key_context=None, operator_name="rows"), Output())
    operator._left, operator._expected = {0: count}, {0: checksum}
    return operator


def emitted(operator, *batches):
    """Return what the source emits of partition 0."""
    return [record for batch in batches for record in operator._not_emitted(0, operator._summed(0, iter(batch)))]


@pytest.mark.parametrize("type_info", [None, Types.LONG()])
def test_what_is_passed_over_has_to_be_what_was_emitted(type_info):
    first = source(type_info=type_info)
    assert emitted(first, [1, 2], [3]) == [1, 2, 3]
    known = 3, first._sums[0], type_info
    assert emitted(source(*known), [1, 2, 3, 4], [5]) == [4, 5]
    assert emitted(source(*known), [1], [2, 3], [4]) == [4]
    for other in ([[1, 3, 2, 4]], [[4], [1, 2, 3]], [[1, 2, 4]]):
        with pytest.raises(
            RuntimeError, match="partition 0 of what 'rows' reads has other records, or the same in ano"
        ):
            emitted(source(*known), *other)
    with pytest.raises(RuntimeError, match="has perhaps other records"):
        emitted(source(3, None, type_info), [1, 2, 3, 4])


@pytest.mark.parametrize(("count", "before", "now"), [(1, 4, 2), (1, 2, 4), (0, 4, 2), (1, 4, 4), (1, None, 2)])
def test_what_was_read_in_other_partitions_is_not_counted_on(count, before, now):
    def restored(states, partitions):
        operator = SparkSourceOperator(1, None, partition_count=partitions)
        around = Surroundings()
        around.context.operator_name = "rows"
        operator.setup(around.context, Output())
        if states is not None:
            around.context.operator_state.get_union_list_state(ListStateDescriptor(COUNTS_STATE, None)).update(states)
        operator.initialize_state(None)
        return operator

    states = [(0, count, None, before)] if before is not None else [(0, count, None)]
    if count and before not in (None, now):
        with pytest.raises(RuntimeError, match=f"'rows' reads has {now} partitions, and had {before} when"):
            restored(states, now)
    else:
        assert restored(states, now)._counted == ({0: 1} if count else {})


def test_spark_says_of_which_records_the_order_is_fixed(spark, sc):
    rows = spark.range(0, 4, 1, 2)
    assert has_fixed_order(sc.parallelize(range(4), 2).map(str))
    assert has_fixed_order(rows.rdd)
    assert not has_fixed_order(sc.parallelize(range(4), 2).repartition(2).map(str))
    assert not has_fixed_order(rows.repartition(2).sortWithinPartitions("id").rdd)


def test_input_behind_a_shuffle_is_gone_on_with_where_its_order_is_the_same(spark, tmp_path):
    rows = spark.range(0, 2000, 1, 4).repartition(3, "id").sortWithinPartitions("id")
    env = environment("spark")
    numbers = env.from_data_frame(rows).map(lambda row: row.id, Types.LONG())
    program(env, tmp_path, numbers=numbers, at=1500)
    client = env.execute_async("sums")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
    assert client.details()["checkpoints"]["latest"]["restored"]["id"] > 1


def test_who_has_read_all_of_its_input_waits_for_the_others_and_is_counted_in_each_checkpoint(sc, tmp_path):
    env = environment("spark")
    skewed = sc.parallelize([range(10), range(10, 2000)], 2).flatMap(lambda numbers: numbers)
    program(env, tmp_path, numbers=env.from_rdd(skewed, Types.LONG()), at=1900)
    client = env.execute_async("sums")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
    assert client.details()["checkpoints"]["latest"]["restored"]["id"] > 5


def test_a_job_whose_result_goes_to_spark_keeps_no_checkpoints_and_says_so(sc, tmp_path):
    env = environment("spark")
    doubled = env.from_rdd(sc.parallelize(range(10), 2), Types.LONG()).map(lambda n: 2 * n, Types.LONG())
    with pytest.warns(UserWarning, match="keeps no checkpoints"):
        rdd = doubled.to_rdd()
    assert rdd.sum() == 90


def test_without_a_directory_executors_of_their_own_machines_send_their_state_to_the_driver(sc, tmp_path, monkeypatch):
    from flinkbuf.spark.stage.job import SparkTarget

    monkeypatch.setattr(SparkTarget, "shares_files", lambda self: False)
    env = environment("spark")
    program(env, tmp_path, at=1500)
    client = env.execute_async("sums")
    until(lambda: completed(client) >= 1)
    assert not client.details()["checkpoints"]["latest"]["completed"]["external_path"].startswith("/")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
