"""Where a job is in its life. Flink: JobStatus."""

from flinkbuf.jobs.job_status import JobStatus as JobStatus
