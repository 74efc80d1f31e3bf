"""The pipelined exchange: the tasks of one barrier stage send records to each other while they run.

Every task is a producer and a consumer: it opens the network of its process, meets the others at the driver
(rendezvous.py) or by one allGather, and then writes and reads in one loop (record_exchange). What it reads
goes to whoever asks for it, as it arrives; no record waits for the last one, and none goes through a file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from flinkbuf._core.record_exchange import RecordExchange
from flinkbuf.config import NetworkConfig
from flinkbuf.errors import (
    CancelTaskError,
    CorruptDataError,
    PartitionNotFoundError,
    PeerFailedError,
    RemoteTransportError,
)
from flinkbuf.log import logger
from flinkbuf.network.environment import LocalChannel, NetworkEnvironment, RemoteChannel, gate_buffers
from flinkbuf.network.partition import ResultPartitionID, buffer_limits
from flinkbuf.records.partitioner import NamedPartitioner
from flinkbuf.records.record_reader import RecordReader
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.spark.exchange.blocking import WriteTask, through_shuffle
from flinkbuf.spark.exchange.summary import ExchangeSummary
from flinkbuf.spark.workers import shipped

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

    from flinkbuf.spark.exchange.membership import Membership, Peer

CONNECT_TIMEOUT_S = 30  # Flink's 120 are long for a stage whose tasks all run
# How long a task whose connection broke waits for the driver to say which task is gone. The driver says it when Spark
# has heard of the cause, or after rendezvous.FAILURE_WAIT_S, so this has to be longer.
NOTICE_PATIENCE_S = 3.0
# What running tasks need to their end. Where the code that reads a task's records drops them as a part of a reference
# cycle, the garbage collector would otherwise end what they are made of, the source's generators too, before the task
# could send the rest of it.
_in_use: set[tuple[NetworkEnvironment, RecordExchange]] = set()


def exchange_pipelined(data: RDD[Any], write: WriteTask) -> RDD[Any]:
    """Return the RDD whose tasks exchange the records of `data` as `write` says."""
    if write.producer_count != write.channel_count:
        data, write = _with_as_many_tasks(data, write)
    secret, driver = _meeting_place(data.context, write)
    task = PipelinedTask(write, secret, driver, data.context.getConf().get("spark.flinkbuf.task.bindAddress"))
    return data.barrier().mapPartitionsWithIndex(shipped(task))


def _meeting_place(context: SparkContext, write: WriteTask) -> tuple[bytes, tuple[str, int] | None]:
    """Return the secret of the exchange, and where its tasks find the driver; None if that cannot listen."""
    from flinkbuf.spark.exchange.rendezvous import rendezvous_of  # brings asyncio, which no task needs

    try:
        rendezvous = rendezvous_of(context)
    except OSError as error:
        logger.warning(
            "exchange %s: the driver cannot listen for its tasks, which find each other by Spark's allGather "
            "instead: %s",
            name_of(write),
            error,
        )
        return secrets.token_bytes(32), None
    return rendezvous.secret_of(name_of(write), write.channel_count), rendezvous.address


def name_of(write: WriteTask) -> str:
    """Return what messages call an exchange."""
    return f"{write.exchange_id:016x}"


def _with_as_many_tasks(data: RDD[Any], write: WriteTask) -> tuple[RDD[Any], WriteTask]:
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
    secret : bytes
        What proves that somebody is a task of this exchange, or its driver.
    driver : tuple of (str, int), optional
        Where the tasks meet.
    bind_host : str, optional
        The address to listen at, if it is not the one that the driver was reached with.
    """

    write: WriteTask
    secret: bytes = field(repr=False)
    driver: tuple[str, int] | None = None
    bind_host: str | None = None

    def __call__(self, index: int, records: Iterable[Any]) -> Iterator[Any]:
        """Return the records for Spark partition `index`, and send those of this task to the others meanwhile.

        When this returns, the task has joined the others, so that it also sends its own records where nobody ever reads
        from the iterator. To close the iterator before its end sends what is left of them.
        """
        results = self._run(index, records)
        next(results)
        return results

    def _run(self, index: int, records: Iterable[Any]) -> Iterator[Any]:
        from flinkbuf.spark.exchange.membership import Peer  # brings what a driver does without, as rendezvous does

        started = time.monotonic()
        consumer = Consumer()
        self._check_all_run()
        membership = self._reach_driver()
        peers: list[Peer] = []
        exchange: RecordExchange | None = None
        try:
            with self._open_network(index, membership) as env:
                partition_id = ResultPartitionID.random()
                partition = env.create_partition(partition_id, len(self.write.channels_of(index)))
                try:
                    peers += self._meet(membership, Peer(index, *env.address, partition_id.hex(), os.getpid()))
                    exchange = self._connect(env, index, peers, partition, records, membership)
                    _in_use.add((env, exchange))
                    try:
                        yield None  # __call__ takes it
                        yield from exchange
                    except GeneratorExit as stop:
                        consumer.check(stop)
                        if membership is not None and consumer.may_have_ended():
                            membership.say_ended()
                        exchange.write_rest()
                    finally:
                        _in_use.discard((env, exchange))
                except BaseException as error:
                    partition.fail(_reason(error))  # who reads from it need not wait for the connection to break
                    raise
                figures = exchange.figures()
        except BaseException as error:
            is_over_own_record = exchange is not None and exchange.has_record_in_hand
            explained = self._explain(index, error, peers, membership, is_over_own_record)
            if membership is not None:
                membership.fail(_reason(explained))
            if isinstance(error, _ConsumerFailedError):
                return  # Spark gets the error of that code; another one from here would only be printed beside it
            raise explained from None if explained is not error else error.__cause__
        if membership is not None:
            membership.finish({**figures, "total_ms": int(1000 * (time.monotonic() - started))})

    # ---- the way in

    @property
    def _config(self) -> NetworkConfig:
        # The environment lives no longer than the task, and neither do its connections.
        config = self.write.config or NetworkConfig(netty_client_connect_timeout_s=CONNECT_TIMEOUT_S)
        return config.replace(tcp_connection_enable_reuse_across_jobs=False, auth=config.auth or self.secret)

    def _check_all_run(self) -> None:
        """Refuse to run if Spark runs only some tasks of the stage.

        Where a task succeeds at the moment when another fails, or an executor is lost with some of the shuffle's files,
        Spark starts the stage again without those whose output it has. A task that fails has it drop them all, so the
        attempt after this one is whole.
        """
        from pyspark import BarrierTaskContext

        count = len(BarrierTaskContext.get().getTaskInfos())
        if count != self.write.channel_count:
            raise PeerFailedError(
                f"exchange {name_of(self.write)}: Spark has started {count} of its {self.write.channel_count} tasks "
                "again, having kept the output of the others; a pipelined exchange is computed whole or not at all. "
                "Spark starts all of them after this failure, within spark.stage.maxConsecutiveAttempts"
            )

    def _reach_driver(self) -> Membership | None:
        if self.driver is None:
            return None
        from flinkbuf.spark.exchange.membership import Membership

        try:
            return Membership.join(self.driver, name_of(self.write), self.write.channel_count, self.secret)
        except OSError as error:
            logger.warning(
                "exchange %s: the driver cannot be reached at %s:%d: %s", name_of(self.write), *self.driver, error
            )
            return None

    def _open_network(self, index: int, membership: Membership | None) -> NetworkEnvironment:
        from flinkbuf.spark.exchange.membership import host_of_executor

        host = host_of_executor(index) if membership is None else membership.local_host
        bind_host = self.bind_host
        if bind_host is None and membership is None and host != "localhost" and not host.startswith("127."):
            bind_host = "::" if ":" in host else "0.0.0.0"  # the name of a host may be its loopback to itself
        return NetworkEnvironment(
            self._config, host=bind_host or host, advertised_host=host, num_segments=self._segment_count(index)
        )

    def _segment_count(self, index: int) -> int:
        """Return how many buffers partition and gate may hold together, or what the configuration allows."""
        config, count = self._config, self.write.channel_count
        _, most_out = buffer_limits(
            "PIPELINED_BOUNDED",
            len(self.write.channels_of(index)),
            config.buffers_per_channel,
            config.floating_buffers_per_gate,
        )
        into = gate_buffers(count, config)
        wanted = (most_out or 0) + config.max_overdraft_buffers_per_gate + count * into.exclusive + into.max_floating
        limit = config.network_memory_max
        return wanted if limit is None else max(1, min(wanted, limit // config.segment_size))

    def _meet(self, membership: Membership | None, me: Peer) -> list[Peer]:
        """Learn where the others listen."""
        from pyspark import BarrierTaskContext

        from flinkbuf.spark.exchange.membership import gather_peers

        context = BarrierTaskContext.get()
        peers = membership.register(me, context.stageId(), context.taskAttemptId()) if membership is not None else None
        if peers is None:
            peers = gather_peers(me)
            if membership is not None:
                membership.say_met()
        if [peer.index for peer in peers] != list(range(self.write.channel_count)):
            raise ConnectionError(f"{len(peers)} tasks met where {self.write.channel_count} were expected")
        return peers

    def _connect(
        self,
        env: NetworkEnvironment,
        index: int,
        peers: list[Peer],
        partition: Any,
        records: Iterable[Any],
        membership: Membership | None,
    ) -> RecordExchange:
        write = self.write
        channels: list[RemoteChannel | LocalChannel] = []
        for peer in self._producers_of(index, peers):
            subpartition = index - write.channels_of(peer.index).start
            if peer.index == index:
                channels.append(LocalChannel(peer.partition_id, subpartition))
            else:
                channels.append(RemoteChannel(peer.host, peer.port, peer.partition_id, subpartition))
        gate = env.create_gate(channels)
        writer = RecordWriter(
            partition,
            write.type,
            write.partitioner,
            self._config.flush_timeout_ms,
            subtask_index=index,
            seed=write.seed_of(index),
        )
        return RecordExchange(
            writer, RecordReader(gate, write.type), records, None if membership is None else membership.check
        )

    def _producers_of(self, index: int, peers: list[Peer]) -> list[Peer]:
        """Return the tasks that may send to this one."""
        return [peer for peer in peers if index in self.write.channels_of(peer.index)]

    # ---- the way out

    def _explain(
        self,
        index: int,
        error: BaseException,
        peers: list[Peer],
        membership: Membership | None,
        is_over_own_record: bool,
    ) -> BaseException:
        """Return the error that says most: which of the task's own records was refused, or which other task is gone."""
        where = f"exchange {name_of(self.write)}, task {index}"
        if isinstance(error, PeerFailedError):
            return PeerFailedError(f"{where}: {error}")
        if isinstance(error, (RemoteTransportError, PartitionNotFoundError, CancelTaskError, CorruptDataError)):
            try:
                if membership is not None and not isinstance(error, CorruptDataError):
                    membership.wait_for_notice(NOTICE_PATIENCE_S)
            except PeerFailedError as known:
                return PeerFailedError(f"{where}: {known}")
            channel, producers = getattr(error, "channel_index", None), self._producers_of(index, peers)
            who = "" if channel is None or channel >= len(producers) else f"{producers[channel]}: "
            return error.__class__(f"{where}: {who}{error}")
        if isinstance(error, Exception) and is_over_own_record:
            return self.write.explain(index, error) or error
        return error


class _ConsumerFailedError(PeerFailedError):
    """For the other tasks: the user's code that read a task's records failed, and so that task sends no more."""


class Consumer:
    """The code that reads a task's records: tells, when it stops before the last, whether it has had enough or failed.

    A generator is closed in the same way in both cases. But while an error is raised through the code, Python has it as
    the one that is being handled; and once it has left the task, Spark's worker no longer runs that task, though it has
    not noted it as one that ended well either.
    """

    def __init__(self) -> None:
        self._handled = sys.exc_info()[1]
        self._task = _known_task() if _is_running() else None

    def check(self, stop: GeneratorExit) -> None:
        """Raise `stop` again if the task has failed."""
        error = stop.__context__
        if error is not None and error is not self._handled:
            raise _ConsumerFailedError(f"the code that reads its records failed with {_reason(error)}") from None
        if self._task is not None and self._task == _known_task() and not _is_running():
            raise _ConsumerFailedError(
                "the code that reads its records failed, and its own error says more; or Spark wants no more of "
                "them, as for the limit() of a DataFrame: put a shuffle such as repartition() between"
            ) from None

    def may_have_ended(self) -> bool:
        """Whether the worker has noted the task as ended well, or may do so before this thread is done."""
        is_aside = threading.current_thread() is not threading.main_thread()
        return self._task is not None and (is_aside or self._task != _known_task())


def _known_task() -> int | None:
    """Return the attempt id of the task that PySpark's worker runs or has left by an error; None if it ended well."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.taskAttemptId()


def _is_running() -> bool:
    """Whether PySpark's worker is in its main function, in whatever thread this is asked."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "main" and code.co_filename.replace("\\", "/").endswith("pyspark/worker.py"):
            return True
        frame = frame.f_back
    return False


def _reason(error: BaseException) -> str:
    with contextlib.suppress(Exception):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__


def exchange_summaries(context: SparkContext | None = None) -> list[ExchangeSummary]:
    """Return what the latest pipelined exchanges did, the last one last.

    Parameters
    ----------
    context : SparkContext, optional
        By default the one that is active.

    Returns
    -------
    list of ExchangeSummary
        One for each run that came to its end, up to 100; none of runs that failed.

    Examples
    --------
    >>> counts = fb.exchange(trips, "origin", mode="pipelined").mapPartitions(count).collect()  # doctest: +SKIP
    >>> print(fb.exchange_summaries()[-1].table())  # doctest: +SKIP
    """
    from pyspark import SparkContext

    from flinkbuf.spark.exchange.rendezvous import summaries_of

    wanted = SparkContext._active_spark_context if context is None else context
    return [] if wanted is None else summaries_of(wanted)
