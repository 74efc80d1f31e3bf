"""Which job. Flink: JobID."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobID:
    """The 32 hex digits of a job."""

    value: str

    def __str__(self) -> str:
        return self.value
