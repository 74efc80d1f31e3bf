"""Which function a thread is in: that of the program, never flinkbuf's own."""

import gc
import importlib
import logging
import queue
import sys
import sysconfig
import threading
import time
import types
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import flinkbuf
from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.task.thread_frames import innermost_frame, raise_in_function

LIBRARIES = (sysconfig.get_path("stdlib") + "/", "<frozen ")
OWN = (str(Path(flinkbuf.__file__).parent) + "/",)


class Told(Exception):
    pass


@contextmanager
def thread_of(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    try:
        yield thread.ident
    finally:
        thread.join(10)
        assert not thread.is_alive()


def test_a_function_that_waits_in_a_library_is_found():
    items, reached = queue.Queue(), threading.Event()

    def takes():
        reached.set()
        items.get()

    with thread_of(takes) as thread:
        assert reached.wait(10)
        assert innermost_frame(thread, OWN, LIBRARIES).f_code.co_name == "takes"
        items.put(1)


def test_what_flinkbuf_calls_of_a_library_is_no_function_of_the_program():
    items = queue.Queue()
    own = compile("def own(items): items.get()", OWN[0] + "of_ours.py", "exec")
    functions = {}
    exec(own, functions)
    with thread_of(lambda: functions["own"](items)) as thread:
        while items.not_empty._waiters == type(items.not_empty._waiters)():
            pass  # until it is inside of the queue
        assert innermost_frame(thread, OWN, LIBRARIES) is None
        assert not raise_in_function(thread, Told, OWN, LIBRARIES)
        items.put(1)


def function_in(filename, text):
    functions = {}
    exec(compile(text, filename, "exec"), functions)
    return functions["it"]


def test_an_installed_package_that_a_connector_has_called_is_no_function_of_the_program():
    """One that an operator calls is, as programs are installed, too; so is one that the program has called."""
    connectors = (OWN[0] + "streaming/sinks/",)
    packaged = function_in(
        "/lib/site-packages/client.py", "def it(reached, is_over):\n reached.set()\n while not is_over(): pass"
    )
    calls = "def it(called, *arguments): called(*arguments)"
    connector = function_in(connectors[0] + "a_sink.py", calls)
    operator = function_in(OWN[0] + "streaming/chain/an_operator.py", calls)
    program = function_in("/home/me/program.py", calls)
    for callers, name in (
        ([connector], None),
        ([operator], "it"),
        ([connector, program], "it"),
        ([operator, program], "it"),
    ):
        reached, over = threading.Event(), threading.Event()
        first, *rest = [*callers, packaged]
        with thread_of(lambda: first(*rest, reached, over.is_set)) as thread:  # noqa: B023 - it has ended before the next
            assert reached.wait(10)
            frame = innermost_frame(thread, OWN, LIBRARIES, connectors)
            over.set()
        assert (frame and frame.f_code.co_name) == name
        assert frame is None or frame.f_code.co_filename == "/lib/site-packages/client.py"


def test_an_exception_is_raised_where_the_function_is():
    reached, seen = threading.Event(), []

    def spins():
        try:
            reached.set()
            while True:
                pass
        except Told as told:
            seen.append(told)

    with thread_of(spins) as thread:
        assert reached.wait(10)
        assert raise_in_function(thread, Told, OWN, LIBRARIES)
    assert len(seen) == 1


class Goes:
    def __init__(self, function):
        self.function = function

    def __del__(self):
        self.function()


@pytest.mark.parametrize("caller", ["finalizer", "collector"])
def test_what_the_interpreter_calls_by_itself_is_left_alone(caller):
    may_end, is_there, threads = threading.Event(), threading.Event(), []

    def wait(*_):
        if threading.get_ident() in threads:  # any thread may collect garbage
            is_there.set()
            while not may_end.wait(0.001):
                pass

    def go():
        threads.append(threading.get_ident())
        if caller == "finalizer":
            Goes(wait)
            return
        gc.callbacks.append(wait)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(wait)

    with thread_of(go) as thread:
        try:
            assert is_there.wait(10)
            assert innermost_frame(thread, OWN, LIBRARIES).f_code.co_name == "wait"
            assert not raise_in_function(thread, Told, OWN, LIBRARIES)
        finally:
            may_end.set()


def test_a_function_that_takes_a_lock_is_left_alone_until_it_has_it():
    condition = threading.Condition()

    def wait():
        with suppress(Told), condition:
            condition.wait(10)

    condition.acquire()
    with thread_of(wait) as thread:
        try:
            while sys._current_frames()[thread].f_code.co_name != "__enter__":
                time.sleep(0.001)
            assert innermost_frame(thread, OWN, LIBRARIES).f_code.co_name == "wait"
            assert not raise_in_function(thread, Told, OWN, LIBRARIES)
        finally:
            condition.release()
        while not raise_in_function(thread, Told, OWN, LIBRARIES):
            time.sleep(0.001)
        with condition:
            condition.notify()
    assert condition.acquire(timeout=5), "the lock was given back"
    condition.release()


def test_an_import_is_left_alone_until_it_has_ended(tmp_path, monkeypatch):
    module, may_go_on, is_there = "imported_by_a_thread", threading.Event(), threading.Event()
    (tmp_path / f"{module}.py").write_text(
        "import threads_events as e\ne.is_there.set()\nwhile not e.may_go_on.is_set(): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "threads_events", types.SimpleNamespace(is_there=is_there, may_go_on=may_go_on))
    monkeypatch.delitem(sys.modules, module, raising=False)

    def imports():
        with suppress(Told):
            importlib.import_module(module)
            while True:
                pass

    with thread_of(imports) as thread:
        try:
            assert is_there.wait(10)
            assert innermost_frame(thread, OWN, LIBRARIES).f_code.co_name == "<module>"
            assert not raise_in_function(thread, Told, OWN, LIBRARIES)
        finally:
            may_go_on.set()
        while not raise_in_function(thread, Told, OWN, LIBRARIES):
            time.sleep(0.001)
    assert importlib.import_module(module).__name__ == module


def test_a_handler_of_logs_that_takes_its_lock_is_left_alone():
    handler = logging.Handler()

    def logs():
        with suppress(Told):
            handler.acquire()
            handler.release()
            while True:
                pass

    handler.acquire()
    with thread_of(logs) as thread:
        try:
            while sys._current_frames()[thread].f_code.co_name != "acquire":
                time.sleep(0.001)
            assert not raise_in_function(thread, Told, OWN, LIBRARIES)
        finally:
            handler.release()
        while not raise_in_function(thread, Told, OWN, LIBRARIES):
            time.sleep(0.001)
    assert handler.lock.acquire(timeout=5), "the lock was given back"
    handler.release()


def test_a_function_that_is_in_compiled_code_of_flinkbuf_hears_it_when_it_comes_back():
    bell, reached, seen = TaskBell(), threading.Event(), []

    def waits():
        try:
            reached.set()
            bell.wait(bell.seen(), 10_000)
            while True:
                pass
        except Told as told:
            seen.append(told)

    with thread_of(waits) as thread:
        assert reached.wait(10)
        assert raise_in_function(thread, Told, OWN, LIBRARIES)
        bell.ring()
        while not seen:
            bell.ring()
    assert len(seen) == 1


def test_a_thread_that_is_gone_is_in_no_function():
    with thread_of(lambda: None) as thread:
        pass
    assert innermost_frame(thread, OWN, LIBRARIES) is None
    assert not raise_in_function(thread, Told, OWN, LIBRARIES)
