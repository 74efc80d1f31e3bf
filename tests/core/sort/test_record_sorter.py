"""Sorting more records than memory holds. Flink: ExternalSorterITCase, VariableLengthByteKeyComparatorTest."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.sort.record_sorter import RecordSorter
from flinkbuf.errors import CorruptDataError

LOW = -(2**63)
KEYS = st.one_of(st.binary(max_size=3), st.sampled_from([b"abcdefg" + end for end in (b"", b"\0", b"h", b"\xff")]))
RECORDS = st.lists(st.tuples(KEYS, st.none() | st.integers(-2, 2), st.binary(max_size=3)), max_size=1500)


def java_order(entry):
    """Bytes are signed; no timestamp is the smallest."""
    key, timestamp, _ = entry
    return bytes(byte ^ 0x80 for byte in key), LOW if timestamp is None else timestamp


def sort(records, **options):
    sorter = RecordSorter(**options)
    for record in records:
        sorter.add(*record)
    sorter.finish()
    return list(sorter), sorter


@given(RECORDS)
@settings(deadline=None, max_examples=60)
def test_records_come_by_key_then_time_then_as_added(records):
    assert sort(records)[0] == sorted(records, key=java_order)


@given(st.lists(st.tuples(KEYS, st.none() | st.integers(), st.binary(max_size=300)), max_size=600), st.integers(2, 5))
@settings(deadline=None, max_examples=30)
def test_the_order_is_the_same_through_files(tmp_path_factory, records, fan_in):
    records = [(key, None if time is None else time % 7, record) for key, time, record in records] * 3
    folder = tmp_path_factory.mktemp("sort")
    found, sorter = sort(records, memory_bytes=65536, make_path=lambda: folder / "run", max_fan_in=fan_in)
    assert found == sorted(records, key=java_order)
    sorter.close()
    assert list(folder.iterdir()) == []


def numbers(count):
    return [(b"%d" % (number * 7919 % 1000), None, b"record %d" % number) for number in range(count)]


def test_what_does_not_fit_goes_to_one_file(tmp_path):
    asked = []

    def make_path():
        asked.append(1)
        return tmp_path / "run"

    sorter = RecordSorter(65536, make_path)
    for record in numbers(20_000):
        sorter.add(*record)
    sorter.finish()
    assert sorter.record_count == 20_000
    assert asked == [1]
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size > 400_000
    assert list(sorter) == sorted(numbers(20_000), key=java_order)
    del sorter
    assert list(tmp_path.iterdir()) == []


def test_without_files_there_is_no_more_than_memory_holds():
    sorter = RecordSorter(65536)
    with pytest.raises(MemoryError, match="not told where"):
        for record in numbers(20_000):
            sorter.add(*record)


def test_wrong_calls_are_refused():
    with pytest.raises(ValueError, match="at least 65536 bytes"):
        RecordSorter(1000)
    with pytest.raises(ValueError, match="2 runs"):
        RecordSorter(max_fan_in=1)
    sorter = RecordSorter()
    with pytest.raises(RuntimeError, match="finish"):
        next(sorter)
    sorter.finish()
    with pytest.raises(RuntimeError):
        sorter.add(b"a", None, b"")
    with pytest.raises(RuntimeError):
        sorter.finish()
    sorter.close()
    sorter.close()
    assert list(sorter) == []


def test_a_disk_that_refuses_names_the_file(tmp_path):
    sorter = RecordSorter(65536, lambda: tmp_path / "nowhere" / "run")
    with pytest.raises(OSError, match=r"nowhere/run\.sort\.0") as caught:
        for record in numbers(20_000):
            sorter.add(*record)
    assert caught.value.errno == 2


def test_a_run_that_was_cut_off_names_file_and_byte(tmp_path):
    sorter = RecordSorter(65536, lambda: tmp_path / "run")
    for record in numbers(20_000):
        sorter.add(*record)
    file = tmp_path / "run.sort.0"
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(CorruptDataError, match=rf"{file} at byte \d+"):
        sorter.finish()
        list(sorter)
    sorter.close()
    assert list(tmp_path.iterdir()) == []
