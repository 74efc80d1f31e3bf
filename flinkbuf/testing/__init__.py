"""Tests of streaming programs without a cluster: one operator by hand, or a whole job, with a clock that one sets."""

from flinkbuf.testing.job_harness import JobHarness
from flinkbuf.testing.manual_clock import ManualClock
from flinkbuf.testing.operator_harness import OperatorHarness

__all__ = ["JobHarness", "ManualClock", "OperatorHarness"]
