"""What rows, dates, times and stream elements promise: equality, names, pickles, and no silent loss."""

import copy
import datetime
import gc
import pickle
import subprocess
import sys
import threading
import weakref

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flinkbuf.types.values import (
    Instant,
    InternalWatermark,
    JavaDate,
    LatencyMarker,
    Left,
    LocalDate,
    LocalDateTime,
    LocalTime,
    RecordAttributes,
    Right,
    Row,
    RowKind,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    StreamRecord,
    Watermark,
    WatermarkStatus,
    row_class,
    row_classes,
)

UTC = datetime.timezone.utc
names = st.lists(st.text(min_size=1, max_size=8), max_size=5, unique=True)
kinds = st.sampled_from(list(RowKind))


# --- rows


def test_a_row_equals_orders_and_hashes_as_the_plain_tuple_of_its_fields():
    row = Row(a=1, b="x")
    assert row == (1, "x") and row == (1, "x") and hash(row) == hash((1, "x"))
    assert row == Row(1, "x") == Row(c=1, d="x") == Row.of_kind("-D", 1, "x")
    assert row < (2, "") and {row: 1}[(1, "x")] == 1
    assert isinstance(row, tuple) and [*row] == [1, "x"] and row[1:] == ("x",)


def test_fields_are_attributes_also_when_tuple_has_a_method_of_that_name():
    row = Row(origin="JFK", count=7, index=8, _c0=9)
    assert (row.origin, row.count, row.index, row._c0) == ("JFK", 7, 8, 9)
    assert getattr(Row(**{"a b": 1}), "a b") == 1


@pytest.mark.parametrize(
    "name",
    [
        "row_kind",
        "as_dict",
        "asDict",
        "_asdict",
        "_replace",
        "replace",
        "of_kind",
        "_names",
        "_fields",
        "__class__",
        "__reduce__",
        "__len__",
    ],
)
def test_names_the_row_needs_itself_stay_its_own_and_the_field_is_reached_otherwise(name):
    row = Row(**{name: "field", "other": 1})
    assert row[0] == row[name] == "field" and row.as_dict() == row.asDict() == row._asdict() == {
        name: "field",
        "other": 1,
    }
    assert row.row_kind is RowKind.INSERT and len(row) == 2
    assert pickle.loads(pickle.dumps(row)).as_dict() == row.as_dict()


def test_an_unknown_field_is_an_attribute_error_that_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"no field 'dest': its fields are \['origin'\]"):
        Row(origin="JFK").dest
    with pytest.raises(AttributeError, match="its fields have no names"):
        Row("JFK").origin


def test_a_field_is_found_by_its_name_in_brackets_and_all_else_there_is_left_to_tuple():
    row = Row.of_kind("-D", **{"a b": 1, "count": 2, "": 3})
    assert (row["a b"], row["count"], row[""], row[0], row[-1], row[True], row[:2], row[::-1]) == (
        1,
        2,
        3,
        1,
        3,
        2,
        (1, 2),
        (3, 2, 1),
    )
    assert type(row[:]) is tuple and list(row) == [1, 2, 3] and row.__getitem__("count") == 2
    match row:
        case [first, *_]:
            assert first == 1
    for key in ("COUNT", "row_kind"):
        with pytest.raises(KeyError, match=f"no field '{key}': its fields are "):
            row[key]
    with pytest.raises(KeyError, match="its fields have no names"):
        Row(1)["a"]
    with pytest.raises(IndexError):
        row[3]
    for key in (1.0, None, b"count"):
        with pytest.raises(TypeError, match="indices must be integers"):
            row[key]


def test_a_name_beyond_the_fields_of_a_row_made_behind_our_back_is_a_key_error():
    with pytest.raises(KeyError):
        tuple.__new__(type(Row(a=1, b=2)), (1,))["b"]


def test_a_row_becomes_dicts_as_in_pyspark_and_as_named_tuples_do():
    spark = pytest.importorskip("pyspark.sql")
    for recursive in (False, True):
        made = [
            row(a=1, inner=row(b=2), listed=[row(c=3), 4], mapped={"k": row(d=5)}, pair=(row(e=6),)).asDict(recursive)
            for row in (Row, spark.Row)
        ]
        assert made[0] == made[1] and list(made[0]) == ["a", "inner", "listed", "mapped", "pair"]
        assert isinstance(made[0]["inner"], dict) is recursive and made[0]["pair"] == ((6,),)
    with pytest.raises(TypeError, match="ROW_NAMED"):
        Row(a=Row(1)).asDict(recursive=True)


def test_replacing_fields_keeps_names_kind_and_class():
    row = Row.of_kind("-D", a=1, b=2, self=3)
    for again in (row.replace(b=5, self=6), row._replace(b=5, self=6), row.replace({1: 5, "self": 6})):
        assert again == (1, 5, 6) and type(again) is type(row) and row == (1, 2, 3)
    assert row.replace() == row and Row(1)._replace() == (1,) and Row(1, 2).replace({1: 3}) == (1, 3)
    with pytest.raises(ValueError, match=r"no field 'c': its fields are \['a', 'b', 'self'\]"):
        row.replace(a=2, c=1)
    for changes in ({"a": 2}, {1: 2}, {-1: 2}):
        with pytest.raises(ValueError, match="no field"):
            Row(1).replace(changes)


def test_a_change_is_refused_with_what_to_do_instead():
    row = Row(origin="JFK", delay=2.5)
    for change, way in [
        (lambda: row.__setitem__(1, 0.0), "row = row.replace({1: 0.0})"),
        (lambda: row.__setitem__("delay", 0.0), "row = row.replace(delay=0.0)"),
        (lambda: setattr(row, "delay", 0.0), "row = row.replace(delay=0.0)"),
        (lambda: setattr(row, "gate", "B2"), "row = row.replace(gate='B2')"),
    ]:
        with pytest.raises((TypeError, AttributeError), match="cannot be changed") as refused:
            change()
        assert str(refused.value).endswith(way)
    assert row == ("JFK", 2.5)


def test_a_class_of_rows_that_nobody_uses_is_collected_with_its_rows():
    made = type("Mine", (Row,), {"__slots__": ()})
    made.rows = [made(1)]
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_a_row_cannot_be_changed_and_has_no_dict_of_its_own():
    row = Row(a=1)
    with pytest.raises(AttributeError):
        row.a = 2
    with pytest.raises(AttributeError):
        row.b = 2
    assert not hasattr(row, "__dict__") and sys.getsizeof(row) == sys.getsizeof((1,))


def test_rows_are_made_by_position_or_by_name_but_not_both():
    with pytest.raises(TypeError, match="not both"):
        Row(1, a=2)
    assert Row() == () and len(Row()) == 0


def test_the_class_of_a_named_row_checks_names_and_number_of_fields():
    pair = type(Row(a=1, b=2))
    assert pair(3, 4).as_dict() == {"a": 3, "b": 4} == pair(b=4, a=3).as_dict()
    with pytest.raises(TypeError, match="2 fields"):
        pair(1)
    with pytest.raises(TypeError, match=r"\['a', 'b'\]"):
        pair(a=1, c=2)


@pytest.mark.parametrize("kind, short", [(0, "+I"), (1, "-U"), (2, "+U"), (3, "-D")])
def test_a_kind_is_given_as_itself_as_number_or_as_short_name(kind, short):
    rows = [Row.of_kind(how, 1) for how in (RowKind(kind), kind, short)]
    assert {row.row_kind for row in rows} == {RowKind(kind)}
    assert RowKind(kind).short_name == short and len({type(row) for row in rows}) == 1


@pytest.mark.parametrize("kind", [4, -1, "D", "+i", None])
def test_what_is_no_kind_is_refused(kind):
    with pytest.raises(ValueError):
        Row.of_kind(kind, 1)


def test_a_row_of_another_kind_keeps_the_names_of_its_class():
    gone = type(Row(a=1)).of_kind(RowKind.DELETE, 5)
    assert gone.a == 5 and gone.row_kind is RowKind.DELETE
    assert isinstance(gone, Row) and repr(gone) == "Row.of_kind('-D', a=5)"


def test_as_dict_of_a_row_without_names_says_what_to_do():
    with pytest.raises(TypeError, match="ROW_NAMED"):
        Row(1).as_dict()


@given(names, kinds)
@example(["__debug__", "class", "\u00aa"], RowKind.DELETE)
def test_repr_evaluates_to_the_same_row(names, kind):
    row = row_class(names, kind)(*range(len(names)))
    again = eval(repr(row))
    assert again == row and again.row_kind is kind
    assert not names or again.as_dict() == row.as_dict()


@given(names, kinds, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_pickle_and_copy_keep_names_and_kind_and_even_the_class(names, kind, protocol):
    row = row_class(names, kind)(*range(len(names)))
    for again in (pickle.loads(pickle.dumps(row, protocol)), copy.copy(row), copy.deepcopy(row)):
        assert again == row and type(again) is type(row)


def test_a_row_without_names_pickles_with_its_kind():
    again = pickle.loads(pickle.dumps(Row.of_kind("+U", 1, None)))
    assert again == (1, None) and again.row_kind is RowKind.UPDATE_AFTER


def test_a_row_pickled_here_is_read_in_a_process_that_never_saw_its_names():
    data = pickle.dumps([Row(seldom_used_name=1), Row.of_kind("-D", seldom_used_name=2)])
    script = (
        "import pickle, sys; rows = pickle.loads(sys.stdin.buffer.read());"
        "print([row.seldom_used_name for row in rows], type(rows[0]) is type(type(rows[0])(1)), repr(rows[1]))"
    )
    out = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True)
    assert out.stdout.decode().strip() == "[1, 2] True Row.of_kind('-D', seldom_used_name=2)"


def test_cloudpickle_and_sparks_serializers_keep_rows_in_data_and_in_closures():
    serializers = pytest.importorskip("pyspark.serializers")
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    row = Row.of_kind("-D", a=1, b=None)
    for serializer in (serializers.CPickleSerializer(), serializers.CloudPickleSerializer()):
        again = serializer.loads(serializer.dumps([row, row]))
        assert [type(each) for each in again] == [type(row), type(row)] and again[0] is again[1]
    assert type(cloudpickle.loads(cloudpickle.dumps(lambda: row))()) is type(row)


def test_spark_and_pandas_find_the_column_names_by_themselves():
    pandas = pytest.importorskip("pandas")
    assert list(pandas.DataFrame([Row(a=1, count=2)]).columns) == ["a", "count"]
    types = pytest.importorskip("pyspark.sql.types")
    assert types._infer_schema(Row(a=1, count="x")).simpleString() == "struct<a:bigint,count:string>"


def test_classes_are_made_once_for_each_tuple_of_names_also_by_many_threads():
    wanted = [f"thread_field_{i}" for i in range(50)]
    barrier = threading.Barrier(4)
    found = []

    def make():
        barrier.wait()
        found.append([row_classes((name,)) for name in wanted])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(classes[i] is found[0][i] for classes in found for i in range(len(wanted)))


def test_the_four_classes_are_in_order_of_the_kinds_byte():
    for given_names in (None, (), ("a",)):
        assert [each.row_kind for each in row_classes(given_names)] == list(RowKind)
    assert row_classes(None)[0] is Row


def test_a_name_that_occurs_twice_is_refused():
    with pytest.raises(ValueError, match="must differ"):
        row_classes(("a", "a"))


# --- dates and times


@pytest.mark.parametrize(
    "make",
    [
        lambda: LocalDate(2023, 2, 29),
        lambda: LocalDate(1900, 2, 29),
        lambda: LocalDate(2024, 13, 1),
        lambda: LocalDate(2024, 4, 31),
        lambda: LocalDate(1_000_000_000, 1, 1),
        lambda: LocalTime(24, 0),
        lambda: LocalTime(0, 0, 60),
        lambda: LocalTime(0, 0, 0, 1_000_000_000),
        lambda: LocalDateTime(2024, 1, 1, 0, 60),
        lambda: LocalDateTime(2024, 1, 32),
        lambda: Instant(0, 1_000_000_000),
        lambda: Instant(0, -1),
        lambda: Instant(31_556_889_864_403_200),
        lambda: JavaDate(2**63),
        lambda: SqlTimestamp(1, 0),
        lambda: LatencyMarker(0, b"short", 0),
        lambda: WatermarkStatus(1),
        lambda: Watermark(2**63),
        lambda: InternalWatermark(0, 2**31),
        lambda: StreamRecord("x", -(2**63) - 1),
    ],
)
def test_what_no_calendar_or_range_has_is_a_value_error(make):
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize(
    "make",
    [lambda: LocalDate(2024, True, 1), lambda: Instant(1.5), lambda: Watermark("1"), lambda: RecordAttributes(1)],
)
def test_a_part_of_a_wrong_type_is_a_type_error(make):
    with pytest.raises(TypeError):
        make()


@given(st.dates())
def test_dates_round_trip(date):
    local = LocalDate.from_date(date)
    assert local.to_date() == date and str(local) == date.isoformat() and LocalDate.parse(str(local)) == local
    assert SqlDate.from_date(date).to_date() == date


@given(st.times())
def test_times_round_trip(time):
    local = LocalTime.from_time(time)
    assert local.to_time() == time and LocalTime.parse(str(local)) == local
    milli = time.replace(microsecond=time.microsecond // 1000 * 1000)
    assert SqlTime.from_time(milli).to_time() == milli


@given(st.datetimes())
def test_naive_datetimes_round_trip(value):
    local = LocalDateTime.from_datetime(value)
    assert local.to_datetime() == value and LocalDateTime.parse(str(local)) == local
    assert SqlTimestamp.from_datetime(value).to_datetime() == value


# One year in from the ends: nearer, Python itself cannot name the time in UTC.
@given(st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 12, 31), timezones=st.timezones()))
def test_aware_datetimes_round_trip_as_the_same_point_in_time(value):
    instant = Instant.from_datetime(value)
    assert instant.to_datetime() == value.astimezone(UTC) and instant.to_datetime().tzinfo is UTC
    assert Instant.parse(instant.isoformat()) == instant
    milli = value.replace(microsecond=value.microsecond // 1000 * 1000)
    assert JavaDate.from_datetime(milli).to_datetime() == milli.astimezone(UTC)


def test_an_aware_datetime_just_outside_year_1_to_9999_in_utc_is_still_an_exact_instant():
    east = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=14)))
    instant = Instant.from_datetime(east)
    assert instant.isoformat() == "0000-12-31T10:00:00Z"
    with pytest.raises(ValueError, match="1..9999"):
        instant.to_datetime()


@given(st.integers(-31_557_014_167_219_200, 31_556_889_864_403_199), st.integers(0, 999_999_999))
def test_every_instant_prints_and_parses(second, nano):
    assert Instant.parse(Instant(second, nano).isoformat()) == Instant(second, nano)


@given(st.integers(-999_999_999, 999_999_999), st.integers(1, 12), st.integers(1, 28))
def test_dates_of_any_year_print_parse_and_order(year, month, day):
    date = LocalDate(year, month, day)
    assert LocalDate.parse(str(date)) == date
    assert LocalDate(-999_999_999, 1, 1) <= date <= LocalDate(999_999_999, 12, 31)


@pytest.mark.parametrize(
    "value, text",  # as Java prints them
    [
        (LocalDate(-44, 3, 15), "-0044-03-15"),
        (LocalDate(0, 2, 29), "0000-02-29"),
        (LocalDate(10_000, 1, 1), "+10000-01-01"),
        (LocalTime(5, 0), "05:00"),
        (LocalTime(5, 6, 7), "05:06:07"),
        (LocalTime(5, 0, 0, 1), "05:00:00.000000001"),
        (LocalTime(5, 0, 0, 120_000_000), "05:00:00.120"),
        (LocalDateTime(2024, 2, 29), "2024-02-29T00:00"),
    ],
)
def test_text_is_as_java_prints_it(value, text):
    assert str(value) == text and type(value).parse(text) == value


@pytest.mark.parametrize(
    "value, text",
    [
        (Instant(0), "1970-01-01T00:00:00Z"),
        (Instant(-1, 999_999_999), "1969-12-31T23:59:59.999999999Z"),
        (Instant(-31_557_014_167_219_200), "-1000000000-01-01T00:00:00Z"),
        (Instant(31_556_889_864_403_199, 999_999_999), "+1000000000-12-31T23:59:59.999999999Z"),
    ],
)
def test_an_instant_is_printed_as_pyflink_prints_it_and_has_the_text_of_java(value, text):
    assert str(value) == repr(value) == f"Instant<{value.seconds}, {value.nanos}>"
    assert value.isoformat() == text and Instant.parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-01T00:00:00",
        "2024-01-01",
        "2024-01-01T00:00:00+19:00",
        "",
        "x",
        "2024-02-30T00:00:00Z",
        "2024-01-01T00:00:00.1234567890Z",
    ],
)
def test_text_that_is_no_instant_is_a_value_error(text):
    with pytest.raises(ValueError):
        Instant.parse(text)


@pytest.mark.parametrize(
    "convert, problem",
    [
        (Instant(0, 1).to_datetime, "nanoseconds"),
        (Instant(-(10**12)).to_datetime, "years 1..9999"),
        (Instant(10**16).to_datetime, "years 1..9999"),
        (LocalTime(0, 0, 0, 999).to_time, "nanoseconds"),
        (LocalDate(0, 1, 1).to_date, "years 1..9999"),
        (LocalDateTime(2024, 1, 1, nano=1).to_datetime, "nanoseconds"),
        (SqlDate(1).to_date, "midnight"),
        (SqlTime(-1).to_time, "not a time of day"),
        (SqlTime(86_400_000).to_time, "not a time of day"),
        (SqlTimestamp(0, 1).to_datetime, "nanoseconds"),
        (JavaDate(2**62).to_datetime, "years 1..9999"),
        (SqlTimestamp(2**62, 2**62 % 1000 * 1_000_000).to_datetime, "years 1..9999"),
    ],
)
def test_conversions_to_python_raise_instead_of_losing(convert, problem):
    with pytest.raises(ValueError, match=problem):
        convert()


@pytest.mark.parametrize(
    "convert",
    [
        lambda: Instant.from_datetime(datetime.datetime(2024, 1, 1)),
        lambda: LocalDateTime.from_datetime(datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        lambda: LocalTime.from_time(datetime.time(1, tzinfo=UTC)),
        lambda: SqlTimestamp.from_datetime(datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        lambda: SqlTime.from_time(datetime.time(0, 0, 0, 1)),
        lambda: JavaDate.from_datetime(datetime.datetime(2024, 1, 1, 0, 0, 0, 1, UTC)),
    ],
)
def test_conversions_from_python_raise_instead_of_losing(convert):
    with pytest.raises(ValueError):
        convert()


def test_a_datetime_is_no_date_here():
    with pytest.raises(TypeError, match="datetime.date is needed"):
        LocalDate.from_date(datetime.datetime(2024, 1, 1))


# --- all of them

VALUES = [
    LocalDate(2024, 2, 29),
    LocalTime(1, 2, 3, 4),
    LocalDateTime(2024, 2, 29, 1, 2, 3, 4),
    Instant(5, 6),
    JavaDate(7),
    SqlDate(7),
    SqlTime(7),
    SqlTimestamp(1, 1_000_000),
    Left(1),
    Right(1),
    StreamRecord("x", 5),
    StreamRecord("x"),
    Watermark(7),
    InternalWatermark(7, 1),
    LatencyMarker(1, bytes(16), 0),
    WatermarkStatus.IDLE,
    WatermarkStatus.ACTIVE,
    RecordAttributes(True),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_immutable_hashable_and_pickle(value):
    again = pickle.loads(pickle.dumps(value))
    assert again == value and hash(again) == hash(value) and type(again) is type(value)
    assert copy.deepcopy(value) == value
    assert type(value) is Instant or eval(repr(value)) == value
    with pytest.raises((AttributeError, TypeError)):
        value.extra = 1
    with pytest.raises((AttributeError, TypeError)):
        setattr(value, value.__match_args__[0], 1)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_matches_by_position_and_is_small(value):
    parts = tuple(getattr(value, name) for name in value.__match_args__)
    assert type(value)(*parts) == value and not hasattr(value, "__dict__")
    match value:
        case LocalDate(year, month, day):
            assert parts == (year, month, day)
        case SqlTimestamp(millis, nanos):
            assert parts == (millis, nanos)


def test_dates_times_and_watermarks_come_in_the_order_of_their_parts():
    for cls, parts in [(LocalDate, [(1, 2, 3), (1, 3, 1), (2, 1, 1)]), (Instant, [(0, 5), (1, 0), (1, 2)])]:
        values = [cls(*each) for each in parts]
        assert (
            sorted([values[2], values[0], values[1]]) == values
            and values[0] < values[1] <= values[1]
            and values[2] > values[0]
        )
    assert Watermark(1) < Watermark(2) and SqlDate(1) < SqlDate(2) and JavaDate(2) >= JavaDate(2)
    for one, other in [(SqlDate(1), JavaDate(2)), (Watermark(1), 2)]:
        with pytest.raises(TypeError, match="not supported"):
            one < other
    with pytest.raises(TypeError, match="not supported"):
        StreamRecord(1) < StreamRecord(2)


def test_values_of_different_classes_are_never_equal():
    assert len(set(VALUES)) == len(VALUES)
    assert all(a != b for i, a in enumerate(VALUES) for b in VALUES[:i])


def test_idle_and_active_are_told_apart():
    assert WatermarkStatus.IDLE.is_idle and not WatermarkStatus.ACTIVE.is_idle
    assert WatermarkStatus(-1) == WatermarkStatus.IDLE


@given(st.integers(-(10**15), 10**15))
def test_an_instant_keeps_its_milliseconds(milliseconds):
    instant = Instant.of_epoch_milli(milliseconds)
    assert instant.to_epoch_milli() == milliseconds
    assert instant == Instant(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)


def test_an_instant_rounds_down_to_milliseconds():
    assert Instant(-1, 999_999_999).to_epoch_milli() == -1
    assert Instant(1, 5).to_epoch_milli() == 1000
