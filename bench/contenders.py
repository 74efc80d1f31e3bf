"""Who takes part: flinkbuf's ways from Python records to buffers and back, and those of its rivals.

A contender is a pair. ``write(records)`` turns a list of records into something made of bytes, ``read(written)`` gives
the records back one by one. Each is checked to give back equal records before anything is timed. Contenders that are
not installed do not take part; the table says so.
"""

import functools
import io
import itertools
import marshal
import os
import pickle
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from data import FLIGHT_COLUMNS, FLIGHT_DDL

BATCH = 1000  # records in a list, for rivals that work on lists
KEY_FIELD = {"tuple": 1, "flights": 5}  # the text that decides the channel
CHANNELS = 8
UNDECLARED = ("tuple", "flights", "int64")  # also written without their type


class Contender(NamedTuple):
    write: Callable[[list[Any]], Any]
    read: Callable[[Any], Iterable[Any]]


def contenders(work: str) -> dict[str, Contender]:
    """Return who can do `work` (a key of `data.RECORDS`), the reference first."""
    if work == "row":
        return flinkbuf_contenders(work)  # beside the tuple of the same fields; nobody else gives rows back
    everybody = flinkbuf_contenders(work) | msgspec_contenders(work) | standard_contenders(work)
    if work in UNDECLARED:
        everybody |= {"flinkbuf_undeclared": flinkbuf_record_writer(work, declared=False)}
    return everybody | pyspark_contenders() | ormsgpack_contenders(work)


def best_known(work: str) -> dict[str, Contender]:
    """Return flinkbuf and only the rivals that matter when the two directions are looked at one by one."""
    chosen = ("flinkbuf_record_writer", "flinkbuf_buffers", "msgspec_lists", "ormsgpack_lists", "pickle_lists")
    everybody = contenders(work)
    return {name: everybody[name] for name in chosen if name in everybody}


def keyed_contenders(work: str) -> dict[str, Contender]:
    """Return who can do `work` split over 8 channels by a text field."""
    key_field = KEY_FIELD[work]
    everybody = {
        "flinkbuf_record_writer": flinkbuf_record_writer(work, CHANNELS, key_field),
        "flinkbuf_buffers": flinkbuf_buffers(work, CHANNELS, key_field),
    }
    if find_spec("msgspec"):
        everybody["msgspec_lists"] = _by_key(msgspec_contenders(work)["msgspec_lists"], key_field, hash)
    if find_spec("pyspark"):
        from pyspark.rdd import portable_hash

        # What partitionBy does on the map side; its hash asks for the variable that Spark sets for its workers.
        os.environ.setdefault("PYTHONHASHSEED", "0")
        everybody["pyspark_pickle"] = _by_key(standard_contenders(work)["pickle_lists"], key_field, portable_hash)
    return everybody


def drain(records: Iterable[Any]) -> None:
    """Take the records one by one and drop them, for everybody in the same way."""
    deque(records, maxlen=0)


def is_faithful(contender: Contender, records: list[Any], *, is_ordered: bool = True) -> bool:
    """Tell whether `contender` gives back equal records, in order; lists count as the tuples they stand for."""
    again = contender.read(contender.write(records))
    again = [tuple(record) if isinstance(record, list) else record for record in again]
    # repr puts rows with nulls into an order too.
    return again == records if is_ordered else sorted(again, key=repr) == sorted(records, key=repr)


# ---- flinkbuf ----------------------------------------------------------------------------------------


def flinkbuf_type(work: str) -> Any:
    """Return the flinkbuf type of the records of `work`."""
    import flinkbuf as fb

    if work == "flights":
        return fb.as_type(FLIGHT_DDL)
    if work in ("tuple", "row"):
        kind = fb.Types.TUPLE if work == "tuple" else fb.Types.ROW
        return kind([fb.Types.LONG(), fb.Types.STRING(), fb.Types.DOUBLE()])
    return fb.Types.LONG() if work == "int64" else fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())


def flinkbuf_contenders(work: str) -> dict[str, Contender]:
    return {"flinkbuf_record_writer": flinkbuf_record_writer(work), "flinkbuf_buffers": flinkbuf_buffers(work)}


def flinkbuf_record_writer(
    work: str, channel_count: int = 1, key_field: int | None = None, *, declared: bool = True
) -> Contender:
    """RecordWriter → ResultPartition → InputGate → RecordReader."""
    import flinkbuf as fb
    from flinkbuf.types.types import object_type

    record_type = flinkbuf_type(work) if declared else object_type()
    partitioner = "rebalance" if key_field is None else fb.by_key(key_field)

    def write(records: list[Any]) -> Any:
        partition = fb.ResultPartition(worker_pool(), channel_count, type="PIPELINED")
        with fb.RecordWriter(partition, record_type, partitioner) as writer:
            writer.emit_all(records)
        return partition

    def read(partition: Any) -> Iterable[Any]:
        return fb.RecordReader(fb.InputGate([(partition, index) for index in range(channel_count)]), record_type)

    return Contender(write, read)


def element_contenders(work: str) -> dict[str, Contender]:
    """Return the ways of a record with its event time, one `emit` each, the same record without one first."""
    import flinkbuf as fb

    plain = flinkbuf_type(work)
    element = fb.Types.STREAM_ELEMENT(plain)

    def way(record_type: Any, is_timed: bool) -> Contender:
        def write(records: list[Any]) -> Any:
            partition = fb.ResultPartition(worker_pool(), 1, type="PIPELINED")
            with fb.RecordWriter(partition, record_type) as writer:
                emit = writer.emit
                if is_timed:
                    for record in records:
                        emit(record, 1_700_000_000_000)
                else:
                    for record in records:
                        emit(record)
            return partition

        def read(partition: Any) -> Iterable[Any]:
            return fb.RecordReader(fb.InputGate([(partition, 0)]), record_type)

        return Contender(write, read)

    def write_objects(records: list[Any]) -> list[bytes]:
        return [element.serialize(fb.types.StreamRecord(record, 1_700_000_000_000)) for record in records]

    def read_objects(written: list[bytes]) -> Iterable[Any]:
        return (element.deserialize(data).value for data in written)

    return {
        "flinkbuf_record": way(plain, is_timed=False),
        "flinkbuf_element": way(element, is_timed=False),
        "flinkbuf_element_with_timestamp": way(element, is_timed=True),
        "flinkbuf_element_objects": Contender(write_objects, read_objects),
    }


@functools.cache
def worker_pool() -> Any:
    """Return the one pool of this process, opened at first use, as a worker does."""
    import flinkbuf as fb

    return fb.NetworkBufferPool(2048, segment_size=32 * 1024)  # 64 MiB: all that is written before it is read


def flinkbuf_buffers(work: str, channel_count: int = 1, key_field: int | None = None) -> Contender:
    """write_buffers → read_buffers: what a mapPartitions body does."""
    import flinkbuf as fb

    record_type = flinkbuf_type(work)
    partitioner = "rebalance" if key_field is None else fb.by_key(key_field)

    def write(records: list[Any]) -> list[list[Any]]:
        channels: list[list[Any]] = [[] for _ in range(channel_count)]
        for channel, buffer in fb.write_buffers(records, record_type, channel_count, partitioner):
            channels[channel].append(buffer)
        return channels

    def read(channels: list[list[Any]]) -> Iterable[Any]:
        if len(channels) == 1:
            return fb.read_buffers(channels[0], record_type)
        return itertools.chain.from_iterable(fb.read_buffers(buffers, record_type) for buffers in channels)

    return Contender(write, read)


# ---- rivals ------------------------------------------------------------------------------------------


def in_lists(dumps: Callable[[list[Any]], Any], loads: Callable[[Any], Iterable[Any]]) -> Contender:
    """Make a contender that works on lists of `BATCH` records."""

    def write(records: list[Any]) -> list[Any]:
        return [dumps(records[start : start + BATCH]) for start in range(0, len(records), BATCH)]

    def read(pieces: list[Any]) -> Iterable[Any]:
        return itertools.chain.from_iterable(map(loads, pieces))

    return Contender(write, read)


def msgspec_contenders(work: str) -> dict[str, Contender]:
    """Typed msgspec: lists of tuples, and tuples one by one, each behind its length as flinkbuf's are."""
    if not find_spec("msgspec"):
        return {}
    import msgspec

    if work == "tuple":
        record_type: Any = tuple[int, str, float]
    elif work == "flights":
        nullable = {"dep_time", "dep_delay", "arr_delay", "tailnum"}
        fields = tuple(kind | None if name in nullable else kind for name, kind in FLIGHT_COLUMNS)
        record_type = tuple.__class_getitem__(fields)
    else:
        record_type = int if work == "int64" else bytes
    encode = msgspec.msgpack.Encoder().encode
    decode = msgspec.msgpack.Decoder(record_type).decode
    length = struct.Struct(">i")

    def write_framed(records: list[Any]) -> bytearray:
        stream = bytearray()
        for record in records:
            data = encode(record)
            stream += length.pack(len(data))
            stream += data
        return stream

    def read_framed(stream: bytearray) -> Iterator[Any]:
        view, position, end = memoryview(stream), 0, len(stream)
        while position < end:
            start = position + 4
            position = start + length.unpack_from(view, position)[0]
            yield decode(view[start:position])

    return {
        "msgspec_lists": in_lists(encode, msgspec.msgpack.Decoder(list[record_type]).decode),
        "msgspec_framed": Contender(write_framed, read_framed),
    }


def standard_contenders(work: str) -> dict[str, Contender]:
    """What comes with Python: pickle, marshal, and struct where records have a fixed layout."""
    everybody = {
        "pickle_lists": in_lists(lambda records: pickle.dumps(records, protocol=5), pickle.loads),
        "marshal_lists": in_lists(marshal.dumps, marshal.loads),
    }
    if work == "int64":
        everybody["struct_lists"] = in_lists(
            lambda records: struct.pack(f">{len(records)}q", *records),
            lambda data: struct.unpack(f">{len(data) // 8}q", data),
        )
    if work == "tuple":
        layout = struct.Struct(">q12sd")

        def dumps(records: Sequence[tuple[int, str, float]]) -> bytes:
            return b"".join([layout.pack(number, text.encode(), value) for number, text, value in records])

        def loads(data: bytes) -> Iterator[tuple[int, str, float]]:
            for number, text, value in layout.iter_unpack(data):
                yield number, text.decode(), value

        everybody["struct_lists"] = in_lists(dumps, loads)
    return everybody


def pyspark_contenders() -> dict[str, Contender]:
    """PySpark's serializers, on the stream they write to the JVM."""
    if not find_spec("pyspark"):
        return {}
    from pyspark.serializers import AutoBatchedSerializer, BatchedSerializer, CPickleSerializer, MarshalSerializer

    def streamed(serializer: Any) -> Contender:
        def write(records: list[Any]) -> bytes:
            stream = io.BytesIO()
            serializer.dump_stream(records, stream)
            return stream.getvalue()

        return Contender(write, lambda data: serializer.load_stream(io.BytesIO(data)))

    return {
        "pyspark_auto_batched": streamed(AutoBatchedSerializer(CPickleSerializer())),  # what an RDD uses by default
        "pyspark_pickle_batched": streamed(BatchedSerializer(CPickleSerializer(), BATCH)),
        "pyspark_marshal_batched": streamed(BatchedSerializer(MarshalSerializer(), BATCH)),
    }


def ormsgpack_contenders(work: str) -> dict[str, Contender]:
    """msgpack without types: tuples come back as lists."""
    if not find_spec("ormsgpack"):
        return {}
    import ormsgpack

    return {"ormsgpack_lists": in_lists(ormsgpack.packb, ormsgpack.unpackb)}


def _by_key(rival: Contender, key_field: int, key_hash: Callable[[Any], int]) -> Contender:
    """Split the records over channels by a field, in Python as PySpark does; then `rival` writes each channel."""

    def write(records: list[Any]) -> list[Any]:
        channels: list[list[Any]] = [[] for _ in range(CHANNELS)]
        for record in records:
            channels[key_hash(record[key_field]) % CHANNELS].append(record)
        return [rival.write(channel) for channel in channels]

    return Contender(write, lambda channels: itertools.chain.from_iterable(map(rival.read, channels)))
