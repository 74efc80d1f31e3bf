"""One asynchronous call at a time: a coroutine driven step by step, without a task of the event loop.

A coroutine that ends without waiting costs neither a task nor a turn of the loop: it is started on the spot and its
result is there. One that waits is continued from where it stands, by the future it waits for.
"""

from cpython.ref cimport Py_DECREF

import asyncio
import inspect
from asyncio.tasks import _enter_task, _leave_task
from weakref import getweakrefcount

cdef object CancelledError = asyncio.CancelledError


async def _awaiting(awaitable):
    return await awaitable


cdef object _as_coroutine(object awaitable):
    """What can be stepped; an object that only has ``__await__`` is wrapped."""
    if PyCoro_CheckExact(awaitable):
        return awaitable
    if inspect.iscoroutine(awaitable) or inspect.isgenerator(awaitable):
        return awaitable
    if inspect.isawaitable(awaitable):
        return _awaiting(awaitable)
    raise TypeError(
        f"the function must give a coroutine or another awaitable, got {type(awaitable).__name__} {awaitable!r:.80}"
    )


cdef class AsyncCall:
    """Drives one coroutine and stands for its task: `asyncio.current_task` returns this object inside it.

    It has what libraries ask of the current task (`cancel`, `cancelling`, `uncancel`, `get_name`, `get_coro`, ...), so
    `asyncio.timeout`, task groups, aiohttp and anyio work inside. `asyncio.all_tasks` does not list it.

    Parameters
    ----------
    loop : asyncio.AbstractEventLoop
        Must be running whenever a method is called.
    on_done : callable
        ``(call, result, error)``; called once for each `start`, `error` is None after success.
    work : object, optional
        What the owner wants to find again on the call.
    """

    def __init__(self, loop, on_done, work=None):
        self._loop = loop
        self._on_done = on_done
        self.work = work

    def start(self, awaitable, context):
        """Run it until it first waits, or to its end, in a copy of `context`; `on_done` may be called meanwhile."""
        self._coro = _as_coroutine(awaitable)
        own_context = self._context = PyContext_Copy(context)
        self._cancel_requests = 0
        self._must_cancel = False
        PyContext_Enter(own_context)
        try:
            self._advance(None)
        finally:
            PyContext_Exit(own_context)

    cdef int _advance(self, object error) except -1:
        """Let the coroutine run to its next wait, or tell the owner how it ended."""
        cdef PyObject* sent = NULL
        cdef PySendResult progress
        cdef object value = None
        if self._coro is None:
            return 0  # closed while this step was on its way
        while True:
            if self._must_cancel:
                self._must_cancel = False
                if not isinstance(error, CancelledError):
                    error = self._cancelled_error()
            self._fut_waiter = None
            _enter_task(self._loop, self)
            try:
                if error is None:
                    progress = PyIter_Send(self._coro, None, &sent)
                    value = <object>sent
                    Py_DECREF(value)
                else:
                    value = self._coro.throw(error)
                    progress = PYGEN_NEXT
                error = None
            except StopIteration as stop:  # only throw() says so in this way
                value, error, progress = stop.value, None, PYGEN_RETURN
            except BaseException as raised:
                value, error, progress = None, raised, PYGEN_ERROR
            finally:
                _leave_task(self._loop, self)
            if progress != PYGEN_NEXT:
                break
            error = self._wait_for(value)
            if error is None:
                return 0
        if self._must_cancel and error is None:
            value, error = None, self._cancelled_error()
        self._end()
        self._on_done(self, value, error)
        return 0

    cdef object _cancelled_error(self):
        """The error for a cancellation that has been asked for; libraries know theirs by its message."""
        return CancelledError() if self._cancel_message is None else CancelledError(self._cancel_message)

    cdef int _end(self) except -1:
        """Be done, and tell those who asked for it."""
        cdef object callbacks = self._callbacks, context = self._context
        self._coro = self._context = self._callbacks = None
        if callbacks is not None:
            for callback, own_context in callbacks:
                self._loop.call_soon(callback, self, context=own_context or context)
        return 0

    cdef object _wait_for(self, object awaited):
        """Continue when `awaited` is done; returns the error to throw into the coroutine if that cannot be."""
        cdef object is_blocking
        if awaited is None:  # a bare yield: sleep(0)
            self._loop.call_soon(self._resume, context=self._context)
            return None
        is_blocking = getattr(awaited, "_asyncio_future_blocking", None)
        if is_blocking is None:
            return RuntimeError(f"the coroutine waits for {awaited!r:.200}, which is no future of asyncio")
        if not is_blocking:
            return RuntimeError(f"yield was used instead of await for {awaited!r:.200}")
        if awaited.get_loop() is not self._loop:
            return RuntimeError(
                f"the coroutine waits for {awaited!r:.200}, which belongs to a different event loop; make sessions and "
                "connections in open=, which runs on the loop of the task"
            )
        awaited._asyncio_future_blocking = False
        awaited.add_done_callback(self._wake, context=self._context)
        self._fut_waiter = awaited
        if self._must_cancel and awaited.cancel(msg=self._cancel_message):
            self._must_cancel = False
        return None

    def _wake(self, awaited):
        """The callback of what the coroutine waited for; runs in the context of the call."""
        cdef object error = None
        try:
            awaited.result()
        except BaseException as raised:
            error = raised
        self._advance(error)

    def _resume(self, error=None):
        self._advance(error)

    def close(self):
        """Drop a coroutine that does not end by itself; its ``finally`` blocks run as far as they need not wait."""
        coro = self._coro
        if self._fut_waiter is not None:
            self._fut_waiter.remove_done_callback(self._wake)
            self._fut_waiter = None
        if coro is not None:
            self._end()
            try:
                coro.close()
            except Exception:
                pass  # it waits in its finally block, which nobody can go on with, or it fails there: it is dropped

    # What libraries ask of the current task.

    def cancel(self, msg=None):
        """Throw CancelledError into the coroutine as soon as it runs; False if it has ended."""
        if self._coro is None:
            return False
        self._cancel_requests += 1
        self._cancel_message = msg
        if self._fut_waiter is None or not self._fut_waiter.cancel(msg=msg):
            self._must_cancel = True
        return True

    def cancelling(self):
        """How many requests to cancel are open."""
        return self._cancel_requests

    def uncancel(self):
        """Take one request to cancel back; how many are left."""
        if self._cancel_requests > 0:
            self._cancel_requests -= 1
            if self._cancel_requests == 0:
                self._must_cancel = False
        return self._cancel_requests

    def done(self):
        """Whether the coroutine has ended."""
        return self._coro is None

    def cancelled(self):
        """Always False while anybody can ask: the result of a call goes to its owner only."""
        return False

    def get_coro(self):
        """The coroutine that runs, None after its end."""
        return self._coro

    def get_context(self):
        """The context in which it runs, None after its end."""
        return self._context

    def get_loop(self):
        """The event loop."""
        return self._loop

    def get_name(self):
        """A name for messages."""
        return self._name or f"async-call-{id(self):x}"

    def set_name(self, name):
        """Give it a name for messages."""
        self._name = str(name)

    def add_done_callback(self, callback, *, context=None):
        """Have `callback` called with this object when the coroutine has ended."""
        if self._coro is None:
            self._loop.call_soon(callback, self, context=context)
            return
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append((callback, context))

    def remove_done_callback(self, callback):
        """Take a callback back; how often it was there."""
        kept = [each for each in self._callbacks or () if each[0] != callback]
        count = len(self._callbacks or ()) - len(kept)
        self._callbacks = kept or None
        return count

    def __repr__(self):
        return f"<AsyncCall {'done' if self._coro is None else 'running'} work={self.work!r:.80}>"


def start_many(
    AsyncCall call, invoke, list records, Py_ssize_t index, list out, bint is_flat, bint keeps_record, context
):
    """Start calls for ``records[index:]`` until one has to wait; what the others return goes to `out`.

    Parameters
    ----------
    call : AsyncCall
        An idle one. It stands for one record after the other, as long as nobody keeps hold of it.
    invoke : callable
        Gives the coroutine for a record.
    is_flat : bool
        Each result is an iterable of results.
    keeps_record : bool
        Pairs (record, result) go to `out`.
    context : contextvars.Context
        Each coroutine runs in a copy of it.

    Returns
    -------
    (int, AsyncCall, BaseException or None)
        The index of the record that waits or failed, ``len(records)`` if all are done; the call that drives it, or
        an idle one; the error of a failed one.
    """
    cdef Py_ssize_t count = len(records), holders
    cdef PyObject* sent = NULL
    cdef PySendResult progress
    cdef object record, value = None, own_context
    loop, on_done = call._loop, call._on_done
    call._cancel_requests = 0
    call._must_cancel = False
    call._cancel_message = call._name = None
    _enter_task(loop, call)
    holders = Py_REFCNT(call)
    try:
        while index < count:
            record = records[index]
            own_context = PyContext_Copy(context)
            PyContext_Enter(own_context)
            try:
                coro = _as_coroutine(invoke(record))
                call._coro, call._context = coro, own_context
                progress = PyIter_Send(coro, None, &sent)
                value = <object>sent
                Py_DECREF(value)
            except BaseException as raised:
                call._end()
                return index, call, raised
            finally:
                PyContext_Exit(own_context)
            if progress == PYGEN_NEXT:
                error = call._wait_for(value)
                if error is not None:
                    loop.call_soon(call._resume, error, context=own_context)
                return index, call, None
            call._end()
            if call._must_cancel:
                return index, call, call._cancelled_error()
            if is_flat:
                try:
                    values = as_results(value)
                except Exception as raised:
                    return index, call, raised
                for value in values:
                    out.append((record, value) if keeps_record else value)
            else:
                out.append((record, value) if keeps_record else value)
            index += 1
            if Py_REFCNT(call) != holders or call._cancel_requests or call._name is not None or getweakrefcount(call):
                # Somebody inside kept the task it was: the next record must not be taken for it.
                _leave_task(loop, call)
                call = AsyncCall(loop, on_done)
                _enter_task(loop, call)
                holders = Py_REFCNT(call)
        return count, call, None
    finally:
        _leave_task(loop, call)


def as_results(value):
    """What a function with flat=True gave, as a list; TypeError if it gave no results but one, or None."""
    if value is None:
        raise TypeError("the function gave None where an iterable of results is due; give () for no result")
    if isinstance(value, (str, bytes, dict)):
        raise TypeError(f"the function gave a {type(value).__name__} where an iterable of results is due; give "
                        "[result] for one result")
    if not hasattr(type(value), "__iter__"):
        raise TypeError(f"the function gave {value!r} ({type(value).__name__}) where an iterable of results is due; "
                        "give [result] for one result")
    return list(value)
