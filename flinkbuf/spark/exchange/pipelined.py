"""The pipelined exchange: the tasks of one barrier stage send records to each other while they run.

An exchange is a job of one vertex, all of whose tasks read what all of them write: its task managers come to the
driver, are told where the others are when the task is deployed, and report how it ends, as those of every job do
(exchange_job, exchange_task). What is its own is here: the loop over the records (record_exchange), which Spark's own
thread runs, and the door. What a task reads goes to whoever asks for it, as it arrives; no record waits for the last
one, and none goes through a file.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flinkbuf._core.flow.record_exchange import RecordExchange
from flinkbuf.config import NetworkConfig
from flinkbuf.errors import (
    CancelTaskError,
    CorruptDataError,
    PartitionNotFoundError,
    PeerFailedError,
    RemoteTransportError,
)
from flinkbuf.network.environment import NetworkEnvironment, gate_buffers
from flinkbuf.network.partition import ResultPartition, buffer_limits
from flinkbuf.records.partitioner import NamedPartitioner
from flinkbuf.records.record_reader import RecordReader
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.spark.exchange.blocking import WriteTask, through_shuffle
from flinkbuf.spark.exchange.exchange_task import ExchangeManager, ExchangeTask
from flinkbuf.spark.exchange.summary import ExchangeSummary
from flinkbuf.spark.frames.rdd_order import declare_order
from flinkbuf.spark.stage.barrier_task import check_all_run, data_plane
from flinkbuf.spark.stage.driver_address import DriverAddress
from flinkbuf.spark.stage.task_end import call_at_end
from flinkbuf.spark.workers import shipped

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, SparkContext
    from pyspark.sql import SparkSession

    from flinkbuf.network.input_gate import InputGate
    from flinkbuf.spark.exchange.batch_exchange import BatchExchange

# How long a task whose connection broke waits for the driver to say which task is gone. The driver says it when Spark
# has heard of the cause, or after stage_runs.FAILURE_WAIT_MS, so this has to be longer.
NOTICE_PATIENCE_S = 3.0
# What runs in this process, by the iterator that was given out. Whoever drops that has had enough, or failed: which of
# the two shows at the end of the task only, and until then nothing may end.
running: dict[Iterator[object], NetworkEnvironment] = {}


def exchange_pipelined(data: RDD[object], write: WriteTask) -> RDD[object]:
    """Return the RDD whose tasks exchange the records of `data` as `write` says."""
    if write.producer_count != write.channel_count:
        data, write = _with_as_many_tasks(data, write)
    bind_host = data.context.getConf().get("spark.flinkbuf.task.bindAddress")
    task = PipelinedTask(write, *meeting_place_of(data.context, write), bind_host)
    made = data.barrier().mapPartitionsWithIndex(shipped(task))
    return declare_order(made, **write.order, is_unordered=True)


def meeting_place_of(context: SparkContext, write: WriteTask) -> tuple[DriverAddress, Accumulator[object] | None]:
    """Return where the tasks of an exchange meet, and what they are called by at their end.

    OSError if the driver cannot listen for them.
    """
    from flinkbuf.spark.exchange.exchange_job import exchanges_of  # brings what no task needs

    exchanges = exchanges_of(context)
    return exchanges.address_of(write), exchanges.last_calls


def _with_as_many_tasks(data: RDD[object], write: WriteTask) -> tuple[RDD[object], WriteTask]:
    """Bring the data, through Spark's shuffle, into as many partitions as the result has.

    A barrier stage has one task for each partition of what it reads, and Spark lets nothing put these together within
    the stage. Every partition of the data goes to one task whole, so what it sends keeps its order; but for "rescale",
    where the shuffle does all there is to do.
    """
    first_id = int.from_bytes(os.urandom(8), "big")
    if write.partitioner.kind == "rescale":
        first = replace(write, exchange_id=first_id)
        then = replace(write, producer_count=write.channel_count, partitioner=NamedPartitioner("forward"))
    else:
        first = HandOverTask(**{**vars(write), "exchange_id": first_id, "partitioner": NamedPartitioner("global")})
        then = replace(write, producer_count=write.channel_count)
    return through_shuffle(data, first), then


class HandOverTask(WriteTask):
    """Sends all records of one partition of the data to the one task that takes care of it."""

    def channels_of(self, producer: int) -> range:
        """Return the task; neighbours go together, and all tasks have as many as each other, or one more."""
        task = producer * self.channel_count // self.producer_count
        return range(task, task + 1)


@dataclass(frozen=True)
class PipelinedTask:
    """One task of a pipelined exchange: the body of a Spark task in a barrier stage, pickled to where it runs.

    Attributes
    ----------
    write : WriteTask
        What is sent where.
    driver : DriverAddress
        Where the tasks meet, and the secret that proves somebody to be one of them.
    last_calls : Accumulator
        What is called when Spark's worker has come to the end of the task well.
    bind_host : str, optional
        The address to listen at, if it is not the one that the driver was reached with.
    """

    write: WriteTask
    driver: DriverAddress
    last_calls: Accumulator[object] | None
    bind_host: str | None = None

    def __call__(self, index: int, records: Iterable[object]) -> Iterator[object]:
        """Return the records for Spark partition `index`, and send those of this task to the others meanwhile.

        When this returns, the task has joined the others. What is left of its own records when the iterator is closed,
        or when the code that reads from it has come to its end well, however much it read, is sent then.
        """
        results = self._run(index, iter(records))
        running[results] = next(results)
        if self.last_calls is not None:
            call_at_end(self.last_calls, partial(_send_rest, results))
        return results

    def _run(self, index: int, records: Iterator[object]) -> Generator[Any, None, None]:
        handled = sys.exc_info()[1]
        tasks, where = f"its {self.write.channel_count} tasks", f"exchange {self.write.name}: "
        check_all_run(self.write.channel_count, tasks, "a pipelined exchange", where)
        manager = self._join(index)
        task: ExchangeTask | None = None
        exchange: RecordExchange | BatchExchange | None = None
        try:
            task = manager.take()
            exchange = self._connect(task, index, records)
            task.run_by(exchange.figures)
            try:
                yield manager.environment  # __call__ takes it
                yield from exchange
            except GeneratorExit as stop:
                _check_consumer(stop, handled)
                exchange.write_rest()
            task.finish()
        except BaseException as error:
            is_over_own_record = exchange is not None and exchange.has_record_in_hand
            explained = self._explain(index, error, task, manager, is_over_own_record)
            if task is None:
                manager.abandon(error)
            else:
                self._give_up(task.partition, exchange, error)
                task.give_up(explained)
                manager.give_up()
            if isinstance(error, _ConsumerFailedError):
                return  # Spark gets the error of that code; another one from here would only be printed beside it
            raise explained from None if explained is not error else error.__cause__
        manager.leave()

    # ---- the way in

    @property
    def _config(self) -> NetworkConfig:
        return data_plane(self.write.config, self.driver.secret)

    def _join(self, index: int) -> ExchangeManager:
        try:
            return ExchangeManager(self.driver, index, self.write.name, partial(self._open_network, index))
        except RemoteTransportError as error:
            raise RemoteTransportError(f"{self._where(index)}: {error}") from None

    def _open_network(self, index: int, local_host: str) -> NetworkEnvironment:
        config, count = self._config, self.write.channel_count
        _, most_out = buffer_limits(
            "PIPELINED_BOUNDED",
            len(self.write.channels_of(index)),
            config.buffers_per_channel,
            config.floating_buffers_per_gate,
        )
        into = gate_buffers(count, config)
        wanted = (most_out or 0) + config.max_overdraft_buffers_per_gate + count * into.exclusive + into.max_floating
        if config.network_memory_max is not None:
            wanted = max(1, min(wanted, config.network_memory_max // config.segment_size))
        return NetworkEnvironment(
            config, host=self.bind_host or local_host, advertised_host=local_host, num_segments=wanted
        )

    def _connect(self, task: ExchangeTask, index: int, records: Iterator[object]) -> RecordExchange | BatchExchange:
        write = self.write
        writer = RecordWriter(
            task.partition,
            write.type,
            write.partitioner,
            self._config.flush_timeout_ms,
            subtask_index=index,
            seed=write.seed_of(index),
        )
        return self._exchange(writer, task.partition, task.open_gate(), records, task.check)

    def _exchange(
        self,
        writer: RecordWriter,
        partition: ResultPartition,
        gate: InputGate,
        records: Iterator[object],
        check: Callable[[], object],
    ) -> RecordExchange | BatchExchange:
        """Return what writes and reads: an iterator of what has come, with `write_rest` and `figures`."""
        return RecordExchange(writer, RecordReader(gate, self.write.type), records, check)

    def _give_up(
        self, partition: ResultPartition, exchange: RecordExchange | BatchExchange | None, error: BaseException
    ) -> None:
        """Tell whoever reads from here why nothing more comes: he need not wait for the connection to break."""
        partition.fail(reason_of(error))

    # ---- the way out

    def _where(self, index: int) -> str:
        return f"exchange {self.write.name}, task {index}"

    def _explain(
        self,
        index: int,
        error: BaseException,
        task: ExchangeTask | None,
        manager: ExchangeManager,
        is_over_own_record: bool,
    ) -> BaseException:
        """Return the error that says most: which of the task's own records was refused, or which other task is gone."""
        if isinstance(error, PeerFailedError):
            return error.__class__(f"{self._where(index)}: {error}")
        if isinstance(error, (RemoteTransportError, PartitionNotFoundError, CancelTaskError, CorruptDataError)):
            known = None if isinstance(error, CorruptDataError) else manager.reason(NOTICE_PATIENCE_S)
            if known is not None:
                return PeerFailedError(f"{self._where(index)}: {known}")
            channel = getattr(error, "channel_index", None)
            who = "" if task is None or channel is None else f"{self._producer(index, task, channel)}: "
            return error.__class__(f"{self._where(index)}: {who}{error}")
        if isinstance(error, Exception) and is_over_own_record:
            return self.write.explain(index, error) or error
        return error

    def _producer(self, index: int, task: ExchangeTask, channel: int) -> str:
        """Return which task writes what comes through a channel."""
        producers = [each for each in range(self.write.producer_count) if index in self.write.channels_of(each)]
        return f"task {producers[channel]} (at {task.producers[channel]})"


class _ConsumerFailedError(PeerFailedError):
    """For the other tasks: the user's code that read a task's records failed, and so that task sends no more."""


def _check_consumer(stop: GeneratorExit, handled: BaseException | None) -> None:
    """Let the task fail if the iterator was closed by an error on its way through the code that reads from it."""
    error = stop.__context__
    if error is not None and error is not handled:
        raise _ConsumerFailedError(f"the code that reads its records failed with {reason_of(error)}") from None


def _send_rest(results: Generator[object, None, None]) -> None:
    try:
        results.close()
    finally:
        running.pop(results, None)


def reason_of(error: BaseException) -> str:
    """Return an error as the others are told of it."""
    with contextlib.suppress(Exception):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__


def exchange_summaries(context: SparkContext | SparkSession | None = None) -> list[ExchangeSummary]:
    """Return what the latest pipelined exchanges did, the last one last.

    Parameters
    ----------
    context : SparkContext or SparkSession, optional
        Whose exchanges; a session of Spark Connect has its own. By default the context or session that is active.

    Returns
    -------
    list of ExchangeSummary
        One for each run that came to its end, up to 100; none of runs that failed.

    Examples
    --------
    >>> counts = fb.exchange(trips, "origin", mode="pipelined").mapPartitions(count).collect()  # doctest: +SKIP
    >>> print(fb.spark.exchange_summaries()[-1].table())  # doctest: +SKIP
    """
    from flinkbuf.spark.exchange.exchange_job import summaries_of

    return [] if (owner := _owner_of(context)) is None else summaries_of(owner)


def _owner_of(given: SparkContext | SparkSession | None) -> SparkContext | SparkSession | None:
    """Return the SparkContext, or the session of Spark Connect, that exchanges belong to."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if given is None:
        given = SparkSession.getActiveSession()
        is_client = type(given).__module__.startswith("pyspark.sql.connect.")
        return given if is_client else SparkContext._active_spark_context
    is_classic = type(given).__module__ == "pyspark.sql.session"
    return given.sparkContext if is_classic and isinstance(given, SparkSession) else given
