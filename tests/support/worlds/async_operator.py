"""What tests of the async operator start from: one with given options, and functions for it to call."""

import asyncio

from flinkbuf.async_io.function import AsyncOptions
from flinkbuf.async_io.operator import AsyncOperator


def operator(func, **options):
    return AsyncOperator(func, AsyncOptions(**options))


def run(func, records, **options):
    return list(operator(func, **options).run(records))


async def at_once(record):
    return record


async def sleepy(record):
    """Take as many milliseconds as the record says."""
    await asyncio.sleep(record / 1000)
    return record
