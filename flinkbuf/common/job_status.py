"""Where a job is in its life. Flink: JobStatus."""

from flinkbuf.runtime.protocol.job_status import JobStatus as JobStatus
