"""How long does a record take from a Python object into buffers and back to a Python object, next to its rivals?

Both directions together, record by record from and to Python, every contender in the same run. In flink-benchmarks:
SerializationFrameworkMiniBenchmarks.
"""

import functools

import pytest
from contenders import (
    CHANNELS,
    KEY_FIELD,
    Contender,
    contenders,
    drain,
    element_contenders,
    is_faithful,
    keyed_contenders,
)
from data import RECORDS
from measure import measure

records_of = functools.cache(lambda work: RECORDS[work]())
everybody = functools.cache(contenders)
everybody_keyed = functools.cache(keyed_contenders)
everybody_of_elements = functools.cache(element_contenders)
ELEMENT_WORKS = ("tuple", "int64")


def names(choose, works):
    """Yield (work, contender) for parametrization; data is not made before a benchmark runs."""
    return [pytest.param(work, name, id=f"{work}.{name}") for work in works for name in choose(work)]


def round_trip(contender: Contender, records):
    drain(contender.read(contender.write(records)))


def measure_round_trip(name, contender, records, *, is_ordered=True, benchmark=None):
    assert is_faithful(contender, records, is_ordered=is_ordered), f"{name} does not give back what it was given"
    measure(name, lambda: round_trip(contender, records), len(records), "records", benchmark=benchmark)


@pytest.mark.parametrize(("work", "name"), names(everybody, RECORDS))
def test_round_trip(benchmark, work, name):
    measure_round_trip(f"{work}.{name}", everybody(work)[name], records_of(work), benchmark=benchmark)


@pytest.mark.parametrize(("work", "name"), names(everybody_keyed, KEY_FIELD))
def test_round_trip_over_channels_by_key(benchmark, work, name):
    measure_round_trip(
        f"{work}_by_key_{CHANNELS}.{name}",
        everybody_keyed(work)[name],
        records_of(work),
        is_ordered=False,
        benchmark=benchmark,
    )


@pytest.mark.parametrize(("work", "name"), names(everybody_of_elements, ELEMENT_WORKS))
def test_round_trip_with_event_time(benchmark, work, name):
    measure_round_trip(
        f"{work}_with_event_time.{name}", everybody_of_elements(work)[name], records_of(work), benchmark=benchmark
    )


if __name__ == "__main__":
    for work in RECORDS:
        for name, contender in everybody(work).items():
            measure_round_trip(f"{work}.{name}", contender, records_of(work))
    for work in KEY_FIELD:
        for name, contender in everybody_keyed(work).items():
            measure_round_trip(f"{work}_by_key_{CHANNELS}.{name}", contender, records_of(work), is_ordered=False)
    for work in ELEMENT_WORKS:
        for name, contender in everybody_of_elements(work).items():
            measure_round_trip(f"{work}_with_event_time.{name}", contender, records_of(work))
