"""What a client's futures give, and that waiting for them hears of signals."""

import signal
import threading
import time
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest

from flinkbuf.common.completable_future import CompletableFuture


def later(call, *arguments):
    threading.Timer(0.25, call, arguments).start()


def test_it_is_waited_for():
    future = Future()
    later(future.set_result, 4)
    assert CompletableFuture(future).result() == 4


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("late"), FutureTimeoutError("late")])
def test_it_raises_what_it_failed_with(error):
    future = Future()
    later(future.set_exception, error)
    with pytest.raises(type(error)) as raised:
        CompletableFuture(future).result()
    assert raised.value is error


def test_one_that_is_cancelled_is_not_waited_for_any_more():
    future = Future()
    later(future.cancel)
    with pytest.raises(CancelledError):
        CompletableFuture(future).result()


def test_a_signal_that_another_thread_was_given_is_heard():
    class Heard(Exception):
        pass

    def raise_it(number, frame):
        raise Heard

    def give_to_this_thread():
        time.sleep(0.25)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        time.sleep(30)  # and not to the main thread, which sleeps in a lock

    before = signal.signal(signal.SIGUSR1, raise_it)
    try:
        threading.Thread(target=give_to_this_thread, daemon=True).start()
        begun_s = time.monotonic()
        with pytest.raises(Heard):
            CompletableFuture(Future()).result()
        assert time.monotonic() - begun_s < 20
    finally:
        signal.signal(signal.SIGUSR1, before)
