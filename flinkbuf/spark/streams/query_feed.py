"""A query of Structured Streaming that a job reads, as the program has it: ``env.from_streaming_data_frame``.

Each micro-batch comes to the program by ``foreachBatch``, whose call ends when the batch may count as done. In that
call Spark computes the batch under ``mapInArrow``, whose function sends its rows to the job and gives back which
attempt of each task has. A streaming writer of Spark's data sources was weighed: its commit messages say as much, but
it is told to commit once, and cannot have a batch computed again for a job that has begun anew meanwhile: each failure
of the job would fail the query, too.

One thread performs what an `EpochLedger` decides. All that others say is put into its inbox.
"""

from __future__ import annotations

import itertools
import queue
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from flinkbuf.common import job_options
from flinkbuf.config import TlsConfig
from flinkbuf.control.control_server import group_secret
from flinkbuf.datastream.data_stream import DataStream
from flinkbuf.errors import FlinkbufError
from flinkbuf.log import logger
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.spark.frames.arrow_input import arrow_reader
from flinkbuf.spark.frames.spark_source import check_is_data_frame
from flinkbuf.spark.stage.driver_address import driver_hosts
from flinkbuf.spark.stage.job import TASK_BIND_OPTION
from flinkbuf.spark.stage.job_stage import forget_connection, is_stopped, summary_of
from flinkbuf.spark.streams.epoch_source import EpochEnumerator, EpochSource, EpochSourceFactory
from flinkbuf.spark.streams.epochs import (
    Action,
    BatchOffered,
    CommitBatch,
    EndInput,
    EpochLedger,
    FailBatch,
    FailJob,
    JobEnded,
    Message,
    Part,
    QueryEnded,
    RequestCheckpoint,
    RunBatch,
    RunEnded,
    SealEpoch,
    StartQuery,
)
from flinkbuf.spark.streams.rows_protocol import group_of
from flinkbuf.spark.streams.rows_sender import NOT_DELIVERED, PARTS_DDL, RowsSender
from flinkbuf.spark.workers import check_workers, shipped
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from flinkbuf.datastream.stream_execution_environment import StreamExecutionEnvironment

SOURCE_NAME = "Streaming DataFrame Source"
END_WAIT_S = 10.0  # for Spark to end the query
_QUERY_ID = "sql.streaming.queryId"

# Spark ends a query where another one of its place begins, as if it had come to its end.
_places: dict[str, QueryFeed] = {}  # of the queries that jobs read now
_places_change = threading.Condition()


class QueryFailedError(FlinkbufError):
    """The query that a job reads has failed, or its batch cannot be the job's next one."""

    def __init__(self, message: str, can_restart: bool = True) -> None:
        super().__init__(message)
        self.can_restart = can_restart


def from_streaming_data_frame(
    env: StreamExecutionEnvironment,
    data: DataFrame,
    watermark: WatermarkStrategy | None,
    *,
    checkpoint_location: str | None,
    trigger: Mapping[str, object] | None,
    query_name: str | None,
) -> DataStream[Any]:
    """Make a stream of a query's rows; see ``StreamExecutionEnvironment.from_streaming_data_frame``."""
    from flinkbuf.spark.frames.schema import from_spark_rows  # brings pyspark

    check_is_data_frame(data, "from_streaming_data_frame")
    if not data.isStreaming:
        raise ValueError("from_streaming_data_frame takes a streaming DataFrame; this one is read by from_data_frame")
    if watermark is not None and not isinstance(watermark, WatermarkStrategy):
        raise TypeError(
            f"watermark must be a WatermarkStrategy, got {type(watermark).__name__} {watermark!r}; such as "
            "WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_assigner(...)"
        )
    read = arrow_reader(data, from_spark_rows(data.schema))
    if read is None:
        raise TypeError(
            "the rows of the query cannot come as Arrow batches: a column is of a type that Arrow or the stream has no "
            "place for, such as an interval, or a timestamp inside of a list, map or struct; select the columns that "
            f"are needed, and cast such ones: {data.schema.simpleString()}"
        )
    feed = QueryFeed(
        env, data, read.schema, checkpoint_location=checkpoint_location, trigger=trigger, query_name=query_name
    )
    source = EpochSource(feed, read)
    factory = EpochSourceFactory(source, watermark or WatermarkStrategy.no_watermarks())
    return env._source(SOURCE_NAME, read.type, factory, is_parallel=True, is_bounded=False)


class QueryFeed:
    """The query that one source reads, and its side of what is agreed on with the job.

    Parameters
    ----------
    env : StreamExecutionEnvironment
        Whose settings of the network count.
    data : DataFrame
    schema : pyarrow.Schema
        Of what is sent.
    checkpoint_location, trigger, query_name
        Of the query.

    Attributes
    ----------
    key : bytes
        What the secrets of the source's readers are derived from; it travels with the functions of the job.
    """

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        data: DataFrame,
        schema: pa.Schema,
        *,
        checkpoint_location: str | None,
        trigger: Mapping[str, object] | None,
        query_name: str | None,
    ) -> None:
        self.key = secrets.token_bytes(32)
        self._env = env
        self._data = data
        self._schema = schema
        self._context = data.sparkSession.sparkContext
        self._location = checkpoint_location
        self._folder: str | None = None  # of a query that was given no place
        self._writer = self._make_writer(trigger, query_name)
        self._properties = self._context._jsc.sc().getLocalProperties().clone()  # of the program's thread
        self._ledger = EpochLedger()
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._lock = threading.Lock()  # of the four that follow
        self._enumerator: EpochEnumerator | None = None
        self._thread: threading.Thread | None = None
        self._waiting: dict[int, queue.SimpleQueue[Action]] = {}  # the calls of foreachBatch
        self._is_over = False
        self._query: StreamingQuery | None = None
        self._generations = itertools.count(1)
        self._calls = itertools.count(1)

    def _make_writer(self, trigger: Mapping[str, object] | None, query_name: str | None) -> Any:
        """Return what starts the query; what Spark says against its settings is said here."""
        writer: Any = self._data.writeStream.foreachBatch(self._batch_came)
        if trigger is not None:
            writer = writer.trigger(**trigger)
        return writer if query_name is None else writer.queryName(query_name)

    @property
    def tls(self) -> TlsConfig | None:
        """Return how connections are encrypted, if they are."""
        return job_options.network_config_of(self._env._configuration).tls

    @property
    def hosts(self) -> tuple[str, str | None]:
        """Return the driver's address, and where tasks listen if that was said."""
        conf = self._context.getConf()
        return driver_hosts(conf)[1], conf.get(TASK_BIND_OPTION)

    # ---- said by the job, on any thread

    def attach(self, enumerator: EpochEnumerator) -> None:
        """Have a job read the query.

        Raises
        ------
        QueryFailedError
            Another source does, or reads a query of the same place.
        RuntimeError
            Spark's workers cannot import flinkbuf.
        """
        check_workers(self._context)
        self._take_place()
        with _places_change:
            _places_change.wait_for(lambda: self._enumerator is None, END_WAIT_S)
        with self._lock:
            if self._enumerator is not None:
                raise QueryFailedError(
                    "a query has one source, and the stream of from_streaming_data_frame() is used both as records and "
                    "as columns: call as_columns() once, and go on from that, or make two streams",
                    can_restart=False,
                )
            self._enumerator = enumerator
            if self._thread is None or self._is_over:  # the stream may be that of a job before, which has ended
                self._is_over, self._ledger, self._inbox = False, EpochLedger(), queue.SimpleQueue()
                self._thread = threading.Thread(target=self._work, name="flinkbuf query feed", daemon=True)
                self._thread.start()

    def _take_place(self) -> None:
        if self._location is None:
            return
        place = self._location.rstrip("/")
        with _places_change:  # a job that was cancelled may be about to leave it
            is_free = _places_change.wait_for(lambda: _places.get(place, self) is self, END_WAIT_S)
            if is_free:
                _places[place] = self
        if not is_free:
            raise QueryFailedError(
                f"checkpoint_location {self._location!r} is that of another query that a job reads now, which Spark "
                "would end for this one: give each query a place of its own",
                can_restart=False,
            )

    def _leave_place(self) -> None:
        with _places_change:
            for place in [place for place, feed in _places.items() if feed is self]:
                del _places[place]
            _places_change.notify_all()

    def detach(self, enumerator: EpochEnumerator) -> None:
        """The job begins again, or ends."""
        with self._lock:
            if self._enumerator is enumerator:
                self._enumerator = None
        with _places_change:
            _places_change.notify_all()

    def next_generation(self) -> int:
        """Return a number for a beginning of the job."""
        return next(self._generations)

    def tell(self, message: Message) -> None:
        """Tell what has happened; returns at once."""
        self._inbox.put(message)

    def end(self) -> None:
        """The job is over for good: end the query, and wait for that some seconds."""
        self.tell(JobEnded())
        thread = self._thread
        if thread is not None:
            thread.join(END_WAIT_S)
            if thread.is_alive():
                logger.warning("a query that a job has read did not end in %g s after the job and was left", END_WAIT_S)
        self._leave_place()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        self._fail_job(QueryFailedError("the job that read the query before has ended only now"))  # if another began

    # ---- on the thread that performs

    def _work(self) -> None:
        is_over = False
        while not is_over:
            message = self._next_message()
            try:
                for action in self._ledger.handle(message, _now_ms()):
                    self._perform(action)
            except Exception as error:
                logger.exception("what a job reads of a query could not be seen to")
                self._fail_job(error)
            is_over = isinstance(message, JobEnded)
        with self._lock:
            self._is_over = True
            waiting = list(self._waiting.items())
        for call, answers in waiting:
            answers.put(FailBatch(call, "the job that reads the query has ended"))
        self._stop_query()
        forget_connection()

    def _next_message(self) -> Message:
        deadline = self._ledger.next_deadline_ms
        try:
            return self._inbox.get(timeout=None if deadline is None else max(0.0, (deadline - _now_ms()) / 1_000))
        except queue.Empty:
            return TimePassed()

    def _perform(self, action: Action) -> None:
        with self._lock:
            enumerator = self._enumerator
        match action:
            case RunBatch() | CommitBatch() | FailBatch():
                with self._lock:
                    answers = self._waiting.get(action.call)
                if answers is not None:
                    answers.put(action)
            case StartQuery():
                self._start_query()
            case FailJob():
                self._fail_job(QueryFailedError(action.message, action.can_restart))
            case SealEpoch() if enumerator is not None:
                enumerator.seal(action)
            case RequestCheckpoint() if enumerator is not None:
                enumerator.request_checkpoint()
            case EndInput() if enumerator is not None:
                enumerator.end_input()

    def _fail_job(self, error: Exception) -> None:
        with self._lock:
            enumerator = self._enumerator
        if enumerator is not None:
            enumerator.fail(error)

    def _start_query(self) -> None:
        try:
            # Such as the pool of Spark's scheduler that the program has chosen.
            self._context._jsc.sc().setLocalProperties(self._properties.clone())
            location = self._location or self._own_location()
            self._query = self._writer.option("checkpointLocation", location).start()
        except Exception as error:
            self.tell(QueryEnded(f"the query could not be started: {_told(error)}", can_restart=False))
            return
        thread = threading.Thread(target=partial(self._await, self._query), name="flinkbuf query end", daemon=True)
        thread.start()

    def _own_location(self) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="flinkbuf-query-")
        return f"file://{self._folder}"

    def _await(self, query: StreamingQuery) -> None:
        end = QueryEnded()
        try:
            query.awaitTermination()
        except Exception as raised:
            end = QueryEnded(f"the query has failed: {_told(raised)}")
        if is_stopped(self._context):
            end = QueryEnded("the SparkContext was stopped while a job read a query of it", can_restart=False)
        self.tell(end)
        forget_connection()

    def _stop_query(self) -> None:
        query, self._query = self._query, None
        try:
            if query is not None and not is_stopped(self._context):
                query.stop()
        except Exception as error:
            logger.warning("the query that a job has read could not be stopped: %s", _told(error))

    # ---- on the thread of the query, which Spark calls

    def _batch_came(self, data: DataFrame, epoch: int) -> None:
        """See a micro-batch through; Spark notes it as done when this returns.

        Raises
        ------
        QueryFailedError
            It does not count, and the query ends with it.
        """
        answers: queue.SimpleQueue[Action] = queue.SimpleQueue()
        call = next(self._calls)
        with self._lock:
            if self._is_over:
                raise QueryFailedError("the job that reads the query has ended")
            self._waiting[call] = answers
        try:
            query_id = data.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
            if not query_id:
                raise QueryFailedError(
                    f"Spark does not tell foreachBatch the id of its query (its local property {_QUERY_ID}), without "
                    "which the job cannot know whether a batch is the next one: leave PYSPARK_PIN_THREAD at its default"
                )
            self.tell(BatchOffered(call, query_id, epoch))
            while True:
                match answers.get():
                    case RunBatch() as order:
                        self.tell(self._run(data, order))
                    case FailBatch(_, message):
                        raise QueryFailedError(message)
                    case _:
                        return
        finally:
            with self._lock:
                del self._waiting[call]

    def _run(self, data: DataFrame, order: RunBatch) -> RunEnded:
        """Have Spark compute a batch once."""
        keys = {place.token: group_secret(self.key, group_of(place.token)) for place in order.places}
        sender = RowsSender(order.run, order.places, keys, self._schema, self.tls)
        try:
            rows = data.mapInArrow(shipped(sender), PARTS_DDL).collect()
        except Exception as error:
            told = _told(error)
            return RunEnded(order.run, error=told, is_undelivered=NOT_DELIVERED in str(error))
        return RunEnded(order.run, tuple(Part(*row) for row in rows))


def _told(error: BaseException) -> str:
    """Return what of an error of Spark's a user can act on."""
    return summary_of(str(error))[0] or type(error).__name__


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
