"""What is known of a job after its end. Flink: JobExecutionResult."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkbuf.common.job_id import JobID

Accumulators = dict[str, Any]  # by name: of whatever type a function has added


class JobExecutionResult:
    """What ``env.execute`` returns.

    Examples
    --------
    >>> print(JobExecutionResult(JobID("ab" * 16), 12))
    Program execution finished
    Job with JobID abababababababababababababababab has finished.
    Job Runtime: 12 ms
    """

    def __init__(self, job_id: JobID, net_runtime_ms: int, accumulators: Mapping[str, object] | None = None) -> None:
        self._job_id = job_id
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Return which job it was."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return how long it ran, in milliseconds."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return one accumulator's result; None: there is no such."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> Accumulators:
        """Return what the functions of the job have gathered, by name."""
        return dict(self._accumulators)

    def __repr__(self) -> str:
        return f"<JobExecutionResult of job {self._job_id}: {self._net_runtime_ms} ms>"

    def __str__(self) -> str:
        lines = [
            "Program execution finished",
            f"Job with JobID {self._job_id} has finished.",
            f"Job Runtime: {self._net_runtime_ms} ms",
        ]
        if self._accumulators:
            lines.append("Accumulator Results: ")
            lines += [f"- {name}: {value}" for name, value in self._accumulators.items()]
        return "\n".join(lines)
