"""Two keys have one token if, and only if, they are one key: as Flink compares them, and not as Python does."""

import datetime
import decimal
import enum
import fractions
import itertools
import math

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf._core.record.key_group import KeyHasher
from flinkbuf._core.record.key_token import KeyToken, KeyTokens
from flinkbuf.types.types import Types, object_type

OBJECT = object_type()
UNDECLARED = KeyTokens()
UTC = datetime.timezone.utc


class Level(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


def one_key_each(*keys):
    return keys


@pytest.mark.parametrize(
    "keys",
    [
        one_key_each(1, 1.0, True, numpy.int64(1), decimal.Decimal(1), fractions.Fraction(1), Level.ONE, 1 + 0j),
        one_key_each(0, 0.0, -0.0, False, decimal.Decimal("-0")),
        one_key_each(math.inf, decimal.Decimal("Infinity"), -math.inf, math.nan),
        one_key_each(
            0.5, numpy.float64(0.5), decimal.Decimal("0.5"), decimal.Decimal("0.50"), fractions.Fraction(1, 2)
        ),
        one_key_each("a", b"a", bytearray(b"a"), Text("a"), numpy.str_("a")),
        one_key_each((1, "a"), (1.0, "a"), (True, "a"), [1, "a"], fb.Row(1, "a"), fb.Row(x=1, y="a")),
        one_key_each((), [], {}, set(), frozenset(), None, "", b""),
        one_key_each(((1,), 2), ((True,), 2), ((1,), 2.0)),
        one_key_each(fb.Row(1), fb.Row.of_kind("-D", 1), (1,)),
        one_key_each(datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, fold=1), datetime.date(2024, 1, 1)),
        one_key_each(datetime.datetime(2024, 1, 1, tzinfo=UTC), datetime.datetime(2024, 1, 1)),
        one_key_each({1: 2}, {True: 2}, {1: 2.0}, {(1, 2)}, frozenset({(1, 2)})),
    ],
    ids=repr,
)
def test_keys_that_only_python_mixes_up_have_tokens_of_their_own(keys):
    tokens = {UNDECLARED.token_of(key) for key in keys}
    assert len(tokens) == len(keys)
    assert all(UNDECLARED.token_of(key) in tokens for key in keys)


def test_equal_keys_have_one_token_whatever_their_history():
    for first, second in [
        (math.nan, float("nan")),
        ({"a", "b", "c"}, {"c", "b", "a"}),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}),
        ([["a"], ["a"]], [["a"]] * 2),
        (numpy.float64(1.5), numpy.float64("1.5")),
        (fb.types.Left("a"), fb.types.Left("".join(["a"]))),
    ]:
        assert UNDECLARED.token_of(first) == UNDECLARED.token_of(second)
        assert hash(UNDECLARED.token_of(first)) == hash(UNDECLARED.token_of(second))


@pytest.mark.parametrize(
    "key",
    [5, 2**70, -1, "text", "é", b"b", None, 1.5, (), ("a", 1, (b"x", None)), datetime.date(2024, 1, 1)],
    ids=repr,
)
def test_plain_keys_are_their_own_token(key):
    assert UNDECLARED.token_of(key) is key


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, math.nan, "", "1", b"1"])
)
KEYS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(LEAVES, max_size=3)
        | st.dictionaries(LEAVES, inner, max_size=3)
    ),
    max_leaves=6,
)


def written(key):
    """A text that only the same key has."""
    if isinstance(key, dict):
        return f"{{{sorted((written(k), written(v)) for k, v in key.items())}}}"
    if isinstance(key, frozenset):
        return f"frozenset{sorted(map(written, key))}"
    if isinstance(key, (tuple, list)):
        return f"{type(key).__name__}{[written(item) for item in key]}"
    return repr(key)


@settings(max_examples=300, deadline=None)
@given(st.lists(KEYS, min_size=2, max_size=6))
def test_tokens_and_hashes_tell_apart_what_differs_and_nothing_else(keys):
    hasher = KeyHasher(OBJECT.codec)
    for a, b in itertools.combinations_with_replacement(keys, 2):
        same = written(a) == written(b)
        assert (UNDECLARED.token_of(a) == UNDECLARED.token_of(b)) == same
        if same:
            assert hash(UNDECLARED.token_of(a)) == hash(UNDECLARED.token_of(b))
            assert hasher.hash_code(a) == hasher.hash_code(b)


def test_keys_of_a_declared_type_are_brought_to_it_first():
    doubles = KeyTokens(Types.DOUBLE().codec)
    assert doubles.bring(1) == 1.0 and type(doubles.bring(1)) is float
    assert doubles.token_of(1.0) == 1.0 and doubles.token_of(0.0) == 0.0
    assert isinstance(doubles.token_of(-0.0), KeyToken) and doubles.token_of(-0.0) != 0.0
    assert doubles.token_of(math.nan) == doubles.token_of(-math.nan)
    rows = KeyTokens(Types.ROW_NAMED(["a"], [Types.LONG()]).codec)
    assert rows.token_of(rows.bring((1,))) == rows.token_of(rows.bring({"a": 1}))
    assert rows.token_of(rows.bring((1,))) != rows.token_of(rows.bring(fb.Row.of_kind("-D", 1)))
    lists = KeyTokens(Types.LIST(Types.LONG()).codec)
    assert lists.token_of(lists.bring([1])) == lists.token_of(lists.bring((1,)))
    decimals = KeyTokens(Types.BIG_DEC().codec)
    assert decimals.token_of(decimal.Decimal("1.0")) != decimals.token_of(decimal.Decimal("1.00"))
    with pytest.raises(TypeError, match="expected LONG"):
        KeyTokens(Types.LONG().codec).bring("x")
    assert KeyTokens(Types.LONG().codec).bring(None) is None


def test_what_identifies_no_key_is_refused():
    holds_itself, generator = [], (x for x in ())
    holds_itself.append(holds_itself)
    with pytest.raises(ValueError, match="a key holds neither itself nor more than 128 levels"):
        UNDECLARED.token_of(holds_itself)
    with pytest.raises(TypeError, match="cannot be a key, as it does not pickle"):
        UNDECLARED.token_of(generator)
    with pytest.raises(TypeError, match="a lambda or local function cannot be a key"):
        UNDECLARED.token_of((lambda: 1, 2))
