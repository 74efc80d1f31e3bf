"""The thread of the event loop: what it opens it closes, within a bound, whatever the user's code does to it."""

import asyncio
import gc
import logging
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.worlds.async_operator import operator, run

from flinkbuf.async_io.function import AsyncOptions
from flinkbuf.async_io.loop import LoopThread, LoopTimeoutError
from flinkbuf.async_io.operator import AsyncOperator
from flinkbuf.errors import AsyncCallError, AsyncTimeoutError

pytestmark = pytest.mark.usefixtures("nothing_is_left")


async def with_session(record, session):
    return record


@pytest.fixture(params=["asyncio", "uvloop"])
def event_loop(request):
    if request.param == "uvloop":
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    return request.param


def no_thread_left():
    until = time.monotonic() + 5
    while time.monotonic() < until and any(each.name.startswith("flinkbuf") for each in threading.enumerate()):
        time.sleep(0.01)


# ---------------------------------------------------------------- the thread alone


def test_a_coroutine_runs_on_the_thread_and_its_result_comes_back(event_loop):
    thread = LoopThread(event_loop, lambda error: None)

    async def name():
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert thread.run(name()) == "flinkbuf-async-loop"
    assert thread.close(1)
    assert thread.where() == "its end"


def test_one_that_takes_too_long_is_cancelled_and_the_place_is_told(event_loop):
    thread, seen = LoopThread(event_loop, lambda error: None), []

    async def hangs():
        try:
            await asyncio.sleep(3600)
        finally:
            seen.append("left")

    with pytest.raises(LoopTimeoutError, match="not done within 0.02 s; the loop is at "):
        thread.run(hangs(), 0.02)
    assert thread.close(1) and seen == ["left"]


def test_neither_an_interrupt_nor_the_users_stop_ends_the_loop(event_loop):
    seen = []
    thread = LoopThread(event_loop, seen.append)

    async def interrupted():
        asyncio.get_running_loop().stop()
        raise KeyboardInterrupt

    async def fine():
        return 7

    with pytest.raises(KeyboardInterrupt):
        thread.run(interrupted())
    assert thread.run(fine()) == 7
    assert thread.close(1) and len(seen) == 1


def test_tasks_that_leave_others_behind_are_all_ended(event_loop):
    ended = []

    async def leaves(count):
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(count)
            if count:
                asyncio.ensure_future(leaves(count - 1))  # noqa: RUF006  # left behind, as its name says

    async def call(record):
        asyncio.ensure_future(leaves(3))  # noqa: RUF006  # nobody holds what is left behind
        await asyncio.sleep(0)

    run(call, [1], event_loop=event_loop)
    assert ended == [3, 2, 1, 0]


# ---------------------------------------------------------------- closing within a bound


def test_a_blocked_loop_is_left_and_told(event_loop, caplog):
    is_there, may_end = asyncio.Event(), threading.Event()

    async def blocks(record):
        if record:
            is_there.set()
            await asyncio.sleep(0.02)
            may_end.wait(10)
        await is_there.wait()
        return record

    results = operator(blocks, close_timeout=0.1, event_loop=event_loop).run([0, 1])
    assert next(results) == 0
    time.sleep(0.1)
    with caplog.at_level(logging.WARNING, "flinkbuf"):
        results.close()
    assert not may_end.is_set() and "was left" in caplog.text and "in blocks → " in caplog.text
    may_end.set()
    no_thread_left()


def test_the_deadline_finds_a_blocked_loop(monkeypatch):
    async def blocks(record):
        time.sleep(0.8)

    monkeypatch.setattr("flinkbuf.async_io.operator._DEADLINE_SECONDS", 0.1)
    with pytest.raises(AsyncTimeoutError, match="deadline of 0.1 s .* the event loop is blocked at .* in blocks"):
        run(blocks, [1], deadline=0.1, close_timeout=0.05)
    no_thread_left()


def test_the_deadline_holds_for_opening_too(event_loop):
    closed = []
    started = time.perf_counter()
    with pytest.raises(AsyncTimeoutError, match="the deadline passed while open= ran"):
        hangs = {"open": lambda: asyncio.sleep(3600), "close": closed.append, "deadline": 0.05}
        run(with_session, [1], event_loop=event_loop, **hangs)
    assert time.perf_counter() - started < 2 and closed == []


def test_a_generator_that_does_not_end_holds_nothing_up(event_loop, caplog):
    async def endless():
        try:
            while True:
                yield 1
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(3600)

    kept = []

    async def call(record):
        generator = endless()
        kept.append(generator)
        return await anext(generator)

    started = time.perf_counter()
    with caplog.at_level(logging.WARNING, "flinkbuf"):
        assert run(call, [1], close_timeout=0.1, event_loop=event_loop) == [1]
    assert time.perf_counter() - started < 2 and "did not end" in caplog.text


@pytest.mark.parametrize("error", [ValueError, RuntimeError, KeyError])
def test_a_call_that_fails_when_it_is_dropped_does_not_keep_the_session_open(error, event_loop, caplog):
    closed = []

    async def stubborn(record, session):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
            except GeneratorExit:
                raise error("dropped") from None

    with caplog.at_level(logging.WARNING, "flinkbuf"), pytest.raises(AsyncTimeoutError):
        run(stubborn, [1], deadline=0.05, close_timeout=0.05, open=list, close=closed.append, event_loop=event_loop)
    assert closed == [[]] and "1 calls of" in caplog.text


def test_a_close_that_hangs_is_given_up(event_loop):
    async def hangs(session):
        await asyncio.sleep(3600)

    started = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"closing the session took longer than close_timeout, 0\.1 s"):
        run(with_session, [1], open=list, close=hangs, close_timeout=0.1, event_loop=event_loop)
    assert time.perf_counter() - started < 2


def test_a_blocking_thread_is_left_and_told(caplog):
    is_there, may_end = threading.Event(), threading.Event()

    def blocks(record):
        if record:
            is_there.set()
            may_end.wait(10)
        is_there.wait(10)
        return record

    results = operator(blocks, close_timeout=0.05).run([0, 1])
    assert next(results) == 0
    with caplog.at_level(logging.WARNING, "flinkbuf"):
        results.close()
    assert not may_end.is_set() and "1 threads still run" in caplog.text
    may_end.set()
    no_thread_left()


def test_results_that_nobody_reads_any_more_are_closed_wherever_the_garbage_collector_finds_them(event_loop):
    is_started, is_garbage, closed = threading.Event(), threading.Event(), []

    async def collects(record, session):
        if record == 0:  # its result is not taken before the second call is under way
            while not is_started.is_set():
                await asyncio.sleep(0.001)
        if record == 1:
            is_started.set()
            while not is_garbage.is_set():
                await asyncio.sleep(0.001)
            gc.collect()
        return record

    results = operator(collects, open=list, close=closed.append, event_loop=event_loop).run(range(3))
    assert next(results) == 0
    cycle = [results]
    cycle.append(cycle)
    gc.disable()
    try:
        del results, cycle
        is_garbage.set()
        no_thread_left()
    finally:
        gc.enable()
    assert closed == [[]]


# ---------------------------------------------------------------- sessions


class Transaction:
    def __init__(self):
        self.seen = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, traceback):
        self.seen.append((kind, error, traceback is not None))


def test_a_context_manager_learns_why_it_is_left():
    async def fails(record, session):
        raise ValueError("no")

    session = Transaction()
    run(with_session, [1], open=lambda: session)
    assert session.seen == [(None, None, False)]

    session = Transaction()
    with pytest.raises(AsyncCallError) as caught:
        run(fails, [1], open=lambda: session)
    assert session.seen == [(AsyncCallError, caught.value, True)]


def test_reading_no_further_is_no_failure_for_the_session():
    session = Transaction()
    results = operator(with_session, open=lambda: session).run(range(10))
    next(results)
    results.close()
    assert session.seen == [(None, None, False)]


@pytest.mark.parametrize("make", [asyncio.Lock, lambda: asyncio.Semaphore(1), asyncio.Condition])
def test_a_lock_that_calls_share_is_not_taken_for_the_whole_task(make):
    async def call(record, lock):
        async with lock:
            await asyncio.sleep(0.001)
        return record

    assert run(call, range(5), open=make, timeout=5.0) == list(range(5))


# ---------------------------------------------------------------- interrupts from outside


def test_ctrl_c_closes_the_session_and_ends_the_process(tmp_path):
    script = tmp_path / "interrupted.py"
    script.write_text(
        f"""
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests in the background has it ignored
sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
from flinkbuf.async_io.function import AsyncOptions
from flinkbuf.async_io.operator import AsyncOperator

async def hangs(record, session):
    print("called", flush=True)
    await asyncio.sleep(3600)

options = AsyncOptions(open=list, close=lambda session: print("closed", flush=True))
list(AsyncOperator(hangs, options).run([1]))
"""
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, script], **pipes) as process:
        try:
            assert process.stdout.readline() == "called\n"
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert out == "closed\n" and errors.rstrip().endswith("KeyboardInterrupt")


async def sleeps(seconds):
    time.sleep(seconds)
    return seconds


async def awaits(seconds):
    await asyncio.sleep(seconds)
    return seconds


@pytest.mark.parametrize("naps", [[0.6], [0.01] * 60], ids=["one long", "many short"])
def test_a_coroutine_that_blocks_the_loop_is_told_of_at_once_and_once_with_its_line(naps, caplog):
    assert list(AsyncOperator(sleeps, AsyncOptions(capacity=100, timeout=30.0)).run(naps * 2)) == naps * 2
    told = [record.getMessage() for record in caplog.records if "blocks the event loop" in record.getMessage()]
    assert len(told) == 1, caplog.text
    assert told[0].startswith("async: sleeps blocks the event loop, for 0.")
    assert f"{__file__}:{sleeps.__code__.co_firstlineno + 1} in sleeps: time.sleep(seconds)" in told[0]


@pytest.mark.parametrize(("function", "naps"), [(awaits, [0.6]), (time.sleep, [0.6])])
def test_what_waits_without_blocking_is_not(function, naps, caplog):
    list(AsyncOperator(function, AsyncOptions(capacity=100)).run(naps))
    assert "blocks" not in caplog.text
