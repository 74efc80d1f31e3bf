"""A TCP proxy that breaks the network: it delays, cuts, flips, repeats, swaps, withholds and resets what passes.

Faults are functions of what passes in one direction. A fault of bytes sees chunks as they come; a fault of frames sees
one whole Flink frame at a time. Both give what is to be done: bytes are sent on, numbers are seconds to wait, and
CLOSE, RESET and STALL are what they say. Threads and blocking sockets only, so that nothing of what is tested is used.
"""

import contextlib
import itertools
import os
import random
import socket
import struct
import threading
import time

REQUESTS, RESPONSES = "requests", "responses"  # from the client to the server, and back
CLOSE, RESET, STALL = "close", "reset", "stall"

BUFFER_RESPONSE, ERROR_RESPONSE, PARTITION_REQUEST = 0, 1, 2
CANCEL, CLOSE_REQUEST, ADD_CREDIT, RESUME, ACKNOWLEDGE, BACKLOG = 4, 5, 6, 7, 8, 9
HEAD_SIZES = {
    BUFFER_RESPONSE: 47,
    PARTITION_REQUEST: 97,
    CANCEL: 25,
    CLOSE_REQUEST: 9,
    ADD_CREDIT: 29,
    RESUME: 25,
    ACKNOWLEDGE: 25,
    BACKLOG: 29,
}
DATA_TYPE_OFFSET = 41  # in a BufferResponse
DATA_BUFFER, END_OF_DATA, END_OF_PARTITION = 1, 9, 10


class FaultProxy:
    """Listens at `address` and passes every connection on to `target`, through faults.

    Parameters
    ----------
    target : (str, int)
    faults : dict of str to function, optional
        For each direction what makes the fault of one connection: called with its number (0 for the first), it
        gives a function from bytes to things to do. Left out: bytes pass.
    hold : int
        So many connections are accepted before any is passed on; then the last one comes first.
    """

    def __init__(self, target, faults=None, hold=1):
        self.target, self.faults, self.hold = target, faults or {}, hold
        self.counts = {REQUESTS: 0, RESPONSES: 0}  # bytes passed on
        self.connection_count = 0
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._links, self._threads = [], []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.address = self._listener.getsockname()
        self._start(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        """End all connections and threads."""
        self._ending.set()
        for wake in (lambda: self._listener.shutdown(socket.SHUT_RDWR), self._listener.close, self.cut):
            with contextlib.suppress(OSError):
                wake()
        for thread in self._threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in self._threads), "the proxy does not end"
        for link in self._links:
            link.end()

    def cut(self, reset=False):
        """End every connection there is now; new ones are passed on as before."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut(reset)

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        held = []
        while not self._ending.is_set():
            try:
                held.append(self._listener.accept()[0])
            except OSError:
                break
            if len(held) < self.hold:
                continue
            for client in reversed(held):
                self._join(client)
            held, self.hold = [], 1
        for client in held:
            client.close()

    def _join(self, client):
        try:
            server = socket.create_connection(self.target, timeout=10)
            server.settimeout(None)
        except OSError:
            client.close()
            return
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = _Link(client, server, self._ending)
        with self._lock:
            number = self.connection_count
            self.connection_count += 1
            self._links.append(link)
        for direction, source, sink in ((REQUESTS, client, server), (RESPONSES, server, client)):
            make = self.faults.get(direction)
            self._start(self._pump, link, direction, source, sink, make(number) if make else lambda data: [data])

    def _pump(self, link, direction, source, sink, fault):
        try:
            while data := source.recv(1 << 16):
                for step in fault(data):
                    if isinstance(step, (bytes, bytearray)):
                        sink.sendall(step)
                        self.counts[direction] += len(step)
                    elif isinstance(step, (int, float)):
                        link.stopped.wait(step)
                    elif step == STALL:
                        link.stopped.wait()
                        return
                    else:
                        link.cut(step == RESET)
                        return
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            link.cut(reset=True)  # one side is gone: the other is told


class _Link:
    """The two sockets of one connection."""

    def __init__(self, client, server, ending):
        self.sockets, self.stopped, self.ending = (client, server), threading.Event(), ending

    def cut(self, reset=False):
        self.stopped.set()
        for side in self.sockets:
            try:
                if reset:
                    reset_at_close(side)
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            if reset:
                side.close()

    def end(self):
        for side in self.sockets:
            side.close()


def reset_at_close(side):
    """Have close() send RST instead of FIN."""
    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# ---- faults of bytes: each gives what makes one fault for each connection ------------------------------------------


def delay(seed, longest_s=0.002):
    """Hold each chunk up for a random time."""

    def make(number):
        rng = random.Random(seed * 1000 + number)
        return lambda data: [rng.random() * longest_s, data]

    return make


def split(size=1):
    """Pass on pieces of at most `size` bytes, each in a segment of its own as far as the system lets us."""
    return lambda number: lambda data: (data[at : at + size] for at in range(0, len(data), size))


def after(count, *steps):
    """Pass `count` bytes on, then do `steps`; what comes after them passes."""

    def make(number):
        left, is_done = count, False

        def fault(data):
            nonlocal left, is_done
            if is_done or len(data) < left:
                left -= len(data)
                return [data]
            is_done = True
            return [data[:left], *steps, data[left:]]

        return fault

    return make


# ---- faults of frames ----------------------------------------------------------------------------------------------


def frames(*faults):
    """Cut the stream into frames and give each to the first of `faults` that has something to say about it.

    A fault is called with the frame's bytes, how many frames passed before it, and how many of its id; it gives None or
    what is to be done.
    """

    def make(number):
        waiting, seen, passed = bytearray(), {}, itertools.count()
        running = [fault() for fault in faults]

        def cut(data):
            waiting.extend(data)
            while len(waiting) >= 9 and len(waiting) >= (size := int.from_bytes(waiting[:4], "big")):
                frame = bytes(waiting[:size])
                del waiting[:size]
                index, of_kind = next(passed), seen.get(frame[8], 0)
                seen[frame[8]] = of_kind + 1
                said = (fault(frame, index, of_kind) for fault in running)
                yield from next((steps for steps in said if steps is not None), [frame])

        return cut

    return make


def is_wanted(frame, kind, data_type=None):
    """Whether it is a frame of the id `kind` and, if stated, of a BufferResponse's data type."""
    return frame[8] == kind and (data_type is None or frame[DATA_TYPE_OFFSET] == data_type)


def at_frame(kind, steps_of, nth=0, data_type=None):
    """Do ``steps_of(frame)`` with the `nth` frame of one id and, if stated, of one data type."""

    def start():
        count = itertools.count()

        def fault(frame, index, of_kind):
            if not is_wanted(frame, kind, data_type) or next(count) != nth:
                return None
            return steps_of(frame)

        return fault

    return start


def flip(bit):
    """Flip one bit, counted from the first byte's highest."""

    def steps_of(frame):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        return [bytes(flipped)]

    return steps_of


def repeat(frame):
    """The frame comes twice."""
    return [frame, frame]


def drop(frame):
    """The frame does not come."""
    return []


def swap(kind, nth=0, data_type=None):
    """The `nth` frame of one kind changes places with the next one."""

    def start():
        count, kept = itertools.count(), []

        def fault(frame, index, of_kind):
            if not is_wanted(frame, kind, data_type):
                return None
            if next(count) == nth:
                kept.append(frame)
                return []
            return [frame, kept.pop()] if kept else None

        return fault

    return start


# ---- what a process holds ------------------------------------------------------------------------------------------


def open_files():
    """What is open, by what it is: the numbers themselves are used again."""
    held = []
    for number in os.listdir("/proc/self/fd"):
        try:
            held.append(os.readlink(f"/proc/self/fd/{number}").split(":")[0])
        except OSError:
            continue  # the one that lists them
    return sorted(held)


def threads():
    """How many threads there are, those of C included."""
    return len(os.listdir("/proc/self/task"))


def wait_until(condition, seconds=10):
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
