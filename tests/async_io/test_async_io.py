"""The async operator: order, capacity, time, retries, snapshots, and that nothing is left when it ends."""

import asyncio
import contextlib
import gc
import itertools
import logging
import threading
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.servers.postgres_server import postgres_server
from support.waiting import wait_until
from support.worlds.async_operator import at_once, operator, run, sleepy

from flinkbuf.async_io import AsyncStats, CallContext, ExponentialRetry, FixedDelayRetry
from flinkbuf.async_io.function import AsyncOptions
from flinkbuf.async_io.operator import AsyncOperator
from flinkbuf.async_io.queue import RecordElement, WatermarkElement
from flinkbuf.async_io.retry import as_retry
from flinkbuf.errors import AsyncCallError, AsyncTimeoutError

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(params=["asyncio", "uvloop"])
def event_loop(request):
    if request.param == "uvloop":
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    return request.param


# ---------------------------------------------------------------- order and capacity


def test_ordered_results_come_in_the_order_of_the_records(event_loop):
    records = [9, 1, 5, 0, 3] * 20
    assert run(sleepy, records, capacity=7, event_loop=event_loop) == records


def test_unordered_results_come_as_they_are_ready(event_loop):
    assert run(sleepy, [60, 1, 20], ordered=False, event_loop=event_loop) == [1, 20, 60]


@pytest.mark.parametrize("ordered", [True, False])
def test_calls_that_do_not_wait_mix_with_calls_that_do(ordered):
    async def mixed(record):
        if record % 3 == 0:
            await asyncio.sleep(0.001)
        return record

    got = run(mixed, range(500), ordered=ordered, capacity=20)
    assert (got if ordered else sorted(got)) == list(range(500))


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("retry", [None, FixedDelayRetry(1, 0, on_result=lambda result: False)])
def test_never_more_than_concurrency_calls_run_however_many_records_are_held(ordered, retry):
    running, most = set(), []

    async def call(record):
        running.add(record)
        most.append(len(running))
        if record % 4:
            await asyncio.sleep(0.02 if record == 5 else 0.001)
        running.remove(record)
        return record

    each = operator(call, ordered=ordered, capacity=150, concurrency=4, retry=retry)
    got = list(each.run(range(400)))
    assert (got if ordered else sorted(got)) == list(range(400))
    assert max(most) == 4 and 4 < each.stats.max_in_flight <= 150


def test_a_slow_call_holds_back_its_place_and_not_its_concurrency():
    hung = []

    async def call(record):
        if record == 0:
            hung.append(time.perf_counter())
            await asyncio.sleep(0.2)
            hung.append(len(done))
        await asyncio.sleep(0)
        done.append(record)
        return record

    done = []
    assert run(call, range(300), capacity=300, concurrency=2) == list(range(300))
    assert hung[1] == 299


def test_a_slow_input_does_not_hold_calls_back():
    started = []

    def source():
        for record in range(5):
            yield record
            time.sleep(0.03)
            started.append(len(seen))

    seen = []

    async def call(record):
        seen.append(record)
        await asyncio.sleep(0)

    run(call, source())
    # The first slow record teaches the operator to take them one by one.
    assert started[2:] == [3, 4, 5]


def test_an_empty_input_gives_nothing_and_still_opens_and_closes():
    seen = []
    assert run(at_once_with_session, [], open=lambda: seen.append("open"), close=lambda _: seen.append("close")) == []
    assert seen == ["open", "close"]


async def at_once_with_session(record, session):
    return record


def test_flat_results_are_none_one_or_many():
    async def copies(record):
        await asyncio.sleep(0.001 * (record % 2))
        return [record] * record

    assert run(copies, [0, 1, 2, 3], flat=True) == [1, 2, 2, 3, 3, 3]
    with pytest.raises(AsyncCallError, match="gave None where an iterable"):
        run(returns_none, [1], flat=True)


@pytest.mark.parametrize("result", ["text", b"bytes", {"n": 1}], ids=repr)
@pytest.mark.parametrize("way", ["at once", "later", "on a thread", "on_error"])
def test_one_result_is_not_taken_apart(result, way):
    async def gives(record):
        if way == "later":
            await asyncio.sleep(0)
        return result

    async def fails(record):
        raise LookupError

    options = {"on_error": lambda record, error: result} if way == "on_error" else {}
    func = {"on a thread": lambda record: result, "on_error": fails}.get(way, gives)
    with pytest.raises(AsyncCallError, match=rf"gave a {type(result).__name__} where an iterable of results is due"):
        run(func, [0], flat=True, **options)


async def returns_none(record):
    await asyncio.sleep(0)


# ---------------------------------------------------------------- errors


def test_an_error_names_record_attempts_and_cause_with_its_traceback():
    async def fails(record):
        await asyncio.sleep(0.001)
        if record == "bad":
            raise KeyError("no such thing")
        return record

    with pytest.raises(
        AsyncCallError, match=r"fails failed for record 2 of partition 5 after 1 call: KeyError"
    ) as raised:
        list(AsyncOperator(fails, AsyncOptions(), context=CallContext(partition=5)).run(["a", "b", "bad", "c"]))
    assert "the record: 'bad'" in str(raised.value)
    assert (raised.value.record, raised.value.attempts) == ("bad", 1)
    assert isinstance(raised.value.__cause__, KeyError)
    frames = []
    traceback = raised.value.__cause__.__traceback__
    while traceback:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert "fails" in frames


def test_an_error_without_a_message_is_told_by_its_class():
    async def fails(record):
        raise TimeoutError

    with pytest.raises(AsyncCallError, match="after 1 call: TimeoutError; the record: 1"):
        run(fails, [1])
    each = operator(fails, on_error="skip")
    assert list(each.run([1])) == [] and each.stats.skipped_records[0].error == "TimeoutError"


def test_an_error_before_the_first_wait_is_the_same_error():
    async def fails(record):
        raise ValueError("early")

    with pytest.raises(AsyncCallError, match="record 0 .* ValueError: early"):
        run(fails, [1, 2])


def test_skipped_records_are_counted_and_kept_with_their_error():
    async def odd_only(record):
        await asyncio.sleep(0)
        if record % 2 == 0:
            raise ValueError(f"{record} is even")
        return record

    each = operator(odd_only, on_error="skip", retry=FixedDelayRetry(1, 0))
    assert list(each.run(range(6))) == [1, 3, 5]
    assert each.stats.skipped == 3 and each.stats.retried == 3
    found = sorted((skipped.record, skipped.error, skipped.attempts) for skipped in each.stats.skipped_records)
    assert found == [(n, f"ValueError: {n} is even", 2) for n in (0, 2, 4)]


@pytest.mark.parametrize(("limit", "kept"), [(2, 2), (0, 0), (None, 1500), (1000, 1000)])
def test_so_many_skipped_records_are_kept_as_the_user_wants(limit, kept):
    async def fails(record):
        raise ValueError

    stats = AsyncStats(kept_limit=limit)
    assert list(AsyncOperator(fails, AsyncOptions(on_error="skip"), stats=stats).run(range(1500))) == []
    assert stats.skipped == 1500 and [each.record for each in stats.skipped_records] == list(range(kept))


def test_on_error_gives_the_result_or_raises():
    async def fails(record):
        raise ValueError(record)

    assert run(fails, [1, 2], on_error=lambda record, error: (record, type(error))) == [
        (1, ValueError),
        (2, ValueError),
    ]
    with pytest.raises(AsyncCallError, match="ZeroDivisionError"):
        run(fails, [1], on_error=lambda record, error: 1 / 0)


def test_an_error_of_the_input_passes_unchanged():
    def source():
        yield 1
        raise OSError("the input broke")

    with pytest.raises(OSError, match="the input broke"):
        run(sleepy, source())


# ---------------------------------------------------------------- time


def test_a_timeout_covers_all_attempts_and_the_delays_between_them():
    attempts = []

    async def slow_failure(record):
        attempts.append(record)
        await asyncio.sleep(0.02)
        raise ValueError("again")

    started = time.perf_counter()
    with pytest.raises(AsyncTimeoutError, match="no result within 0.1 s") as raised:
        run(slow_failure, [1], timeout=0.1, retry=FixedDelayRetry(1000, 0.01))
    assert 0.1 <= time.perf_counter() - started < 2
    assert isinstance(raised.value, TimeoutError) and raised.value.attempts == len(attempts) > 1


def test_a_call_that_hangs_is_cancelled_and_the_others_go_on(event_loop):
    cancelled = []

    async def hangs(record):
        try:
            await asyncio.sleep(3600 if record == 3 else 0.001)
        except asyncio.CancelledError:
            cancelled.append(record)
            raise
        return record

    each = operator(hangs, timeout=0.1, on_error="skip", capacity=2, event_loop=event_loop)
    assert list(each.run(range(8))) == [0, 1, 2, 4, 5, 6, 7]
    assert cancelled == [3] and each.stats.timed_out == 1
    assert "no result within 0.1 s" in each.stats.skipped_records[0].error


def test_there_is_no_attempt_after_the_timeout():
    attempts = []

    async def hangs(record):
        attempts.append(record)
        await asyncio.sleep(3600)

    retry = FixedDelayRetry(5, 0.001, on_exception=(TimeoutError, asyncio.CancelledError))
    assert run(hangs, [1], timeout=0.02, retry=retry, on_timeout=lambda record: ("late", record)) == [("late", 1)]
    assert attempts == [1]


def test_an_input_that_stalls_does_not_time_out_calls_that_have_answered():
    async def quick(record):
        for _ in range(5):
            await asyncio.sleep(0.001)
        return record

    def source():
        yield 1
        yield 2
        time.sleep(0.15)
        yield 3

    assert run(quick, source(), timeout=0.1) == [1, 2, 3]


def test_the_deadline_of_a_task_ends_it():
    with pytest.raises(AsyncTimeoutError, match=r"deadline of 0.05 s for partition 0 passed with 3 records in flight"):
        run(sleepy, [5000] * 3, deadline=0.05)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_rate_limit_spaces_calls(ordered):
    started = time.perf_counter()
    assert len(run(at_once, range(30), rate_limit=200, ordered=ordered)) == 30
    assert time.perf_counter() - started >= 29 / 200 - 0.06


def test_a_rate_limit_counts_retries():
    calls = []

    async def fails(record):
        calls.append(time.perf_counter())
        if len(calls) < 11:
            raise ValueError
        return record

    assert run(fails, [1], rate_limit=100, retry=FixedDelayRetry(10, 0)) == [1]
    assert calls[-1] - calls[0] >= 0.1 - 0.06


# ---------------------------------------------------------------- retries


def test_max_attempts_counts_the_repetitions():
    calls = []

    async def fails(record):
        calls.append(record)
        await asyncio.sleep(0)
        raise ValueError("no")

    each = operator(fails, retry=FixedDelayRetry(3, 0.001))
    with pytest.raises(AsyncCallError, match="after 4 calls"):
        list(each.run([7]))
    assert calls == [7] * 4 and each.stats.retried == 3 and each.stats.calls == 4


def test_only_what_the_predicates_want_is_tried_again():
    calls = []

    async def answers(record):
        calls.append(record)
        if record == "result":
            return calls.count("result")
        raise {"type": KeyError, "callable": ValueError, "other": OSError}[record](record)

    assert run(answers, ["result"], retry=FixedDelayRetry(5, 0, on_result=lambda result: result < 3)) == [3]
    for record, predicate, expected in (
        ("type", KeyError, 3),
        ("type", (OSError, LookupError), 3),
        ("other", KeyError, 1),
        ("callable", lambda error: "call" in str(error), 3),
    ):
        calls.clear()
        with pytest.raises(AsyncCallError):
            run(answers, [record], retry=FixedDelayRetry(2, 0, on_exception=predicate))
        assert len(calls) == expected, record


def test_the_last_result_counts_when_the_attempts_are_used_up():
    async def empty(record):
        return []

    assert run(empty, [1], retry=FixedDelayRetry(2, 0, on_result=lambda result: not result)) == [[]]


def test_exponential_delays_are_each_records_own():
    starts = {}

    async def fails(record):
        starts.setdefault(record, []).append(time.perf_counter())
        await asyncio.sleep(0)
        if len(starts[record]) < 4:
            raise ValueError
        return record

    assert run(fails, [1, 2, 3], retry=ExponentialRetry(3, 0.02, multiplier=2)) == [1, 2, 3]
    for times in starts.values():
        gaps = [after - before for before, after in itertools.pairwise(times)]
        assert all(gap >= wanted - 0.001 for gap, wanted in zip(gaps, (0.02, 0.04, 0.08), strict=True))
        assert gaps[0] < 0.06


def test_jitter_spreads_delays_within_its_bounds():
    retry = FixedDelayRetry(1, 1.0, jitter=0.5)
    delays = [retry.delay_before(1) for _ in range(200)]
    assert 0.5 <= min(delays) < 0.7 and 1.3 < max(delays) <= 1.5
    assert ExponentialRetry(9999, 1.0).delay_before(9999) == 60


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: FixedDelayRetry(0, 1),
        lambda: FixedDelayRetry(1, -1),
        lambda: ExponentialRetry(1, 1, multiplier=0),
        lambda: FixedDelayRetry(1, 1, jitter=2),
        lambda: FixedDelayRetry(True, 1),
        lambda: FixedDelayRetry(1, "1"),
        lambda: FixedDelayRetry(1, 1, jitter="0.5"),
        lambda: ExponentialRetry(1, 1, multiplier=None),
    ],
)
def test_wrong_retries_are_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        wrong()


@pytest.mark.parametrize(
    "predicate",
    [{"on_exception": "ValueError"}, {"on_exception": [ValueError]}, {"on_exception": None}, {"on_result": 5}],
)
def test_what_is_no_predicate_is_refused(predicate):
    with pytest.raises(TypeError, match=f"{next(iter(predicate))} must be .*, got"):
        FixedDelayRetry(1, 1, **predicate)


# ---------------------------------------------------------------- batches, keys, threads, callbacks, AsyncFunction


def test_batches_are_matched_by_position_and_sent_when_full_or_old():
    sizes = []

    async def double(records):
        sizes.append(len(records))
        await asyncio.sleep(0.001)
        return [2 * record for record in records]

    assert run(double, range(25), batch_size=10) == [2 * record for record in range(25)]
    assert sizes == [10, 10, 5]

    def slow_source():
        yield 1
        time.sleep(0.1)
        yield 2

    sizes.clear()
    assert run(double, slow_source(), batch_size=10, batch_timeout=0.01) == [2, 4]
    assert sum(sizes) == 2


def test_an_exception_in_a_batch_is_the_failure_of_its_record_alone():
    calls = []

    async def picky(records):
        calls.append(list(records))
        await asyncio.sleep(0)
        return [ValueError("odd") if record % 2 else record for record in records]

    each = operator(picky, batch_size=4, on_error="skip", retry=FixedDelayRetry(1, 0))
    assert list(each.run(range(4))) == [0, 2]
    assert calls == [[0, 1, 2, 3], [1, 3]] and each.stats.skipped == 2


def test_a_batch_of_the_wrong_size_is_an_error():
    async def short(records):
        return records[1:]

    with pytest.raises(AsyncCallError, match="gave 2 results for a batch of 3 records"):
        run(short, range(3), batch_size=3)


@pytest.mark.parametrize("result", [{1: "a", 2: "b"}, {1, 2}, "ab", None])
def test_what_has_no_positions_is_no_result_of_a_batch(result):
    async def call(records):
        return result

    with pytest.raises(AsyncCallError, match=f"gave a {type(result).__name__} for a batch; give a list"):
        run(call, range(2), batch_size=2)


def test_a_batch_times_out_as_a_whole():
    async def hangs(records):
        await asyncio.sleep(3600)

    each = operator(hangs, batch_size=2, timeout=0.02, on_error="skip")
    assert list(each.run(range(4))) == [] and each.stats.timed_out == 4


@pytest.mark.parametrize("ordered", [True, False])
def test_records_of_one_key_are_called_for_one_after_the_other(ordered):
    busy, order, parallel = set(), {}, []

    async def call(record):
        key = record % 3
        assert key not in busy
        busy.add(key)
        parallel.append(len(busy))
        await asyncio.sleep(0.001)
        busy.remove(key)
        order.setdefault(key, []).append(record)
        return record

    got = run(call, range(60), key=lambda record: record % 3, ordered=ordered, capacity=20)
    assert sorted(got) == list(range(60)) and max(parallel) == 3
    for key, records in order.items():
        assert records == list(range(key, 60, 3)) == [record for record in got if record % 3 == key]


def test_ten_thousand_records_of_one_key_do_not_nest():
    async def call(record):
        if record == 0:
            await asyncio.sleep(0.01)
        return record

    assert run(call, range(10_000), key=lambda record: 0, capacity=10_000) == list(range(10_000))


def test_plain_functions_run_on_a_bounded_pool():
    threads = set()

    def blocking(record, session):
        threads.add(threading.current_thread().name)
        time.sleep(0.002)
        return record * session

    assert run(blocking, range(100), open=lambda: 3, threads=4) == [3 * record for record in range(100)]
    assert len(threads) == 4 and all(name.startswith("flinkbuf-async") for name in threads)


def test_a_plain_function_that_gives_a_coroutine_is_awaited():
    assert run(lambda record: sleepy(record), [3, 1]) == [3, 1]


def test_a_plain_function_that_fails_or_hangs_is_treated_alike():
    def odd(record):
        if record == 2:
            raise ValueError("two")
        time.sleep(0.3 if record == 3 else 0)
        return record

    each = operator(odd, timeout=0.05, on_error="skip")
    assert list(each.run(range(5))) == [0, 1, 4]
    assert (each.stats.skipped, each.stats.timed_out) == (2, 1)


class Callback:
    """Flink's way: the result future is completed by somebody else, later."""

    def async_invoke(self, value, result_future):
        threading.Timer(0.005, result_future.complete, [[value, value]]).start()


def test_a_result_future_is_completed_from_any_thread():
    assert run(Callback(), [1, 2]) == [1, 1, 2, 2]


class Doubling:
    """As a PyFlink AsyncFunction is written."""

    def __init__(self):
        self.seen = []

    def open(self, runtime_context):
        self.seen.append(runtime_context.get_index_of_this_subtask())

    async def async_invoke(self, value):
        await asyncio.sleep(3600 if value == 13 else 0.001)
        return [value] * 2

    def timeout(self, value):
        return ["late", value]

    def close(self):
        self.seen.append("closed")


def test_an_async_function_of_pyflink_is_taken_as_it_is():
    function = Doubling()
    each = AsyncOperator(function, AsyncOptions(timeout=0.05), context=CallContext(partition=4))
    assert list(each.run([1, 13])) == [1, 1, "late", 13]
    assert function.seen == [4, "closed"]


def test_the_class_of_an_async_function_is_no_function():
    with pytest.raises(TypeError, match="Doubling is a class; give an object of it"):
        operator(Doubling)


def test_retry_strategies_of_pyflink_are_taken_without_their_shared_delay():
    class Predicate:
        def result_predicate(self):
            return None

        def exception_predicate(self):
            return lambda error: isinstance(error, KeyError)

    class ExponentialBackoffDelayRetryStrategy:
        _max_attempts, _initial_delay, _max_retry_delay, _multiplier = 3, 100, 1000, 2.0
        can_retry = get_backoff_time_millis = None

        def get_retry_predicate(self):
            return Predicate()

    retry = as_retry(ExponentialBackoffDelayRetryStrategy())
    assert [retry.delay_before(n) for n in (1, 2, 1, 5)] == [0.1, 0.2, 0.1, 1.0]
    assert retry.wants(None, KeyError()) and not retry.wants(None, ValueError())
    with pytest.raises(TypeError, match="retry must be"):
        as_retry("often")


def test_a_retry_strategy_that_a_user_of_pyflink_has_written_is_asked():
    class Odd:
        def can_retry(self, current_attempts):
            return current_attempts % 2 == 1

        def get_backoff_time_millis(self, current_attempts):
            return 5 * current_attempts

        def get_retry_predicate(self):
            return self

        def result_predicate(self):
            return lambda results: not results

        def exception_predicate(self):
            return None

    calls = []

    async def empty(record):
        calls.append(record)
        return []

    assert as_retry(Odd()).delay_before(3) == 0.015
    assert run(empty, [7], retry=Odd()) == [[]] and calls == [7, 7]


def test_a_function_is_told_where_it_runs():
    calls = []

    async def tells(record, context):
        calls.append((context.partition, context.record_number, context.attempt))
        if context.attempt == 1:
            raise ValueError
        return record

    task = AsyncOperator(tells, AsyncOptions(retry=FixedDelayRetry(1, 0)), context=CallContext(partition=2))
    assert list(task.run("ab")) == ["a", "b"]
    assert sorted(calls) == [(2, 0, 1), (2, 0, 2), (2, 1, 1), (2, 1, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity"),
        ({"timeout": 0}, "timeout"),
        ({"batch_size": 200}, "batch_size 200 exceeds"),
        ({"concurrency": 101}, "concurrency 101 exceeds"),
        ({"on_error": "ignore"}, "on_error"),
        ({"event_loop": "fast"}, "event_loop"),
        ({"rate_limit": -1}, "rate_limit"),
        ({"timeout": "5"}, "timeout must be a number .* got '5'"),
        ({"close_timeout": None}, "close_timeout must be a number .* got None"),
    ],
)
def test_wrong_options_are_refused_with_their_value(options, message):
    with pytest.raises(ValueError, match=message):
        AsyncOptions(**options)


def test_a_function_with_the_wrong_arguments_is_refused_before_it_is_called():
    with pytest.raises(TypeError, match=r"would be called with \(record\), as there is no open="):
        operator(at_once_with_session)
    with pytest.raises(TypeError, match=r"would be called with \(record, session\)"):
        operator(at_once, open=list)
    for name, arguments in (("on_error", "record, error"), ("on_timeout", "record"), ("close", "session")):
        with pytest.raises(TypeError, match=rf"{name}\(\) would be called with \({arguments}\)"):
            operator(at_once_with_session, open=list, **{name: lambda: None})
    with pytest.raises(TypeError, match=r"key must be a function, or a field's name or index, got 1\.5"):
        operator(at_once, key=1.5)


# ---------------------------------------------------------------- element by element


class Gated:
    """Calls that end when the test says so."""

    def __init__(self):
        self.futures = {}
        self.calls = []

    async def __call__(self, record):
        self.calls.append(record)
        self.loop = asyncio.get_running_loop()
        self.futures[record] = self.loop.create_future()
        return await self.futures[record]

    def finish(self, record):
        """Let a call end, and wait until the operator has seen it."""
        until = time.monotonic() + 5
        while record not in self.futures and time.monotonic() < until:
            time.sleep(0.0001)
        self.loop.call_soon_threadsafe(self.futures[record].set_result, record)
        seen = threading.Event()
        # The call goes on, settles, and is handed on: three turns of the loop.
        self.loop.call_soon_threadsafe(self._after, 4, seen.set)
        assert seen.wait(5)

    def _after(self, turns, function):
        self.loop.call_soon(self._after, turns - 1, function) if turns else function()


def opened(func, **options):
    out = []
    each = AsyncOperator(func, AsyncOptions(**options), output=out.append)
    each.open()
    return each, out


def test_unordered_results_do_not_pass_watermarks():
    gated = Gated()
    each, out = opened(gated, ordered=False)
    for element in (1, 2, "w1", 3, "w2", 4):
        each.process_watermark(element) if isinstance(element, str) else each.process_element(element, 10 * element)
    for record in (4, 3, 2):
        gated.finish(record)
    each.emit_ready()
    assert out == [RecordElement(2, 20)]
    gated.finish(1)
    each.end_input()
    assert out[1:] == [
        RecordElement(1, 10),
        WatermarkElement("w1"),
        RecordElement(3, 30),
        WatermarkElement("w2"),
        RecordElement(4, 40),
    ]
    each.close()


def test_a_watermark_that_waits_for_nobody_leaves_at_once():
    each, out = opened(at_once)
    each.process_watermark(5)
    each.process_watermark(6)
    assert out == [WatermarkElement(5), WatermarkElement(6)]
    each.close()


def test_watermarks_take_places_in_the_queue():
    gated = Gated()
    each, out = opened(gated, capacity=3)
    each.process_element(1)
    each.process_watermark("w")
    each.process_watermark("w")
    assert each.in_flight_count == 3
    threading.Timer(0.02, lambda: gated.finish(1)).start()
    each.process_element(2)  # waits until there is room
    assert out == [RecordElement(1), WatermarkElement("w"), WatermarkElement("w")]
    gated.finish(2)
    each.end_input()
    each.close()


@pytest.mark.parametrize("ordered", [True, False])
def test_a_snapshot_holds_finished_calls_that_have_not_left_and_is_called_for_again(ordered):
    gated = Gated()
    each, out = opened(gated, ordered=ordered)
    for record in (1, 2):
        each.process_element(record, record)
    each.process_watermark("w")
    each.process_element(3, 3)
    gated.finish(3)
    snapshot = each.snapshot_state()
    assert snapshot == [RecordElement(1, 1), RecordElement(2, 2), WatermarkElement("w"), RecordElement(3, 3)]
    each.close()
    assert out == []
    again, out = opened(at_once, ordered=ordered, capacity=2)
    for element in snapshot:
        if isinstance(element, WatermarkElement):
            again.process_watermark(element.watermark)
        else:
            again.process_element(element.value, element.timestamp)
    again.end_input()
    again.close()
    assert out == snapshot


def test_the_end_of_the_input_waits_for_all_and_tries_once_more_what_waits_for_its_retry():
    calls = []

    async def fails(record):
        calls.append(record)
        await asyncio.sleep(0)
        raise ValueError

    each, out = opened(fails, retry=FixedDelayRetry(50, 3600), on_error=lambda record, error: "given up")
    each.process_element(1)
    wait_until(lambda: calls == [1])
    started = time.perf_counter()
    each.end_input()
    assert out == [RecordElement("given up")] and calls == [1, 1]
    assert time.perf_counter() - started < 5
    each.close()


def test_a_failure_does_not_leave_the_producer_waiting():
    async def fails(record):
        await asyncio.sleep(0.001)
        raise ValueError("no")

    each, _ = opened(fails, capacity=1)
    each.process_element(1)
    with pytest.raises(AsyncCallError):
        each.process_element(2)
    with pytest.raises(AsyncCallError):
        each.end_input()
    each.close()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["record", "record", "record", "watermark"]), max_size=25),
    st.booleans(),
    st.integers(1, 8),
    st.randoms(use_true_random=False),
)
def test_any_order_of_completions_agrees_with_a_model(kinds, ordered, capacity, randomness):
    gated = Gated()
    each, out = opened(gated, ordered=ordered, capacity=capacity)
    with contextlib.closing(each):  # hypothesis leaves by an exception where it runs out of choices
        elements = follow_the_model(each, out, gated, kinds, capacity, randomness)
    if ordered:
        assert out == elements
    else:
        assert epochs(out) == epochs(elements)


def follow_the_model(each, out, gated, kinds, capacity, randomness):
    waiting, elements = [], []

    def finish_one():
        record = waiting.pop(randomness.randrange(len(waiting)))
        gated.finish(record)
        each.emit_ready()

    for number, kind in enumerate(kinds):
        while each.in_flight_count >= capacity:
            finish_one()
        if kind == "record":
            each.process_element(number)
            waiting.append(number)
            elements.append(RecordElement(number))
        else:
            each.process_watermark(number)
            elements.append(WatermarkElement(number))
        assert each.in_flight_count <= capacity
        # Nothing is lost or doubled, at any time: what left and what is in the snapshot are all elements.
        assert sorted(out + each.snapshot_state(), key=lambda element: element[0]) == elements
    while waiting:
        finish_one()
    each.end_input()
    return elements


def epochs(elements):
    """Sets of records between watermarks, and the watermarks."""
    found = [set()]
    for element in elements:
        if isinstance(element, WatermarkElement):
            found += [element, set()]
        else:
            found[-1].add(element)
    return found


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["ok", "fail", "hang"]), st.booleans()), max_size=12),
    st.booleans(),
)
def test_failures_retries_and_timeouts_agree_with_a_model(plans, ordered):
    """A plan: how often a record fails first, how it ends then, and whether it waits before each end."""
    attempts = [0] * len(plans)

    async def call(record):
        failures, end, waits = plans[record]
        attempts[record] += 1
        if waits:
            await asyncio.sleep(0)
        if attempts[record] <= failures or end == "fail":
            raise ValueError(record)
        if end == "hang":
            await asyncio.sleep(3600)
        return record

    each = operator(
        call,
        ordered=ordered,
        timeout=0.05,
        retry=FixedDelayRetry(2, 0),
        on_error="skip",
        capacity=4,
        event_loop="asyncio",
    )
    got = list(each.run(range(len(plans))))
    expected = [n for n, (failures, end, _) in enumerate(plans) if failures <= 2 and end == "ok"]
    assert (got if ordered else sorted(got)) == expected
    hanging = [n for n, (failures, end, _) in enumerate(plans) if failures <= 2 and end == "hang"]
    assert each.stats.timed_out == len(hanging)
    assert each.stats.skipped == len(plans) - len(expected)
    for (failures, end, _), made in zip(plans, attempts, strict=True):
        assert made == (3 if end == "fail" else min(failures, 2) + 1)


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize("point", range(6))
def test_closing_early_cancels_wherever_a_call_waits(point, event_loop):
    reached, left = [], []
    is_there = asyncio.Event()

    class Session:
        async def __aenter__(self):
            await asyncio.sleep(0)
            return self

        async def __aexit__(self, *_):
            await asyncio.sleep(0.001)
            left.append("session")

    async def call(record, session):
        try:
            for step in range(6):
                if step == point and record == 1:
                    reached.append(step)
                    is_there.set()
                    await asyncio.sleep(3600)
                await asyncio.sleep(0)
            await is_there.wait()
            return record
        finally:
            await asyncio.sleep(0)
            left.append(record)

    results = operator(call, open=Session, event_loop=event_loop).run([0, 1, 2])
    assert next(results) == 0
    results.close()
    assert reached == [point] and left[-1] == "session" and {1} <= set(left)


def test_a_call_that_refuses_to_end_is_dropped_within_the_bound(caplog):
    async def stubborn(record):
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    started = time.perf_counter()
    with caplog.at_level(logging.WARNING, "flinkbuf"), pytest.raises(AsyncTimeoutError):
        run(stubborn, [1], deadline=0.02, close_timeout=0.1)
    assert time.perf_counter() - started < 3
    assert "1 calls of" in caplog.text and "dropped" in caplog.text


def test_tasks_that_the_user_left_behind_are_ended():
    ended = []

    async def background():
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    kept = []

    async def call(record):
        kept.append(asyncio.create_task(background()))
        await asyncio.sleep(0)
        await asyncio.to_thread(len, "x")

    run(call, [1, 2])
    assert ended == [True, True]


def test_an_operator_runs_once():
    each = operator(at_once)
    assert list(each.run([1])) == [1]
    with pytest.raises(RuntimeError, match="make another one"):
        list(each.run([1]))
    each.close()


def test_an_error_while_opening_is_shown_and_leaves_nothing(caplog):
    async def fails():
        raise OSError("no server")

    with pytest.raises(OSError, match="no server"):
        run(at_once_with_session, [1], open=fails, close=lambda _: pytest.fail("closed what was not opened"))
    assert not caplog.text


def test_an_error_while_closing_does_not_hide_the_first_one(caplog):
    def bad_close(session):
        raise OSError("close failed")

    with pytest.raises(OSError, match="close failed"):
        run(at_once_with_session, [1], open=list, close=bad_close)

    async def fails(record, session):
        raise ValueError("the first")

    with pytest.raises(AsyncCallError, match="the first"):
        run(fails, [1], open=list, close=bad_close)
    assert "closing the session failed as well" in caplog.text


@pytest.mark.filterwarnings("error")
def test_debug_mode_of_asyncio_finds_nothing(monkeypatch, caplog):
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")

    class Debug(AsyncOperator):
        def open(self):
            super().open()
            self._thread.loop.set_debug(True)
            self._thread.loop.slow_callback_duration = 5

    async def call(record):
        await asyncio.gather(asyncio.sleep(0.001), asyncio.sleep(record / 1000))
        if record == 3:
            await asyncio.sleep(3600)
        return record

    with caplog.at_level(logging.WARNING, "asyncio"):
        options = AsyncOptions(timeout=0.05, on_error="skip", event_loop="asyncio", ordered=False)
        assert sorted(Debug(call, options).run([3, 2, 1])) == [1, 2]
        gc.collect()
    assert caplog.text == ""


def test_memory_does_not_grow_with_the_number_of_records():
    async def sometimes_waits(record):
        if record % 100 == 0:
            await asyncio.sleep(0)
        return record

    each = operator(sometimes_waits, timeout=60.0, ordered=False).run(iter(range(300_000)))
    for _ in range(20_000):
        next(each)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert sum(1 for _ in each) == 280_000
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- real servers


@pytest.fixture
def http_server():
    """An aiohttp server on a thread: /ok/<n>, /fail/<n> (500 twice, then well), /hang, /reset."""
    web = pytest.importorskip("aiohttp.web", reason="aiohttp is not installed")
    calls, started, port, stop = {}, threading.Event(), [], []

    async def ok(request):
        await asyncio.sleep(0.002)
        return web.json_response(int(request.match_info["n"]))

    async def fail(request):
        n = request.match_info["n"]
        calls[n] = calls.get(n, 0) + 1
        return web.json_response(int(n)) if calls[n] > 2 else web.Response(status=500)

    async def hang(request):
        await asyncio.sleep(3600)

    async def reset(request):
        request.transport.abort()
        return web.Response()

    async def serve():
        app = web.Application()
        app.add_routes(
            [
                web.get("/ok/{n}", ok),
                web.get("/fail/{n}", fail),
                web.get("/hang/{n}", hang),
                web.get("/reset/{n}", reset),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.append(runner.addresses[0][1])
        stop.extend([asyncio.get_running_loop(), asyncio.Event()])
        started.set()
        await stop[1].wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(10)
    yield f"http://127.0.0.1:{port[0]}"
    stop[0].call_soon_threadsafe(stop[1].set)
    thread.join(10)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_real_http_server_that_fails_hangs_and_resets(http_server, event_loop, ordered):
    import aiohttp

    async def fetch(path, session):
        async with session.get(f"{http_server}/{path}", timeout=aiohttp.ClientTimeout(total=30)) as response:
            response.raise_for_status()
            return await response.json()

    paths = [f"{('ok', 'fail')[n % 2]}/{n}" for n in range(100)]
    paths[40], paths[70] = "hang/40", "reset/70"
    each = operator(
        fetch,
        open=aiohttp.ClientSession,
        ordered=ordered,
        timeout=3.0,
        on_error="skip",
        event_loop=event_loop,
        retry=FixedDelayRetry(3, 0.01, on_exception=aiohttp.ClientError),
    )
    expected = [n for n in range(100) if n not in (40, 70)]
    got = list(each.run(paths))
    assert (got if ordered else sorted(got)) == expected
    assert {skipped.record for skipped in each.stats.skipped_records} == {"hang/40", "reset/70"}
    assert each.stats.timed_out == 1
    assert each.stats.retried == 2 * 50 + 3


@pytest.fixture(scope="module")
def postgres():
    """A PostgreSQL server of the test's own; gives host and port."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    with postgres_server() as server:
        yield server.host, server.port


def test_a_real_database_over_a_pool_of_connections(postgres, event_loop):
    import asyncpg

    host, port = postgres

    def connect():
        return asyncpg.create_pool(host=host, port=port, user="tester", database="postgres", min_size=4, max_size=4)

    async def square(record, pool):
        async with pool.acquire() as connection:
            if record == 13:
                await connection.execute("select pg_sleep(60)")
            if record == 14:
                return await connection.fetchval("select 1 / 0")
            return await connection.fetchval("select $1::int * $1::int", record)

    each = operator(square, open=connect, timeout=3.0, on_error="skip", event_loop=event_loop)
    assert list(each.run(range(200))) == [record * record for record in range(200) if record not in (13, 14)]
    errors = sorted(skipped.error.split(":")[0] for skipped in each.stats.skipped_records)
    assert errors == ["AsyncTimeoutError", "DivisionByZeroError"]
