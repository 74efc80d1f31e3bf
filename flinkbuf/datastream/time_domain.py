"""Which time a timer is of. Flink: TimeDomain."""

from flinkbuf.streaming.time_domain import TimeDomain as TimeDomain
