"""Windows whose state lies in RocksDB give what they give in memory, wherever they are stopped, and go on in either."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models.window_models import of_each_key, run, run_with_cut, scripts
from support.models.window_programs import WAYS, factory

from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows
from flinkbuf.streaming.windows.time_windows import SlidingEventTimeWindows, TumblingEventTimeWindows

pytest.importorskip("rocksdict")

ASSIGNERS = st.sampled_from(
    [EventTimeSessionWindows(7), SlidingEventTimeWindows(10, 4, 0), TumblingEventTimeWindows(6, 0)]
)
BACKENDS = st.sampled_from([("rocksdb", "rocksdb"), ("rocksdb", "hashmap"), ("hashmap", "rocksdb")])


@settings(max_examples=40, deadline=None)
@given(
    way=st.sampled_from(sorted(WAYS)),
    assigner=ASSIGNERS,
    is_general=st.booleans(),
    script=scripts(),
    cut=st.integers(0, 40),
    backends=BACKENDS,
)
def test_results_are_the_same_on_disk(way, assigner, is_general, script, cut, backends):
    made = factory(assigner, allowed_lateness_ms=8, **WAYS[way])
    make = made.general if is_general else made
    straight = of_each_key(run(make, script)[0])
    assert of_each_key(run_with_cut(make, make, script, min(cut, len(script)), backends)) == straight
