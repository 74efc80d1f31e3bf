"""The async operator on the mailbox: order, room, time, failures, and what is in flight at a snapshot."""

import asyncio
import threading
import time

import pytest

from flinkbuf.async_io.retry import FixedDelayRetry
from flinkbuf.common import Time
from flinkbuf.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from flinkbuf.streaming.chain.async_wait_operator import AsyncWaitOperatorFactory
from flinkbuf.streaming.chain.mailbox import MailboxClosedError
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import StreamRecord, Watermark, WatermarkStatus


class Gated:
    """Each call waits until the test lets it go on; PyFlink's AsyncFunction in shape."""

    def __init__(self):
        self.waiting = {}
        self.called = []
        self.opened = self.closed = 0
        self._arrived = threading.Condition()

    def open(self, runtime_context):
        self.opened += 1
        self.subtask = runtime_context.get_index_of_this_subtask()

    def close(self):
        self.closed += 1

    async def async_invoke(self, value):
        future = asyncio.get_running_loop().create_future()
        with self._arrived:
            self.waiting[value] = future
            self.called.append(value)
            self._arrived.notify_all()
        return await future

    def timeout(self, value):
        raise TimeoutError(f"no answer for {value}")

    def wait_for_call(self, value):
        with self._arrived:
            assert self._arrived.wait_for(lambda: value in self.waiting, 10)

    def answer(self, value, result=None, error=None):
        self.wait_for_call(value)
        future = self.waiting.pop(value)
        set_result = future.set_exception if error is not None else future.set_result
        future.get_loop().call_soon_threadsafe(set_result, error or [value * 10] if result is None else result)


def harness_of(function, **options):
    where = {name: options.pop(name) for name in ("restore", "parallelism", "subtask_index") if name in options}
    options.setdefault("timeout_ms", 0)
    return OperatorHarness(AsyncWaitOperatorFactory(function, **options)(), is_keyed=False, **where)


def settle(harness, count):
    """Run mails until so many elements have come out."""
    while len(harness.output) < count:
        harness.mailbox.yield_()
    return harness.output


def end(harness):
    harness.end_input()
    harness.finish()


def test_ordered_results_keep_the_order_and_the_timestamps_of_their_records():
    function = Gated()
    with harness_of(function) as harness:
        for value in (1, 2, 3):
            harness.process_element(value, 100 + value)
        for value in (3, 2, 1):
            function.answer(value)
        end(harness)
        assert harness.output == [StreamRecord(10 * value, 100 + value) for value in (1, 2, 3)]


def test_unordered_results_pass_each_other_but_no_watermark():
    function = Gated()
    with harness_of(function, is_ordered=False) as harness:
        harness.process_element(1, 1)
        harness.process_element(2, 2)
        harness.process_watermark(5)
        harness.process_element(3, 6)
        function.answer(3)
        function.answer(2)
        assert settle(harness, 1) == [StreamRecord(20, 2)]
        function.answer(1)
        end(harness)
        assert harness.output == [StreamRecord(20, 2), StreamRecord(10, 1), Watermark(5), StreamRecord(30, 6)]


def test_a_watermark_passes_at_once_where_nothing_waits():
    with harness_of(Gated()) as harness:
        harness.process_watermark(7)
        assert harness.output == [Watermark(7)]


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_record_waits_for_room_and_mails_are_run_meanwhile(is_ordered):
    function, seen = Gated(), []
    with harness_of(function, capacity=2, is_ordered=is_ordered) as harness:
        harness.process_element(1, 1)
        harness.process_watermark(2)  # takes the second place
        harness.mailbox.submit(lambda: seen.append("a mail"))
        function.answer(1)
        harness.process_element(2, 3)
        assert seen == ["a mail"]
        assert harness.output == [StreamRecord(10, 1), Watermark(2)]
        function.answer(2)
        end(harness)


@pytest.mark.parametrize(("results", "expected"), [([], []), (["a", "b"], ["a", "b"]), (("c",), ["c"])])
def test_a_call_gives_any_number_of_results(results, expected):
    function = Gated()
    with harness_of(function) as harness:
        harness.process_element(1)
        function.answer(1, results)
        end(harness)
        assert harness.output_values == expected


def test_an_error_of_the_function_comes_out_as_it_is_with_its_record_in_hand():
    function, error = Gated(), KeyError("lost")
    with harness_of(function) as harness:
        harness.process_element(7, 1)
        function.answer(7, error=error)
        with pytest.raises(KeyError) as caught:
            end(harness)
        assert caught.value is error
        assert harness.operator.is_in_function
        assert harness.operator.value_in_hand == 7


def test_a_result_that_is_no_list_is_refused():
    function = Gated()
    with harness_of(function) as harness:
        harness.process_element(7, 1)
        function.answer(7, 5)
        with pytest.raises(TypeError):
            end(harness)


def test_a_timeout_fails_with_the_record_or_gives_what_the_function_says_instead():
    function = Gated()
    with harness_of(function, timeout_ms=20) as harness:
        harness.process_element(7, 1)
        with pytest.raises(TimeoutError):
            end(harness)
    instead = Gated()
    instead.timeout = lambda value: [("too late", value)]
    with harness_of(instead, timeout_ms=20) as harness:
        harness.process_element(7, 1)
        end(harness)
        assert harness.output == [StreamRecord(("too late", 7), 1)]


class FailsOften:
    def __init__(self, failures):
        self.failures, self.calls = failures, 0

    async def async_invoke(self, value):
        self.calls += 1
        if self.calls <= self.failures:
            raise OSError(f"call {self.calls}")
        return [value]


def test_a_call_is_made_again_until_it_may_not():
    with harness_of(FailsOften(9), retry=FixedDelayRetry(3, 0.001)) as harness:
        harness.process_element(1)
        with pytest.raises(OSError, match="call 4"):
            while True:
                harness.mailbox.yield_()


@pytest.mark.parametrize("is_ordered", [True, False])
def test_the_end_of_the_input_waits_for_further_attempts(is_ordered):
    function = FailsOften(3)
    with harness_of(function, retry=FixedDelayRetry(3, 0.001), is_ordered=is_ordered) as harness:
        harness.process_element(1)
        end(harness)
        assert harness.output_values == [1]
    assert function.calls == 4


@pytest.mark.parametrize("is_ordered", [True, False])
def test_what_has_not_left_is_in_the_snapshot_and_called_for_again(is_ordered):
    function = Gated()
    with harness_of(function, is_ordered=is_ordered) as harness:
        for value in (1, 2):
            harness.process_element(value, value)
        harness.process_watermark(9)
        harness.process_element(3, 10)
        function.wait_for_call(3)
        snapshot = harness.snapshot()
        assert harness.output == []
        for value in (1, 2, 3):
            function.answer(value)
        end(harness)
        expected = harness.output
    again = Gated()
    with harness_of(again, is_ordered=is_ordered, restore=snapshot) as harness:
        for value in (1, 2, 3):
            again.answer(value)
        end(harness)
        assert sorted(map(str, harness.output)) == sorted(map(str, expected))
        assert harness.output.index(Watermark(9)) == 2


def test_at_another_parallelism_no_record_comes_behind_the_watermark_of_another_subtask():
    snapshots = []
    for subtask, times in enumerate([(10, 20, 25), (12, 22, 27)]):
        function = Gated()
        with harness_of(function, parallelism=2, subtask_index=subtask) as harness:
            harness.process_element(f"{subtask} first", times[0])
            harness.process_watermark(times[1])
            harness.process_element(f"{subtask} last", times[2])
            snapshots.append(OperatorSnapshot.decode(harness.snapshot().encode()))
    again = Gated()
    with harness_of(again, restore=snapshots) as harness:
        for value in ("0 first", "0 last", "1 first", "1 last"):
            again.answer(value)
        end(harness)
        assert [each.timestamp for each in harness.output if isinstance(each, StreamRecord)] == [10, 25, 12, 27]
        assert Watermark(20) not in harness.output  # the record at 12 would be late


def test_a_restored_queue_may_be_larger_than_the_new_capacity():
    function = Gated()
    with harness_of(function) as harness:
        for value in range(5):
            harness.process_element(value)
        snapshot = harness.snapshot()
        for value in range(5):
            function.answer(value)
        end(harness)
    again = Gated()
    answering = threading.Thread(target=lambda: [again.answer(value) for value in range(5)])
    answering.start()
    with harness_of(again, capacity=2, restore=snapshot) as harness:
        end(harness)
        assert harness.output_values == [0, 10, 20, 30, 40]
    answering.join()


def test_the_function_is_opened_with_the_context_of_its_task_and_closed_once():
    function = Gated()
    with harness_of(function):
        assert (function.opened, function.subtask) == (1, 0)
    assert function.closed == 1


def test_all_operators_share_one_thread_that_ends_with_the_last():
    def threads():
        return [thread for thread in threading.enumerate() if thread.name == "flinkbuf-async-loop"]

    before = threads()
    with harness_of(Gated()):
        with harness_of(Gated()):
            assert len(threads()) == len(before) + 1
        assert len(threads()) == len(before) + 1
    assert threads() == before


def test_close_cancels_what_is_in_flight():
    function = Gated()
    with harness_of(function) as harness:
        harness.process_element(1)
        function.wait_for_call(1)
    assert function.waiting[1].cancelled()


def test_open_that_fails_gives_the_loop_back():
    class Unopenable(Gated):
        def open(self, runtime_context):
            raise ValueError("no connection")

    with pytest.raises(ValueError, match="no connection"), harness_of(Unopenable()):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "flinkbuf-async-loop"]


def test_a_result_that_comes_after_the_end_of_the_task_disturbs_nobody(caplog):
    def refuse(mail, description=""):
        raise MailboxClosedError("the task has ended")

    function = Gated()
    with harness_of(function) as harness:
        harness.process_element(1)
        harness.context.mailbox.submit = refuse
        function.answer(1)
        assert harness.operator.snapshot_state(1) is not None  # asks the loop, which has told of the result before
    assert not caplog.records


class Sleeping(AsyncFunction):
    async def async_invoke(self, value):
        time.sleep(value)
        return [value]


class Awaiting(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(value)
        return [value]


def told_of_blocking(function, naps, caplog):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    stream = AsyncDataStream.unordered_wait(env.from_collection(naps), function, Time.seconds(30))
    assert list(stream.execute_and_collect()) == naps
    return [record.getMessage() for record in caplog.records if "blocks the event loop" in record.getMessage()]


@pytest.mark.parametrize("naps", [[0.6], [0.01] * 60], ids=["one long", "many short"])
def test_a_coroutine_that_blocks_is_told_of_once_with_its_line(naps, caplog):
    (told,) = told_of_blocking(Sleeping(), naps, caplog)
    name = getattr(Sleeping.async_invoke.__code__, "co_qualname", "async_invoke")
    assert told.startswith(f"async: {name} blocks the event loop, for 0.")
    line = Sleeping.async_invoke.__code__.co_firstlineno + 1
    assert f"{__file__}:{line} in async_invoke: time.sleep(value)" in told
    assert told.endswith("or hand it to a thread: await asyncio.to_thread(...)")


def test_a_coroutine_that_awaits_is_not(caplog):
    assert told_of_blocking(Awaiting(), [0.6], caplog) == []


class NumberOf:
    async def async_invoke(self, value):
        await asyncio.sleep(0.001)
        return [value["number"]]


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_record_is_called_for_as_it_came_though_its_giver_goes_on_changing_it(is_ordered):
    record = {}
    with harness_of(NumberOf(), is_ordered=is_ordered) as harness:
        for number in range(20):
            record["number"] = number
            harness.process_element(record)
        snapshot = harness.snapshot()
        end(harness)
        assert sorted(harness.output_values) == list(range(20))
    with harness_of(NumberOf(), is_ordered=is_ordered, restore=snapshot) as harness:
        end(harness)
        assert sorted(harness.output_values) == list(range(20))


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_status_passes_no_record_and_no_record_passes_it(is_ordered):
    function = Gated()
    with harness_of(function, is_ordered=is_ordered) as harness:
        harness.process_watermark_status(True)
        harness.process_watermark_status(False)
        harness.process_element(1, 1)
        harness.process_watermark_status(True)
        harness.process_watermark_status(False)
        harness.process_element(2, 2)
        harness.process_watermark(7)
        function.answer(2)
        snapshot = harness.snapshot()  # the answer has come by then
        assert harness.take_output() == [WatermarkStatus.IDLE, WatermarkStatus.ACTIVE]
        function.answer(1)
        end(harness)
        records = [StreamRecord(10, 1), WatermarkStatus.IDLE, WatermarkStatus.ACTIVE, StreamRecord(20, 2), Watermark(7)]
        assert harness.output == records
    again = Gated()
    with harness_of(again, is_ordered=is_ordered, restore=snapshot) as harness:
        again.answer(1)
        again.answer(2)
        end(harness)
        assert harness.output[-1] == Watermark(7)
        assert sorted(map(str, harness.output[:-1])) == sorted(map(str, [StreamRecord(10, 1), StreamRecord(20, 2)]))


class SameRow:
    """Gives one row again and again."""

    def __init__(self):
        self.row = {}

    async def async_invoke(self, value):
        self.row["number"] = value
        return [self.row]

    def timeout(self, value):
        return [self.row]


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_result_leaves_as_it_was_given_though_the_function_goes_on_changing_it(is_ordered):
    with harness_of(SameRow(), is_ordered=is_ordered) as harness:
        for number in range(20):
            harness.process_element(number)
        end(harness)
        assert harness.output_values == [{"number": number} for number in range(20)]
