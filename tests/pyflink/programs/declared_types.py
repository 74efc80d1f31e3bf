"""Types declared where a function's result leaves it, and what comes out of the stream then."""

import datetime
from decimal import Decimal

from pyflink.common import Row, Types


def _through(env, values, type_info, show=None):
    """Through one declared map, a shuffle that encodes, and an undeclared map that shows what arrived."""
    stream = env.from_collection(range(len(values))).map(lambda index: values[index], type_info)
    show = show or (lambda value: f"{type(value).__name__} {value!r}")
    seen = stream.rebalance().map(show)
    return list(seen.execute_and_collect())


def whole_numbers(env):
    sizes = [(Types.BYTE(), 7), (Types.SHORT(), 15), (Types.INT(), 31), (Types.LONG(), 63)]
    return [_through(env, [0, 1, -1, 2**bits - 1, -(2**bits)], type_info) for type_info, bits in sizes]


def fractions(env):
    doubles = _through(env, [0.0, 0.1, -1.5, 1e300, float("inf"), float("nan"), 3], Types.DOUBLE())
    floats = _through(env, [0.5, -1.25, 2, 65536.0], Types.FLOAT())
    return doubles + floats


def numbers_of_another_kind(env):
    return [
        _through(env, [1, -2, 2.5], Types.DOUBLE()),
        _through(env, [1, "x"], Types.PICKLED_BYTE_ARRAY()),
        _through(env, [True, False], Types.BOOLEAN()),
    ]


def texts_and_bytes(env):
    return [
        _through(env, ["", "abc", "ä €"], Types.STRING()),
        _through(env, [b"", b"ab\x00"], Types.PRIMITIVE_ARRAY(Types.BYTE())),
        _through(env, [(1, [2]), {"k": None}, "x"], Types.PICKLED_BYTE_ARRAY()),
    ]


def dates_and_times(env):
    return [
        _through(env, [datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)], Types.SQL_DATE()),
        _through(env, [datetime.time(0, 0, 0), datetime.time(23, 59, 59)], Types.SQL_TIME()),
        _through(env, [datetime.datetime(2001, 2, 3, 4, 5, 6, 789000)], Types.SQL_TIMESTAMP()),
    ]


def decimals(env):
    return _through(env, [Decimal("1.50"), Decimal("-0.000001")], Types.BIG_DEC())


def tuples(env):
    type_info = Types.TUPLE([Types.INT(), Types.STRING(), Types.TUPLE([Types.DOUBLE()])])
    return _through(env, [(1, "a", (0.5,)), (2, "b", (1.5,))], type_info)


def rows(env):
    plain = Types.ROW([Types.INT(), Types.STRING()])
    named = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])
    nested = Types.ROW_NAMED(["r", "l"], [named, Types.LIST(Types.LONG())])
    return [
        _through(env, [Row(1, "a"), Row(None, None)], plain, tuple),
        _through(env, [Row(1, "a"), Row(s="b", n=2)], named),
        _through(env, [Row(Row(1, "a"), [1, 2]), Row(r=Row(2, None), l=[])], nested),
    ]


def rows_collected(env):
    named = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])
    stream = env.from_collection([1, 2]).map(lambda number: Row(number, str(number)), named)
    first, second = stream.execute_and_collect()
    return [first, second, first.n, second.as_dict(), first == Row(n=1, s="1")]


def lists_and_maps(env):
    return [
        _through(env, [[1, 2], []], Types.LIST(Types.INT())),
        _through(env, [["a"], ["b", "c"]], Types.LIST(Types.STRING())),
        _through(env, [{"a": 1, "b": 2}, {}], Types.MAP(Types.STRING(), Types.INT())),
        _through(env, [{1: ["x"], 2: []}], Types.MAP(Types.LONG(), Types.LIST(Types.STRING()))),
    ]


def types_of_streams(env):
    stream = env.from_collection([1], Types.INT())
    declared = [
        Types.ROW_NAMED(["a"], [Types.INT()]),
        Types.TUPLE([Types.INT(), Types.STRING()]),
        Types.LIST(Types.LONG()),
        Types.MAP(Types.STRING(), Types.DOUBLE()),
        Types.BASIC_ARRAY(Types.STRING()),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.SQL_DATE(),
    ]
    streams = [stream.map(lambda value: value, type_info) for type_info in declared]
    streams += [stream, stream.map(lambda value: value), stream.filter(bool), stream.union(stream)]
    keyed = stream.key_by(lambda value: value)
    streams += [keyed.reduce(lambda one, two: one), keyed.sum(), keyed.map(lambda value: value), keyed.filter(bool)]
    return [str(stream.get_type()) for stream in streams]


def texts_of_types(env):
    basic = (
        "STRING BYTE BOOLEAN SHORT INT LONG FLOAT DOUBLE CHAR BIG_INT BIG_DEC INSTANT SQL_DATE SQL_TIME SQL_TIMESTAMP"
    )
    types = [getattr(Types, name)() for name in basic.split()] + [
        Types.PICKLED_BYTE_ARRAY(),
        Types.ROW([Types.INT(), Types.STRING()]),
        Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LONG()]),
        Types.TUPLE([Types.INT(), Types.LIST(Types.INT())]),
        Types.PRIMITIVE_ARRAY(Types.INT()),
        Types.BASIC_ARRAY(Types.INT()),
        Types.OBJECT_ARRAY(Types.STRING()),
        Types.MAP(Types.INT(), Types.STRING()),
    ]
    return [(str(type_info), f"{type_info}") for type_info in types]
