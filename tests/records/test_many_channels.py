"""A blocking exchange to 10,000 channels: memory that does not grow with them, and the streams that it always gives."""

import random
import subprocess
import sys
import textwrap
import zlib

import pytest

import flinkbuf as fb

CHANNELS = 10_000
PAIR = "n bigint, s string"


def run_with_little_memory(program: str, megabytes: int) -> str:
    """Run Python with so much more address space than it has after its imports; return what it printed."""
    prelude = f"""
        import resource, zlib
        import flinkbuf as fb
        import numpy  # some imports come late
        from flinkbuf.records.record_buffers import write_buffers
        fb.write_buffers, fb.Types, fb.NetworkConfig, fb.by_key

        def limit():
            with open("/proc/self/statm") as statm:
                used = int(statm.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + ({megabytes} << 20),) * 2)
        CHANNELS = {CHANNELS}
    """
    code = textwrap.dedent(prelude) + textwrap.dedent(program)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_ten_thousand_channels_need_no_more_than_the_buffers_of_the_configuration():
    """1,000,000 records; one buffer a channel would take 320 MB, and the limit is 64 MiB and some."""
    printed = run_with_little_memory(
        """
        def records():
            for number in range(1_000_000):
                yield number
        config = fb.NetworkConfig(sort_shuffle_min_buffers=2048)  # 64 MiB
        sums, sizes = [0] * CHANNELS, [0] * CHANNELS
        limit()
        pairs = fb.write_buffers(records(), fb.Types.LONG(), CHANNELS, "rebalance", config=config, seed=1)
        for channel, buffer in pairs:
            sums[channel] = zlib.crc32(buffer, sums[channel])
            sizes[channel] += len(buffer)
        print(min(sizes), max(sizes), sum(sizes), zlib.crc32(repr(sums).encode()))
        """,
        megabytes=64 + 16,
    )
    smallest, largest, total, checksum = map(int, printed.split())
    assert (smallest, largest, total) == (1200, 1200, 12_000_000)
    pairs = fb.write_buffers(iter([0]), fb.Types.LONG(), CHANNELS, "rebalance", seed=1)
    (first, _), *_ = pairs
    expected = [0] * CHANNELS
    for number in range(1_000_000):
        channel = (first + number) % CHANNELS
        expected[channel] = zlib.crc32(b"\0\0\0\x08" + number.to_bytes(8, "big"), expected[channel])
    assert checksum == zlib.crc32(repr(expected).encode())


@pytest.mark.parametrize("segments", [4, 64, 512])
def test_streams_do_not_depend_on_how_they_were_collected(segments):
    draw = random.Random(segments)
    records = [(draw.randrange(10**6), "x" * draw.choice([0, 3, 40, 5000])) for _ in range(3000)]
    key = fb.by_key("n")

    def streams(config):
        joined = {}
        for channel, buffer in fb.write_buffers(records, PAIR, CHANNELS, key, config=config):
            joined[channel] = joined.get(channel, b"") + buffer
        return joined

    pages = streams(fb.NetworkConfig(segment_size=4096, sort_shuffle_min_parallelism=CHANNELS + 1))
    assert streams(fb.NetworkConfig(segment_size=4096, sort_shuffle_min_buffers=segments)) == pages
    assert sum(len(list(fb.read_buffers([stream], PAIR))) for stream in pages.values()) == len(records)


def test_a_log_that_is_as_small_as_can_be_takes_records_of_any_size():
    records = [(number, "y" * (number % 7) * 3000) for number in range(200)]
    config = fb.NetworkConfig(segment_size=4096, sort_shuffle_min_buffers=1)
    streams = {}
    for channel, buffer in fb.write_buffers(records, PAIR, CHANNELS, lambda r, n: r[0] * 31 % n, config=config):
        assert 0 < len(buffer) <= 4096
        streams.setdefault(channel, []).append(buffer)
    assert len(streams) == 200
    for number, text in records:
        assert list(fb.read_buffers(streams[number * 31 % CHANNELS], PAIR)) == [(number, text)]
