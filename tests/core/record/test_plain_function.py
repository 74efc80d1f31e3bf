"""Functions that only look at their argument give in C what they give in Python, and raise what they raise."""

import collections
import decimal
import signal
import sys
import threading
import time
import warnings
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.record.plain_function import quickened
from flinkbuf.types.row import Row, row_class


class Bid(NamedTuple):
    auction: int
    price: int
    channel: str

    def __repr__(self):  # also where there are fewer items than names
        return f"{type(self).__name__}{tuple(self)}"


class Other(Bid):
    """As `Bid`, but for what it says of its price."""

    @property
    def price(self):
        return "other"


class Item(tuple):
    __slots__ = ()

    def __getitem__(self, key):
        return ("item", key)


class Loud(tuple):
    def __getattribute__(self, name):
        return ("loud", name)


class Plain:
    price = 7

    def __eq__(self, other):
        return NotImplemented

    __hash__ = None


CONSTANT, LOW, RATE = 5, decimal.Decimal("0.5"), decimal.Decimal("1.25")


def with_variables(x):
    first = x[0]
    if first == CONSTANT:
        return first, 0
    second = x[1]
    return first, second


def with_a_variable_that_is_not_read(x):
    first = x[0]
    return x[1] if x[1] else first


def unpacked(x):
    _, price, _ = x
    return price, price


def with_a_way_through_all(x):
    first, second = x
    if second < first:
        first = second
    if (first > 3 and second) or first is None:
        second += first
    return first, second, first


def with_a_part_that_is_needed_twice(x):
    pair = (x[0], x[1])
    more = x[0] * RATE
    return pair, pair, more if more < 3 else more + more


class Holder:
    def __init__(self, held):
        self.by = lambda x: x[0] == held
        self.times = lambda x: (x.price * held, held)


FUNCTIONS = [
    lambda x: x,
    lambda x: x.price,
    lambda x: x.channel,
    lambda x: x.real,
    lambda x: x[0],
    lambda x: x[-1],
    lambda x: x[7],
    lambda x: x["price"],
    lambda x: x[:2],
    lambda x: x[1:],
    lambda x: x[-2:],
    lambda x: x[5:-9],
    lambda x: x[:],
    lambda x: (x[0], x[1]),
    lambda x: (x, x),
    lambda x: (x.auction, (x.price, x[2]), 1, "a"),
    lambda x: x[0][1],
    lambda x: x.price > 3,
    lambda x: x.price == "a",
    lambda x: x[0] > 2,
    lambda x: x.price % 2 == 0,
    lambda x: x[0] // 0,
    lambda x: x[0] % x[1],
    lambda x: x[0] + x[1],
    lambda x: x[0] - 1,
    lambda x: x[0] * 2,
    lambda x: type(x) is Bid,
    lambda x: type(x) is str,
    lambda x: type(x.price) is int,
    lambda x: CONSTANT,
    lambda x: None,
    lambda x: type(x) is not Bid,
    lambda x: x[0] and x[1],
    lambda x: x[0] or x[1] or x,
    lambda x: x.price if x else 0,
    lambda x: x is None,
    lambda x: x[0] is not None and x[0] > 1,
    lambda x: not x[0],
    eval("lambda x: not not x[0]"),
    eval("lambda x: (not not x, not not not x[0])"),
    lambda x: x[0] in (1, None, "a", 0.5),
    lambda x: x.channel not in {"a", "b"},
    lambda x: x[0] / 2,
    lambda x: (x[0] | x[1], x[0] & 3, x[0] ^ 1, x[0] >> 1),
    lambda x: 1 | 1 << x[0] % 4,
    lambda x: LOW < x.price * RATE < CONSTANT,
    lambda x: (x[0], x[0] * RATE),
    Holder(3).by,
    Holder(RATE).times,
    Holder([]).times,
    with_variables,
    unpacked,
    with_a_way_through_all,
    with_a_part_that_is_needed_twice,
]
IN_C = len(FUNCTIONS)
FUNCTIONS += [
    # What is left to Python.
    lambda x: len(x),
    lambda x: x.count(1),
    lambda x: [x[0]],
    lambda x: x[::2],
    lambda x: -x[0],
    lambda x: x[0] ** 2,
    lambda x: x[x[0]],
    lambda x: [x for _ in "a"],
    with_a_variable_that_is_not_read,
]
numbers = st.one_of(
    st.integers(),
    st.integers(0, 5),
    st.floats(),
    st.booleans(),
    st.text(max_size=3),
    st.none(),
    st.decimals(min_value=-9, max_value=9, places=1),
)
values = st.one_of(
    numbers,
    st.tuples(),
    st.tuples(numbers),
    st.tuples(numbers, numbers),
    st.tuples(numbers, numbers, st.tuples(numbers, numbers)),
    st.tuples(st.tuples(numbers, numbers), numbers, numbers),
    st.lists(numbers, max_size=3),
    st.builds(Bid, numbers, numbers, numbers),
    st.builds(Other, numbers, numbers, numbers),
    st.builds(Row, numbers, numbers),
    st.builds(lambda *fields: Row(auction=fields[0], price=fields[1], channel=fields[2]), numbers, numbers, numbers),
    st.builds(lambda *fields: row_class(["price", "index", "x"])(*fields), numbers, numbers, numbers),
    st.builds(lambda *fields: Item(fields), numbers, numbers),
    st.builds(lambda *fields: Loud(fields), numbers, numbers),
    st.just(Plain()),
    st.dictionaries(st.sampled_from(["price", "channel", 0, -1]), numbers),
    st.builds(collections.OrderedDict, st.dictionaries(st.sampled_from(["price", 0]), numbers)),
    st.just(collections.defaultdict(int)),
)


def outcome(function, *values):
    try:
        made = function(*values)
    except Exception as error:
        return type(error), str(error)
    return type(made), repr(made)


@settings(max_examples=500)
@given(number=st.integers(0, len(FUNCTIONS) - 1), given_values=st.lists(values, min_size=1, max_size=6))
def test_results_and_errors_are_those_of_the_function(number, given_values):
    function = FUNCTIONS[number]
    quick = quickened(function)
    for value in given_values * 2:
        assert outcome(quick, value) == outcome(function, value)


# ---- functions from a grammar, and values with a mind of their own

CALLS = []


class Same(int):
    """Equals everything, and adds nothing."""

    def __eq__(self, other):
        CALLS.append("eq")
        return True

    def __add__(self, other):
        CALLS.append("add")
        return self

    __radd__ = __add__
    __hash__ = int.__hash__


class Named(Bid):
    def __getattr__(self, name):
        CALLS.append(name)
        return name


class Shadowed(Bid):
    """Has a dict of its own, with a name of a field."""


def shadowed(*fields):
    made = Shadowed(*fields)
    made.__dict__["price"] = made.__dict__["extra"] = "shadow"
    return made


def made_of(kind):
    """Makes a named tuple of any number of items, so that there may be fewer of them than names."""
    return lambda *fields: tuple.__new__(kind, fields)


class Price(NamedTuple):
    price: object

    __repr__ = Bid.__repr__


class Reordered(Price, Bid):
    """`price` is its first item, as its first base has it."""


SCOPE = {"Bid": Bid, "Other": Other, "Named": Named, "Rate": RATE}
odd_numbers = st.one_of(
    numbers, st.sampled_from([2**63, -(2**63), 2**64, -0.0, 1e308, Same(3), Same(0), "%s", "%d", True, (), b"a"])
)
odd_values = st.one_of(
    values,
    *(st.builds(kind, odd_numbers, odd_numbers, odd_numbers) for kind in (Bid, Other, Named, shadowed)),
    *(st.builds(made_of(kind), odd_numbers, odd_numbers) for kind in (Bid, Reordered)),
    st.tuples(odd_numbers, odd_numbers, odd_numbers),
)


def larger(part):
    indexes = st.sampled_from(
        ["0", "1", "-1", "-2", "5", "'price'", "True", "x", "2**30", "-2**64", ":1", "1:", "-2:", "::", ":-9", "::2"]
    )
    names = st.sampled_from(["price", "auction", "channel", "real", "index", "extra", "__class__"])
    signs = st.sampled_from(
        ["<", "<=", "==", "!=", ">", ">=", "+", "-", "//", "%", "/", "|", "&", "^", "is", "in", "and", "or", "< x[1] <"]
    )
    ends = st.sampled_from([" is None", " is not None", " in (1, 'a')", " not in {1, None}", " >> 1", " << 1"])
    kinds = st.sampled_from([*SCOPE, "int", "str", "bool", "Nothing"])
    return st.one_of(
        st.builds("{}.{}".format, part, names),
        st.builds("{}[{}]".format, part, indexes),
        st.builds("({} {} {})".format, part, signs, part),
        st.builds("({} * {})".format, part, st.sampled_from(["2", "-1", "0.5", "True"])),
        st.builds("(type({}) is {})".format, part, kinds),
        st.builds("({}{})".format, part, ends),
        st.builds("(not {})".format, part),
        st.builds("({} if {} else {})".format, part, part, part),
        st.lists(part, min_size=1, max_size=3).map(lambda parts: f"({', '.join(parts)},)"),
    )


constants = ["(1)", "(-1)", "(2**64)", "(0.5)", "(-0.0)", "'a'", "'%s'", "True", "None", "(1, 'a')"]
expressions = st.recursive(st.sampled_from(["x"] * 10 + constants + ["Rate", "Nothing"]), larger, max_leaves=4)
statements = st.recursive(
    st.builds("return {}".format, expressions),
    lambda rest: st.one_of(
        st.builds("{} = {}\n{}".format, st.sampled_from(["x", "y", "x, y", "_, x"]), expressions, rest),
        st.builds("if {}: {} = {}\n{}".format, expressions, st.sampled_from("xy"), expressions, rest),
        st.builds("if {}:\n return {}\n{}".format, expressions, expressions, rest),
        st.builds("{}\n{}".format, expressions, rest),
    ),
    max_leaves=4,
)


def outcome_and_calls(function, *values):
    CALLS.clear()
    return outcome(function, *values), list(CALLS)


def function_of(body, arguments):
    text = "\n ".join(body.split("\n"))
    scope = dict(SCOPE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(f"def function({arguments}):\n {text}", scope)
    return scope["function"]


@settings(max_examples=120)
@given(statements, st.lists(odd_values, min_size=1, max_size=4))
def test_any_function_gives_and_calls_what_it_does(body, given_values):
    function = function_of(body, "x")
    quick = quickened(function)
    for value in given_values * 2:
        assert outcome_and_calls(quick, value) == outcome_and_calls(function, value)


@settings(max_examples=80)
@given(statements, st.lists(st.tuples(odd_values, odd_values), min_size=1, max_size=4))
def test_any_function_of_two_values_gives_and_calls_what_it_does(body, given_values):
    function = function_of(body, "x, y")
    quick = quickened(function, 2)
    for values in given_values * 2:
        assert outcome_and_calls(quick, *values) == outcome_and_calls(function, *values)


def test_what_is_done_in_c():
    quick = [quickened(function) is not function for function in FUNCTIONS]
    if sys.version_info[:2] == (3, 11):
        assert quick == [index < IN_C for index in range(len(FUNCTIONS))]


def test_functions_of_other_kinds_stay_as_they_are():
    def several(*values):
        return values[0]

    def with_default(value, other=1):
        return value[0]

    def named(value, *, other=1):
        return value[0]

    def generated(value):
        yield value[0]

    async def awaited(value):
        return value[0]

    for function in (
        several,
        with_default,
        named,
        generated,
        awaited,
        lambda: 1,
        len,
        Bid,
        Plain(),
    ):
        assert quickened(function) is function


class Assigner:
    def extract_timestamp(self, value, record_timestamp):
        return value.price

    def own(self, value):
        return self

    def key(self, value):
        return value[0]


def test_methods_are_functions_of_what_stands_behind_self():
    assigner = Assigner()
    extract = quickened(assigner.extract_timestamp, 2)
    assert extract(Bid(1, 2, "a"), -5) == 2 and extract.__self__ is not assigner
    with pytest.raises(AttributeError, match="price"):
        extract((1, 2), 0)
    assert quickened(assigner.key)((3, 4)) == 3
    assert quickened(assigner.own) == assigner.own
    assert quickened(assigner.extract_timestamp) == assigner.extract_timestamp, "which takes two"


def test_an_error_is_the_functions_own_with_its_line():
    def first(value):
        return value[0]

    with pytest.raises(IndexError) as raised:
        quickened(first)(())
    assert [entry.name for entry in raised.traceback][-1] == "first"


def test_a_name_means_what_it_means_at_the_moment():
    scope = {"Kind": int}
    function = eval("lambda value: type(value) is Kind", scope)
    quick = quickened(function)
    assert quick is not function and quick(1) and not quick("a")
    scope["Kind"] = str
    assert quick("a") and not quick(1)
    scope["type"] = lambda value: str
    assert quick(1)
    del scope["type"]
    assert not quick(1)
    del scope["Kind"]
    with pytest.raises(NameError):
        quick(1)


def test_a_name_that_is_none_is_not_that_of_a_builtin_class():
    quick = quickened(eval("lambda value: type(value) is int", {"int": None}))
    assert not quick(1)


def test_names_of_a_dict_with_a_mind_of_its_own_are_left_to_it():
    class Scope(dict):
        def __missing__(self, name):
            return str if name == "Kind" else super().__missing__(name)

    function = eval("lambda value: type(value) is Kind", Scope())
    assert quickened(function) is function


def test_a_function_that_is_given_other_code_does_the_other():
    def first(value):
        return value[0]

    quick = quickened(first)
    assert quick((1, 2)) == 1
    first.__code__ = (lambda value: value[1]).__code__
    assert quick((1, 2)) == 2


def test_a_class_that_changes_is_looked_at_again():
    class Changing(NamedTuple):
        one: int

    quick = quickened(lambda value: value.one)
    assert quick(Changing(3)) == 3
    Changing.one = property(lambda self: "changed")
    assert quick(Changing(3)) == "changed"
    del Changing.one
    with pytest.raises(AttributeError):
        quick(Changing(3))


def test_nothing_of_a_class_runs_when_it_is_met_first():
    calls = []

    class Kind(type):
        def __getattribute__(cls, name):
            calls.append(name)
            return type.__getattribute__(cls, name)

    class Field:
        def __get__(self, instance, owner):
            calls.append(instance)
            return "field"

    class Met(Bid):
        auction = Field()

    class Own(tuple, metaclass=Kind):
        auction = Field()

    for value in Met(1, 2, "a"), Own((1, 2)):
        calls.clear()
        assert quickened(lambda value: value.auction)(value) == "field" and calls == [value]
    quick = quickened(lambda value: value.price)
    assert quick(Met(1, 2, "a")) == 2


def test_the_handler_of_a_signal_raises_once_and_is_heard():
    class Interrupted(Exception):
        pass

    def handle(signum, frame):
        raise Interrupted

    large = (1 << 2_000_000) - 1
    quick = quickened(lambda value: value[0] * value[0] > 0)
    before = signal.signal(signal.SIGALRM, handle)
    try:
        with pytest.raises(Interrupted):
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            quick((large,))  # takes some 50 ms, and looks for signals
            time.sleep(10)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_function_that_is_mostly_left_to_python_is_left_to_it():
    calls = []

    class Watched:
        @property
        def price(self):
            calls.append(1)
            return 1

    quick = quickened(lambda value: value.price)
    for count in range(1, 100):
        assert quick(Watched()) == 1 and len(calls) == count
    assert quick(Bid(1, 2, "a")) == 2


def test_who_watches_the_thread_sees_each_call():
    seen = []
    quick = quickened(lambda value: value[0])

    def watch(frame, event, argument):
        if event == "call" and frame.f_code.co_name == "<lambda>":
            seen.append(frame.f_lineno)

    def run():
        quick((1,))
        sys.settrace(watch)
        quick((1,))
        sys.settrace(None)
        sys.setprofile(watch)
        quick((1,))
        sys.setprofile(None)
        quick((1,))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(seen) == 2


def test_references_are_counted():
    value, part = ("a", ["b"], "c"), ["b"]
    value = ("a", part, "c")
    quick = [
        quickened(f) for f in (lambda x: x, lambda x: x[1], lambda x: x[:2], lambda x: (x[1], x[7]), lambda x: (x, x))
    ]
    before = sys.getrefcount(value), sys.getrefcount(part)
    for _ in range(100):
        for each in quick:
            outcome(each, value)
    assert (sys.getrefcount(value), sys.getrefcount(part)) == before


def test_many_classes_may_come_by_turns():
    classes = [collections.namedtuple(f"Kind{number}", [*"ab"[: 1 + number % 2], "one"]) for number in range(9)]
    for count in (3, 9):
        quick = quickened(lambda value: value.one)
        for _ in range(30):
            for kind in classes[:count]:
                value = kind(*range(len(kind._fields)))
                assert quick(value) == len(kind._fields) - 1
