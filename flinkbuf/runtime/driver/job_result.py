"""How a job ended, as text: what a program is told that is started again after the end of its job. Flink: JobResult."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from flinkbuf.errors import CorruptDataError
from flinkbuf.runtime.protocol.failure import Failure


@dataclass(frozen=True)
class JobResult:
    """The end of a job.

    Examples
    --------
    >>> result = JobResult("ab" * 16, "FAILED", 17, failure=Failure("builtins.ValueError", "no number"))
    >>> JobResult.of_text(result.to_text()) == result
    True
    """

    job_id: str
    status: str  # a JobStatus by name
    net_runtime_ms: int = 0
    accumulators: dict[str, object] | None = None  # as `merge_accumulators` returns them
    failure: Failure | None = None

    def to_text(self) -> str:
        """Return the result as text."""
        fields = {**self.__dict__, "failure": None if self.failure is None else _plain(self.failure)}
        return json.dumps(fields)

    @classmethod
    def of_text(cls, text: str) -> JobResult:
        """Read the text that `to_text` gave; CorruptDataError if it is something else."""
        try:
            fields = json.loads(text)
            failure = fields.pop("failure")
            if failure is not None:
                failure = Failure(**{**failure, "base_names": tuple(failure["base_names"])})
            return cls(**fields, failure=failure)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptDataError(f"this is not the result of a job: {text[:80]!r}: {error}") from error


def _plain(failure: Failure) -> dict[str, object]:
    fields = asdict(Failure(**{**failure.__dict__, "exception": None}))
    del fields["exception"]
    return fields
