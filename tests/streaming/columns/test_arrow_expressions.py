"""Expressions of pyarrow give by calls of kernels what Arrow's engine gives."""

import datetime
import decimal
import functools
import operator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flinkbuf.streaming.columns import arrow_expressions
from flinkbuf.streaming.columns.arrow_expressions import by_engine, evaluated
from flinkbuf.streaming.columns.column_functions import columns_of

F = pc.field
SECOND = datetime.datetime(1970, 1, 1, 0, 0, 1)
BATCH = pa.record_batch(
    {
        "a": pa.array([1, 2, None, 2**40]),
        "i": pa.array([1, 2, None, -3], pa.int32()),
        "u": pa.array([1, 2, 3, 255], pa.uint8()),
        "f": pa.array([1.5, -0.0, None, float("nan")]),
        "g": pa.array([1.5, 2.0, None, 0.1], pa.float32()),
        "s": pa.array(["OR", "x", None, ""]),
        "l": pa.array(["OR", "x", None, ""], pa.large_string()),
        "d": pa.array([decimal.Decimal("1.20"), None, decimal.Decimal("-3.00"), decimal.Decimal(0)]),
        "ms": pa.array([0, 1000, None, -1], pa.timestamp("ms")),
        "us": pa.array([0, 1_000_001, None, -1], pa.timestamp("us")),
        "words": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "part": pa.array([{"q": 1}, {"q": 2}, None, {"q": 4}]),
        "none": pa.nulls(4),
    }
)
BY_KERNELS = [
    F("a"),
    F("a") + 1,
    F("a") * F("a").cast("float64"),
    F("i") + 1,
    F("i") == 5,
    F("u") - F("i"),
    F("f") * 0.5,
    F("f") >= 1.5,
    F("d") + F("d"),
    F("s").isin(pa.array(["OR", "CA"])),
    F("s") == "x",
    F("ms") > SECOND,
    F("us") == pa.scalar(1_000_001_000, pa.timestamp("ns")),
    F("ms") <= F("us"),
    pc.floor_temporal(F("ms"), 10, "second"),
    F("ms").cast(pa.date32()),
    (F("a") > 1) & (F("s") == "OR") | ~F("a").is_null(),
    F("f").is_null(nan_is_null=True),
    pc.coalesce(F("a"), 0),
    pc.if_else(F("a") > 1, F("s"), "none"),
    pc.utf8_upper(F("s")),
    pc.scalar(7),
    pc.scalar(3) + 4,
]
BY_ENGINE = [
    F("i") < 2**40,  # which no int32 is
    F("u") + 1,
    F("u") == -1,
    F("i") > 0.5,
    F("g") * 0.1,
    F("g") < 0.5,
    F("l") == "x",
    F("us") == pa.scalar(1, pa.timestamp("ns")),
    F("words") == "a",
    F("part", "q"),
    pc.if_else(F("a") > 1, F("a"), None),
    F("none") == 1,
]


def by_kernels(expression, batch):
    return arrow_expressions._part_for(expression, batch) is not None


@pytest.mark.parametrize(
    ("expression", "has_kernels"),
    [(each, True) for each in BY_KERNELS] + [(each, False) for each in BY_ENGINE],
    ids=str,
)
def test_an_expression_gives_what_the_engine_gives(expression, has_kernels):
    assert by_kernels(expression, BATCH) is has_kernels
    for batch in (BATCH, BATCH.slice(1, 2), BATCH.slice(2, 0)):
        (expected,) = by_engine(batch, {"x": expression}).values()
        found = columns_of(batch, [("x", expression)])["x"]
        assert found.type == expected.type
        assert str(found.to_pylist()) == str(expected.to_pylist())  # NaN among them


def test_a_schema_says_anew_what_an_expression_is():
    """The same expression over columns of other types, as after a program was changed, and several of them at once."""
    tenfold = F("n") * 10
    for type_, has_kernels in ((pa.int64(), True), (pa.int8(), True), (pa.float64(), False), (pa.int64(), True)):
        batch = pa.record_batch({"n": pa.array([1, 2], type_), "m": pa.array([3, 4])})
        assert by_kernels(tenfold, batch) is has_kernels
        both = evaluated(batch, {"tenfold": tenfold, "all": F("m") + F("m")})
        assert both["tenfold"].equals(by_engine(batch, {"x": tenfold})["x"])
        assert both["all"].to_pylist() == [6, 8]


def test_what_cannot_be_evaluated_is_told_as_the_engine_tells_it():
    twice = pa.record_batch([pa.array([1]), pa.array([2])], ["a", "a"])
    for batch, expression in ((BATCH, F("missing") + 1), (BATCH, F("s") + 1), (twice, F("a") + 1)):
        with pytest.raises(pa.ArrowException) as expected:
            by_engine(batch, {"x": expression})
        with pytest.raises(type(expected.value)) as told:
            evaluated(batch, {"x": expression})
        assert str(told.value) == str(expected.value)
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        evaluated(pa.record_batch({"a": [2**63 - 1]}), {"x": F("a") + 1})


def test_expressions_that_are_gone_do_not_stay_for_ever(monkeypatch):
    monkeypatch.setattr(arrow_expressions, "_EXPRESSIONS_KEPT", 8)
    for number in range(24):
        assert evaluated(pa.record_batch({"a": [1]}), {"x": F("a") + number})["x"].to_pylist() == [1 + number]
    assert 0 < len(arrow_expressions._found) <= 8


@pytest.mark.parametrize("error", [AttributeError("_call"), IndexError("out of range")])
def test_where_the_library_pickles_expressions_otherwise_its_engine_evaluates_them(monkeypatch, error):
    def read(expression):
        raise error

    monkeypatch.setattr(arrow_expressions, "_read", read)
    assert not by_kernels(expression := F("i") + 1, BATCH)
    assert evaluated(BATCH, {"x": expression})["x"].to_pylist() == [2, 3, None, -2]


def test_a_long_expression_is_the_engines():
    many = functools.reduce(operator.or_, [F("a") == number for number in range(600)])
    assert not by_kernels(many, BATCH)
    assert evaluated(BATCH, {"x": many})["x"].to_pylist() == [True, True, None, False]


def test_a_column_of_a_union_stands_beside_an_expression():
    union = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    batch = pa.record_batch({"a": pa.array([1, 2]), "union": union})
    assert evaluated(batch, {"x": F("a") > 1})["x"].to_pylist() == [False, True]
