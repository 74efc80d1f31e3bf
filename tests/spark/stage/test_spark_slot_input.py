"""How a job's slots get what its sources read from Spark: as it is, or handed over by a shuffle."""

import os
import pickle
import random
import threading

import pytest

from flinkbuf.spark.stage.slot_input import (
    ASIDE_IN_MEMORY,
    BATCH_BYTES,
    Backlog,
    HandOver,
    SlotInput,
    StageInput,
    is_direct,
    stage_data,
)

pytestmark = pytest.mark.spark


def pairs(*owned):
    """What a stage's partition holds where sources share it: batches of records, each with its source's number."""
    return [(0, (number, pickle.dumps((3, records)))) for number, records in owned]


def records_of(given, number):
    """Go over what comes for a source."""
    for _, batch in given.batches_of(number):
        yield from batch


def test_the_only_input_is_read_as_it_is():
    records = iter([3, 1, 2])
    ((partition, given),) = SlotInput(records, is_direct=True).batches_of(7)
    assert given is records and partition is None


def test_what_spark_gives_is_read_once():
    given = SlotInput(iter([1]), is_direct=True)
    given.batches_of(7)
    with pytest.raises(RuntimeError, match="can be read once: the job has to begin in a new stage"):
        given.batches_of(7)


def test_each_source_gets_its_own_in_order_whoever_asks_first():
    given = SlotInput(pairs((1, [10, 11]), (2, ["a"]), (1, [12]), (2, ["b", "c"])), is_direct=False)
    second, first = records_of(given, 2), records_of(given, 1)
    assert next(second) == "a"
    assert list(first) == [10, 11, 12]
    assert list(second) == ["b", "c"]
    assert list(records_of(given, 3)) == []
    given.close()


def test_sources_on_threads_of_their_own_lose_nothing():
    chance = random.Random(4)
    owned = [(chance.randrange(3), [number, number]) for number in range(3_000)]
    given = SlotInput(pairs(*owned), is_direct=False)
    found = {}
    readers = [threading.Thread(target=lambda n=n: found.update({n: list(records_of(given, n))})) for n in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert found == {n: [record for owner, records in owned if owner == n for record in records] for n in range(3)}
    given.close()


def test_what_waits_for_a_slow_source_goes_to_a_file_and_leaves_none(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    descriptors = len(os.listdir("/proc/self/fd"))
    batch = bytes(ASIDE_IN_MEMORY // 4)
    given = SlotInput([(0, (1, batch))] * 9 + pairs((2, ["late"])), is_direct=False)
    assert next(records_of(given, 2)) == "late"
    assert len(os.listdir("/proc/self/fd")) == descriptors + 1
    assert os.listdir(tmp_path) == []  # it has no name
    given.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_backlog_gives_back_what_was_put_in_whatever_the_order_of_calls():
    chance = random.Random(9)
    backlog, model = Backlog(), []
    for _ in range(2_000):
        if model and chance.random() < 0.5:
            assert backlog.take() == model.pop(0)
        else:
            model.append(os.urandom(chance.randrange(200)))
            backlog.put(model[-1])
        assert len(backlog) == len(model)
    backlog.close()


def test_neighbouring_partitions_go_to_one_subtask_whole_and_in_order():
    slots = [[slot for slot, _ in HandOver(1, 5, 2, 4)(index, range(3))] for index in range(4)]
    assert slots == [[5], [5], [6], [6]]
    (_, (number, batch)), *rest = HandOver(9, 0, 1, 1)(0, range(700))
    assert number == 9 and pickle.loads(batch)[1] == list(range(500)) and len(rest) == 1


@pytest.mark.parametrize(
    ("partitions", "first_slot", "parallelism", "slot_count", "expected"),
    [(2, 0, 2, 2, True), (4, 0, 2, 2, False), (2, 0, 2, 3, False), (2, 1, 2, 3, False)],
)
def test_only_an_input_as_wide_as_the_stage_is_the_stage(sc, partitions, first_slot, parallelism, slot_count, expected):
    data = sc.parallelize(range(8), partitions)
    assert is_direct([StageInput(1, data, first_slot, parallelism)], slot_count) is expected
    assert is_direct([StageInput(1, data, 0, partitions)] * 2, partitions) is False


def test_partitions_of_several_inputs_come_to_the_slots_of_their_readers(sc):
    numbers = sc.parallelize(range(40), 4)
    words = sc.parallelize(["x", "y"], 1)
    inputs = [StageInput(1, numbers, 0, 2), StageInput(2, words, 1, 1), StageInput(3, sc.emptyRDD(), 0, 1)]

    def read(records):
        given = SlotInput(records, is_direct=False)
        return [[list(records_of(given, number)) for number in (1, 2, 3)]]

    found = stage_data(sc, inputs, 3).mapPartitions(read).collect()
    assert [sorted(found[0][0]), sorted(found[1][0])] == [list(range(20)), list(range(20, 40))]
    for half in (found[0][0], found[1][0]):  # each partition of the data keeps its order
        assert [n for n in half if n % 20 < 10] == sorted(n for n in half if n % 20 < 10)
    assert [part[1:] for part in found] == [[[], []], [["x", "y"], []], [[], []]]


def test_a_job_without_input_has_a_partition_for_each_slot(sc):
    assert stage_data(sc, [], 3).getNumPartitions() == 3


def test_what_holds_many_records_is_not_put_together_without_bound():
    messages = [bytes(BATCH_BYTES // 2)] * 5
    sent = [pickle.loads(batch) for _, (_, batch) in HandOver(1, 0, 1, 1)(0, messages)]
    assert [len(records) for _, records in sent] == [2, 2, 1]
