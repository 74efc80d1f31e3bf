"""Spark's schemas and DDL, there and back, next to what pyspark itself makes of them."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.types.types import Types, as_type, infer_type
from flinkbuf.types.values import Row

spark_types = pytest.importorskip("pyspark.sql.types")

from flinkbuf.spark.frames.schema import from_spark, to_ddl, to_struct_type  # noqa: E402  # it imports pyspark

S = spark_types
SIMPLE = {
    S.BooleanType(): Types.BOOLEAN(),
    S.ByteType(): Types.BYTE(),
    S.ShortType(): Types.SHORT(),
    S.IntegerType(): Types.INT(),
    S.LongType(): Types.LONG(),
    S.FloatType(): Types.FLOAT(),
    S.DoubleType(): Types.DOUBLE(),
    S.StringType(): Types.STRING(),
    S.DecimalType(38, 18): Types.BIG_DEC(),
    S.DateType(): Types.LOCAL_DATE(),
    S.TimestampType(): Types.TIMESTAMP_LTZ(),
    S.TimestampNTZType(): Types.LOCAL_DATE_TIME(),
    S.NullType(): Types.VOID(),
    S.BinaryType(): Types.PRIMITIVE_ARRAY(Types.BYTE()),
}
if hasattr(S, "TimeType"):
    SIMPLE[S.TimeType()] = Types.LOCAL_TIME()

names = st.text(alphabet="ab0 `<,:é", min_size=1, max_size=5) | st.sampled_from(["not", "comment", "date", "interval"])
data_types = st.recursive(
    st.sampled_from(list(SIMPLE)),
    lambda inner: st.one_of(
        inner.map(S.ArrayType),
        st.builds(S.MapType, inner, inner),
        st.dictionaries(names, inner, min_size=1, max_size=3).map(
            lambda fields: S.StructType([S.StructField(name, each) for name, each in fields.items()])
        ),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("spark_type, described", SIMPLE.items(), ids=str)
def test_each_simple_type_of_spark_has_its_type_and_comes_back(spark_type, described):
    assert as_type(spark_type) == from_spark(spark_type) == as_type(spark_type.simpleString()) == described
    schema = to_struct_type(Types.ROW_NAMED(["a"], [described]))
    assert schema["a"].dataType == spark_type and schema["a"].nullable


@given(data_types)
def test_every_spark_schema_comes_back_equal_as_struct_type_and_as_ddl(data_type):
    schema = S.StructType([S.StructField("top", data_type)])
    described = as_type(schema)
    assert to_struct_type(described) == schema
    assert as_type(to_ddl(described)) == described
    assert as_type(to_ddl(as_type(data_type))) == as_type(data_type)


def test_length_precision_nullability_and_comments_change_no_type():
    plain = as_type("a string, b decimal, c array<int>")
    schema = S.StructType(
        [
            S.StructField("a", S.VarcharType(5), False, {"comment": "x"}),
            S.StructField("b", S.DecimalType(5, 2), False),
            S.StructField("c", S.ArrayType(S.IntegerType(), containsNull=False)),
        ]
    )
    assert as_type(schema) == plain
    assert as_type(S.StructType([S.StructField("a", S.CharType(5))])) == as_type("a string")


def test_a_user_defined_type_is_what_it_is_stored_as():
    class PointUDT(S.UserDefinedType):
        @classmethod
        def sqlType(cls):
            return S.ArrayType(S.DoubleType(), False)

    assert as_type(PointUDT()) == as_type("array<double>")


@pytest.mark.parametrize("spark_type", [S.DayTimeIntervalType(), S.YearMonthIntervalType(), S.VariantType()], ids=str)
def test_a_spark_type_without_a_counterpart_names_its_field(spark_type):
    inner = S.StructType([S.StructField("b", S.ArrayType(spark_type))])
    with pytest.raises(TypeError, match="of field 'a.b' has no counterpart in Flink"):
        as_type(S.StructType([S.StructField("a", inner)]))


def test_columns_with_the_same_name_are_refused_with_what_to_do():
    schema = S.StructType([S.StructField("a", S.LongType()), S.StructField("a", S.LongType())])
    with pytest.raises(ValueError, match="rename the columns"):
        as_type(schema)


def test_from_spark_takes_pyspark_types_only():
    with pytest.raises(TypeError, match="pyspark DataType is needed"):
        from_spark("a int")


@pytest.mark.parametrize(
    "described, ddl",
    [
        (Types.TUPLE(["string", "int"]), "f0 string, f1 int"),
        (Types.ROW(["int"]), "f0 int"),
        (Types.LIST("int"), "array<int>"),
        (Types.BASIC_ARRAY("string"), "array<string>"),
        (Types.PRIMITIVE_ARRAY("int", numpy=True), "array<int>"),
        (Types.PRIMITIVE_ARRAY("tinyint"), "binary"),
        (Types.NULLABLE("int"), "int"),
        (Types.ENUM(["a", "b"]), "string"),
        (Types.BIG_INT(), "decimal(38,0)"),
        (Types.SQL_TIMESTAMP(), "timestamp_ntz"),
        (Types.DATE(), "timestamp"),
        (Types.CHAR(), "string"),
        (Types.INT_VALUE(), "int"),
        (Types.ROW_NAMED(["a"], [Types.ROW_NAMED([], [])]), "a struct<>"),
    ],
)
def test_types_of_flink_alone_find_a_place_in_spark_where_there_is_one(described, ddl):
    assert to_ddl(described) == ddl


def test_precision_and_scale_of_decimals_are_the_callers():
    assert to_ddl("a decimal, b bigint", decimal=(10, 2)) == "a decimal(10,2), b bigint"
    assert to_struct_type("a decimal", decimal=(10, 2))["a"].dataType == S.DecimalType(10, 2)


def test_fields_of_tuples_are_null_only_where_their_type_says_so():
    schema = to_struct_type(Types.TUPLE(["string", "int", Types.NULLABLE("int"), Types.LIST("int")]))
    assert [each.nullable for each in schema] == [True, False, True, False]
    assert schema["f3"].dataType.containsNull is False


@pytest.mark.parametrize(
    "described",
    [Types.SET("int"), Types.EITHER("int", "string"), Types.STREAM_ELEMENT("int"), Types.PICKLED_BYTE_ARRAY()],
    ids=repr,
)
def test_what_spark_has_no_counterpart_for_names_its_field(described):
    with pytest.raises(TypeError, match="of field 'a.b' has no counterpart in Spark"):
        to_struct_type(Types.ROW_NAMED(["a"], [Types.ROW_NAMED(["b"], [described])]))


def test_only_rows_and_tuples_have_columns():
    with pytest.raises(TypeError, match="only rows and tuples have columns"):
        to_struct_type("bigint")


# pyspark leaves the sockets of its results to the garbage collector, which then warns.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.spark
def test_rows_go_through_spark_and_into_a_data_frame_with_their_names_and_kinds(sc, spark):
    rows = [Row(origin="JFK", count=1), Row.of_kind("-D", origin="LGA", count=None)]
    rdd = sc.parallelize(rows, 1)
    back = rdd.map(lambda row: (row.origin, row)).values().collect()
    assert back == rows and [type(row) for row in back] == [type(row) for row in rows]
    frame = spark.createDataFrame(rows)
    assert frame.columns == ["origin", "count"] and as_type(frame.schema) == infer_type(rows)
    assert infer_type(spark.createDataFrame(rows, to_struct_type(infer_type(rows))).collect()) == infer_type(rows)
    gc.collect()


@pytest.mark.spark
def test_spark_reads_our_ddl_as_we_read_sparks(spark):
    ddl = to_ddl("`a b` array<map<string, struct<`x``y`: decimal(10,2), d: date>>>, `not` timestamp_ntz, b binary")
    schema = spark.createDataFrame([], ddl).schema
    assert schema == to_struct_type(ddl) and to_ddl(schema) == ddl
    selected = spark.sql("select timestamp '2024-01-01 00:00:00' as t, date '2024-02-29' as d, cast(null as int) as i")
    assert as_type(selected.schema) == as_type("t timestamp, d date, i int")
