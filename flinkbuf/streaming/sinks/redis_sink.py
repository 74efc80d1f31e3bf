"""Commands to a Redis server, in pipelines: each comes at least once, so that it should be harmless to repeat it.

Flink: RedisSink of the community's connectors; its writers flush at checkpoints as JdbcSink's do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from flinkbuf._core.value.own_value import copied_if_it_can
from flinkbuf.errors import FlinkbufError
from flinkbuf.streaming.sinks.batching_writer import BatchingWriter
from flinkbuf.streaming.sinks.sink import Sink, SinkContext, SinkWriter, WriterContext

DEFAULT_BATCH_SIZE = 1_000  # commands
_TRIES = 5  # of a batch whose connection breaks
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0
_PASSING_CODE = re.compile(r"(?:^|caused error: )(?:BUSY|MASTERDOWN|MISCONF|NOREPLICAS) ")  # no classes of redis-py


class RedisCommandError(FlinkbufError, RuntimeError):
    """The server refuses a command.

    Attributes
    ----------
    can_restart : bool
        The server is in a state that may pass: a replica that is not the master yet, or memory that is full.
    """

    can_restart = False


@dataclass(frozen=True)
class RedisOptions:
    """What a sink of Redis was built with.

    Attributes
    ----------
    url : str
        As redis-py takes it.
    commands : callable
        Makes of a record a command, a tuple that begins with its name, or a list of some.
    """

    url: str = field(repr=False)
    commands: Callable[[Any], object] | None = None
    batch_size: int = DEFAULT_BATCH_SIZE
    batch_interval_ms: int = 0  # 0: none


def redis_module() -> ModuleType:
    """Return redis, which is an extra."""
    try:
        import redis
    except ImportError as error:
        raise ImportError("RedisSink needs redis: pip install 'flinkbuf[redis]'") from error
    return redis


class RedisCommandSink(Sink):
    """Sends commands; `flinkbuf.datastream.connectors.redis.RedisSink` is its face."""

    def __init__(self, options: RedisOptions) -> None:
        self.options = options

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Connect, and send the commands of one subtask."""
        return RedisWriter(self.options, context)


def commands_of(made: object) -> list[tuple[object, ...]]:
    """Return the commands that a function has made of a record.

    Raises
    ------
    TypeError
        If they are none.

    Examples
    --------
    >>> commands_of(("SET", "a", 1)), commands_of([("DEL", "a"), ("SET", "b", 2)]), commands_of(None)
    ([('SET', 'a', 1)], [('DEL', 'a'), ('SET', 'b', 2)], [])
    """
    if made is None:
        return []
    found = [made] if isinstance(made, tuple) else made
    if not isinstance(found, list) or not all(isinstance(each, tuple) and each for each in found):
        raise TypeError(
            "what set_commands() was given makes a command of a record, such as ('SET', key, value), a list of some, "
            f"or None; got {type(made).__name__} {made!r:.80}"
        )
    for each in found:
        if not isinstance(each[0], str):
            raise TypeError(f"a command begins with its name, such as 'SET'; got {each!r:.80}")
        wrong = next((value for value in each if not isinstance(value, (bytes, str, int, float, bytearray))), None)
        if wrong is not None or any(value is None or isinstance(value, bool) for value in each):
            raise TypeError(f"Redis takes str, bytes, int and float as arguments of a command, got {each!r:.80}")
    return found


def _may_pass(error: Exception) -> bool:
    """Return whether the server refuses a command for the state that it is in."""
    exceptions = redis_module().exceptions
    states = (
        exceptions.ReadOnlyError,
        exceptions.OutOfMemoryError,
        exceptions.ClusterDownError,
        exceptions.TryAgainError,
    )
    return isinstance(error, states) or _PASSING_CODE.search(str(error)) is not None


class RedisWriter(BatchingWriter):
    """Sends commands in batches."""

    def __init__(self, options: RedisOptions, context: WriterContext) -> None:
        redis = redis_module()
        from redis.backoff import ExponentialBackoff
        from redis.retry import Retry

        assert options.commands is not None, "the builder has asked for it"
        super().__init__(context, options.batch_size, options.batch_interval_ms)
        self._commands = options.commands
        self._batch: list[tuple[object, ...]] = []
        retry = Retry(ExponentialBackoff(cap=_LONGEST_WAIT_S, base=_FIRST_WAIT_S), _TRIES)
        broken = [redis.exceptions.ConnectionError, redis.exceptions.TimeoutError]
        self._client = redis.Redis.from_url(options.url, retry=retry, retry_on_error=broken, client_name="flinkbuf")
        try:
            self._client.ping()  # what is wrong with the address is said now
        except BaseException:
            self._client.close()
            raise

    def write(self, element: object, context: SinkContext) -> None:
        """Add the commands of a record to the batch."""
        made = commands_of(self._commands(element))
        if made:
            before = len(self._batch)
            self._batch += [copied_if_it_can(each) for each in made]
            self.added(before, len(self._batch))

    def send(self) -> None:
        """Send the batch and wait for its answers."""
        if not self._batch:
            return
        pipeline = self._client.pipeline(transaction=False)
        for each in self._batch:
            pipeline.execute_command(*each)
        try:
            pipeline.execute()
        except redis_module().exceptions.ResponseError as error:
            refused = RedisCommandError(f"Redis refuses a command: {error}")
            refused.can_restart = _may_pass(error)
            raise refused from error
        self._batch = []

    def close(self) -> None:
        """Close the connection; what was not sent comes again."""
        super().close()
        self._client.close()
