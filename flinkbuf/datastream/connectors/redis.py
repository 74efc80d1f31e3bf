"""Redis as a sink. Flink: RedisSink of the community's connectors; PyFlink has none. Needs redis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkbuf.datastream.arguments import OptionsBuilder
from flinkbuf.streaming.sinks.redis_sink import RedisCommandError, RedisCommandSink, RedisOptions, redis_module

__all__ = ["RedisCommandError", "RedisSink", "RedisSinkBuilder"]


class RedisSink(RedisCommandSink):
    """Sends commands that a function makes of each record, in pipelines; at least once.

    All that came before a checkpoint was answered before it counts. After a failure the commands since the last
    checkpoint come again, so they should be harmless to repeat and, for each key, come in one order: ``SET``, ``HSET``,
    ``SADD``, ``ZADD`` and ``DEL`` are, and the last value of a key is right again when the job has caught up. ``INCR``,
    ``LPUSH`` and their like count twice: keep the number in the job's state, and set it.

    References
    ----------
    ``RedisSink`` of Apache Bahir.

    Examples
    --------
    >>> sink = (
    ...     RedisSink.builder()
    ...     .set_url("redis://localhost:6379/0")
    ...     .set_commands(lambda delay: ("HSET", "delays", delay.carrier, delay.minutes))
    ...     .build()
    ... )  # doctest: +SKIP
    >>> stream.key_by(lambda delay: delay.carrier).max_by("minutes").sink_to(sink)  # doctest: +SKIP
    """

    @staticmethod
    def builder() -> RedisSinkBuilder:
        """Begin a sink."""
        return RedisSinkBuilder()


class RedisSinkBuilder(OptionsBuilder[RedisOptions]):
    """What a `RedisSink` is to do: a server and what makes commands, the rest if you like."""

    def __init__(self) -> None:
        self._options = RedisOptions("")

    def set_url(self, url: str) -> RedisSinkBuilder:
        """Set where the server is.

        Parameters
        ----------
        url : str
            As redis-py takes it: ``"redis://host:6379/0"``, ``"rediss://..."`` with TLS, ``"unix:///path"``.
        """
        if not isinstance(url, str) or not url.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("url must begin with redis://, rediss:// or unix://")  # it may have a password: not shown
        return self._with(url=url)

    def set_commands(self, commands: Callable[[Any], object]) -> RedisSinkBuilder:
        """Set what makes commands of a record.

        Parameters
        ----------
        commands : callable
            Returns a command, ``("SET", key, value)``, a list of some, or None. Arguments are str, bytes, int or float.
        """
        if not callable(commands):
            raise TypeError(f"commands must be a function of a record, got {type(commands).__name__}")
        return self._with(commands=commands)

    def set_batch_size(self, batch_size: int) -> RedisSinkBuilder:
        """Set how many commands are sent at once; 1,000 unless it is set."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1 command, got {batch_size}")
        return self._with(batch_size=batch_size)

    def set_batch_interval(self, batch_interval_ms: int) -> RedisSinkBuilder:
        """Set after how many milliseconds commands are sent that are fewer; 0: with the checkpoint."""
        if batch_interval_ms < 0:
            raise ValueError(f"batch_interval_ms must not be negative, got {batch_interval_ms}")
        return self._with(batch_interval_ms=batch_interval_ms)

    def build(self) -> RedisSink:
        """Make the sink.

        Raises
        ------
        ValueError
            There is no server, or nothing that makes commands.
        ImportError
            redis is not installed.
        """
        if not self._options.url:
            raise ValueError("a RedisSink needs set_url(...)")
        if self._options.commands is None:
            raise ValueError("a RedisSink needs set_commands(...)")
        redis_module()
        return RedisSink(self._options)
