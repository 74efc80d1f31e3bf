"""The pools in Python: errors, waiting, and a model that every sequence of calls has to follow."""

import gc
import logging
import os
import signal
import threading
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.later import later

from flinkbuf._core.memory.local_buffer_pool import LocalBufferPool, NetworkBufferPool
from flinkbuf.errors import CancelTaskError, FlinkbufError, InsufficientBuffersError


def test_sizes_that_cannot_be_are_value_errors_that_say_the_limits():
    for count, size in [(-1, 1), (1, 0), (1, 2**31), (2**31, 1)]:
        with pytest.raises(ValueError, match=f"got {count} and {size}"):
            NetworkBufferPool(count, segment_size=size)
    with pytest.raises(MemoryError, match="MiB"):
        NetworkBufferPool(2**31 - 1, segment_size=2**31 - 1)


def test_too_large_a_guarantee_is_refused_with_the_figures_and_a_way_out():
    with NetworkBufferPool(8, segment_size=16) as network, network.create_buffer_pool(min=5):
        with pytest.raises(InsufficientBuffersError) as refused:
            network.create_buffer_pool(min=4)
        text = str(refused.value)
        for part in ("needs 4 segments", "only 3 of 8", "each 16 bytes", "are free now", "at least 9 segments"):
            assert part in text
        assert isinstance(refused.value, FlinkbufError)
        assert network.required_segment_count == 5 and network.buffer_pool_count == 1


def test_limits_in_the_wrong_order_are_value_errors():
    with NetworkBufferPool(8, segment_size=16) as network:
        for arguments in (
            {"min": 0},
            {"min": 3, "max": 2},
            {"min": 2, "expected": 1},
            {"min": 1, "max": 2, "expected": 3},
            {"min": 1, "channel_count": 1, "max_buffers_per_channel": 0},
        ):
            with pytest.raises(ValueError):
                network.create_buffer_pool(**arguments)
        with pytest.raises(OverflowError):
            network.create_buffer_pool(min=-1)
        assert network.buffer_pool_count == 0


def test_closing_is_idempotent_and_refuses_what_follows():
    network = NetworkBufferPool(4, segment_size=16)
    pool = network.create_buffer_pool(min=2)
    builder = pool.request()
    network.close()
    network.close()
    pool.close()
    assert network.is_destroyed and pool.is_destroyed and network.total_segment_count == 0
    for call in (pool.request, pool.request_blocking, lambda: network.create_buffer_pool(min=1)):
        with pytest.raises(CancelTaskError):
            call()
    assert builder.append(b"still ours") == 10
    assert repr(network) == "<NetworkBufferPool destroyed>" and repr(pool) == "<LocalBufferPool destroyed>"


def test_a_local_pool_keeps_its_network_pool():
    pool = NetworkBufferPool(4, segment_size=16).create_buffer_pool(min=2)
    gc.collect()
    with pool.request() as builder:
        assert builder.append(b"x") == 1
    assert isinstance(pool.global_pool, NetworkBufferPool)
    with pytest.raises(TypeError):
        LocalBufferPool()


def test_a_forgotten_builder_goes_home_by_itself():
    with NetworkBufferPool(2, segment_size=16) as network, network.create_buffer_pool(min=1, max=1) as pool:
        pool.request()
        assert pool.used_segment_count == 0 and pool.is_available


def test_shares_change_as_pools_come_and_go():
    with NetworkBufferPool(20, segment_size=16) as network:
        with network.create_buffer_pool(min=2, max=10, expected=8) as one:
            assert (one.size, one.min, one.max) == (10, 2, 10)
            with network.create_buffer_pool(min=2, expected=4) as two:
                assert (one.size, two.size, two.max) == (10, 10, None)
                assert network.usage_percent == 70
            assert two.requested_segment_count == 0


def test_a_wait_for_a_buffer_lets_other_threads_run_and_ends_when_one_comes():
    with NetworkBufferPool(1, segment_size=16) as network, network.create_buffer_pool(min=1) as pool:
        held = pool.request()
        steps = 0
        waiting = threading.Event()

        def work():
            nonlocal steps
            waiting.wait()
            end = time.monotonic() + 0.2
            while time.monotonic() < end:
                steps += 1
            held.close()

        thread = threading.Thread(target=work)
        thread.start()
        waiting.set()
        with pool.request_blocking(timeout_ms=10_000) as builder:
            assert builder.append(b"mine") == 4
        thread.join()
        assert steps > 1000, "the other thread did not run while this one waited"
        assert pool.usage()["waits"] >= 1 and pool.usage()["waited_ms"] >= 100


def test_a_wait_ends_at_its_time_and_says_how_the_pools_stand():
    with NetworkBufferPool(1, segment_size=16) as network, network.create_buffer_pool(min=1) as pool:
        with pool.request():
            start = time.monotonic()
            with pytest.raises(TimeoutError, match=r"within 250 ms: <LocalBufferPool 1 of 1 segments in use>"):
                pool.request_blocking(timeout_ms=250)
            assert 0.2 < time.monotonic() - start < 20
            with pytest.raises(TimeoutError):
                pool.request_blocking(timeout_ms=0)


def test_destroying_the_pool_ends_a_wait():
    with NetworkBufferPool(1, segment_size=16) as network, network.create_buffer_pool(min=1) as pool:
        held = pool.request()
        with later(0.1, pool.close), pytest.raises(CancelTaskError):
            pool.request_blocking()
        held.close()
        assert network.available_segment_count == 1


class Interrupted(Exception):
    pass


def test_a_signal_ends_a_wait():
    def interrupt(number, frame):
        raise Interrupted

    with NetworkBufferPool(1, segment_size=16) as network, network.create_buffer_pool(min=1) as pool:
        before = signal.signal(signal.SIGUSR1, interrupt)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        try:
            with pool.request():
                timer.start()
                with pytest.raises(Interrupted):
                    pool.request_blocking(timeout_ms=20_000)
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before)


def test_reserved_segments_are_counted_and_bounded_by_the_minimum():
    with NetworkBufferPool(4, segment_size=16) as network, network.create_buffer_pool(min=3) as pool:
        pool.reserve_segments(3)
        assert pool.stock_segment_count == pool.requested_segment_count == 3
        with pytest.raises(ValueError, match="4 segments are more than the guaranteed 3"):
            pool.reserve_segments(4)
    with NetworkBufferPool(4, segment_size=16) as network:
        with network.create_buffer_pool(min=1) as greedy, network.create_buffer_pool(min=3) as late:
            greedy.set_size(4)
            held = [greedy.request() for _ in range(3)]
            with pytest.raises(TimeoutError, match="3 segments did not come within 50 ms"):
                late.reserve_segments(3, timeout_ms=50)
            for builder in held:
                builder.close()
            greedy.set_size(1)
            late.reserve_segments(3, timeout_ms=50)


def test_demand_above_the_total_is_warned_of_once_and_its_end_is_told(caplog):
    caplog.set_level(logging.INFO, logger="flinkbuf")
    with NetworkBufferPool(10, segment_size=16) as network:
        with network.create_buffer_pool(min=1, max=10), network.create_buffer_pool(min=1, max=5):
            pass
        network.create_buffer_pool(min=1, max=2).close()
        network.create_buffer_pool(min=1, max=3).close()
    messages = [record.message for record in caplog.records]
    assert [("100%" in m, "150%" in m, "back to normal" in m) for m in messages] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]


TOTAL, MINIMUM, CHANNELS, QUOTA, OVERDRAFT = 8, 2, 2, 2, 1


class LocalPoolModel(RuleBasedStateMachine):
    """One local pool beside whoever takes segments directly, against the rules of Flink's LocalBufferPool."""

    def __init__(self):
        super().__init__()
        self.network = NetworkBufferPool(TOTAL, segment_size=16)
        self.pool = self.network.create_buffer_pool(
            min=MINIMUM, channel_count=CHANNELS, max_buffers_per_channel=QUOTA, max_overdraft_buffers=OVERDRAFT
        )
        self.size = TOTAL
        self.held = []
        self.stock = 1

    @property
    def requested(self):
        return self.stock + len(self.held)

    def settle(self):
        if self.stock == 0 and self.requested < self.size and self.requested < TOTAL:
            self.stock = 1

    @rule(channel=st.sampled_from([None, 0, 1]))
    def request(self, channel):
        builder = self.pool.request(channel)
        may_overdraw = self.requested - self.size < OVERDRAFT and self.requested < TOTAL
        assert (builder is not None) == (self.stock > 0 or may_overdraw)
        if builder is not None:
            self.stock -= self.stock > 0
            self.held.append((builder, channel))
        self.settle()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def recycle(self, data):
        builder, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.stock += self.requested + 1 <= self.size
        builder.close()
        self.settle()

    @rule(size=st.integers(MINIMUM, TOTAL))
    def resize(self, size):
        self.pool.set_size(size)
        self.size = size
        self.stock -= min(self.stock, max(0, self.requested - size))
        self.settle()

    @invariant()
    def the_figures_agree(self):
        usage = self.pool.usage()
        full = sum([c for _, c in self.held].count(channel) >= QUOTA for channel in range(CHANNELS))
        assert (usage["size"], usage["stock"], usage["requested"]) == (self.size, self.stock, self.requested)
        assert usage["full_channels"] == full
        assert self.pool.is_available == (self.stock > 0 and full == 0)
        assert self.network.available_segment_count == TOTAL - self.requested

    def teardown(self):
        self.pool.close()
        for builder, _ in self.held:
            builder.close()
        assert self.network.available_segment_count == TOTAL
        self.network.close()


TestLocalPoolModel = LocalPoolModel.TestCase
TestLocalPoolModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
