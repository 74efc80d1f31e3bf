"""How fast does one value become bytes and come back, kind by kind, each call from Python?

The rivals encode and decode the same single values. Where records go through buffers (bench_flow.py) the call itself,
some 60 ns of what is seen here, falls away. In flink-benchmarks: SerializationFrameworkMiniBenchmarks.
"""

import datetime
import decimal
import functools
import pickle
from importlib.util import find_spec

import pytest
from measure import measure

COUNT = 1000
UTC = datetime.timezone.utc

# The type as Spark writes it, and a value.
VALUES = {
    "int64": ("bigint", 2**40 + 7),
    "double": ("double", 0.1),
    "ascii_12": ("string", "hello world!"),
    "text_12": ("string", "Grüße, 中文 \U0001f600"),
    "bytes_1000": ("binary", bytes(range(250)) * 4),
    "date": ("date", datetime.date(2013, 1, 1)),
    "instant": ("timestamp", datetime.datetime(2013, 1, 1, 5, 15, tzinfo=UTC)),
    "decimal": ("decimal(20,2)", decimal.Decimal("12345678.90")),
    "list_of_100_ints": ("array<int>", list(range(0, 100_000, 1000))),
    "map_of_10": ("map<string,double>", {f"key{i}": i / 7 for i in range(10)}),
    "row_of_3": ("struct<origin:string,delay:double,flight:int>", ("JFK", 2.5, 1545)),
}


def flinkbuf(name):
    import flinkbuf as fb

    ddl, value = VALUES[name]
    flink_type = fb.as_type(ddl)
    return flink_type.serialize, flink_type.deserialize, value


def msgspec_typed(name):
    import msgspec

    value = VALUES[name][1]
    hints = {"list_of_100_ints": list[int], "map_of_10": dict[str, float], "row_of_3": tuple[str, float, int]}
    decoder = msgspec.msgpack.Decoder(hints.get(name, type(value)))
    return msgspec.msgpack.Encoder().encode, decoder.decode, value


def pickled(name):
    return functools.partial(pickle.dumps, protocol=5), pickle.loads, VALUES[name][1]


CONTENDERS = {"flinkbuf": flinkbuf, "pickle": pickled} | ({"msgspec": msgspec_typed} if find_spec("msgspec") else {})


def there_and_back(encode, decode, value):
    for _ in range(COUNT):
        decode(encode(value))


def cases():
    """Name each case, and how to run it; every contender gives back an equal value before it is timed."""
    for name in VALUES:
        for contender, make in CONTENDERS.items():
            encode, decode, value = make(name)
            assert decode(encode(value)) == value
            yield f"type_codec_{name}.{contender}", functools.partial(there_and_back, encode, decode, value)


@pytest.mark.parametrize(("name", "function"), [pytest.param(*case, id=case[0]) for case in cases()])
def test_there_and_back(benchmark, name, function):
    measure(name, function, COUNT, "values", benchmark=benchmark)


if __name__ == "__main__":
    for case_name, case in cases():
        measure(case_name, case, COUNT, "values")
