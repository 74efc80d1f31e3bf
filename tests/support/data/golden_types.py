"""The types and values of the golden files as `flinkbuf` has them: of ``row<int,string>`` it makes ``Types.ROW(…)``, of
Flink SQL's ``ROW<`a` INT>`` ``Types.ROW_DATA(…)``."""

import datetime
import decimal
import json
import re
import struct
from pathlib import Path

import flinkbuf.types.values as fb
from flinkbuf.types.types import Types

GOLDEN = Path(__file__).parents[2] / "golden"
UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)

SCALARS = {
    "boolean": Types.BOOLEAN,
    "byte": Types.BYTE,
    "short": Types.SHORT,
    "char": Types.CHAR,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "string": Types.STRING,
    "stringvalue": Types.STRING_VALUE,
    "bigint": Types.BIG_INT,
    "bigdec": Types.BIG_DEC,
    "instant": Types.INSTANT,
    "localdate": Types.LOCAL_DATE,
    "localtime": Types.LOCAL_TIME,
    "localdatetime": Types.LOCAL_DATE_TIME,
    "date": Types.DATE,
    "sqldate": Types.SQL_DATE,
    "sqltime": Types.SQL_TIME,
    "sqltimestamp": Types.SQL_TIMESTAMP,
    "void": Types.VOID,
    "booleanvalue": Types.BOOLEAN_VALUE,
    "bytevalue": Types.BYTE_VALUE,
    "shortvalue": Types.SHORT_VALUE,
    "charvalue": Types.CHAR_VALUE,
    "intvalue": Types.INT_VALUE,
    "longvalue": Types.LONG_VALUE,
    "floatvalue": Types.FLOAT_VALUE,
    "doublevalue": Types.DOUBLE_VALUE,
    "nullvalue": Types.NULL_VALUE,
}
PARTS = {
    "list": Types.LIST,
    "set": Types.SET,
    "map": Types.MAP,
    "array": Types.OBJECT_ARRAY,
    "either": Types.EITHER,
    "nullable": Types.NULLABLE,
    "nullable_padded": lambda inner: Types.NULLABLE(inner, padded=True),
    "tuple": lambda *fields: Types.TUPLE(fields),
    "row": lambda *fields: Types.ROW(fields),
}

SQL = {
    "BOOLEAN": Types.BOOLEAN,
    "TINYINT": Types.BYTE,
    "SMALLINT": Types.SHORT,
    "INT": Types.INT,
    "BIGINT": Types.LONG,
    "FLOAT": Types.FLOAT,
    "DOUBLE": Types.DOUBLE,
    "VARCHAR": Types.STRING_DATA,
    "STRING": Types.STRING_DATA,
    "VARBINARY": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "DATE": Types.DATE_DATA,
    "TIME": Types.TIME_DATA,
}


def load(stem: str) -> dict:
    """The golden file ``tests/golden/<stem>/<stem>.json``."""
    return json.loads((GOLDEN / stem / f"{stem}.json").read_text())


def split(text: str) -> list[str]:
    """``"int,list<a,b>"`` at the commas that lie in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts if text else []


def parse(name: str):
    """The type that a golden file calls `name`."""
    if name in SCALARS:
        return SCALARS[name]()
    if name == "string[]":
        return Types.BASIC_ARRAY(Types.STRING())
    if name.endswith("[]"):
        return Types.PRIMITIVE_ARRAY(parse(name[:-2]))
    outer, inner = name[:-1].split("<", 1)
    if outer == "enum":
        return Types.ENUM(split(inner))
    return PARTS[outer](*map(parse, split(inner)))


def sql_type(text: str):
    """The type that Flink SQL calls `text`."""
    name, _, rest = text.partition("<") if "<" in text else text.partition("(")
    inside = [part.strip() for part in split(rest[:-1])]
    if text.startswith("TIMESTAMP"):
        digits = int(re.search(r"\((\d)\)", text)[1])
        return (Types.TIMESTAMP_LTZ_DATA if "LOCAL" in text else Types.TIMESTAMP_DATA)(digits)
    if name == "DECIMAL":
        return Types.DECIMAL_DATA(*map(int, inside))
    if name == "ARRAY":
        return Types.ARRAY_DATA(*map(sql_type, inside))
    if name == "MAP":
        return Types.MAP_DATA(*map(sql_type, inside))
    if name == "ROW":
        fields = [part.split(" ", 1) for part in inside]
        return Types.ROW_DATA([name.strip("`") for name, _ in fields], [sql_type(each) for _, each in fields])
    return SQL[name]()


def sql_row_type(schema: list[str]):
    """The row of fields that Flink SQL calls so."""
    types = list(map(sql_type, schema))
    return Types.ROW_DATA([f"f{i}" for i in range(len(types))], types)


def value_of(name: str, value):
    """A golden file's JSON for a value of type `name`, as Python has it."""
    outer, _, inner = name.removesuffix(">").partition("<")
    inside = split(inner)
    if value is None:
        return None
    if outer in TIMES:
        return TIMES[outer](value)
    if outer in ("nullable", "nullable_padded"):
        return value_of(inside[0], value)
    if outer == "enum":
        return value["name"]
    if outer == "map":
        return {value_of(inside[0], key): value_of(inside[1], item) for key, item in value["pairs"]}
    if outer == "tuple":
        return tuple(map(value_of, inside, value["fields"]))
    if outer == "row":
        return fb.Row.of_kind(value["kind"], *map(value_of, inside, value["fields"]))
    if outer == "either":
        side, place, make = ("left", 0, fb.Left) if "left" in value else ("right", 1, fb.Right)
        return make(value_of(inside[place], value[side]))
    if isinstance(value, list):
        element = inside[0] if inside else name[:-2]
        items = [value_of(element, item) for item in value]
        return set(items) if outer == "set" else items
    return plain(value)


def plain(value):
    """Values whose JSON says by itself what they are."""
    if not isinstance(value, dict):
        return value if isinstance(value, (bool, int)) else join_surrogates(value)
    if "repeat" in value:
        return join_surrogates(value["repeat"]) * value["times"]
    if "char" in value:
        return chr(value["char"])
    if "bytes" in value:
        return bytes.fromhex(value["bytes"])
    if "bigint" in value:
        return int(value["bigint"])
    if "unscaled" in value:
        unscaled = int(value["unscaled"])
        return decimal.Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -value["scale"]))
    form = ">f" if "float" in value else ">d"
    return struct.unpack(form, bytes.fromhex(value["bits"]))[0]


def join_surrogates(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def date(v):
    return datetime.date(v["year"], v["month"], v["day"]) if 1 <= v["year"] <= 9999 else fb.LocalDate(**v)


def time(v):
    if v["nano"] % 1000:
        return fb.LocalTime(**v)
    return datetime.time(v["hour"], v["minute"], v["second"], v["nano"] // 1000)


def date_time(v):
    if 1 <= v["year"] <= 9999 and v["nano"] % 1000 == 0:
        return fb.LocalDateTime(**v).to_datetime()
    return fb.LocalDateTime(**v)


def instant(v):
    return fb.Instant(v["second"], v["nano"])


def timestamp(v):
    found = fb.SqlTimestamp(v["millis"], v["nanos"])
    try:
        return found.to_datetime()
    except ValueError:
        return found


def sql_date(v):
    days, rest = divmod(v["millis"], 86_400_000)
    return fb.SqlDate(**v) if rest else EPOCH.date() + datetime.timedelta(days)


TIMES = {
    "localdate": date,
    "localtime": time,
    "localdatetime": date_time,
    "instant": instant,
    "sqltimestamp": timestamp,
    "date": lambda v: EPOCH + datetime.timedelta(milliseconds=v["millis"]),
    "sqldate": sql_date,
    "sqltime": lambda v: (EPOCH + datetime.timedelta(milliseconds=v["millis"])).time(),
}


def element_of(case: dict):
    """The stream element of a case of ``stream_elements.json``."""
    kind = case["element"]
    if kind == "record":
        return fb.StreamRecord(value_of(case["type"], case["value"]), case["timestamp"])
    if kind == "watermark":
        return fb.Watermark(case["timestamp"])
    if kind == "internal_watermark":
        return fb.InternalWatermark(case["timestamp"], case["subpartition_index"])
    if kind == "latency_marker":
        return fb.LatencyMarker(case["marked_time"], bytes.fromhex(case["operator_id_bytes"]), case["subtask_index"])
    return fb.WatermarkStatus(case["status"]) if kind == "watermark_status" else fb.RecordAttributes(case["backlog"])


def same(a, b) -> bool:
    """Equal, of the same class, and alike in what equality does not see: -0.0, NaN, the kind of a row, a scale."""
    if type(a) is not type(b) and not (isinstance(a, tuple) and isinstance(b, tuple)):
        return False
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b) or (a != a and b != b)
    if isinstance(a, decimal.Decimal):
        return a.as_tuple() == b.as_tuple()
    if isinstance(a, (list, tuple)):
        kinds = getattr(a, "row_kind", None) == getattr(b, "row_kind", None)
        return kinds and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (fb.Left, fb.Right)):
        return same(a.value, b.value)
    if isinstance(a, fb.StreamRecord):
        return a.timestamp == b.timestamp and same(a.value, b.value)
    return a == b
