"""What a process says that it takes of its machine."""

import gc
import os
import resource

from flinkbuf.runtime.manager.process_figures import ProcessFigures


def test_open_files_are_counted_beside_their_limit(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 4096))
    figures = ProcessFigures()
    before = figures.look()
    ends = os.pipe()
    try:
        assert figures.look()["open_files"] == before["open_files"] + 2
    finally:
        for end in ends:
            os.close(end)
    assert before["open_files_limit"] == 1024


def test_no_limit_of_open_files_is_none(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert ProcessFigures().look()["open_files_limit"] is None


def test_garbage_collections_are_counted():
    figures = ProcessFigures()
    before = figures.look()
    cycle = []
    cycle.append(cycle)
    del cycle
    gc.collect()
    after = figures.look()
    assert after["gc_collections"] > before["gc_collections"] and after["gc_collected"] > before["gc_collected"]
    assert after["gc_uncollectable"] == before["gc_uncollectable"] and after["cpu_ns"] >= before["cpu_ns"] > 0


def test_two_looks_at_a_time_do_not_make_each_other_s_share_a_chance():
    now, used = iter([0.0, 2.0, 2.001, 4.0]).__next__, iter([0.0, 1.0, 1.001, 1.5]).__next__
    figures = ProcessFigures(now, used)
    assert [figures.look()["cpu_share"] for _ in range(3)] == [0.5, 0.5, 0.25]
