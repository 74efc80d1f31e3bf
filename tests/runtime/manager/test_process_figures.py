"""What a process says that it takes of its machine."""

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
