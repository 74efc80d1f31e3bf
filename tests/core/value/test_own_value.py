import collections
import dataclasses
import datetime
import decimal
import enum
import pickle
import sys
import threading
import types
import uuid

import numpy
import pyarrow as pa
import pytest

import flinkbuf as fb
from flinkbuf._core.value.own_value import copied, is_fixed_value


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    tags: tuple


@dataclasses.dataclass
class Basket:
    owner: str
    items: list


class Slotted:
    __slots__ = ("items",)

    def __init__(self, items):
        self.items = items


Point = collections.namedtuple("Point", "x y")
SHARED = [1]

FIXED = [
    None,
    True,
    1,
    2**70,
    1.5,
    1j,
    "text",
    b"bytes",
    decimal.Decimal("1.5"),
    datetime.date(2024, 1, 1),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),
    datetime.timedelta(1),
    uuid.UUID(int=1),
    range(3),
    Color.RED,
    numpy.int64(1),
    (1, ("a", None)),
    frozenset([1, "a"]),
    fb.Row(a=1, b=("x",)),
    Point(1, 2),
    Place("x", (1, 2)),
    int,
]
CHANGING = [
    [1, 2],
    {"a": 1},
    {1, 2},
    bytearray(b"x"),
    (1, [2]),
    [[1], {"a": {"b": [2]}}],
    fb.Row(a=[1]),
    Point([1], 2),
    Place("x", ([],)),
    Basket("x", [1, [2]]),
    collections.defaultdict(list, a=[1]),
    collections.Counter("aab"),
    collections.OrderedDict(b=1, a=2),
    collections.deque([1, 2]),
]


@pytest.mark.parametrize("value", FIXED, ids=repr)
def test_what_cannot_change_is_its_own_copy(value):
    assert is_fixed_value(value)
    assert copied(value) is value


@pytest.mark.parametrize("value", CHANGING, ids=repr)
def test_what_can_change_is_copied_with_its_class(value):
    assert not is_fixed_value(value)
    copy = copied(value)
    assert copy is not value and type(copy) is type(value) and copy == value


def parts_that_can_change(value):
    """All lists, dicts and sets inside of a value."""
    if isinstance(value, (list, dict, set)):
        yield value
    if isinstance(value, dict):
        value = value.values()
    elif hasattr(value, "__dict__"):
        value = vars(value).values()
    if not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for each in value:
            yield from parts_that_can_change(each)


@pytest.mark.parametrize("value", CHANGING, ids=repr)
def test_no_part_that_can_change_has_two_holders(value):
    copy = copied(value)
    assert not {id(each) for each in parts_that_can_change(value)} & {id(each) for each in parts_that_can_change(copy)}


def test_rows_of_pyspark_are_copied_with_the_names_of_their_fields():
    Row = pytest.importorskip("pyspark.sql").Row
    row = Row(name="a", inner=Row(numbers=[1]))
    copy = copied(row)
    row.inner.numbers.append(2)
    assert copy == Row(name="a", inner=Row(numbers=[1]))
    assert (copy.name, copy.inner.numbers, copy.asDict(True)) == ("a", [1], {"name": "a", "inner": {"numbers": [1]}})


def test_one_object_at_two_places_is_one_object_in_the_copy():
    copy = copied({"first": SHARED, "second": SHARED})
    assert copy["first"] is copy["second"] is not SHARED


def test_a_value_that_holds_itself_is_copied():
    value = [1]
    value.append(value)
    copy = copied(value)
    assert copy is not value and copy[1] is copy


def test_arrays_and_objects_with_slots_are_copied():
    array = numpy.arange(3)
    copy = copied(array)
    array[0] = 7
    assert list(copy) == [0, 1, 2]
    slotted = Slotted([1])
    own = copied(slotted)
    slotted.items.append(2)
    assert own.items == [1]


def test_what_arrow_has_is_copied_if_its_memory_is_that_of_an_array():
    """Copied once, it is fixed."""
    numbers = numpy.arange(3)
    array = pa.array(numbers)
    batch = pa.record_batch({"a": array, "b": pa.array(["x", "y", "x"]).dictionary_encode()}, metadata={"m": "n"})
    values = [
        array,
        pa.chunked_array([array, array]),
        batch,
        pa.table({"a": array}),
        pa.StructArray.from_arrays([array], ["a"]),
        pa.DictionaryArray.from_arrays(pa.array([0, 2]), array),
        {"tags": [batch.slice(1)]},
        pa.ListArray.from_arrays([0, 3], pa.DictionaryArray.from_arrays(array, ["x", "y", "z"])),
    ]
    expected = [pickle.loads(pickle.dumps(value)) for value in values]
    assert not any(map(is_fixed_value, values))
    copies = [copied(value) for value in values]
    numbers[:] = 1
    assert copies == expected and [type(copy) for copy in copies] == [type(value) for value in values]
    assert copies[2].schema.equals(batch.schema, check_metadata=True)
    assert all(is_fixed_value(copy) and copied(copy) is copy for copy in copies if type(copy) is not dict)
    for nothing in (pa.chunked_array([], pa.int64()), pa.array([], pa.string()), pa.table({"a": numbers[:0]})):
        assert copied(nothing).equals(nothing)
    assert copied(batch.select([])).num_rows == 3


class OfDictionary(pa.ExtensionType):
    """Over a dictionary."""

    def __init__(self):
        super().__init__(pa.dictionary(pa.int64(), pa.int64()), "flinkbuf.of_dictionary")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, data):
        return cls()


@pytest.fixture
def of_dictionary():
    pa.register_extension_type(OfDictionary())
    yield OfDictionary()
    pa.unregister_extension_type("flinkbuf.of_dictionary")


def test_the_memory_of_a_dictionary_counts_wherever_it_is(of_dictionary):
    numbers = numpy.arange(3)
    indices = copied(pa.array([0, 2]))
    array = pa.DictionaryArray.from_arrays(indices, pa.array(numbers))
    offsets = copied(pa.array([0, 1, 2], pa.int32()))
    values = [
        pa.ExtensionArray.from_storage(of_dictionary, array),
        pa.StructArray.from_arrays([array], ["a"]),
        pa.ListArray.from_arrays(offsets, array),
        pa.MapArray.from_arrays(offsets, indices, array),
        pa.RunEndEncodedArray.from_arrays(copied(pa.array([2, 5])), array),
        pa.StructArray.from_arrays([pa.ListArray.from_arrays(offsets, array)], ["a"]),
    ]
    assert not any(map(is_fixed_value, values))
    texts = list(map(str, values))
    copies = [copied(value) for value in values]
    numbers[:] = 7
    assert list(map(str, copies)) == texts and [copy.type for copy in copies] == [value.type for value in values]
    assert all(map(is_fixed_value, copies))


def test_a_library_that_another_thread_imports_has_no_values_yet(monkeypatch):
    for name in ("numpy", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))

    class Fresh:  # of which nothing is known yet
        def __init__(self):
            self.tags = ["a"]

    value = Fresh()
    own = copied(value)
    value.tags.append("b")
    assert own.tags == ["a"]
    assert fb.Types.PRIMITIVE_ARRAY(fb.Types.LONG()).codec.serialize([1, 2])


def test_a_deep_value_is_copied():
    value = []
    for _ in range(200):
        value = [value]
    assert copied(value) == value


def test_what_has_no_bytes_cannot_be_copied():
    with pytest.raises(TypeError, match="lock"):
        copied([threading.Lock()])
