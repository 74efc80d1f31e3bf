"""What the async operator promises while calls are made: places, keys, threads, time, and errors of every kind."""

import asyncio
import contextlib
import contextvars
import logging
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.worlds.async_operator import at_once, operator, run, sleepy

from flinkbuf import FlinkbufError
from flinkbuf.async_io import AsyncStats, CallContext, FixedDelayRetry
from flinkbuf.async_io.calls import AsyncCalls
from flinkbuf.async_io.function import AsyncOptions, CompletedTwiceError, as_function
from flinkbuf.async_io.handover import Outbox
from flinkbuf.async_io.loop import new_event_loop
from flinkbuf.errors import AsyncCallError, AsyncTimeoutError

pytestmark = pytest.mark.usefixtures("nothing_is_left")


# ---------------------------------------------------------------- capacity


class Counted:
    """An input and an output that know how many records are between them, at the moment of each step."""

    def __init__(self, count, slow_input=0.0):
        self.count, self.slow_input = count, slow_input
        self.taken = self.given = self.most = 0

    def __iter__(self):
        for record in range(self.count):
            time.sleep(self.slow_input)
            self.taken += 1
            self.most = max(self.most, self.taken - self.given)
            yield record


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("capacity", [1, 2, 7, 50])
@pytest.mark.parametrize("waits", ["never", "mixed", "always"])
def test_between_input_and_output_are_never_more_records_than_the_capacity(ordered, capacity, waits):
    async def call(record):
        if waits == "always" or (waits == "mixed" and record % 3):
            await asyncio.sleep(0.0002 * (record % 4))
        return record

    source = Counted(300)
    for _ in operator(call, ordered=ordered, capacity=capacity).run(source):
        source.given += 1
    assert source.given == 300 and source.most <= capacity


@pytest.mark.parametrize("slow", ["input", "output"])
def test_the_capacity_holds_while_input_or_output_block(slow):
    source = Counted(60, slow_input=0.002 if slow == "input" else 0)
    each = operator(sleepy_by_three, capacity=8, ordered=False)
    for _ in each.run(source):
        if slow == "output":
            time.sleep(0.003)
        source.given += 1
    assert source.given == 60 and source.most <= 8 and each.stats.max_in_flight <= 8


async def sleepy_by_three(record):
    await asyncio.sleep(0.001 * (record % 3))
    return record


def test_records_that_are_skipped_or_flat_do_not_count_twice_nor_never():
    async def copies(record):
        await asyncio.sleep(0)
        if record % 5 == 0:
            raise ValueError
        return [record] * (record % 3)

    source = Counted(200)
    seen = None
    for result in operator(copies, capacity=6, flat=True, on_error="skip").run(source):
        # All results of a record but the last still hold its place; so do records without any that came with it.
        source.given += result != seen
        seen = result
    assert source.taken == 200
    assert source.most - 200 * 8 // 15 <= 6 + 200 * 8 // 15  # a third has no result, a fifth is skipped


# ---------------------------------------------------------------- calls go on while the task is busy


async def five_steps(record, seen):
    for _ in range(5):
        await asyncio.sleep(0.002)
    seen.append(time.perf_counter())
    return record


def test_calls_go_on_while_the_input_blocks():
    ended, resumed = [], []

    def source():
        yield from range(20)
        time.sleep(0.3)
        resumed.append(time.perf_counter())
        yield 20

    assert len(run(lambda_coroutine(ended), source(), capacity=50)) == 21
    assert len([end for end in ended if end < resumed[0]]) == 20


def test_calls_go_on_while_the_output_blocks():
    ended, resumed = [], []
    for result in operator(lambda_coroutine(ended, quick=0), capacity=50).run(range(20)):
        if result == 0:
            time.sleep(0.3)
            resumed.append(time.perf_counter())
    assert len([end for end in ended if end < resumed[0]]) == 20


def lambda_coroutine(ended, quick=None):
    async def call(record):
        if record == quick:
            ended.append(0)
            await asyncio.sleep(0.001)
            return record
        return await five_steps(record, ended)

    return call


def test_new_calls_are_made_while_the_output_is_slow():
    calls, ahead = [], []

    async def call(record):
        calls.append(record)
        await asyncio.sleep(0.01)
        return record

    for count, _ in enumerate(operator(call, capacity=20, ordered=False).run(range(200))):
        time.sleep(0.005)
        ahead.append(len(calls) - count)
    # Not only when all that was ready has been given on: then it would fall to nothing again and again.
    assert sorted(ahead[20:150])[130 // 4] >= 10


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("ordered", [True, False])
def test_no_record_is_called_for_twice_or_out_of_turn_however_often_the_loop_looks_for_early_ones(
    ordered, event_loop, monkeypatch
):
    monkeypatch.setattr("flinkbuf.async_io.calls._EARLY_SECONDS", 0.0)
    order = []

    async def call(record):
        order.append(record)
        if record % 3 == 0:
            await asyncio.sleep(0)
        return record

    def source():
        for record in range(3000):
            if record % 7 == 0:
                time.sleep(0)
            yield record

    got = run(call, source(), capacity=50, ordered=ordered, event_loop=event_loop)
    assert order == list(range(3000)) and (got if ordered else sorted(got)) == order


def test_records_that_came_early_wait_for_the_chunk_before_theirs():
    options, order, outbox = AsyncOptions(), [], Outbox()

    async def call(record):
        order.append(record)

    loop = new_event_loop()
    calls = AsyncCalls(
        as_function(call, options),
        options,
        CallContext(),
        AsyncStats(),
        outbox,
        loop,
        base_context=contextvars.copy_context(),
    )
    loop.run_until_complete(calls.open())
    calls.inbox.put(calls.start, [0, 1, 2])
    calls.pulled = 1, [3]
    calls._start_early()  # the chunk before still lies in the inbox
    assert order == []
    loop.run_until_complete(asyncio.sleep(0))
    calls._start_early()
    calls.pulled[1].append(4)
    calls._start_early()
    calls.inbox.put(calls.start, [*calls.pulled[1], 5])
    calls.pulled = 2, [6]
    loop.run_until_complete(asyncio.sleep(0))
    calls.pulled = None
    calls._start_early()
    loop.run_until_complete(calls.close())
    loop.close()
    assert order == [0, 1, 2, 3, 4, 5] and outbox.take() == ([None] * 6, 6)


# ---------------------------------------------------------------- places of calls that were cancelled


@pytest.mark.parametrize("ordered", [True, False])
def test_the_next_of_a_key_waits_until_a_call_that_ran_out_of_time_has_really_ended(ordered):
    busy = []

    async def call(record):
        assert not busy
        busy.append(record)
        try:
            await asyncio.sleep(3600 if record % 4 == 0 else 0.001)
        finally:
            await asyncio.sleep(0.005)
            busy.remove(record)
        return record

    each = operator(call, key=lambda record: 0, timeout=0.5, on_error="skip", ordered=ordered)
    assert list(each.run(range(8))) == [1, 2, 3, 5, 6, 7]
    assert each.stats.timed_out == 2 and each.stats.skipped == 2


def test_a_call_that_ran_out_of_time_counts_until_it_has_ended():
    running, most = set(), []

    async def call(record):
        running.add(record)
        most.append(len(running))
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            running.remove(record)

    each = operator(call, capacity=3, timeout=0.02, on_error="skip", ordered=False)
    assert list(each.run(range(12))) == [] and each.stats.timed_out == 12
    assert max(most) == 3


def test_a_call_that_does_not_end_loses_its_place_in_the_end():
    async def stubborn(record):
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.6)

    started = time.perf_counter()
    each = operator(stubborn, capacity=1, timeout=0.01, on_error="skip", close_timeout=0.05, key=lambda record: 0)
    assert list(each.run(range(5))) == [] and each.stats.timed_out == 5
    assert time.perf_counter() - started < 5 * 0.6


def test_the_timeout_does_not_run_while_a_record_waits_for_a_thread():
    def blocking(record):
        time.sleep(0.1)
        return record

    # Two threads, so the last record waits for 1.1 s.
    assert run(blocking, range(24), threads=2, timeout=0.9) == list(range(24))


def test_ten_thousand_that_run_out_of_time_at_once():
    async def hangs(record):
        await asyncio.sleep(3600)

    started = time.perf_counter()
    each = operator(hangs, capacity=10_000, timeout=0.3, on_error="skip", ordered=False)
    assert list(each.run(range(10_000))) == [] and each.stats.timed_out == 10_000
    assert time.perf_counter() - started < 20  # some 0.8 s if nobody else is busy


# ---------------------------------------------------------------- batches with keys


def test_records_that_wait_for_their_key_come_together_in_batches():
    sizes = []

    async def call(records):
        assert len({record % 20 for record in records}) == len(records)
        sizes.append(len(records))
        await asyncio.sleep(0.001)
        return records

    got = run(call, range(400), key=lambda record: record % 20, batch_size=10, capacity=100, ordered=False)
    assert sorted(got) == list(range(400))
    assert len(sizes) < 100  # 40 at best


def test_at_the_end_of_the_input_no_batch_waits_to_be_filled():
    async def call(records):
        return records

    started = time.perf_counter()
    assert run(call, range(20), key=lambda record: 0, batch_size=5, batch_timeout=2) == list(range(20))
    assert time.perf_counter() - started < 2 * 2


# ---------------------------------------------------------------- errors of every kind


class Abort(BaseException):
    """Neither an Exception nor an interrupt."""


def raising(error, moment):
    if moment == "at once":

        async def call(record):
            raise error
    elif moment == "after a wait":

        async def call(record):
            await asyncio.sleep(0.001)
            raise error
    else:

        def call(record):
            raise error

    return call


MOMENTS = ["at once", "after a wait", "on a thread"]


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "error", [asyncio.CancelledError, StopIteration, StopAsyncIteration, GeneratorExit, TimeoutError]
)
def test_what_a_call_raises_is_its_failure_and_no_ones_else(error, moment, event_loop):
    with pytest.raises(AsyncCallError, match="failed for record 0 of partition 0 after 1 call: ") as raised:
        run(raising(error, moment), [1, 2], event_loop=event_loop)
    assert raised.value.record == 1 and not isinstance(raised.value, AsyncTimeoutError)
    each = operator(raising(error, moment), on_error="skip", event_loop=event_loop)
    assert list(each.run(range(5))) == [] and each.stats.skipped == 5


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Abort])
def test_interrupts_pass_unchanged_and_nothing_is_skipped(error, moment, event_loop, caplog):
    closed = []

    async def call(record, session):
        result = raising(error, moment)(record)
        return await result if asyncio.iscoroutine(result) else result

    with caplog.at_level(logging.WARNING), pytest.raises(error):
        run(call, [1, 2], on_error="skip", event_loop=event_loop, open=list, close=closed.append)
    assert closed == [[]]
    assert caplog.text == ""


def test_an_interrupt_in_a_task_of_the_user_ends_the_operator():
    async def interrupted():
        raise KeyboardInterrupt

    async def call(record):
        await asyncio.create_task(interrupted())

    with pytest.raises(KeyboardInterrupt):
        run(call, [1])


@pytest.mark.parametrize("option", ["key", "on_result", "on_exception"])
def test_an_error_of_the_users_other_functions_names_the_record(option):
    async def call(record):
        if option == "on_exception":
            raise ValueError("first")
        return record

    def fails(_):
        raise LookupError(option)

    options = {"key": fails} if option == "key" else {"retry": FixedDelayRetry(1, 0, **{option: fails})}
    with pytest.raises(
        AsyncCallError, match=rf"(key|retry)= of .* failed for record 0 .*LookupError: {option}; the record: 7"
    ) as raised:
        run(call, [7], **options)
    assert isinstance(raised.value.__cause__, LookupError)


def test_a_key_that_cannot_be_hashed_is_an_error_of_its_record():
    with pytest.raises(AsyncCallError, match=r"key= of at_once failed for record 0 .* unhashable type"):
        run(at_once, [[1]], key=lambda record: record)


@pytest.mark.parametrize("result", [7, None, object()])
def test_what_cannot_be_taken_apart_is_an_error_where_results_are_flat(result):
    async def call(record):
        return result

    def plain(record):
        return result

    for func in (call, plain):
        with pytest.raises(AsyncCallError, match="record 0 .* TypeError"):
            run(func, [1], flat=True)
        each = operator(func, flat=True, on_error="skip")
        assert list(each.run([1, 2])) == [] and each.stats.skipped == 2


def test_what_a_plain_function_yields_is_taken_on_its_thread():
    seen = set()

    def counts(record):
        for number in range(record):
            seen.add(threading.current_thread().name)
            yield number

    assert run(counts, [2, 0, 3], flat=True) == [0, 1, 0, 1, 2]
    assert all(name.startswith("flinkbuf-async_") for name in seen)


def test_functions_that_nothing_would_await_are_refused():
    async def handles(record, error=None):
        return record

    for name in ("on_error", "on_timeout", "key"):
        with pytest.raises(TypeError, match=f"{name} must be a plain function"):
            AsyncOptions(**{name: handles})

    async def generates(record):
        yield record

    with pytest.raises(TypeError, match="asynchronous generator; return a list"):
        operator(generates)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 0, -1])
def test_times_are_finite(value):
    for name in ("timeout", "deadline", "rate_limit"):
        with pytest.raises(ValueError, match=name):
            AsyncOptions(**{name: value})


# ---------------------------------------------------------------- result futures


class Completes:
    """Flink's way; what it is told to do with the result future runs on another thread."""

    def __init__(self, complete):
        self.complete = complete
        self.threads = []

    def async_invoke(self, value, result_future):
        thread = threading.Thread(target=self.complete, args=(value, result_future))
        self.threads.append(thread)
        thread.start()

    def close(self):
        for thread in self.threads:
            thread.join()


def test_a_result_future_takes_an_error_or_a_function_that_is_called_on_the_loops_thread():
    seen = []

    def complete(value, future):
        if value == 1:
            future.complete_exceptionally(ValueError("one"))
        else:
            future.complete(lambda: [threading.current_thread().name, 1 // value])

    each = operator(Completes(complete), on_error="skip", capacity=1)
    seen = list(each.run([2, 1, 0]))
    assert seen == ["flinkbuf-async-loop", 0]
    assert [skipped.error for skipped in each.stats.skipped_records] == [
        "ValueError: one",
        "ZeroDivisionError: integer division or modulo by zero",
    ]


@pytest.mark.parametrize("second", ["complete", "complete_exceptionally"])
def test_a_second_completion_fails_the_task_and_the_one_who_completes(second):
    told = []

    def complete(value, future):
        future.complete([value])
        try:
            getattr(future, second)(ValueError() if second == "complete_exceptionally" else [8])
        except FlinkbufError as error:
            told.append(error)
        while value and not told:
            time.sleep(0.001)

    with pytest.raises(CompletedTwiceError, match="record 0 was completed twice"):
        run(Completes(complete), [1, 0, 0] + [0] * 500, capacity=1)
    assert told


def test_a_result_that_comes_after_the_timeout_is_ignored():
    def complete(value, future):
        time.sleep(0.6 if value == 1 else 0)
        future.complete([value])

    each = operator(Completes(complete), timeout=0.3, on_error="skip")
    assert list(each.run([1, 2])) == [2] and each.stats.timed_out == 1


@pytest.mark.parametrize("results", [None, 5])
def test_a_result_future_wants_an_iterable(results):
    with pytest.raises(AsyncCallError, match="record 0 .* TypeError"):
        run(Completes(lambda value, future: future.complete(results)), [1])


# ---------------------------------------------------------------- what users do inside


def test_the_users_asyncio_works_inside_a_call():
    async def call(record):
        process = await asyncio.create_subprocess_exec("echo", str(record), stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        in_thread = await asyncio.to_thread(int, out)
        first, second = await asyncio.gather(asyncio.sleep(0, in_thread), asyncio.create_task(sleepy(1)))
        async for each in generates():
            first += each
        async with asyncio.Lock():
            return await asyncio.wait_for(asyncio.shield(asyncio.sleep(0, first + second)), 5)

    async def generates():
        yield 1
        await asyncio.sleep(0)
        yield 2

    for event_loop in ("asyncio", "uvloop"):
        assert run(call, range(3), event_loop=event_loop) == [4, 5, 6]


def test_context_variables_of_the_task_are_seen_and_those_of_a_call_are_its_own():
    variable = contextvars.ContextVar("variable")
    variable.set("task")

    async def call(record):
        found = variable.get()
        variable.set(record)
        await asyncio.sleep(0)
        return found, variable.get()

    assert run(call, [1, 2]) == [("task", 1), ("task", 2)]


def test_a_function_that_blocks_the_loop_does_not_time_out_calls_that_have_answered():
    async def call(record):
        for _ in range(5):
            await asyncio.sleep(0.001)
        if record == 0:
            time.sleep(0.3)
        return record

    assert run(call, range(5), timeout=0.2) == list(range(5))


# ---------------------------------------------------------------- what is told


def test_progress_is_logged_also_while_nothing_moves(caplog):
    async def hangs(record):
        await asyncio.sleep(3600)

    with caplog.at_level(logging.INFO, "flinkbuf"), pytest.raises(AsyncTimeoutError):
        run(hangs, range(3), deadline=0.2, log_interval=0.04)
    lines = [record.getMessage() for record in caplog.records]
    assert 3 <= len(lines) <= 12
    assert lines[0].startswith("async: partition 0: 3 records, 0 results, 3 calls") and lines[0].endswith("3 in flight")


def test_pyflinks_runtime_context_is_there_for_open():
    context = CallContext(partition=2, partition_count=4, stage=7)
    assert context.get_task_name_with_subtasks() == "async_map stage 7 (3/4)#0"
    assert context.get_job_parameter("k", "v") == "v" and context.get_max_number_of_parallel_subtasks() == 4


# ---------------------------------------------------------------- everything together


class Watched:
    """A function of every kind that fails as planned, and sees what runs beside it."""

    def __init__(self, failures, keys):
        self.failures, self.keys = failures, keys
        self.lock = threading.Lock()
        self.running, self.most, self.attempts, self.order = [], 0, [0] * len(failures), {}
        self.sizes = []

    def begin(self, records):
        with self.lock:
            self.sizes.append(len(records))
            for record in records:
                self.attempts[record] += 1
                if self.keys:
                    assert record % self.keys not in [other % self.keys for other in self.running if other != record]
                    order = self.order.setdefault(record % self.keys, [])
                    if self.attempts[record] == 1:
                        order.append(record)
            self.running += records
            self.most = max(self.most, len(self.running))

    def end(self, records):
        with self.lock:
            for record in records:
                self.running.remove(record)
        return [ValueError(record) if self.attempts[record] <= self.failures[record] else -record for record in records]

    async def one(self, record):
        self.begin([record])
        if record % 3:
            await asyncio.sleep(0.0003 * (record % 4))
        (outcome,) = self.end([record])
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    def blocking(self, record):
        self.begin([record])
        time.sleep(0.0003 * (record % 4))
        (outcome,) = self.end([record])
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    async def many(self, records):
        self.begin(records)
        await asyncio.sleep(0.0003 * (len(records) % 3))
        return self.end(records)


@settings(max_examples=150, deadline=None)
@given(
    failures=st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), max_size=60),
    kind=st.sampled_from(["one", "blocking", "many"]),
    ordered=st.booleans(),
    capacity=st.integers(1, 30),
    concurrency=st.none() | st.integers(1, 30),
    keys=st.sampled_from([0, 1, 3, 100]),
    batch_size=st.integers(1, 30),
    rate_limit=st.sampled_from([None, 20_000.0]),
    event_loop=st.sampled_from(["asyncio", "auto"]),
)
def test_every_record_comes_to_its_end_once_whatever_the_options(
    failures, kind, ordered, capacity, concurrency, keys, batch_size, rate_limit, event_loop
):
    watched = Watched(failures, keys)
    concurrency = concurrency and min(concurrency, capacity)
    batch_size = min(batch_size, capacity) if kind == "many" else None
    each = operator(
        getattr(watched, kind),
        ordered=ordered,
        capacity=capacity,
        concurrency=concurrency,
        rate_limit=rate_limit,
        key=(lambda record: record % keys) if keys else None,
        batch_size=batch_size,
        batch_timeout=0.001,
        threads=8,
        retry=FixedDelayRetry(2, 0.0001, jitter=0.5),
        on_error="skip",
        event_loop=event_loop,
    )
    source = Counted(len(failures))
    got = []
    for result in each.run(source):
        source.given += 1
        got.append(-result)
    expected = [record for record, failed in enumerate(failures) if failed <= 2]
    assert (got if ordered else sorted(got)) == expected
    assert watched.attempts == [min(failed, 2) + 1 for failed in failures]
    assert each.stats.skipped == len(failures) - len(expected) and each.stats.results == len(expected)
    assert source.most - each.stats.skipped <= capacity
    assert watched.most <= (concurrency or capacity) * (batch_size or 1) and watched.running == []
    assert all(order == sorted(order) for order in watched.order.values())
    assert max(watched.sizes, default=0) <= (batch_size or 1)
