"""A job on the terminal, which is a text here, as is its clock."""

import dataclasses
import fcntl
import io
import os
import pty
import struct
import sys
import termios
import threading

import pytest
from support.pages.page_pictures import NAMES, picture
from support.pages.page_server import with_answers
from support.worlds.master_world import MasterWorld, pipeline

from flinkbuf.runtime.picture import progress as module
from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.runtime.picture.progress import JobProgress, LiveView, PlainView
from flinkbuf.runtime.picture.top_view import cells_of, ended_view_of, rich_of, text_of, view_of


class Terminal(io.StringIO):
    def isatty(self):
        return True


def pictures():
    """Return those of a job before and after its tasks were deployed."""
    world = MasterWorld(pipeline())
    maker = PictureMaker(world.job)
    yield maker.make(0)
    world.start().register_all()
    yield maker.make(12_345)


BEGUN = list(pictures())[1]


class FakeJob:
    """A job that is looked at; `enough` is set after so many looks."""

    def __init__(self, looks=3):
        self.left, self.enough = looks, threading.Event()

    @property
    def picture(self):
        self.left -= 1
        if self.left <= 0:
            self.enough.set()
        return dataclasses.replace(BEGUN)  # a new one each time


def clock_of(step_ms):
    now_ms = 0

    def now():
        nonlocal now_ms
        now_ms += step_ms
        return now_ms

    return now


def ended(**changed):
    return picture(state="FINISHED", duration=600_000, **changed)


# --- what stays of a job that has ended


def test_each_operator_has_a_line_and_what_its_task_shares_stands_at_the_first():
    made = ended()
    made["vertices"][5]["operators"][0]["records_in"] = 540_000
    text = text_of(ended_view_of(made)).splitlines()
    assert text[:2] == ["a year of flights · finished in 10 min", ""]
    source, marks, weather = (line.split() for line in text[3:6])
    assert source[:2] == ["Source:", "flights"] and source[2:7] == ["2", "–", "–", "28,800,000", "48,000"]
    assert source[7].isdigit() and int(source[7]) > 20 and source[8] == "%", "how busy the task was"
    assert text[4].startswith("  Timestamps/Watermarks") and marks[-3:] == ["–", "–", "–"]
    assert weather[:3] == ["Source:", "weather", "1"]
    assert [line[:20] for line in text[6:8]] == [name[:20] for name in NAMES[2:4]]
    (sink,) = [line.split() for line in text if line.startswith("Sink: results")]
    assert sink[2:7] == ["2", "540,000", "900", "–", "–"], "what a sink makes is not known"


def test_what_no_task_has_told_is_no_number():
    made = ended()
    made["vertices"][0]["operators"] = []
    made["vertices"][0]["watermark"]["lowest"] = None
    made["vertices"][0]["totals"].update(busy_ms=10**9)
    line = text_of(ended_view_of(made)).splitlines()[3].split()
    assert line[:5] == ["Source:", "flights", "->", "Timestamps/Watermarks", "2"] and line[-1] == "–"
    assert line[-5:-3] == ["100", "%"], "never more than all of the time"


@pytest.mark.parametrize(("restarts", "said"), [(0, "finished in 10 min"), (1, "1 time"), (3, "restarted 3 times")])
def test_the_title_tells_of_restarts(restarts, said):
    assert ended_view_of(ended(restarts=restarts)).title.endswith(said)


@pytest.mark.parametrize("width", [50, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    view = ended_view_of(ended(name="航班" * 40, restarts=2), width)
    lines = text_of(view).splitlines()
    assert max(map(cells_of, lines)) <= width
    console = pytest.importorskip("rich.console")
    stream = io.StringIO()
    console.Console(file=stream, width=width, force_terminal=False).print(rich_of(view))
    drawn = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert [line for line in drawn if line] == [line for line in lines if line]


def test_a_wide_job_says_how_much_it_leaves_out():
    made = ended()
    made["vertices"] *= 20
    view = ended_view_of(made)
    assert view.notes == ["and 80 more tasks"]


# --- how it is drawn


def test_plain_lines_come_every_few_seconds_and_a_short_job_stays_quiet():
    stream = io.StringIO()
    view = PlainView(stream)
    drawn = []
    for now_ms in (0, 4_000, 5_000, 9_999, 10_000):
        view.draw(view_of(with_answers(picture())), now_ms)
        drawn.append(stream.getvalue().count("a year of flights"))
    assert drawn == [0, 0, 1, 1, 2]


def test_a_live_view_draws_over_what_it_drew_and_takes_it_away():
    stream = Terminal()
    view = LiveView(stream)
    for width in (100, 120):
        view.draw(view_of(with_answers(picture()), width), 0)
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
    assert shown.count("Where is it stuck?") >= 2
    assert "Operator" in shown[shown.rindex("Where is it stuck?") :], "what stays is said at its end"
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
        @property
        def picture(self):
            self.enough.set()
            raise RuntimeError("no picture")

    job = Broken()
    with JobProgress(job, Terminal(), redraw_s=0.001):
        assert job.enough.wait(10)
    assert "showing the progress of a job failed" in caplog.text


def test_a_job_that_was_refused_shows_nothing():
    class Unborn:
        picture = next(pictures())

    stream = Terminal()
    with JobProgress(Unborn(), stream, in_place=False):
        pass
    assert stream.getvalue() == ""


def test_lines_are_as_wide_as_the_terminal_that_they_are_drawn_on(monkeypatch):
    master, terminal = pty.openpty()
    with open(terminal, "w") as stream:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 61, 0, 0))
        assert module._width(stream) == 61
    os.close(master)
    assert module._width(Terminal()) == module._width(object()) == 200
