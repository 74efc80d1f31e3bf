"""User functions: their classes, plain callables in their place, and when they are opened."""

import pickle

import pytest

from flinkbuf.async_io.retry import as_retry
from flinkbuf.streaming.chain.async_functions import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
)
from flinkbuf.streaming.chain.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    Lifecycles,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    ReduceFunction,
    SelectorCall,
    SinkFunction,
    SourceFunction,
    as_call,
    as_selector,
    has_lifecycle,
)


@pytest.mark.parametrize(
    "kind",
    [
        MapFunction,
        FlatMapFunction,
        FilterFunction,
        ReduceFunction,
        AggregateFunction,
        CoMapFunction,
        CoFlatMapFunction,
        KeySelector,
        Partitioner,
        AsyncFunction,
    ],
)
def test_a_function_class_without_its_method_cannot_be_made(kind):
    with pytest.raises(TypeError, match="abstract"):
        kind()


class Add(MapFunction):
    def map(self, value):
        return value + 1


class Length(KeySelector):
    def __init__(self):
        self.calls = []

    def open(self, runtime_context):
        self.calls.append(("open", runtime_context))

    def close(self):
        self.calls.append("close")

    def get_key(self, value):
        return len(value)


class Last(Partitioner):
    def partition(self, key, num_partitions):
        return num_partitions - 1


def test_a_function_object_and_a_callable_are_called_alike():
    assert as_call(Add(), MapFunction, "map")(1) == 2
    assert as_call(abs, MapFunction, "map")(-1) == 1


def test_a_selector_without_a_life_is_called_directly():
    assert as_selector(NullByteKeySelector())("x") == 0
    assert as_selector(len) is len
    assert as_selector(Last(), Partitioner, "partition")("key", 4) == 3
    assert not has_lifecycle(Last()) and not has_lifecycle(len)


def test_a_selector_with_a_life_is_opened_once_before_its_first_call():
    selector = as_selector(length := Length())
    assert isinstance(selector, SelectorCall)
    selector.open("context")
    assert selector("abc") == 3
    selector.close()
    selector.close()
    assert length.calls == [("open", "context"), "close"]


def test_a_selector_that_nobody_opened_is_opened_by_its_first_call():
    selector = as_selector(length := Length())
    assert selector("abc") == 3
    assert length.calls == [("open", None)]


def test_lifecycles_close_the_other_way_round_and_all_of_them():
    calls = []

    class Part(Function):
        def __init__(self, name):
            self.name = name

        def open(self, runtime_context):
            calls.append(f"open {self.name}")

        def close(self):
            calls.append(f"close {self.name}")
            raise ValueError(self.name)

    lifecycles = Lifecycles(Part("a"), Part("b"))
    lifecycles.open(None)
    with pytest.raises(ValueError, match="b"):
        lifecycles.close()
    assert calls == ["open a", "open b", "close b", "close a"]


class Context:
    def __init__(self):
        self.values = []

    def collect(self, value):
        self.values.append(value)


@pytest.mark.parametrize("source", [[1, 2], lambda: iter([1, 2])])
def test_a_source_function_takes_its_records_from_what_it_was_given(source):
    SourceFunction(source).run(context := Context())
    assert context.values == [1, 2]


def test_a_cancelled_source_function_stops():
    def records():
        yield 1
        function.cancel()
        yield 2

    function = SourceFunction(records)
    function.run(context := Context())
    assert context.values == [1]


def test_source_and_sink_functions_say_what_they_lack():
    with pytest.raises(TypeError, match="run"):
        SourceFunction().run(Context())
    with pytest.raises(TypeError, match="invoke"):
        SinkFunction().invoke(1)
    taken = []
    SinkFunction(taken.append).invoke(1)
    assert taken == [1]


def test_exponential_backoff_depends_on_the_record_s_own_attempts():
    strategy = AsyncRetryStrategy.exponential_backoff(5, 100, 1000, 2.0, None, None)
    assert isinstance(strategy, ExponentialBackoffDelayRetryStrategy)
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (3, 1, 2, 9)] == [400, 100, 200, 1000]
    assert [strategy.can_retry(attempts) for attempts in (5, 6)] == [True, False]


def test_fixed_delay_and_no_retry():
    strategy = AsyncRetryStrategy.fixed_delay(2, 50, lambda result: not result, None)
    assert isinstance(strategy, FixedDelayRetryStrategy)
    assert strategy.get_backoff_time_millis(7) == 50 and strategy.can_retry(2) and not strategy.can_retry(3)
    predicate = strategy.get_retry_predicate()
    assert predicate.result_predicate()([]) and predicate.exception_predicate() is None
    assert AsyncRetryStrategy.no_restart() is NO_RETRY_STRATEGY and not NO_RETRY_STRATEGY.can_retry(1)


@pytest.mark.parametrize("numbers", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)])
def test_retry_strategies_refuse_numbers_that_are_not_positive(numbers):
    with pytest.raises(ValueError, match="should be greater than zero"):
        AsyncRetryStrategy.exponential_backoff(*numbers, None, None)


def test_the_async_operator_reads_the_strategies():
    fixed = as_retry(AsyncRetryStrategy.fixed_delay(2, 50, None, lambda error: True))
    assert fixed.delay_before(1) == 0.05 and fixed.can_retry(2)
    exponential = as_retry(AsyncRetryStrategy.exponential_backoff(2, 100, 1000, 2.0, None, None))
    assert exponential.delay_before(2) == 0.2
    assert as_retry(NO_RETRY_STRATEGY) is None


def test_an_async_function_that_takes_too_long_raises_unless_it_says_otherwise():
    class Lookup(AsyncFunction):
        async def async_invoke(self, value):
            return [value]

    with pytest.raises(TimeoutError, match="timed out for input: 7"):
        Lookup().timeout(7)


def test_functions_are_pickled_with_what_they_keep():
    copy = pickle.loads(pickle.dumps(as_selector(Length())))
    assert copy("ab") == 2
