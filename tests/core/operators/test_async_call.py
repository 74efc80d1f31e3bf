"""AsyncCall: a coroutine that is stepped without a task, and yet finds in itself all that libraries ask of one."""

import asyncio
import contextvars
import sys

import pytest

from flinkbuf._core.operators.async_call import AsyncCall, start_many

variable = contextvars.ContextVar("variable", default="none")


def drive(*functions, before=None):
    """Start a call for each coroutine function; return (result, error) of each, in their order."""

    async def main():
        loop, outcomes, ended = asyncio.get_running_loop(), {}, asyncio.Event()

        def done(call, result, error):
            assert call.work not in outcomes, "told twice"
            outcomes[call.work] = (result, error)
            if len(outcomes) == len(functions):
                ended.set()

        calls = [AsyncCall(loop, done, number) for number in range(len(functions))]

        loop.set_exception_handler(lambda loop, context: pytest.fail(str(context)))

        def start():  # from a callback: no task is the current one
            for call, function in zip(calls, functions, strict=True):
                call.start(function(), contextvars.copy_context())
            if before is not None:
                before(calls)

        loop.call_soon(start)
        await asyncio.wait_for(ended.wait(), 5)
        return [outcomes[number] for number in range(len(functions))]

    return asyncio.run(main())


def test_a_coroutine_that_does_not_wait_has_its_result_before_start_returns():
    async def seven():
        return 7

    seen = []

    async def main():
        loop = asyncio.get_running_loop()
        call = AsyncCall(loop, lambda call, result, error: seen.append((result, error)))
        loop.call_soon(call.start, seven(), contextvars.copy_context())
        await asyncio.sleep(0)
        assert call.done() and seen == [(7, None)]

    asyncio.run(main())


def test_results_and_errors_of_coroutines_that_wait_reach_the_owner_once():
    async def good():
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return "good"

    async def bad():
        await asyncio.sleep(0.001)
        raise KeyError("bad")

    (result, none), (nothing, error) = drive(good, bad)
    assert (result, none, nothing) == ("good", None, None)
    assert isinstance(error, KeyError) and error.__traceback__.tb_next is not None


def test_inside_the_call_is_the_current_task_and_outside_it_is_not():
    seen = []

    async def look():
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    calls = []
    drive(look, before=lambda made: calls.extend(made))
    assert seen == [calls[0]] * 2
    assert calls[0].get_coro() is None and calls[0].done() and not calls[0].cancelled()


def test_futures_tasks_groups_and_gather_can_be_awaited_inside():
    async def inner(number):
        await asyncio.sleep(0.001)
        return number

    async def outer():
        first = await asyncio.gather(*[inner(number) for number in range(3)])
        second = await asyncio.create_task(inner(3))
        third = await asyncio.wait_for(inner(4), 1)
        fourth = await asyncio.shield(inner(5))
        fifth = await asyncio.get_running_loop().run_in_executor(None, sum, [6])
        return [*first, second, third, fourth, fifth]

    assert drive(outer) == [([0, 1, 2, 3, 4, 5, 6], None)]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout and TaskGroup came with Python 3.11")
def test_timeouts_and_task_groups_of_asyncio_work_inside():
    async def too_slow():
        try:
            async with asyncio.timeout(0.005):
                await asyncio.sleep(5)
        except TimeoutError:
            return asyncio.current_task().cancelling()

    async def group():
        with pytest.raises(ExceptionGroup):  # noqa: F821  # from Python 3.11 on, where this test runs
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fails())
                await asyncio.sleep(5)
        return "on"

    async def fails():
        raise ValueError("no")

    assert drive(too_slow, group) == [(0, None), ("on", None)]


def test_cancel_is_thrown_in_where_the_coroutine_waits_and_may_be_caught():
    async def stubborn():
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "cleaned up"

    async def plain():
        await asyncio.sleep(5)

    def cancel(calls):
        assert all(call.cancel() for call in calls)
        assert [call.cancelling() for call in calls] == [1, 1]

    (kept, none), (nothing, error) = drive(stubborn, plain, before=cancel)
    assert (kept, none, nothing) == ("cleaned up", None, None)
    assert isinstance(error, asyncio.CancelledError)


def test_cancel_before_the_first_wait_counts_at_the_first_wait():
    async def suicidal():
        asyncio.current_task().cancel()
        await asyncio.sleep(5)

    async def takes_it_back():
        asyncio.current_task().cancel()
        assert asyncio.current_task().uncancel() == 0
        await asyncio.sleep(0)
        return "alive"

    (_, error), outcome = drive(suicidal, takes_it_back)
    assert isinstance(error, asyncio.CancelledError)
    assert outcome == ("alive", None)


def test_a_call_that_has_ended_cannot_be_cancelled():
    async def seven():
        return 7

    drive(seven, before=lambda calls: [pytest.fail("cancelled") for call in calls if call.cancel()])


def test_context_variables_set_in_one_call_are_not_seen_in_another():
    async def sets():
        variable.set("mine")
        await asyncio.sleep(0.001)
        return variable.get()

    async def reads():
        before = variable.get()
        await asyncio.sleep(0.002)
        return before, variable.get()

    assert drive(sets, reads) == [("mine", None), (("none", "none"), None)]


def test_what_cannot_be_awaited_is_an_error_inside_the_coroutine():
    class Odd:
        def __await__(self):
            yield "no future"

    async def awaits(awaitable):
        with pytest.raises(RuntimeError) as raised:
            await awaitable
        return str(raised.value)

    other = asyncio.new_event_loop()
    future = other.create_future()
    (first, _), (second, _) = drive(lambda: awaits(Odd()), lambda: awaits(future))
    other.close()
    assert "which is no future of asyncio" in first
    assert "belongs to a different event loop" in second and "open=" in second


def test_objects_with_await_are_taken_and_others_refused():
    class Seven:
        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            return 7

    assert drive(Seven) == [(7, None)]

    async def main():
        call = AsyncCall(asyncio.get_running_loop(), lambda *outcome: None)
        with pytest.raises(TypeError, match="must give a coroutine or another awaitable, got int 8"):
            call.start(8, contextvars.copy_context())

    asyncio.run(main())


def test_closing_a_call_runs_its_finally_blocks():
    seen = []

    async def waits():
        try:
            await asyncio.sleep(5)
        finally:
            seen.append("left")

    async def main():
        loop = asyncio.get_running_loop()
        call = AsyncCall(loop, lambda *outcome: seen.append("told"))
        loop.call_soon(call.start, waits(), contextvars.copy_context())
        await asyncio.sleep(0.001)
        call.close()
        call.close()
        assert seen == ["left"] and call.done()

    asyncio.run(main())


def started(functions, is_flat=False, keeps_record=False):
    """start_many over coroutine functions; what it returned and gave."""
    found = []

    async def main():
        loop, out = asyncio.get_running_loop(), []
        call = AsyncCall(loop, lambda *outcome: None)

        def start():
            try:
                found.extend(
                    [
                        call,
                        out,
                        start_many(
                            call,
                            lambda function: function(),
                            functions,
                            0,
                            out,
                            is_flat,
                            keeps_record,
                            contextvars.copy_context(),
                        ),
                    ]
                )
            except BaseException as error:
                found.append(error)

        loop.call_soon(start)
        await asyncio.sleep(0)
        for each in found[2:]:
            each[1].close()

    asyncio.run(main())
    return found


async def one():
    return 1


def test_many_that_do_not_wait_share_one_call():
    call, out, (index, same, error) = started([one] * 5)
    assert (out, index, error) == ([1] * 5, 5, None) and same is call


def test_many_stop_at_the_first_that_waits_or_fails():
    async def waits():
        await asyncio.sleep(5)

    async def fails():
        raise KeyError("x")

    _, out, (index, _, error) = started([one, one, waits, one])
    assert (out, index, error) == ([1, 1], 2, None)
    _, out, (index, _, error) = started([one, fails, one])
    assert (out, index) == ([1], 1) and isinstance(error, KeyError)


def test_a_call_that_somebody_keeps_is_not_used_for_the_next_record():
    kept = []

    async def keeps():
        kept.append(asyncio.current_task())

    call, _, (index, *_) = started([keeps, keeps, one])
    assert index == 3 and len({id(each) for each in kept}) == 2 and kept[0] is call


def test_many_take_lists_of_results_apart():
    async def two():
        return [1, 2]

    async def none():
        return ()

    async def wrong():
        return None

    _, out, _ = started([two, none, two], is_flat=True, keeps_record=True)
    assert out == [(two, 1), (two, 2)] * 2
    _, out, (index, _, error) = started([two, wrong], is_flat=True)
    assert index == 1 and "gave None where an iterable of results is due" in str(error)


def test_the_message_of_a_cancellation_arrives():
    """anyio tells its own cancellations by it."""
    seen = []

    async def looks(when):
        if when == "before":
            asyncio.current_task().cancel("mine")
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError as error:
            seen.append(error.args)
            raise

    drive(lambda: looks("before"), lambda: looks("while"), before=lambda calls: calls[1].cancel("mine"))
    assert seen == [("mine",), ("mine",)]


def test_who_asks_for_it_is_told_of_the_end():
    seen = []

    async def asks():
        task = asyncio.current_task()
        task.set_name("asks")
        assert task._loop is task.get_loop()  # anyio's worker threads ask for it so, and for the end
        task.add_done_callback(lambda done: seen.append((done.get_name(), done.done())))
        task.add_done_callback(seen.append)
        assert task.remove_done_callback(seen.append) == 1
        await asyncio.sleep(0)

    async def late():
        await asyncio.sleep(0.01)

    calls = []
    drive(asks, late, before=calls.extend)
    assert seen == [("asks", True)]


def test_a_call_that_was_asked_of_its_end_is_not_used_for_the_next_record():
    seen = []

    async def asks():
        asyncio.current_task().add_done_callback(seen.append)

    async def names():
        name, task = asyncio.current_task().get_name(), asyncio.current_task()
        task.set_name("mine")
        del task
        return name

    _, out, (index, _, error) = started([asks, asks, names, names])
    assert (index, error) == (4, None) and len({id(call) for call in seen}) == 2
    assert "mine" not in out


def test_a_step_on_its_way_to_a_closed_call_does_nothing():
    told = []

    async def waits():
        await asyncio.sleep(0)

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: pytest.fail(str(context)))
        call = AsyncCall(loop, lambda *outcome: told.append(outcome))
        loop.call_soon(call.start, waits(), contextvars.copy_context())
        loop.call_soon(call.close)
        for _ in range(4):
            await asyncio.sleep(0)
        assert call.done() and told == []

    asyncio.run(main())


@pytest.mark.parametrize("error", [ValueError, RuntimeError, AttributeError])
def test_a_call_that_fails_while_it_is_closed_is_closed(error):
    async def fails():
        try:
            await asyncio.sleep(5)
        finally:
            raise error

    async def main():
        loop = asyncio.get_running_loop()
        call = AsyncCall(loop, lambda *outcome: pytest.fail("told"))
        loop.call_soon(call.start, fails(), contextvars.copy_context())
        await asyncio.sleep(0.001)
        call.close()
        assert call.done()

    asyncio.run(main())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, BaseException])
def test_an_interrupt_reaches_the_owner_and_not_the_loop(error):
    async def interrupted():
        await asyncio.sleep(0)
        raise error

    ((result, found),) = drive(interrupted)
    assert result is None and type(found) is error
