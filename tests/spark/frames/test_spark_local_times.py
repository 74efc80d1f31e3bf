"""Instants and the clock on the wall, compared with what Python says of each by itself."""

import datetime
import os
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.spark.frames.local_times import from_local, to_local

ZONES = ["UTC", "America/New_York", "Asia/Kathmandu", "Africa/Monrovia", "Australia/Lord_Howe"]


@pytest.fixture(params=ZONES, scope="module")
def zone(request):
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


MICROS = st.lists(st.none() | st.integers(-(2**51), 2**53), max_size=20)


@settings(max_examples=30)
@given(MICROS)
def test_instants_are_what_the_clock_shows(zone, micros):
    instants = pa.array(micros, pa.timestamp("us", "UTC"))
    expected = [
        None
        if each is None
        else datetime.datetime.fromtimestamp(each // 10**6) + datetime.timedelta(microseconds=each % 10**6)
        for each in micros
    ]
    assert to_local(instants).to_pylist() == expected


@settings(max_examples=30)
@given(MICROS)
def test_what_the_clock_shows_is_the_instant_that_pyspark_takes_it_for(zone, micros):
    shown = pa.array(micros, pa.timestamp("us"))
    expected = [
        None if each is None else int(time.mktime(each.timetuple())) * 10**6 + each.microsecond
        for each in shown.to_pylist()
    ]
    assert from_local(shown).cast(pa.int64()).to_pylist() == expected


def test_other_units_and_no_rows():
    assert to_local(pa.array([], pa.timestamp("ns", "UTC"))).to_pylist() == []
    second = to_local(pa.array([0], pa.timestamp("s", "UTC")))
    assert second.to_pylist() == [datetime.datetime.fromtimestamp(0)]
