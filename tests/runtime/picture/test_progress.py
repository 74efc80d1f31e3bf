"""A job on the terminal, which is a text here, as is its clock."""

import io
import sys
import threading

import pytest

from flinkbuf.runtime.picture import progress as module
from flinkbuf.runtime.picture.progress import (
    JobProgress,
    LiveView,
    PlainView,
    Progress,
    final_lines,
    headline,
    text_lines,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def vertex(name="Map", records=0, busy_ms=0, **more):
    metrics = {
        "read-records": records,
        "write-records": 2 * records,
        "accumulated-busy-time": busy_ms,
        "accumulated-backpressured-time": busy_ms // 2,
    }
    return {"name": name, "parallelism": 2, "status": "RUNNING", "metrics": metrics} | more


def details(*vertices, **more):
    return {"name": "flights", "state": "RUNNING", "duration": 12_345, "vertices": list(vertices), **more}


class FakeJob:
    """A job whose counts grow with each look; `enough` is set after so many looks."""

    def __init__(self, looks=3):
        self.looks, self.left, self.enough = 0, looks, threading.Event()

    def details(self):
        self.looks += 1
        if self.looks >= self.left:
            self.enough.set()
        return details(vertex("Source: numbers", 1000 * self.looks, 500 * self.looks))


def clock_of(step_ms):
    now_ms = 0

    def now():
        nonlocal now_ms
        now_ms += step_ms
        return now_ms

    return now


# --- what is said


def test_rates_and_shares_are_those_since_the_last_change():
    progress = Progress()
    (line,) = progress.lines(details(vertex(records=100, busy_ms=1000)), 0)
    assert (line.records_in, line.in_rate, line.busy) == (100, None, None)
    (line,) = progress.lines(details(vertex(records=300, busy_ms=2000)), 1000)
    assert (line.in_rate, line.out_rate, line.busy, line.held_back) == (200.0, 400.0, 0.5, 0.25)
    (line,) = progress.lines(details(vertex(records=300, busy_ms=2000)), 1900)  # no news within the usual time
    assert line.in_rate == 200.0
    (line,) = progress.lines(details(vertex(records=300, busy_ms=2000)), 9000)  # it falls
    assert line.in_rate == 25.0


def test_a_restart_that_begins_to_count_anew_shows_no_negative_rate():
    progress = Progress()
    progress.lines(details(vertex(records=100)), 0)
    (line,) = progress.lines(details(vertex(records=7)), 1000)
    assert line.in_rate == 0.0


def test_each_operator_of_a_task_has_a_line_and_the_task_s_own_stand_at_the_first():
    operators = [{"name": "Source: a", "records_in": 0, "records_out": 5}, {"name": "Map", "records_in": 5}]
    first, second = Progress().lines(details(vertex(operators=operators, watermarks=[{"value": "7"}] * 2)), 0)
    assert (first.name, first.records_in, first.records_out, first.watermark_ms) == ("Source: a", None, 5, 7)
    assert (second.name, second.records_in, second.records_out, second.watermark_ms) == ("  Map", 5, None, None)
    assert second.busy is second.held_back is None


@pytest.mark.parametrize(
    ("watermarks", "text"),
    [
        ([{"value": "1388534340000"}, {"value": "1388534399999"}], "2013-12-31 23:59:00"),
        ([{"value": "5"}], "–"),  # the other one has none yet
        ([{"value": "5"}, {"value": str(-(2**63))}], "–"),
        ([], "–"),
        ([{"value": str(2**63 - 1)}] * 2, "end"),
        ([{"value": str(2**61)}] * 2, str(2**61)),
    ],
)
def test_the_watermark_is_the_lowest_of_the_subtasks(watermarks, text):
    (line,) = Progress().lines(details(vertex(watermarks=watermarks)), 0)
    assert line.cells[6] == text


def test_lines_stand_in_columns():
    found = details(vertex("a" * 60, 1_234_567), vertex("Map"))
    texts = text_lines(found, final_lines(found))
    assert texts[0] == "job 'flights' · RUNNING · 12.3 s"
    assert "a" * 43 + "…" in texts[2] and "1,234,567" in texts[2] and "a" * 44 not in texts[2]
    assert len({len(text) for text in texts[1:]}) == 1
    assert texts[3].split() == ["Map", "2", "0", "0", "0", "0", "–", "0%", "0%"]


def test_the_end_tells_the_rates_of_the_whole_job():
    (line,) = final_lines(details(vertex(records=500, busy_ms=2000), duration=2000))
    assert (line.in_rate, line.out_rate, line.busy) == (250.0, 500.0, 0.5)


def test_the_headline_tells_of_restarts():
    assert headline(details(restarts=1)).endswith("restarted once")
    assert headline(details(restarts=3, state="FINISHED")) == "job 'flights' · FINISHED · 12.3 s · restarted 3 times"


# --- how it is drawn


def test_plain_lines_come_every_few_seconds_and_a_short_job_stays_quiet():
    stream, found = io.StringIO(), details(vertex())
    view = PlainView(stream)
    drawn = []
    for now_ms in (0, 4_000, 5_000, 9_999, 10_000):
        view.draw(found, Progress().lines(found, now_ms), now_ms)
        drawn.append(stream.getvalue().count("flights"))
    assert drawn == [0, 0, 1, 1, 2]


def test_a_live_view_draws_over_what_it_drew_and_takes_it_away():
    stream = Terminal()
    view = LiveView(stream)
    for records in (1, 2):
        found = details(vertex(records=records))
        view.draw(found, Progress().lines(found, 0), 0)
    view.close()
    text = stream.getvalue()
    assert text.count("flights") >= 2 and "\x1b[" in text
    assert text.rindex("\x1b[2K") > text.rindex("flights")  # erased


@pytest.mark.parametrize("has_rich", [True, False])
def test_a_job_is_shown_while_it_runs_and_once_more_at_its_end(monkeypatch, has_rich):
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    stream, job = Terminal(), FakeJob()
    with JobProgress(job, stream, now_ms=clock_of(5_000), redraw_s=0.001):
        assert job.enough.wait(10)
    shown = stream.getvalue()
    assert shown.count("job 'flights'") >= 2 and shown.endswith("%\n")
    assert ("\x1b[2K" in shown) is has_rich
    assert not [thread for thread in threading.enumerate() if thread.name == "progress of a job"]


def test_only_one_job_at_a_time_draws_in_place():
    streams, jobs = [Terminal(), Terminal()], [FakeJob(), FakeJob()]
    first, second = (
        JobProgress(job, stream, now_ms=clock_of(5_000), redraw_s=0.001)
        for job, stream in zip(jobs, streams, strict=True)
    )
    with first:
        assert jobs[0].enough.wait(10)
        with second:
            assert jobs[1].enough.wait(10)
    assert ["\x1b[2K" in stream.getvalue() for stream in streams] == [True, False]
    assert module._terminal.acquire(blocking=False)
    module._terminal.release()


def test_what_goes_wrong_with_the_terminal_does_not_concern_the_job(caplog):
    class Broken(FakeJob):
        def details(self):
            self.enough.set()
            raise RuntimeError("no details")

    job = Broken()
    with JobProgress(job, Terminal(), redraw_s=0.001):
        assert job.enough.wait(10)
    assert "showing the progress of a job failed" in caplog.text


@pytest.mark.parametrize("vertices", [[], [vertex(status="CREATED")]])
def test_a_job_that_was_refused_shows_nothing(vertices):
    class Unborn:
        def details(self):
            return details(*vertices)

    stream = Terminal()
    with JobProgress(Unborn(), stream, in_place=False):
        pass
    assert stream.getvalue() == ""
