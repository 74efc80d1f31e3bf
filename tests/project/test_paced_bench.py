"""What the benchmarks of pauses make of records that come late, and of those that do not come."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"

pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the benchmarks are not part of this installation")


@pytest.fixture
def paced(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import paced

    yield paced
    del sys.modules["paced"]


class Context:
    def get_index_of_this_subtask(self):
        return 0


def arrived(paced, folder, monkeypatch, arrivals, **options):
    """Return what a sink writes to whom records come at these times, each its number and when it was due, in ms."""
    sink = paced.Arrivals(str(folder), **options)
    sink.open(Context())
    for at, number, due in arrivals:
        monkeypatch.setattr(paced.time, "time_ns", lambda at=at: round(at * 1e6))
        sink.invoke((0, round(due * 1e6), number))
    sink.close()
    return paced.arrivals_in(folder)


def test_how_late_records_are(paced, tmp_path, monkeypatch):
    records = [(1000 + number, number, 1000 + number - 2) for number in range(99)]
    found = arrived(paced, tmp_path, monkeypatch, [*records, (1099, 99, 1000)])
    assert paced.late_ms(found, 0.5) == pytest.approx(2, abs=0.02)
    assert paced.late_ms(found, 0.999) == pytest.approx(99, abs=0.02)
    assert found[0]["pauses"] == []


def test_a_pause_is_found_by_a_subtask_and_over_all(paced, tmp_path, monkeypatch):
    found = arrived(paced, tmp_path, monkeypatch, [(1000, 0, 1000), (1001, 1, 1001), (1051, 2, 1002), (1052, 3, 1052)])
    assert found[0]["pauses"] == [[50_000_000, 1_001_000_000]]
    assert paced.longest_gap_ms(found) == (50, 1001)
    assert paced.longest_gap_ms([*found, {"milliseconds": [1030]}]) == (29, 1001)


def test_records_before_the_first_and_of_the_start_do_not_count(paced, tmp_path, monkeypatch):
    records = [(1000, 0, 0), (2000, 5, 2000), (2500, 6, 2000), (3000, 7, 2999)]
    (found,) = arrived(paced, tmp_path, monkeypatch, records, first=5, skipped_s=1)
    assert found["late"] == {"100": 1} and found["count"] == 3


def test_filling_has_no_limit_and_the_rate_begins_behind_it(paced):
    rate = paced.RateAfterFilling(1000, 5_000)
    due = paced.Due(rate, 10, 3)
    assert [due(number)[2] for number in range(3)] == [0, 1, 2] and rate.due(5_001) == 1_000
    rate.take(1_000)
    assert due(3)[1] == 5_001_000_000
    assert rate.due(5_001) == 1
