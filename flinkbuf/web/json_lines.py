"""Metrics as lines of JSON in a file, every few seconds: for whoever collects logs. Beside Flink's own reporters."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

from flinkbuf.log import logger
from flinkbuf.runtime.picture.job_picture import JobPicture
from flinkbuf.runtime.picture.metric_names import all_metrics
from flinkbuf.web.served_job import ServedJob


def lines_of(picture: JobPicture) -> Iterator[str]:
    """Yield a line of each metric: ``time`` in milliseconds, ``scope``, ``name``, ``value``, ``labels``."""
    for metric in all_metrics(picture):
        if metric.value is not None:
            shown = {"time": picture.now_ms, "scope": metric.scope, "name": metric.name}
            yield json.dumps({**shown, "value": metric.value, "labels": dict(metric.labels)}) + "\n"


class JsonLinesReporter:
    """Appends a job's metrics to a file, every `interval_ms` and once more at its end; a thread of its own.

    Parameters
    ----------
    job : ServedJob
    path : path
        Appended to; made if it is not there. A file that was moved away is made again.
    interval_ms : int, default 10000

    Examples
    --------
    >>> reporter = JsonLinesReporter(job, "metrics.jsonl")  # doctest: +SKIP
    >>> reporter.close()  # doctest: +SKIP
    """

    def __init__(self, job: ServedJob, path: str | Path, interval_ms: int = 10_000) -> None:
        self._job = job
        self.path = Path(path)
        self._interval_s = interval_ms / 1_000
        self._ended = threading.Event()
        with open(self.path, "a"):  # what cannot be written is said at once
            pass
        self._thread = threading.Thread(target=self._run, name=f"metrics to {self.path.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write a last time, and end; idempotent."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._ended.wait(self._interval_s)
            try:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.writelines(lines_of(self._job.picture))
            except OSError as error:  # the disk is full: the job goes on
                logger.warning("metrics are not written to %s: %s", self.path, error)
            except Exception:  # the next ones may be written, and the last
                logger.exception("metrics are not written to %s", self.path)
