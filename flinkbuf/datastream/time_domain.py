"""Which time a timer is of. Flink: TimeDomain."""

from flinkbuf.streaming.time.time_domain import TimeDomain as TimeDomain
