"""What windows look like, how they are written, and how lists of them are made. PyFlink: datastream/window.py."""

import io
import pickle

import pytest

from flinkbuf.streaming.windows.window import CountWindow, GlobalWindow, TimeWindow, Window
from flinkbuf.streaming.windows.window_serializer import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
)

MAX = 2**63 - 1


def test_windows_look_as_in_pyflink():
    assert repr(CountWindow(3)) == "CountWindow(id=3)"
    assert repr(GlobalWindow()) == "GlobalWindow"
    assert (CountWindow(3).max_timestamp(), GlobalWindow().max_timestamp(), CountWindow(3).id) == (MAX, MAX, 3)


def test_equal_windows_are_one_key_of_a_dict():
    assert len({CountWindow(3), CountWindow(3), CountWindow(4), GlobalWindow(), GlobalWindow.get()}) == 3
    assert CountWindow(3) != 3
    assert GlobalWindow() != CountWindow(0)


@pytest.mark.parametrize("window", [TimeWindow(1, 2), CountWindow(3), GlobalWindow()])
def test_all_are_windows_and_picklable(window):
    assert isinstance(window, Window)
    assert pickle.loads(pickle.dumps(window)) == window


def test_a_window_of_ones_own_says_when_it_is_over():
    class Day(Window):
        pass

    with pytest.raises(TypeError, match="max_timestamp"):
        Day()


@pytest.mark.parametrize(
    ("serializer", "window", "data"),
    [
        (TimeWindowSerializer(), TimeWindow(-1, 2), "ffffffffffffffff0000000000000002"),
        (CountWindowSerializer(), CountWindow(258), "0000000000000102"),
        (GlobalWindowSerializer(), GlobalWindow(), "00"),
    ],
)
def test_windows_are_written_as_flink_writes_them(serializer, window, data):
    stream = io.BytesIO()
    serializer.serialize(window, stream)
    assert stream.getvalue().hex() == data
    stream.seek(0)
    assert serializer.deserialize(stream) == window
